"""kill -9 of any part of a local cluster, at random: while it comes up, and while jobs run.

After each kill `local status` is healthy again and every job has come to its own end, once. A killed worker comes back,
and Slurm requeues its job. `KILLS` says how many kills (8), `KILLS_SEED` repeats a run; `make kills` does fifty.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

import pytest
from tests.real.local.e2e.cluster import CannotRun, LocalCluster

from kube_local.node import host, records
from kube_local.node.paths import Paths
from slurm_operator.local import cluster as local_cluster
from slurm_operator.local.home import PARTS, LocalError
from slurm_operator.local.image.recipe import DEFAULT_VERSION
from slurm_operator.local.supervisor import read_parts

DEMO = Path(__file__).parents[3] / "examples" / "demo"
KILLS = int(os.environ.get("KILLS", "8"))
SEED = int(os.environ.get("KILLS_SEED", secrets.randbelow(10**6)))
# The pod, the container and the process of each daemon that Slurm cannot do without.
DAEMONS = {
    "slurmctld": ("slurm-controller-0", "slurmctld"),
    "slurmdbd": ("slurm-accounting-0", "slurmdbd"),
    "slurmrestd": ("slurm-restapi-", "slurmrestd"),
    "mariadbd": ("mariadb-0", "mariadb"),
}
VICTIMS = (*PARTS, *DAEMONS)
UP_SECONDS = 240
pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
    pytest.mark.xdist_group("local-kills"),
]


class Killable(LocalCluster):
    """A local cluster whose processes can be found and killed."""

    def up_command(self) -> list[str]:
        """`local up` with the demonstration's manifests."""
        where = ["--data", str(self.home.data), "--name", self.name, "-f", str(DEMO), "--timeout", str(UP_SECONDS)]
        return [sys.executable, "-m", "slurm_operator.cli.main", "local", "up", *where]

    def processes(self, victim: str) -> list[int]:
        """The processes of a part or a daemon that run now."""
        if victim in PARTS:
            record = read_parts(self.home)[victim]
            return [record.pid] if record.is_running else []
        pod, container = DAEMONS.get(victim, (victim, "slurmd"))
        return self.container_processes(pod, container, "slurmd" if victim not in DAEMONS else victim)

    def container_processes(self, pod: str, container: str, program: str) -> list[int]:
        """The processes of one program in a container."""
        first = self._first_process(pod, container)
        return [pid for pid in _same_namespace(first) if _program(pid).startswith(program)] if first else []

    def _first_process(self, pod: str, container: str) -> int:
        paths = Paths.of(self.home.data)
        for found in records.all_pods(paths.pods):
            file = records.container_file(paths.pod(found.uid).container(container))
            record = records.load(file, records.ContainerRecord) if found.name.startswith(pod) else None
            if record is not None and host.is_alive(record.pid, record.pid_start):
                return record.pid
        return 0

    def kill(self, victim: str, seconds: float = 60.0) -> None:
        """kill -9, as soon as it is there; returns when another one is in its place."""
        self.until(f"{victim} runs", lambda: self.processes(victim), seconds)
        doomed = self.processes(victim)
        for pid in doomed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.until(f"{victim} is back", lambda: set(self.processes(victim)) - set(doomed), 120)

    def is_healthy(self) -> bool:
        """What `local status` says."""
        with suppress(LocalError, OSError):
            return asyncio.run(local_cluster.health(self.home)).healthy
        return False

    def wait_healthy(self) -> float:
        """How long it took."""
        return self.until("local status is healthy", self.is_healthy, 180)

    def wait_saved(self, job: str, mark: str) -> None:
        """Until slurmctld has written its jobs down: what is younger dies with a killed one, on any cluster."""
        self.alice(f"scontrol update jobid={job} comment={mark}")
        command = ["grep", "-rlaqs", mark, "--include=job_state", str(self.home.volumes)]
        self.until("the state is on disk", lambda: subprocess.run(command, check=False).returncode == 0)


def _same_namespace(first: int) -> Iterator[int]:
    wanted = _namespace(first)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and wanted and _namespace(int(entry.name)) == wanted:
            yield int(entry.name)


def _namespace(pid: int) -> str:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return ""


def _program(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() if host.start_time(pid) else ""
    return ""


@pytest.fixture(scope="module")
def chance() -> random.Random:
    """The run's own randomness; the seed is printed, and repeats it."""
    print(f"KILLS={KILLS} KILLS_SEED={SEED}")
    return random.Random(SEED)  # noqa: S311


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, chance: random.Random) -> Iterator[Killable]:
    """A cluster of which every fourth kill hit something while it came up."""
    made = Killable(tmp_path_factory.mktemp("kills") / "cluster", DEFAULT_VERSION)
    try:
        made.prepare()
    except CannotRun as missing:
        pytest.skip(str(missing))
    try:
        _up_under_kills(made, chance, max(2, KILLS // 4))
        yield made
    finally:
        made.reset()


def _up_under_kills(cluster: Killable, chance: random.Random, kills: int) -> None:
    began = time.monotonic()
    with subprocess.Popen(cluster.up_command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for victim in (chance.choice(VICTIMS) for _ in range(kills)):
            time.sleep(chance.random())  # the moment is the test's own choice
            print(f"[{time.monotonic() - began:5.1f} s] up: kill -9 {victim}")
            cluster.kill(victim, UP_SECONDS)
        said = process.communicate(timeout=UP_SECONDS * 2)[0]
    assert process.returncode == 0, said
    print(f"[{time.monotonic() - began:5.1f} s] up")


def test_whatever_is_killed_the_cluster_gets_well_and_no_job_is_lost(cluster: Killable, chance: random.Random) -> None:
    took: dict[str, list[float]] = {}
    began = time.monotonic()
    # Each in turn before any comes twice, in a random order.
    order = [victim for _ in range(KILLS // len(VICTIMS) + 1) for victim in chance.sample(VICTIMS, len(VICTIMS))]
    for number, victim in enumerate(order[:KILLS]):
        job = cluster.submit("sleep 5", "-N2", "-J", f"round-{number}")
        cluster.wait_running(job)
        if victim == "slurmctld":
            cluster.wait_saved(job, f"saved-{number}")
        start = time.monotonic()
        cluster.kill(victim)
        cluster.wait_healthy()
        took.setdefault(victim, []).append(time.monotonic() - start)
        cluster.expect_completed(job)
        print(
            f"[{time.monotonic() - began:5.1f} s] {number}: {victim} healthy after {took[victim][-1]:.1f} s, job {job}"
        )
    for victim, seconds in sorted(took.items()):
        print(
            f"{victim:12} {len(seconds):3} kills, healthy after {median(seconds):.1f} s, {max(seconds):.1f} s at most"
        )
    records_of_all = cluster.alice("sacct -nXPD -o State,Restarts").splitlines()
    assert records_of_all == ["COMPLETED|0"] * KILLS
    assert json.loads(cluster.local("status", "-o", "json"))["healthy"]


def test_a_killed_worker_comes_back_and_slurm_runs_its_job_again(cluster: Killable) -> None:
    job = cluster.submit("sleep 40", "-N1", "-w", "compute-0")
    cluster.wait_running(job)
    # A job that is younger than BatchStartTimeout and MessageTimeout may still be on its way: Slurm does not miss it.
    cluster.until("the job is old enough", lambda: _seconds(cluster.alice(f"squeue -h -j {job} -o %M")) > 22)
    cluster.kill("compute-0")
    cluster.wait_healthy()
    cluster.until(f"job {job} waits again", lambda: cluster.accounted(job) == ["NODE_FAIL|0", "PENDING|1"])
    # Slurm lets it wait for two minutes; the test does not.
    cluster.admin(f"scontrol update jobid={job} starttime=now timelimit=1")
    cluster.until(f"job {job} is over", lambda: cluster.accounted(job) == ["NODE_FAIL|0", "COMPLETED|1"], 120)


def _seconds(clock: str) -> int:
    """Of a time such as 1:05."""
    minutes, _, seconds = clock.rpartition(":")
    return int(minutes or 0) * 60 + int(seconds or 0)
