"""Jobs that are put together from a list of states and from single records: the same as a list of jobs would give."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from slurm_operator.slurm import job_records
from slurm_operator.slurm.decision import EVERYTHING, NOTHING_DECIDED, Decision
from slurm_operator.slurm.errors import (
    SlurmBadAnswer,
    SlurmBudgetExceeded,
    SlurmBusy,
    SlurmError,
    SlurmFailed,
    SlurmForbidden,
    SlurmNotFound,
    SlurmRejected,
    SlurmTimeout,
    SlurmUnauthorized,
    SlurmUnreachable,
    SlurmUnsupported,
    SlurmWrongCluster,
)
from slurm_operator.slurm.hostlist import EMPTY, HostList
from slurm_operator.slurm.job_records import MAX_RECORDS, NOT_DESCRIBED, JobRecords, is_cheaper_by_id
from slurm_operator.slurm.model import Absent, Job, JobState, JobView, KnownJob, SlurmList, Unchanged, Unknown
from slurm_operator.slurm.one_by_one import MAX_CONCURRENT_REQUESTS
from slurm_operator.slurm.policy import is_over
from slurm_operator.slurm.vanished import DOUBT_SECONDS


def job(job_id: int, *states: str, nodes: str = "", **fields: Any) -> Job:
    return Job(
        job_id=job_id,
        states=frozenset(states or ("RUNNING",)),
        nodes=HostList(nodes),
        user="alice",
        submit_time=fields.pop("submit_time", 100),
        **fields,
    )


@dataclass
class Slurm:
    """Jobs, the questions about them, and lies on request."""

    jobs_held: dict[int, Job] = field(default_factory=dict)
    now: float = 1000.0
    asked: list[str] = field(default_factory=list)
    # What is said instead of the truth.
    states_fail: SlurmError | None = None
    states_complete: bool = True
    unlisted: set[int] = field(default_factory=set)
    views: dict[int, JobView] = field(default_factory=dict)
    list_answer: SlurmList[Job] | None = None
    list_fails: SlurmError | None = None
    on_job: Callable[[int], Awaitable[None]] | None = None

    def put(self, *jobs: Job) -> None:
        self.jobs_held |= {each.job_id: each for each in jobs}

    async def job_states(self) -> SlurmList[JobState]:
        self.asked.append("states")
        if self.states_fail is not None:
            raise self.states_fail
        held = (each for each in self.jobs_held.values() if each.job_id not in self.unlisted)
        return SlurmList(tuple(JobState(each.job_id, each.states) for each in held), complete=self.states_complete)

    async def job(self, job_id: int) -> JobView:
        self.asked.append(f"job {job_id}")
        if self.on_job is not None:
            await self.on_job(job_id)
        if job_id in self.views:
            return self.views[job_id]
        held = self.jobs_held.get(job_id)
        return KnownJob(held) if held is not None else Absent()

    async def jobs(self, since: int | None = None) -> SlurmList[Job] | Unchanged:
        self.asked.append("list" if since is None else f"list since {since}")
        if self.list_fails is not None:
            raise self.list_fails
        return self.list_answer or SlurmList(tuple(self.jobs_held.values()), complete=True, last_update=7)

    def questions(self) -> list[str]:
        """What was asked since the last look."""
        asked, self.asked = self.asked, []
        return asked


@pytest.fixture
def slurm() -> Slurm:
    return Slurm()


@pytest.fixture
def records(slurm: Slurm) -> JobRecords:
    return JobRecords(slurm, lambda: slurm.now)


async def seen(records: JobRecords, decision: Decision = NOTHING_DECIDED) -> tuple[Job, ...]:
    """The jobs, which must be known."""
    found = await records.read(decision)
    assert not isinstance(found, Unknown)
    return found


async def known(records: JobRecords, slurm: Slurm, *jobs: Job) -> None:
    """These jobs, all read."""
    slurm.put(*jobs)
    await records.read()
    slurm.questions()


async def test_a_new_job_is_read_by_its_id_and_then_costs_nothing(slurm: Slurm, records: JobRecords) -> None:
    slurm.put(job(1, nodes="n1"), job(2, "PENDING"))
    assert await records.read() == tuple(slurm.jobs_held.values())
    assert slurm.questions() == ["states", "job 1", "job 2"]
    assert await records.read() == tuple(slurm.jobs_held.values())
    assert slurm.questions() == ["states"]


@pytest.mark.parametrize(
    "then",
    [
        job(1, "SUSPENDED", nodes="n1"),
        job(1, "RUNNING", "COMPLETING", nodes="n1"),
        job(1, "PENDING", restarts=1),
        job(1, "COMPLETED"),
        job(1, "A_STATE_OF_NEXT_YEAR", nodes="n1"),
    ],
    ids=lambda then: "+".join(sorted(then.states)),
)
async def test_a_job_whose_states_changed_is_read_again(slurm: Slurm, records: JobRecords, then: Job) -> None:
    await known(records, slurm, job(1, nodes="n1"))
    slurm.put(then)
    assert await records.read() == (then,)
    assert slurm.questions() == ["states", "job 1"]
    assert await records.read() == (then,)
    assert slurm.questions() == ["states"]


async def test_a_job_that_was_never_seen_alive_is_not_read(slurm: Slurm, records: JobRecords) -> None:
    slurm.put(job(1, "COMPLETED", partition="p"))
    (found,) = await seen(records)
    assert (found.job_id, is_over(found), found.nodes) == (1, True, EMPTY)
    assert slurm.questions() == ["states"]


async def test_before_a_partition_goes_ended_jobs_are_read_too(slurm: Slurm, records: JobRecords) -> None:
    slurm.put(job(1, "COMPLETED", partition="p"), job(2, "PENDING", partition="q"))
    await records.read()
    slurm.put(job(2, "PENDING", partition="p"))
    found = await seen(records, EVERYTHING)
    assert [each.partition for each in found] == ["p", "p"]


@pytest.mark.parametrize(
    ("held", "decision", "is_read"),
    [
        (job(1, nodes="n[1-3]"), Decision(frozenset({"n2"})), True),
        (job(1, nodes="n[1-3]"), Decision(frozenset({"n7"})), False),
        (job(1, nodes="n[1-3]"), Decision(frozenset({"n7"}), every_holder=True), True),
        (job(1, "SUSPENDED", nodes="n1"), Decision(frozenset({"n7"})), True),
        (job(1, "RUNNING", "COMPLETING", nodes="n1"), Decision(frozenset({"n7"})), True),
        (job(1, "RUNNING", "RESIZING", nodes="n1"), Decision(frozenset({"n7"})), True),
        (Job(job_id=1), Decision(frozenset({"n7"})), True),
        (job(1, "PENDING"), Decision(frozenset({"n7"})), False),
        (job(1, "PENDING"), Decision(frozenset({"n7"}), every_holder=True), False),
        (job(1, "PENDING", "COMPLETING", nodes="n1"), Decision(frozenset({"n7"})), True),
        (job(1, "PENDING"), EVERYTHING, True),
        (job(1, nodes="n1"), Decision(), False),
    ],
    ids=[
        "it runs there",
        "it runs elsewhere, which the node itself would show",
        "it runs elsewhere, and Slurm has no record of the node",
        "a suspended one may be anywhere",
        "one that completes may be anywhere",
        "one in several states may be anywhere",
        "one in no state may be anywhere",
        "one that waits is nowhere",
        "one that waits is nowhere, whatever nodes there are",
        "one that was requeued and still has its nodes",
        "one that waits needs its partition",
        "nothing is decided",
    ],
)
async def test_what_a_decision_depends_on_is_read_again(
    slurm: Slurm, records: JobRecords, held: Job, decision: Decision, is_read: bool
) -> None:
    await known(records, slurm, held)
    await records.read(decision)
    assert ("job 1" in slurm.questions()) == is_read


async def test_a_suspended_job_that_moved_unseen_is_found_where_it_is(slurm: Slurm, records: JobRecords) -> None:
    await known(records, slurm, job(1, "SUSPENDED", nodes="n1"))
    slurm.put(job(1, "SUSPENDED", nodes="n2", restarts=1))
    (found,) = await seen(records, Decision(frozenset({"n2"})))
    assert found.nodes == HostList("n2")


@pytest.mark.parametrize(
    "view", [Unknown("no route"), Absent()], ids=["cannot be asked for", "is absent although it is listed"]
)
async def test_where_a_listed_job_is_not_described_the_list_is_read(
    slurm: Slurm, records: JobRecords, view: JobView
) -> None:
    slurm.put(job(1, nodes="n1"))
    slurm.views[1] = view
    assert await records.read() == (job(1, nodes="n1"),)
    assert slurm.questions() == ["states", "job 1", "list"]
    assert await records.read() == (job(1, nodes="n1"),)
    assert slurm.questions() == ["list since 7"]


async def test_an_ended_job_that_slurm_has_forgotten_meanwhile_is_an_ended_job(
    slurm: Slurm, records: JobRecords
) -> None:
    await known(records, slurm, job(1, nodes="n1"))
    slurm.put(job(1, "COMPLETED"))
    slurm.views[1] = Absent()
    (found,) = await seen(records)
    assert is_over(found)


@pytest.mark.parametrize(
    "problem",
    [
        SlurmBadAnswer("404", status=404),
        SlurmBudgetExceeded("items", "more", 300_000),
        SlurmUnsupported("no such call"),
        SlurmFailed("unspecified", number=-1),
        SlurmRejected("bad request", number=9000),
        SlurmForbidden("access denied", number=2002),
        SlurmNotFound("no such job", number=2017),
        SlurmBusy("try later", number=2016),
        None,
    ],
    ids=lambda problem: type(problem).__name__ if problem else "an item is unreadable",
)
async def test_without_usable_states_the_list_is_read(
    slurm: Slurm, records: JobRecords, problem: SlurmError | None
) -> None:
    slurm.put(job(1, nodes="n1"))
    slurm.states_fail, slurm.states_complete = problem, False
    assert await records.read() == (job(1, nodes="n1"),)
    assert slurm.questions() == ["states", "list"]
    slurm.now += job_records.LIST_SECONDS - 1
    await records.read()
    assert slurm.questions() == ["list since 7"]
    slurm.states_fail, slurm.states_complete = None, True
    slurm.now += 1
    assert await records.read() == (job(1, nodes="n1"),)
    assert slurm.questions() == ["states"]


async def test_a_decision_by_list_takes_no_unchanged_one(slurm: Slurm, records: JobRecords) -> None:
    slurm.states_complete = False
    await known(records, slurm, job(1, nodes="n1"))
    await records.read(Decision(frozenset({"n1"})))
    assert slurm.questions() == ["list"]


@pytest.mark.parametrize(
    "problem",
    [
        SlurmUnreachable("no route"),
        SlurmTimeout("no answer"),
        SlurmUnauthorized("other key"),
        SlurmWrongCluster("a", "b"),
    ],
    ids=lambda problem: type(problem).__name__,
)
async def test_what_no_call_would_be_spared_is_an_error_and_not_a_list(
    slurm: Slurm, records: JobRecords, problem: SlurmError
) -> None:
    slurm.states_fail = problem
    with pytest.raises(type(problem)):
        await records.read()
    assert slurm.questions() == ["states"]


@pytest.mark.parametrize(
    ("needed", "jobs", "by_id"),
    [(8, 8, True), (9, 9, False), (9, 36, True), (200, 800, True), (201, 10_000, False), (0, 0, True)],
)
def test_many_records_are_cheaper_in_a_list(needed: int, jobs: int, by_id: bool) -> None:
    assert is_cheaper_by_id(needed, jobs) == by_id


async def test_many_new_jobs_at_once_are_read_in_a_list_and_known_afterwards(slurm: Slurm, records: JobRecords) -> None:
    slurm.put(*(job(number, nodes="n1") for number in range(1, 101)))
    assert len(await seen(records)) == 100
    assert slurm.questions() == ["states", "list"]
    slurm.put(job(101, nodes="n2"))
    assert len(await seen(records)) == 101
    assert slurm.questions() == ["states", "job 101"]


TOO_LARGE = SlurmBudgetExceeded("bytes", "more", 64 << 20)


async def without_list(records: JobRecords, slurm: Slurm, count: int, failure: SlurmError | None = TOO_LARGE) -> None:
    """So many jobs that wait, and a list of them that has just failed, or was incomplete."""
    slurm.put(*(job(number, "PENDING") for number in range(1, count + 1)))
    slurm.list_fails, slurm.list_answer = failure, SlurmList((), complete=False) if failure is None else None
    if failure is None:
        assert isinstance(await records.read(), Unknown)
    else:
        with pytest.raises(type(failure)):
            await records.read()
    assert slurm.questions() == ["states", "list"]


@pytest.mark.parametrize(
    "failure",
    [
        TOO_LARGE,
        SlurmTimeout("no answer within 30 s"),
        SlurmUnreachable("slurmrestd was killed"),
        SlurmFailed("-1"),
        None,
    ],
    ids=["too large", "too late", "kills slurmrestd", "refused", "incomplete"],
)
async def test_where_the_list_fails_jobs_are_known_in_steps_and_unknown_until_then(
    slurm: Slurm, records: JobRecords, failure: SlurmError | None
) -> None:
    await without_list(records, slurm, 2 * MAX_RECORDS + 1, failure)
    asked = []
    for _ in range(2):
        slurm.now += 5.0
        assert await records.read() == NOT_DESCRIBED
        asked += slurm.questions()
        assert len(asked) % (1 + MAX_RECORDS) == 0
    assert await records.read() == tuple(slurm.jobs_held.values())
    asked += slurm.questions()
    assert len(asked) == len(set(asked)) + 2 == 3 + 2 * MAX_RECORDS + 1
    assert await records.read() == tuple(slurm.jobs_held.values())
    assert slurm.questions() == ["states"]


async def test_a_list_that_fails_is_tried_again_ever_more_seldom_and_preferred_once_it_works(
    slurm: Slurm, records: JobRecords
) -> None:
    tried_at = []
    await without_list(records, slurm, 2 * MAX_RECORDS)
    began, slurm.views = slurm.now, {number: Unknown("no route") for number in range(1, 2 * MAX_RECORDS + 1)}
    while slurm.now < began + 3000.0:
        slurm.now += 5.0
        try:
            assert await records.read() == NOT_DESCRIBED
        except SlurmBudgetExceeded:
            tried_at.append(slurm.now - began)
    assert tried_at == [60.0, 180.0, 420.0, 900.0, 1800.0, 2700.0]
    slurm.questions()
    slurm.now, slurm.list_fails = began + 3600.0, None
    assert len(await seen(records)) == 2 * MAX_RECORDS
    assert slurm.questions() == ["states", "list"]
    slurm.put(*(job(number, "PENDING") for number in range(1001, 1201)))
    assert len(await seen(records)) == 2 * MAX_RECORDS + 200
    assert slurm.questions() == ["states", "list"]


async def test_a_list_that_was_refused_with_its_token_has_not_failed(slurm: Slurm, records: JobRecords) -> None:
    await without_list(records, slurm, 9, SlurmUnauthorized("expired"))
    slurm.list_fails = None
    assert len(await seen(records)) == 9
    assert slurm.questions() == ["states", "list"]


async def test_without_a_list_one_job_that_is_not_described_leaves_all_unknown(
    slurm: Slurm, records: JobRecords
) -> None:
    await without_list(records, slurm, 9)
    slurm.views[5] = Absent()
    assert await records.read() == NOT_DESCRIBED
    assert await records.read(EVERYTHING) == NOT_DESCRIBED
    del slurm.views[5]
    slurm.questions()
    assert len(await seen(records)) == 9
    assert slurm.questions() == ["states", "job 5"]


async def test_without_a_list_a_decision_reads_all_that_it_depends_on_in_one_look(
    slurm: Slurm, records: JobRecords
) -> None:
    await without_list(records, slurm, MAX_RECORDS + 1)
    # First what nobody has read yet: this look must not be longer than others.
    assert await records.read(EVERYTHING) == NOT_DESCRIBED
    assert len(slurm.questions()) == 1 + MAX_RECORDS
    slurm.put(job(1, "PENDING", partition="moved"))
    assert (await seen(records, EVERYTHING))[0].partition == "moved"
    assert len(slurm.questions()) == 1 + MAX_RECORDS + 1


async def test_a_decision_on_more_jobs_than_a_look_can_read_waits_for_a_list(
    slurm: Slurm, records: JobRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_records, "MAX_RECORDS", 11)
    monkeypatch.setattr(job_records, "MAX_DECISION_RECORDS", 20)
    await without_list(records, slurm, 21)
    assert await records.read() == NOT_DESCRIBED
    assert len(await seen(records)) == 21
    slurm.questions()
    assert await records.read(EVERYTHING) == NOT_DESCRIBED
    assert slurm.questions() == ["states"]
    slurm.now, slurm.list_fails = slurm.now + job_records.LIST_REST_SECONDS, None
    assert len(await seen(records, EVERYTHING)) == 21
    assert slurm.questions() == ["states", "list"]


async def test_records_are_read_a_few_at_a_time(slurm: Slurm, records: JobRecords) -> None:
    reading, most = [0], [0]

    async def slowly(_: int) -> None:
        reading[0] += 1
        most[0] = max(most[0], reading[0])
        await asyncio.sleep(0)
        reading[0] -= 1

    slurm.on_job = slowly
    slurm.put(*(job(number) for number in range(1, 9)))
    assert len(await seen(records)) == 8
    assert most[0] == MAX_CONCURRENT_REQUESTS


async def test_records_that_come_too_late_leave_all_unknown(slurm: Slurm, records: JobRecords) -> None:
    async def late(_: int) -> None:
        slurm.now += 4.0

    slurm.on_job = late
    slurm.put(*(job(number) for number in range(1, 9)))
    assert await records.read() == NOT_DESCRIBED
    assert len(slurm.questions()) < 9


async def test_a_record_that_nobody_decides_by_is_at_most_five_minutes_old(slurm: Slurm, records: JobRecords) -> None:
    await known(records, slurm, job(1, nodes="n1", time_limit=5), job(2, "PENDING", partition="p"))
    slurm.put(job(1, nodes="n1", time_limit=9), job(2, "PENDING", partition="q"))
    slurm.now += job_records.MAX_AGE_SECONDS
    first, second = await seen(records)
    assert (first.time_limit, second.partition) == (9, "q")
    assert slurm.questions() == ["states", "job 1", "job 2"]


async def test_old_records_are_read_again_one_a_second_those_with_nodes_first(
    slurm: Slurm, records: JobRecords
) -> None:
    waiting = [job(number, "PENDING") for number in range(1, 51)]
    await known(records, slurm, *waiting, job(51, nodes="n1"))
    slurm.now += job_records.MAX_AGE_SECONDS
    await records.read()
    first = slurm.questions()
    assert (len(first), first[1]) == (1 + job_records.MAX_REFRESHES, "job 51")
    slurm.now += 5.0
    await records.read()
    assert len(slurm.questions()) == 1 + 5


async def test_however_many_jobs_have_nodes_one_that_waits_is_read_again_some_time(
    slurm: Slurm, records: JobRecords
) -> None:
    await known(records, slurm, *(job(number, nodes=f"n{number}") for number in range(1, 401)), job(999, "PENDING"))
    slurm.put(job(999, "PENDING", partition="new"))
    began = slurm.now
    while (await seen(records))[-1].partition != "new":
        slurm.now += 5.0
        assert slurm.now < began + 1800.0


async def test_a_refresh_that_fails_changes_nothing(slurm: Slurm, records: JobRecords) -> None:
    await known(records, slurm, job(1, nodes="n1"))
    slurm.now += job_records.MAX_AGE_SECONDS
    slurm.views[1] = Unknown("no route")
    assert await records.read() == (job(1, nodes="n1"),)


async def test_a_job_that_a_complete_list_of_states_lacks_is_asked_for_by_id(slurm: Slurm, records: JobRecords) -> None:
    held = [job(number, nodes="n1") for number in range(1, 31)]
    await known(records, slurm, *held)
    slurm.unlisted = {7}
    assert set(await seen(records)) == set(held)
    assert slurm.questions() == ["states", "job 7"]
    del slurm.jobs_held[7]
    assert set(await seen(records)) == set(held) - {held[6]}


async def test_a_slurmctld_without_its_state_holds_what_was_known_for_a_while(
    slurm: Slurm, records: JobRecords
) -> None:
    await known(records, slurm, job(1, nodes="n1"), job(2, "SUSPENDED", nodes="n2"))
    slurm.jobs_held.clear()
    assert len(await seen(records)) == 2
    # It counts from 1 again, and the new job ends at once: it does not stand for the lost one.
    slurm.put(job(1, "COMPLETED", submit_time=999))
    held = [each for each in await seen(records) if not is_over(each)]
    assert {each.job_id for each in held} == {1, 2}
    slurm.now += DOUBT_SECONDS
    assert [each for each in await seen(records) if not is_over(each)] == []


async def test_another_job_of_a_known_id_is_found_by_a_decision(slurm: Slurm, records: JobRecords) -> None:
    await known(records, slurm, *(job(number, nodes=f"n{number}") for number in range(1, 31)))
    slurm.put(job(1, nodes="n40", submit_time=999))
    found = await seen(records, Decision(frozenset({"n1"})))
    assert [each.nodes for each in found if each.job_id == 1] == [HostList("n40")]


async def test_a_list_with_an_id_twice_leaves_that_job_to_be_read(slurm: Slurm, records: JobRecords) -> None:
    twin = msgspec.structs.replace(job(1, nodes="n2"), submit_time=5)

    slurm.put(job(1, nodes="n1"))
    slurm.states_complete = False
    slurm.list_answer = SlurmList((job(1, nodes="n1"), twin), complete=True, last_update=7)
    assert set(await seen(records)) >= {job(1, nodes="n1"), twin}
    slurm.states_complete = True
    slurm.now += job_records.LIST_SECONDS
    slurm.questions()
    await records.read()
    assert "job 1" in slurm.questions()


async def test_a_list_of_jobs_that_lacks_some_is_unknown(slurm: Slurm, records: JobRecords) -> None:
    slurm.states_complete = False
    slurm.list_answer = SlurmList((), complete=False)
    assert await records.read() == Unknown("Slurm's list of jobs is incomplete")
