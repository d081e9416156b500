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
