"""An unfinished job that Slurm's list has lost is believed in until its end is certain (T10)."""

from __future__ import annotations

import pytest

from slurm_operator.slurm.model import Absent, Job, JobView, KnownJob, Unknown
from slurm_operator.slurm.vanished import DOUBT_SECONDS, MAX_ASKED_NAMES, VanishedJobs, is_plausible, is_same_job


def job(number: int, state: str = "RUNNING", submitted: int = 0, user: str = "", restarts: int = 0) -> Job:
    return Job(job_id=number, states=frozenset({state}), submit_time=submitted, user=user, restarts=restarts)


class Slurm:
    """Answers for one job by its id."""

    def __init__(self, views: dict[int, JobView] | None = None) -> None:
        self.views = views or {}
        self.asked: list[int] = []

    async def job(self, job_id: int) -> JobView:
        self.asked.append(job_id)
        return self.views.get(job_id, Absent())


def ids(jobs: tuple[Job, ...]) -> list[int]:
    return sorted(each.job_id for each in jobs)


MANY = tuple(job(number) for number in range(1, 21))


@pytest.mark.parametrize(
    ("lost", "known", "plausible"),
    [(0, 0, True), (0, 5, True), (1, 10, True), (2, 10, False), (1, 9, False), (5, 5, False)],
    ids=["none of none", "none of some", "a tenth", "more than a tenth", "one of nine", "all"],
)
def test_losing_more_than_a_tenth_is_not_plausible(lost: int, known: int, plausible: bool) -> None:
    assert is_plausible(lost, known) is plausible


async def test_one_job_of_many_that_slurm_itself_calls_absent_is_gone_at_once() -> None:
    vanished, slurm = VanishedJobs(), Slurm()
    await vanished.believed(MANY, slurm.job, 0.0)
    found = await vanished.believed(MANY[:-1], slurm.job, 5.0)
    assert ids(found) == list(range(1, 20))
    assert slurm.asked == [20]


async def test_a_suspended_job_survives_empty_lists_however_many_come_in_a_row() -> None:
    suspended = job(7, "SUSPENDED")
    vanished, slurm = VanishedJobs(), Slurm({7: KnownJob(suspended)})
    await vanished.believed((suspended,), slurm.job, 0.0)
    for seconds in range(5, 600, 5):
        assert await vanished.believed((), slurm.job, float(seconds)) == (suspended,)


async def test_all_jobs_at_once_are_believed_in_until_time_has_passed_and_each_was_asked_for() -> None:
    vanished, slurm = VanishedJobs(), Slurm()
    await vanished.believed(MANY, slurm.job, 0.0)
    assert ids(await vanished.believed((), slurm.job, 5.0)) == ids(MANY)
    assert slurm.asked == []
    assert ids(await vanished.believed((), slurm.job, 5.0 + DOUBT_SECONDS / 2)) == ids(MANY)
    assert await vanished.believed((), slurm.job, 5.0 + DOUBT_SECONDS) == ()
    assert sorted(slurm.asked) == ids(MANY)


@pytest.mark.parametrize(
    ("view", "believed"),
    [
        (Absent(), []),
        (KnownJob(job(20, "COMPLETED")), []),
        (KnownJob(job(20, "SUSPENDED")), [20]),
        (Unknown("no route"), [20]),
    ],
    ids=["absent", "ended", "still there", "cannot be asked"],
)
async def test_what_slurm_says_of_a_lost_job_decides(view: JobView, believed: list[int]) -> None:
    vanished, slurm = VanishedJobs(), Slurm({20: view})
    await vanished.believed(MANY, slurm.job, 0.0)
    found = await vanished.believed(MANY[:-1], slurm.job, 5.0)
    assert [each.job_id for each in found if each.job_id == 20] == believed


async def test_a_job_that_ended_in_the_list_is_not_asked_for() -> None:
    vanished, slurm = VanishedJobs(), Slurm()
    await vanished.believed((job(1),), slurm.job, 0.0)
    await vanished.believed((job(1, "COMPLETED"),), slurm.job, 5.0)
    assert await vanished.believed((), slurm.job, 10.0) == ()
    assert slurm.asked == []


async def test_a_job_that_comes_back_to_the_list_is_believed_as_listed() -> None:
    vanished, slurm = VanishedJobs(), Slurm()
    await vanished.believed((job(1),), slurm.job, 0.0)
    await vanished.believed((), slurm.job, 5.0)
    done = job(1, "COMPLETED")
    assert await vanished.believed((done,), slurm.job, 10.0) == (done,)
    assert await vanished.believed((), slurm.job, 200.0) == ()


async def test_a_poll_asks_for_a_bounded_number_of_jobs() -> None:
    many = tuple(job(number) for number in range(1, 1001))
    vanished, slurm = VanishedJobs(), Slurm({number: Unknown("busy") for number in range(1, 1001)})
    await vanished.believed(many, slurm.job, 0.0)
    await vanished.believed((), slurm.job, 5.0)
    await vanished.believed((), slurm.job, 5.0 + DOUBT_SECONDS)
    assert len(slurm.asked) == MAX_ASKED_NAMES
    await vanished.believed((), slurm.job, 10.0 + DOUBT_SECONDS)
    assert len(set(slurm.asked)) == 2 * MAX_ASKED_NAMES


OLD = job(7, submitted=100, user="alice")


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (job(7, submitted=100, user="alice"), True),
        (job(8, submitted=100, user="alice"), False),
        (job(7, submitted=200, user="alice"), False),
        (job(7, submitted=100, user="bob"), False),
        (job(7, submitted=0, user="alice"), True),
        (job(7, submitted=100, user=""), True),
        (job(7, submitted=200, user="alice", restarts=1), True),
        (job(7, submitted=200, user="bob", restarts=1), False),
    ],
    ids=[
        "the same",
        "another id",
        "another time of submission",
        "another user",
        "no time of submission",
        "no user",
        "requeued",
        "somebody else's that was requeued",
    ],
)
def test_a_job_is_its_id_its_user_and_when_it_was_submitted(now: Job, same: bool) -> None:
    assert is_same_job(OLD, now) is same


async def test_a_lost_job_is_believed_in_beside_another_of_its_id() -> None:
    """T10: an id that Slurm used again was enough for the old job to be forgotten at once."""
    new = job(7, "PENDING", submitted=200, user="alice")
    vanished, slurm = VanishedJobs(), Slurm({7: KnownJob(new)})
    await vanished.believed((OLD,), slurm.job, 0.0)
    assert await vanished.believed((new,), slurm.job, 5.0) == (new, OLD)
    assert await vanished.believed((new,), slurm.job, DOUBT_SECONDS) == (new, OLD)
    assert await vanished.believed((new,), slurm.job, 5.0 + DOUBT_SECONDS) == (new,)
    assert slurm.asked == [7]


async def test_of_two_lost_jobs_with_one_id_each_is_believed_in() -> None:
    new = job(7, submitted=200, user="alice")
    vanished, slurm = VanishedJobs(), Slurm({7: Unknown("no route")})
    await vanished.believed((OLD,), slurm.job, 0.0)
    await vanished.believed((new,), slurm.job, 5.0)
    assert await vanished.believed((), slurm.job, 10.0) == (OLD, new)


async def test_a_requeue_is_no_loss() -> None:
    """It may be seen between its two steps: counted as a restart, and then submitted anew."""
    steps = [job(7, "PENDING", 100, "alice", 1), job(7, "PENDING", 200, "alice", 1), job(7, "RUNNING", 200, "alice", 1)]
    vanished, slurm = VanishedJobs(), Slurm()
    await vanished.believed((OLD,), slurm.job, 0.0)
    for number, step in enumerate(steps):
        assert await vanished.believed((step,), slurm.job, 5.0 * number) == (step,)
    assert slurm.asked == []
