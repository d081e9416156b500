"""What a changed auth/slurm key does to a real Slurm: the facts that `plan/keys.py` stands on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.real.slurm import rootfs
from tests.real.slurm.cluster import Cluster, require_namespaces, wait_for

NEW_KEY = "head -c 1024 /dev/urandom > /tmp/key; cat /tmp/key > /etc/slurm/slurm.key"


@pytest.fixture(params=sorted(rootfs.SUITES))
def own(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster that may be broken."""
    try:
        root = rootfs.provide(request.param)
        require_namespaces()
    except rootfs.CannotProvision as missing:
        pytest.skip(f"no real Slurm {request.param}: {missing}")
    cluster = Cluster(request.param, root)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def state_of(cluster: Cluster, job: int) -> str:
    return cluster.shell(f"scontrol show job {job} | grep -o 'JobState=[A-Z]*'", check=False).strip()


def test_a_new_file_alone_changes_nothing_and_a_reconfigure_loses_every_worker(own: Cluster) -> None:
    own.shell("cd /tmp; sbatch -w n0 -o /tmp/out --wrap 'sleep 2; srun echo a step'")
    own.wait_job(1)
    own.shell(NEW_KEY)
    # Jobs and steps that begin now, and jobs that end, go by the key in the daemons' memory.
    own.shell("cd /tmp; sbatch -w n1 --wrap true")
    wait_for(lambda: {state_of(own, 1), state_of(own, 2)} == {"JobState=COMPLETED"}, 30, "the end of both jobs")
    assert own.shell("cat /tmp/out").strip() == "a step"

    own.shell("scontrol reconfigure", check=False)
    wait_for(lambda: not own.controller_is_up(), 20, "clients of the old key to be refused")
    refused = "auth_g_verify: REQUEST_NODE_REGISTRATION_STATUS has authentication error"
    wait_for(lambda: refused in own.shell("cat /var/log/slurm/slurmd-n0.log"), 40, "slurmd to refuse slurmctld")
