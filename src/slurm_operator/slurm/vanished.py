"""Unfinished jobs that a complete list no longer names: kept until their end is certain.

In: the jobs of one complete response, and a way to ask for one job by its id. Out: the jobs to believe in: those listed
and those that the list has lost. A job that ends stays in Slurm's list for minutes (MinJobAge), so one that is missing
is asked for by its id. Where more than a tenth of them is missing at once, time has to pass as well: a slurmctld that
has lost its state is likelier than so many ends. Until then a lost job holds its nodes and its partition as before.
One `VanishedJobs` per cluster, kept by `reconcile/clusters.py`.
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
MOST_ASKED = 50

AskJob = Callable[[int], Awaitable[JobView]]


def is_plausible(lost: int, known: int) -> bool:
    """Whether so many of those known may be gone from one answer to the next."""
    return lost <= known * PLAUSIBLE_SHARE


@dataclass(frozen=True, slots=True)
class _Lost:
    """A job as it was last seen, and from when on Slurm's word that it is absent is believed."""

    job: Job
    doubted_until: float


@dataclass(slots=True)
class VanishedJobs:
    """What is remembered of one cluster's unfinished jobs."""

    _unfinished: dict[int, Job] = field(default_factory=dict)
    _lost: dict[int, _Lost] = field(default_factory=dict)

    async def believed(self, listed: tuple[Job, ...], ask: AskJob, now: float) -> tuple[Job, ...]:
        """The jobs of a complete answer, and those that it has lost."""
        present = {job.job_id for job in listed}
        self._lose({job_id: job for job_id, job in self._unfinished.items() if job_id not in present}, now)
        self._lost = {job_id: lost for job_id, lost in self._lost.items() if job_id not in present}
        await self._ask(ask, now)
        kept = tuple(lost.job for lost in self._lost.values())
        self._unfinished = {job.job_id: job for job in (*listed, *kept) if not policy.is_over(job)}
        return (*listed, *kept) if kept else listed

    def _lose(self, missing: dict[int, Job], now: float) -> None:
        new = {job_id: job for job_id, job in missing.items() if job_id not in self._lost}
        until = now if is_plausible(len(missing), len(self._unfinished)) else now + DOUBT_SECONDS
        self._lost.update({job_id: _Lost(job, until) for job_id, job in new.items()})

    async def _ask(self, ask: AskJob, now: float) -> None:
        due = [job_id for job_id, lost in self._lost.items() if lost.doubted_until <= now]
        for job_id in due[:MOST_ASKED]:
            match await ask(job_id):
                case Absent():
                    del self._lost[job_id]
                case KnownJob(job=found) if policy.is_over(found):
                    del self._lost[job_id]
                case KnownJob(job=found):
                    # The list was wrong. Its own word on the job is the newest; it goes to the end of the line.
                    self._lost[job_id] = _Lost(found, self._lost.pop(job_id).doubted_until)
                case _:
                    self._lost[job_id] = self._lost.pop(job_id)
