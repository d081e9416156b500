"""A job whose launch is lost while Slurm's daemons are replaced: Slurm counts it as running, and nothing runs.

A reconfigure replaces slurmctld and every slurmd. Their processes are killed here as if they had never come; slurmd
does not notice. Needs root, and an image in the cache (it is built when it is not there).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.real.local.e2e.cluster import REST, CannotRun, LocalCluster

# The operator asks 25 s after the start, and once more after a minute; a busy machine adds to it.
MISSED_SECONDS = 120.0
# Of one job: its slurmstepd, and the script in the same session.
KILL = "for pid in $(pgrep -f 'slurmstepd: \\[{job}\\.'); do pkill -9 -P $pid; kill -9 $pid; done"
pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
]


@pytest.fixture(scope="module", params=sorted(REST))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A small cluster of each version."""
    made = LocalCluster(tmp_path_factory.mktemp("lost-launch") / "cluster", request.param)
    try:
        made.prepare()
    except CannotRun as missing:
        pytest.skip(str(missing))
    try:
        made.up()
        yield made
    finally:
        made.reset()


def test_a_launch_that_a_reconfigure_lost_is_missed_and_one_that_came_lives_on(cluster: LocalCluster) -> None:
    cluster.admin("scontrol reconfigure")
    lost, alive = cluster.submit("sleep 700", "-N1"), cluster.submit("sleep 70", "-N1")
    cluster.wait_running(lost, alive)
    host = cluster.alice(f"squeue -h -j {lost} -o %B")
    cluster.kubectl("exec", host, "-c", "slurmd", "--", "sh", "-c", KILL.format(job=lost))
    began = cluster.alice(f"squeue -h -j {lost} -o %S")
    took = cluster.until(
        "Slurm misses the job",
        lambda: cluster.alice(f"squeue -h -j {lost} -o '%T %S'") != f"RUNNING {began}",
        MISSED_SECONDS,
    )
    print(f"{cluster.version}: missed after {took:.1f} s")
    # At its first try.
    cluster.expect_completed(alive)
    cluster.admin(f"scancel {lost}")
