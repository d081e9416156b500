"""The scripts that start daemons in a container, with small programs in the daemons' place."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import pytest

FILES = Path(str(files("slurm_operator.local.image").joinpath("files")))

pytestmark = pytest.mark.skipif(shutil.which("perl") is None, reason="the scripts are perl")

# A daemon that hands over to a new process, as slurmctld does at a reconfigure, and reports what reaches it.
DAEMON = """
import os, signal, socket, sys, time
def tell(text):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); sock.connect(os.environ["NOTIFY_SOCKET"]); sock.send(text)
def show(number, frame):
    print("child got", signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM: sys.exit(7)
first = os.getpid()
if os.fork():
    signal.pause(); sys.exit(3)
for number in (signal.SIGHUP, signal.SIGTERM): signal.signal(number, show)
tell(f"READY=1\\nMAINPID={os.getpid()}\\n".encode())
os.kill(os.getppid(), signal.SIGTERM)
while os.getppid() == first: time.sleep(0.01)
print("handed over", flush=True)
while True: signal.pause()
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        # The scripts' children are in their session; one that was left would hold the pipe open.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=10)


def start(started: list[subprocess.Popen[str]], script: str, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [FILES / script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    started.append(process)
    return process


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.timeout(30)
def test_follow_stays_with_the_process_that_took_over(started: list[subprocess.Popen[str]]) -> None:
    process = start(started, "follow", sys.executable, "-c", DAEMON)
    assert line(process) == "handed over"
    process.send_signal(signal.SIGHUP)
    assert line(process) == "child got SIGHUP"
    process.send_signal(signal.SIGTERM)
    assert line(process) == "child got SIGTERM"
    assert process.wait() == 7


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 5", 5), ("exit 0", 0), ("kill -KILL $$", 137)],
    ids=["failed", "well", "killed"],
)
@pytest.mark.timeout(30)
def test_follow_ends_as_its_daemon_does(started: list[subprocess.Popen[str]], command: str, code: int) -> None:
    assert start(started, "follow", "sh", "-c", command).wait() == code


@pytest.mark.timeout(30)
def test_follow_says_what_it_cannot_run(started: list[subprocess.Popen[str]]) -> None:
    process = start(started, "follow", "/nonexistent/slurmctld")
    assert process.wait() == 127
    assert "cannot run /nonexistent/slurmctld" in line(process)


@pytest.mark.timeout(30)
def test_supervise_starts_again_what_ended(started: list[subprocess.Popen[str]]) -> None:
    process = start(started, "supervise", "once=sh -c 'echo ran; exit 4'", "other=sleep 1000")
    assert [line(process) for _ in range(3)] == ["ran", "supervise: once ended with 4", "ran"]
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0


@pytest.mark.timeout(30)
def test_supervise_ends_with_its_vital_part(started: list[subprocess.Popen[str]]) -> None:
    process = start(started, "supervise", "!slurmd=sh -c 'exit 9'", "other=sleep 1000")
    assert process.wait() == 9


@pytest.mark.timeout(30)
def test_supervise_keeps_quotes_in_a_command(started: list[subprocess.Popen[str]]) -> None:
    process = start(started, "supervise", "!echo=echo --conf 'Features=a  Weight=2'")
    assert line(process) == "--conf Features=a  Weight=2"


@pytest.mark.parametrize("script", ["follow", "supervise", "sackd"])
def test_perl_accepts_the_script(script: str) -> None:
    said = subprocess.run(["perl", "-wc", FILES / script], capture_output=True, text=True, check=False)
    assert said.stderr.strip().splitlines() == [f"{FILES / script} syntax OK"]


@pytest.mark.parametrize("script", ["slurmctld", "slurmd", "login", "mariadb"])
def test_the_shell_accepts_the_script(script: str) -> None:
    subprocess.run(["bash", "-n", FILES / script], check=True)


WHOLE = ("job_state", "node_state", "fed_mgr_state", "resv_state", "trigger_state", "assoc_usage")
MENDED = "it goes on with what it had saved"


@pytest.mark.parametrize(
    ("saved", "goes"),
    [
        (WHOLE, False),
        (("job_state", "node_state", "hash.1"), True),
        ((), True),
        (("node_state", "hash.1"), True),
        (WHOLE[1:], False),
        (WHOLE[:-1], True),
        (("job_state.new", "job_state.old", "hash.1", *WHOLE[1:]), False),
        (("job_state.old", "hash.1", "node_state"), True),
    ],
    ids=[
        "everything saved",
        "killed young with a job",
        "killed before anything was saved",
        "killed before its first job was saved",
        "everything was saved once and the jobs' records are lost",
        "killed in the midst of the first whole save",
        "killed between two renames",
        "killed young between two renames",
    ],
)
def test_a_controller_that_was_killed_young_may_start(tmp_path: Path, saved: tuple[str, ...], goes: bool) -> None:
    state = controller_state(tmp_path, saved)
    said = run_controller(tmp_path)
    assert (MENDED in said) is goes
    assert (state / "clustername").exists() is not goes
    # What was there is there.
    assert all((state / name).read_text() == name for name in saved)
    assert not any(name.startswith("job_state.") for name in saved) or (state / "job_state").exists()


def test_a_whole_file_that_a_kill_left_under_its_other_name_is_taken(tmp_path: Path) -> None:
    state = controller_state(tmp_path, ("job_state.new", "job_state.old", *WHOLE[1:]))
    assert "taken from job_state.new" in run_controller(tmp_path)
    assert (state / "job_state").read_text() == "job_state.new"


def test_the_state_of_another_cluster_is_left_alone(tmp_path: Path) -> None:
    state = controller_state(tmp_path, ("job_state",), name="other")
    assert MENDED not in run_controller(tmp_path)
    assert (state / "clustername").exists()


def test_a_controller_without_accounting_keeps_its_name_and_gets_its_jobs_back(tmp_path: Path) -> None:
    state = controller_state(tmp_path, ("job_state.new", "node_state"), accounting="none")
    said = run_controller(tmp_path)
    assert "taken from job_state.new" in said
    assert MENDED not in said
    assert (state / "clustername").exists()


def controller_state(tmp_path: Path, saved: tuple[str, ...], name: str = "demo", accounting: str = "slurmdbd") -> Path:
    state = tmp_path / "state"
    state.mkdir()
    (state / "clustername").write_text(f"{name}|17\n")
    for each in saved:
        (state / each).write_text(each)
    (tmp_path / "slurm.conf").write_text(
        f"ClusterName=demo # ours\n statesavelocation = {state}\n"
        f"AccountingStorageType=accounting_storage/{accounting}\n"
    )
    return state


def run_controller(tmp_path: Path) -> str:
    """The entry point up to slurmctld itself, which is not on this machine."""
    done = subprocess.run(
        [FILES / "slurmctld"],
        env={**os.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {126, 127}, done.stderr
    return done.stderr
