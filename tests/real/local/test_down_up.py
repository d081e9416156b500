"""Down and up with jobs on it, in good order and by a power failure in turn: no job that runs by Slurm's count alone,
no node record that is left over, and the demonstration passes each time.

`ROUNDS` says how often (10). Needs root, and an image in the cache (it is built when it is not there).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real.local.e2e.cluster import REST, CannotRun, LocalCluster
from tools import demo

from slurm_operator.cli.invocation import Typed
from slurm_operator.local import stopping, supervisor

DEMO = Path(__file__).parents[3] / "examples" / "demo"
ROUNDS = int(os.environ.get("ROUNDS", "10"))
# BatchStartTimeout and MessageTimeout, and what a busy machine adds to them.
GHOST_SECONDS = 120.0
pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
]


class Cluster(LocalCluster):
    """The demonstration's cluster, of one Slurm version."""

    def start(self) -> None:
        """`local up`, the first time and ever after."""
        self.local("up", "--slurm", self.version, "-f", str(DEMO), "--timeout", "560")

    def end(self, *, abruptly: bool) -> None:
        """`local down`; abruptly: every process at once, as the machine would."""
        if not abruptly:
            self.local("down")
            return
        supervisor.stop(self.home)
        stopping.stop_pods(self.home, grace=0.0)

    def running_since(self) -> dict[str, float]:
        """By job that Slurm says runs: when it began."""
        said = self.alice("SLURM_TIME_FORMAT=%s squeue -h -t running,suspended -o '%i %S'")
        return {job: float(began) for job, began in (line.split() for line in said.splitlines())}

    def records(self) -> set[str]:
        """The nodes that Slurm has a record of."""
        return set(self.alice("sinfo -h -N -o %N").split())

    def workers(self) -> set[str]:
        """The worker pods, by host name."""
        found = self.objects("pods", "-l", "app.kubernetes.io/name=slurmd")
        return {pod["spec"]["hostname"] for pod in found}

    def doctor(self) -> str:
        """What `kubectl slurm doctor` says."""
        return self.local("kubectl", "--", "slurm", "doctor", "-n", "slurm", check=False)

    def show(self) -> None:
        """The demonstration's own steps."""
        demo.run(demo.Demo(self.home, self._kubectl, Typed(self.name, self.home.data)))


@pytest.fixture(scope="module", params=sorted(REST))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that the demonstration has run on once."""
    made = Cluster(tmp_path_factory.mktemp("down-up") / "cluster", request.param)
    try:
        made.prepare()
    except CannotRun as missing:
        pytest.skip(str(missing))
    try:
        made.start()
        yield made
    finally:
        made.reset()


def test_down_and_up_leave_no_ghost_and_no_record_behind(cluster: Cluster) -> None:
    for number in range(ROUNDS):
        abruptly = bool(number % 2)
        jobs = load(cluster, interactive=not abruptly)
        cluster.end(abruptly=abruptly)
        back = time.time()
        cluster.start()
        up = time.time()
        took = cluster.until(f"round {number}: no ghost", lambda back=back: not ghosts(cluster, back), GHOST_SECONDS)  # type: ignore[misc]
        cluster.until(f"round {number}: no leftover", lambda: cluster.records() == cluster.workers())
        print(f"{cluster.version} round {number}: up after {up - back:.1f} s, no ghost {took:.1f} s later, of {jobs}")
        cluster.admin("scancel --user=alice")
        cluster.until("no job is left", lambda: not cluster.alice("squeue -h"))
        cluster.show()


def load(cluster: Cluster, *, interactive: bool) -> list[str]:
    """A batch job on two nodes, one that may not be requeued, and one without a script."""
    cluster.until("both nodes are free", lambda: "idle" in cluster.alice("sinfo -h -p compute -o %T"))
    jobs = [cluster.submit("sleep 700", "-N2", "--oversubscribe"), cluster.submit("sleep 700", "-N1", "--no-requeue")]
    if interactive:
        cluster.alice("nohup srun -N1 -p debug sleep 700 >/dev/null 2>&1 &")
        cluster.until("srun runs", lambda: len(cluster.alice("squeue -h -p debug -t running").splitlines()) == 1)
    cluster.wait_running(jobs[0])
    # What is younger than slurmctld's last save dies with it, on any cluster.
    time.sleep(6)
    return jobs


def ghosts(cluster: Cluster, back: float) -> dict[str, float]:
    """The jobs that began before the cluster was back, and that Slurm still says run."""
    return {job: began for job, began in cluster.running_since().items() if began < back}


def test_records_go_with_a_scale_in_and_with_their_nodeset(cluster: Cluster) -> None:
    cluster.kubectl("scale", "nodeset", "compute", "--replicas=3")
    cluster.until("three workers", lambda: "compute-2" in cluster.records())
    cluster.until("a comment says whose it is", lambda: "nodeSetUID" in cluster.admin("scontrol show node compute-2"))
    cluster.kubectl("scale", "nodeset", "compute", "--replicas=1")
    took = cluster.until("one record", lambda: cluster.records() & {"compute-1", "compute-2"} == set(), 60)
    print(f"{cluster.version}: two records were gone after {took:.1f} s")
    job = cluster.submit("true", "-p", "debug")
    cluster.expect_completed(job)
    cluster.kubectl("delete", "nodeset", "debug", "--timeout=60s")
    # Though slurmctld remembers that job for minutes.
    assert cluster.alice(f"scontrol show job {job} | grep -c JobId") == "1"
    assert "debug-0" not in cluster.records()
    cluster.until("nothing is wrong", lambda: "nothing is wrong" in cluster.doctor().lower(), 60)
