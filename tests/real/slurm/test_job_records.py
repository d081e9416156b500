"""Jobs by their states and by id are the same as in a list of a real Slurm, whatever becomes of them."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from tests.real.slurm.cluster import Cluster, eventually
from tests.real.slurm.test_recorded import shape
from tests.slurm.replay import VERSIONS, kept_answer

from slurm_operator.slurm import policy
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.decision import EVERYTHING, NOTHING_DECIDED, Decision
from slurm_operator.slurm.job_records import JobRecords
from slurm_operator.slurm.model import Job, JobState, JobView, SlurmList, Unchanged, Unknown
from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.transport import Endpoint, Http, Sending

pytestmark = pytest.mark.real_slurm


class Counting:
    """The client, and how often it was asked for a whole list."""

    def __init__(self, client: SlurmClient) -> None:
        self.client = client
        self.lists = 0

    async def job_states(self) -> SlurmList[JobState]:
        return await self.client.job_states()

    async def job(self, job_id: int) -> JobView:
        return await self.client.job(job_id)

    async def jobs(self, since: int | None = None) -> SlurmList[Job] | Unchanged:
        self.lists += 1
        return await self.client.jobs(since)


def comparable(jobs: tuple[Job, ...], described: set[int]) -> dict[int, object]:
    """Of a job that was over when it was first seen, only its id and states are known."""
    return {job.job_id: job if job.job_id in described else job.states for job in jobs}


async def agree(records: JobRecords, client: SlurmClient, decision: Decision = NOTHING_DECIDED) -> tuple[Job, ...]:
    """Read until both ways say the same: a job may change between two questions, but not for long."""
    async with asyncio.timeout(20):
        while True:
            found, listed = await records.read(decision), await client.all_jobs()
            assert not isinstance(found, Unknown)
            described = {job.job_id for job in found if job.submit_time}
            if comparable(found, described) == comparable(listed.items, described):
                return found
            await asyncio.sleep(0.2)


def submit(slurm: Cluster, options: str) -> int:
    """A job of root's that sleeps; gives its id."""
    return int(slurm.shell(f"cd /tmp; sbatch --parsable -o /dev/null {options} --wrap 'sleep 300'").strip())


async def test_states_and_records_give_what_a_list_gives(client: SlurmClient, slurm: Cluster) -> None:
    source = Counting(client)
    records = JobRecords(source, time.monotonic)
    await agree(records, client)
    simple = submit(slurm, "-n1 -c1 -w n0 -t 7")
    slurm.wait_job(simple)
    await agree(records, client)
    array = submit(slurm, "-n1 -w n1 -a 0-5%2")
    await eventually(lambda: _runs(client, 2, "n1"))
    found = await agree(records, client)
    assert [job.states for job in found if job.job_id == array] == [policy.ONLY_PENDING]
    het = submit(slurm, "-n1 -w n0 : -n1")
    slurm.wait_job(het)
    found = await agree(records, client)
    assert {het, het + 1} <= {job.job_id for job in found if policy.holds_nodes(job)}
    slurm.run("scontrol", "suspend", str(simple))
    found = await agree(records, client)
    assert any("SUSPENDED" in job.states and policy.occupies(job, "n0") for job in found)
    slurm.run("scontrol", "resume", str(simple))
    await agree(records, client)
    slurm.run("scontrol", "requeue", str(simple))
    await agree(records, client)
    slurm.run("scancel", str(het), str(array))
    await agree(records, client)
    await asyncio.sleep(2)
    await agree(records, client)
    assert source.lists == 0


async def _runs(client: SlurmClient, count: int, node: str) -> bool:
    return sum(policy.occupies(job, node) for job in (await client.all_jobs()).items) == count


async def test_what_changes_without_a_state_is_seen_by_who_decides(client: SlurmClient, slurm: Cluster) -> None:
    records = JobRecords(Counting(client), time.monotonic)
    running, waiting = submit(slurm, "-n1 -w n0 -t 7"), submit(slurm, "-n1 -w n1 --begin=now+1hour")
    slurm.wait_job(running)
    await agree(records, client)
    slurm.run("scontrol", "update", f"jobid={running}", "timelimit=9")
    slurm.run("scontrol", "update", f"jobid={waiting}", "reqnodelist=n2")
    by_node = await records.read(Decision(frozenset({"n0"})))
    assert not isinstance(by_node, Unknown)
    assert {job.job_id: job.time_limit for job in by_node}[running] == 9
    everything = await agree(records, client, EVERYTHING)
    (required,) = [job.required for job in everything if job.job_id == waiting]
    assert required is not None
    assert "n2" in required


async def test_one_job_in_a_thousand_bytes_and_no_memory(client: SlurmClient, slurm: Cluster) -> None:
    """What the choice stands on: slurmrestd's memory does not grow with lists of states and single records."""
    submit(slurm, "-n1 --begin=now+1hour -a 0-499")
    job = submit(slurm, "-n1 --begin=now+1hour")
    await client.job_states()
    before = _resident_kb(slurm)
    for _ in range(50):
        await client.job_states()
        await client.job(job)
    # 24.11 takes some 50 kB for each call at first.
    assert _resident_kb(slurm) - before < 20_000


def _resident_kb(slurm: Cluster) -> int:
    return int(slurm.shell("cat /proc/$(pgrep -x slurmrestd | head -1)/status | grep VmRSS").split()[1])


async def test_the_recorded_list_of_states_is_still_given(slurm: Cluster, client: SlurmClient) -> None:
    submit(slurm, "-n1 --begin=now+1hour")
    assert (await client.job_states()).complete
    kept = kept_answer(slurm.version, "jobs_state")
    transport = Http(Endpoint.parse(f"unix://{slurm.socket}"))
    sending = Sending(method="GET", path=f"/slurm/{VERSIONS[slurm.version]}/jobs/state", label="GET jobs/state")
    reply = await transport.send(sending, TokenSource(lambda: slurm.jwt_key).current())
    await transport.close()
    assert (reply.status, reply.content_type) == (kept["status"], kept["content_type"])
    assert shape(json.loads(reply.body)) == shape(kept["json"])
