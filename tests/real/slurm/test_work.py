"""Jobs, reservations and accounting of a real Slurm."""

from __future__ import annotations

import time

import pytest
from tests.real.slurm.cluster import Cluster, eventually

from slurm_operator.slurm import policy
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import SlurmNotFound, SlurmUnsupported
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import Absent, KnownJob
from slurm_operator.slurm.requests import JobSubmission, ReservationChange

pytestmark = pytest.mark.real_slurm

SLEEP = "#!/bin/bash\nsleep 300\n"


async def test_a_job_is_submitted_seen_and_cancelled(client: SlurmClient, slurm: Cluster) -> None:
    job_id = await client.submit(JobSubmission(script=SLEEP, name="j1", required_nodes=("n1",), time_limit=7))
    slurm.wait_job(job_id)
    seen = await client.job(job_id)
    assert isinstance(seen, KnownJob)
    job = seen.job
    assert (job.name, job.nodes, job.time_limit, job.user) == ("j1", HostList("n1"), 7, "slurm")
    assert job in (await client.all_jobs()).items
    assert policy.deadline("n1", [job]) == job.start_time + 7 * 60
    await client.cancel(job_id)

    async def over() -> bool:
        seen = await client.job(job_id)
        return isinstance(seen, KnownJob) and policy.is_over(seen.job)

    await eventually(over)


async def test_a_job_over_many_nodes_holds_each_of_them(client: SlurmClient, slurm: Cluster) -> None:
    job_id = await client.submit(JobSubmission(script=SLEEP, nodes="3"))
    slurm.wait_job(job_id)
    seen = await client.job(job_id)
    assert isinstance(seen, KnownJob)
    job = seen.job
    assert set(job.nodes) == {"n0", "n1", "n2"}
    assert set(policy.deadlines(policy.jobs_by_node([job], {"n0", "n1", "n2", "n3"}))) == {"n0", "n1", "n2"}


async def test_a_job_for_no_partition_is_refused(client: SlurmClient) -> None:
    with pytest.raises(SlurmNotFound) as caught:
        await client.submit(JobSubmission(script=SLEEP, partition="nosuch"))
    assert caught.value.number == 2000


async def test_cancelling_an_unknown_or_finished_job_is_no_error(client: SlurmClient, slurm: Cluster) -> None:
    await client.cancel(987654)
    job_id = await client.submit(JobSubmission(script="#!/bin/bash\ntrue\n"))
    slurm.wait_job(job_id, "COMPLETED")
    await client.cancel(job_id)


async def test_a_job_that_slurm_never_had_is_absent(client: SlurmClient) -> None:
    assert await client.job(987654) == Absent()


async def test_a_reservation_is_created_changed_and_deleted(client: SlurmClient, slurm: Cluster) -> None:
    start = int(time.time()) + 3600
    wanted = ReservationChange(
        name="SlurmOperatorMaint-a",
        nodes=("n0", "n1"),
        users=("slurm",),
        flags=("MAINT", "IGNORE_JOBS"),
        start_time=start,
        duration=60,
    )
    if slurm.version == "24.11":
        with pytest.raises(SlurmUnsupported, match="changing reservations"):
            await client.set_reservation(wanted)
        with pytest.raises(SlurmUnsupported):
            await client.delete_reservation(wanted.name)
        assert (await client.all_reservations()).items == ()
        return
    await client.set_reservation(wanted)
    (seen,) = (await client.all_reservations()).items
    assert (seen.name, set(seen.nodes), seen.users) == (wanted.name, {"n0", "n1"}, ("slurm",))
    assert {"MAINT", "IGNORE_JOBS", "SPEC_NODES"} <= seen.flags
    assert (seen.start_time, seen.end_time) == (start, start + 3600)
    await client.set_reservation(ReservationChange(name=wanted.name, nodes=("n2",)))
    (seen,) = (await client.all_reservations()).items
    assert (seen.nodes, seen.start_time) == (HostList("n2"), start)
    await client.delete_reservation(wanted.name)
    assert (await client.all_reservations()).items == ()
    with pytest.raises(SlurmNotFound):
        await client.delete_reservation(wanted.name)


async def test_diag_counts_jobs(client: SlurmClient) -> None:
    before = (await client.diag()).jobs_submitted
    await client.submit(JobSubmission(script="#!/bin/bash\ntrue\n"))
    assert (await client.diag()).jobs_submitted == before + 1
