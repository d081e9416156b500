"""Hostile jobs of an ordinary user on a real Slurm: the client reads every list whole and every job by its id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.real.hostile_jobs import GROUPS, End, forged
from tests.real.slurm import rootfs, scontrol
from tests.real.slurm.cluster import Cluster, require_namespaces
from tests.real.slurm.hostile import Submitted, queue, running, submit, submit_by_rest

from slurm_operator.diagnose.scontrol import slurm_facts
from slurm_operator.slurm import policy
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.model import Absent
from slurm_operator.slurm.token import TokenSource

pytestmark = pytest.mark.real_slurm


@pytest.fixture(scope="module", params=sorted(rootfs.SUITES))
def crowd(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of its own, for what is over stays in its list."""
    try:
        require_namespaces()
        rootfs.provide(request.param)
    except rootfs.CannotProvision as missing:
        pytest.skip(f"NOT TESTED, no real Slurm {request.param}: {missing}")
    with running(request.param) as cluster:
        yield cluster


@pytest.fixture
async def client(crowd: Cluster) -> AsyncIterator[SlurmClient]:
    async with SlurmClient(f"unix://{crowd.socket}", TokenSource(lambda: crowd.jwt_key)) as made:
        yield made
    crowd.quiet()


async def expect_whole(client: SlurmClient, cluster: Cluster, said: Submitted) -> None:
    answer = await client.all_jobs()
    assert answer.complete
    assert sorted(job.job_id for job in answer.items) == queue(cluster)
    for label, job_id in said.accepted.items():
        assert await client.job(job_id) is not None, label


@pytest.mark.parametrize("group", GROUPS)
async def test_hostile_jobs_are_read_whole_and_hold_their_nodes(
    crowd: Cluster, client: SlurmClient, group: str
) -> None:
    """T1, T2: on a real Slurm of both versions."""
    said = submit(crowd, GROUPS[group])
    assert said.accepted
    await expect_whole(client, crowd, said)
    known = {job.job_id: job for job in (await client.all_jobs()).items}
    for job in GROUPS[group]:
        found = known.get(said.accepted.get(job.label, 0))
        if job.end is End.COMPLETES and found is not None and not found.states & {"PENDING"}:
            assert all(policy.occupies(found, node) for node in found.nodes), job.label


async def test_scontrol_lists_the_jobs_of_squeue_whatever_they_claim_to_be(crowd: Cluster, client: SlurmClient) -> None:
    """T1: what `kubectl slurm` reads holds every job and no other, with Slurm's own states."""
    said = submit(crowd, tuple(forged()))
    found = slurm_facts(**scontrol.answers(crowd))
    seen = [[job.id, job.state] for job in found.jobs.values()]
    assert sorted(seen) == [row[:2] for row in scontrol.queue(crowd)]
    assert {str(number) for number in said.accepted.values()} <= set(found.jobs)


async def test_what_only_json_can_say_is_read_whole(crowd: Cluster, client: SlurmClient) -> None:
    """T1: through slurmrestd with alice's own token."""
    # The recorder's calls have a loop of their own.
    said = await asyncio.to_thread(submit_by_rest, crowd)
    await expect_whole(client, crowd, said)


async def test_a_job_of_nobody_is_absent(client: SlurmClient) -> None:
    """2017 is the only word for a job that is not there."""
    assert await client.job(987_654) == Absent()
