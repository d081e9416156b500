"""The demo where a person has played for an hour: it comes to its end, and takes nothing of theirs away.

`DEEDS` says how many deeds (60: one a minute for an hour), `PLAY_SEED` repeats a run. Needs root, and an image in the
cache (it is built when it is not there).
"""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real.local.e2e.cluster import REST, CannotRun
from tests.real.local.play import Player, leave, play
from tests.real.local.test_down_up import Cluster

ROOT = Path(__file__).parents[3]
DEEDS = int(os.environ.get("DEEDS", "60"))
SEED = int(os.environ.get("PLAY_SEED", secrets.randbelow(10**6)))
pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
]


@pytest.fixture(scope="module", params=sorted(REST))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The demonstration's cluster, of one Slurm version."""
    made = Cluster(tmp_path_factory.mktemp("played") / "cluster", request.param)
    try:
        made.prepare()
    except CannotRun as missing:
        pytest.skip(str(missing))
    try:
        made.start()
        yield made
    finally:
        made.reset()


def test_the_demo_passes_where_a_person_has_played_for_an_hour(cluster: Cluster) -> None:
    player = Player(cluster, random.Random(SEED))  # noqa: S311 - no secret
    done = play(player, DEEDS)
    held = leave(player)
    print(f"{cluster.version}: seed {SEED}, {len(done)} deeds: {', '.join(done)}")
    before = theirs(cluster)
    print(f"{cluster.version}: left behind {before}")
    shown = demonstrate(cluster)
    assert shown.returncode == 0, f"seed {SEED}\n{shown.stdout}{shown.stderr}"
    assert "COMPLETED" in shown.stdout
    assert not lost(before, cluster), f"seed {SEED}\n{shown.stdout}{shown.stderr}"
    assert "forgotten" in cluster.admin("scontrol show reservation")
    # A worker may have gone for good, by the demo's own number of replicas.
    assert held not in cluster.workers() or cluster.node(held).reason == "forgotten"


def demonstrate(cluster: Cluster) -> subprocess.CompletedProcess[str]:
    """`make demo`, on that cluster."""
    command = [
        sys.executable,
        str(ROOT / "tools" / "demo.py"),
        "--name",
        cluster.name,
        "--data",
        str(cluster.home.data),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False)


def theirs(cluster: Cluster) -> dict[str, str]:
    """What accounting says of every job that the person left."""
    return {job: last_run(cluster, job) for job in cluster.alice("squeue -h -r -u alice -o %i").split()}


def last_run(cluster: Cluster, job: str) -> str:
    """The state of a job in its last run: it may have had several."""
    return (cluster.alice(f"sacct -nXP -j {job} -o State").splitlines() or [""])[-1]


def lost(before: dict[str, str], cluster: Cluster) -> dict[str, str]:
    """Those of the jobs that the demo, or an update in its course, has ended."""
    ends = {job: last_run(cluster, job) for job in before}
    gone = ("CANCELLED", "NODE_FAIL", "PREEMPTED")
    return {job: end for job, end in ends.items() if end != before[job] and end.startswith(gone)}
