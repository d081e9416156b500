"""What a real slurmrestd answers once an ordinary user has submitted hostile jobs: whole lists, whatever is in them.

The answers were recorded by `tests/real/slurm/hostile.py` from jobs of `tests/real/hostile_jobs.py`; beside each stands
what squeue said at that moment.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.slurm.replay import RECORDED, VERSIONS, Replay, kept_answer

from kube_runtime.client.objects import Pod
from slurm_operator.plan.marks import deadline_text
from slurm_operator.plan.workers import Worker
from slurm_operator.slurm import policy
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.model import Absent, Job, KnownJob

LISTS = ("names", "fields", "limits", "sizes", "dependencies", "states", "rest")
RUNNING = ("limits", "sizes", "states")
LAST_TEXT = "9999-12-31T23:59:59Z"


def kept(replay: Replay, name: str) -> Any:
    """A recording with everything that was noted beside it."""
    return kept_answer(replay.release, f"hostile_{name}")


async def recorded_jobs(client: SlurmClient, replay: Replay, name: str) -> tuple[Job, ...]:
    replay.on("GET /jobs", f"hostile_jobs_{name}")
    answer = await client.all_jobs()
    assert answer.complete
    return answer.items


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_with_hostile_jobs_is_complete(client: SlurmClient, replay: Replay, name: str) -> None:
    """T1: no text of a user makes the list unreadable or incomplete."""
    found = await recorded_jobs(client, replay, name)
    assert sorted(job.job_id for job in found) == kept(replay, f"jobs_{name}")["job_ids"]


@pytest.mark.parametrize("name", ["names", "limits", "sizes"])
async def test_a_hostile_job_is_found_by_its_id(client: SlurmClient, replay: Replay, name: str) -> None:
    """T1: the same for one job."""
    (job_id,) = kept(replay, f"job_{name}")["job_ids"]
    replay.on(f"GET /job/{job_id}", f"hostile_job_{name}")
    seen = await client.job(job_id)
    assert isinstance(seen, KnownJob)
    assert seen.job.job_id == job_id


@pytest.mark.parametrize("name", LISTS)
async def test_every_text_of_a_hostile_job_can_be_written_anywhere(
    client: SlurmClient, replay: Replay, name: str
) -> None:
    """T1: what was read is text that a log, a condition or an event can hold."""
    for job in await recorded_jobs(client, replay, name):
        for text in (job.name, job.comment, job.account, job.user, job.qos, job.partition, job.state_reason):
            assert text.encode().decode() == text


@pytest.mark.parametrize("name", RUNNING)
async def test_every_deadline_of_a_hostile_job_has_a_text(client: SlurmClient, replay: Replay, name: str) -> None:
    """T2: a limit that ends in the year 10192 is an end like any other."""
    found = await recorded_jobs(client, replay, name)
    ends = policy.deadlines(policy.jobs_by_node(found, {node for job in found for node in job.nodes}))
    assert ends, "some of them run"
    for node, end in ends.items():
        worker = Worker(Pod(), 0, node, Absent(), policy.Yes(), end)
        text = deadline_text(worker)
        assert text is not None
        assert "2026" <= text <= LAST_TEXT


@pytest.mark.parametrize("name", ["limits", "sizes", "states"])
async def test_hostile_jobs_hold_their_nodes(client: SlurmClient, replay: Replay, name: str) -> None:
    """T1, T2: whatever a job is called, the node under it is not free."""
    running = [job for job in await recorded_jobs(client, replay, name) if job.states & {"RUNNING", "SUSPENDED"}]
    assert running
    for job in running:
        assert all(policy.occupies(job, node) for node in job.nodes)


@pytest.mark.parametrize(
    ("what", "ask"),
    [
        ("nodes", SlurmClient.all_nodes),
        ("partitions", SlurmClient.all_partitions),
        ("reservations", SlurmClient.all_reservations),
    ],
    ids=["nodes", "partitions", "reservations"],
)
async def test_texts_of_an_administrator_leave_the_lists_complete(
    client: SlurmClient, replay: Replay, what: str, ask: Any
) -> None:
    """T1: the same for reasons, comments and names that only an administrator writes."""
    replay.on(f"GET /{what}", f"hostile_{what}")
    answer = await ask(client)
    assert answer.complete
    assert len(answer.items) == kept(replay, what)["count"]


@pytest.mark.parametrize("release", sorted(VERSIONS))
def test_the_recordings_are_hostile(release: str) -> None:
    """Bytes that are no UTF-8 survived their recording: without them this file would show nothing."""
    for path in (RECORDED / release).glob("hostile_jobs_*.json"):
        raw = json.loads(path.read_text())["raw"].encode("utf-8", "surrogateescape")
        assert b"\xff" in raw or path.stem in {"hostile_jobs_rest", "hostile_jobs_limits"}, path.name
