"""Unfinished jobs that a complete list no longer names: kept until their end is certain.

In: the jobs of one complete response, and a way to ask for one job by its id. Out: the jobs to believe in: those listed
and those that the list has lost. A job that ends stays in Slurm's list for minutes (MinJobAge), so one that is missing
is asked for by its id. Where more than a tenth of them is missing at once, time has to pass as well: a slurmctld that
has lost its state is likelier than so many ends. Until then a lost job holds its nodes and its partition as before.
Slurm uses ids again, and one without its state counts from 1: another job of that id does not stand for the lost one.
One `VanishedJobs` per cluster, kept by `job_records.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from slurm_operator.slurm import policy
from slurm_operator.slurm.model import Absent, Job, JobView, KnownJob

# Losing more than this share of what was known is not plausible.
PLAUSIBLE_SHARE = 0.1
# How long what was lost in bulk is still believed in.
DOUBT_SECONDS = 60.0
# So many jobs are asked for by id in one poll; the others wait for the next.
MAX_ASKED_NAMES = 50

AskJob = Callable[[int], Awaitable[JobView]]
# An id, when it was submitted, and by whom.
Identity = tuple[int, int, str]


def is_plausible(lost: int, known: int) -> bool:
    """Whether so many of those known may be gone from one answer to the next."""
    return lost <= known * PLAUSIBLE_SHARE


def is_same_job(before: Job, now: Job) -> bool:
    """Whether two records are of one job; what Slurm did not say of either is no difference."""
    other_user = before.user and now.user and before.user != now.user
    if before.job_id != now.job_id or other_user:
        return False
    if not before.submit_time or not now.submit_time or before.submit_time == now.submit_time:
        return True
    # A requeue counts as a restart first, and gives the job another time of submission a moment later.
    return now.restarts > 0 and now.restarts >= before.restarts


def _identity(job: Job) -> Identity:
    return (job.job_id, job.submit_time, job.user)


@dataclass(frozen=True, slots=True)
class _Lost:
    """A job as it was last seen, and from when on it is believed to be absent."""

    job: Job
    doubted_until: float


@dataclass(slots=True)
class VanishedJobs:
    """What is remembered of one cluster's unfinished jobs."""

    _unfinished: dict[Identity, Job] = field(default_factory=dict)
    _lost: dict[Identity, _Lost] = field(default_factory=dict)
    _listed: tuple[Job, ...] | None = None

    def ids(self) -> frozenset[int]:
        """The ids of all unfinished jobs that were believed in."""
        return frozenset(job_id for job_id, _, _ in (*self._unfinished, *self._lost))

    async def believed(self, listed: tuple[Job, ...], ask: AskJob, now: float) -> tuple[Job, ...]:
        """The jobs of a complete answer, and those that it has lost."""
        if listed == self._listed and not self._lost:
            return listed
        self._listed = listed
        by_id: dict[int, list[Job]] = {}
        for job in listed:
            by_id.setdefault(job.job_id, []).append(job)

        def is_listed(job: Job) -> bool:
            return any(is_same_job(job, other) for other in by_id.get(job.job_id, ()))

        self._lose({key: job for key, job in self._unfinished.items() if not is_listed(job)}, now)
        self._lost = {key: lost for key, lost in self._lost.items() if not is_listed(lost.job)}
        await self._ask(ask, now)
        kept = tuple(lost.job for lost in self._lost.values())
        self._unfinished = {_identity(job): job for job in (*listed, *kept) if not policy.is_over(job)}
        return (*listed, *kept) if kept else listed

    def _lose(self, missing: dict[Identity, Job], now: float) -> None:
        new = {key: job for key, job in missing.items() if key not in self._lost}
        until = now if is_plausible(len(missing), len(self._unfinished)) else now + DOUBT_SECONDS
        self._lost.update({key: _Lost(job, until) for key, job in new.items()})

    async def _ask(self, ask: AskJob, now: float) -> None:
        due = [key for key, lost in self._lost.items() if lost.doubted_until <= now]
        for key in due[:MAX_ASKED_NAMES]:
            lost = self._lost[key]
            match await ask(lost.job.job_id):
                case Absent():
                    del self._lost[key]
                case KnownJob(job=found) if policy.is_over(found) or not is_same_job(lost.job, found):
                    # It has ended, or its id is another job's: then Slurm has no such job any more.
                    del self._lost[key]
                case KnownJob(job=found):
                    # The list was wrong. The answer on the job alone is the newest; it goes to the end of the line.
                    del self._lost[key]
                    self._lost[_identity(found)] = _Lost(found, lost.doubted_until)
                case _:
                    self._lost[key] = self._lost.pop(key)
