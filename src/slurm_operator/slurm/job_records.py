"""The jobs of one cluster: the states of all in one small list, and the records of those that matter one by one.

In: what is about to be decided (`Decision`). Out: all jobs, as a list of jobs would give them, or Unknown. slurmrestd
needs 140 kB for each job of a list and keeps much of it; a list of states and single records cost it nothing to speak
of. A record is read when its job is new, when its states change, and when a decision depends on it; others are read
again in a slow rotation. Where that would cost more than a list, or where states cannot be read, the list is read;
where the list fails, records are read in steps until all that are needed are known.
One `JobRecords` per cluster, kept by `reconcile/clusters.py`; why it is so: decision 25.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Protocol

from slurm_operator.slurm import policy
from slurm_operator.slurm.decision import NOTHING_DECIDED, Decision
from slurm_operator.slurm.errors import SlurmError, SlurmUnauthorized, SlurmUnreachable, SlurmWrongCluster
from slurm_operator.slurm.model import Absent, Job, JobState, JobView, KnownJob, SlurmList, Unchanged, Unknown
from slurm_operator.slurm.one_by_one import ONE_BY_ONE_SECONDS, ask_each
from slurm_operator.slurm.vanished import VanishedJobs

# Up to FEW_RECORDS are always read one by one. Beyond that, one record costs as much as four in a list, and MAX_RECORDS
# take about a second.
FEW_RECORDS = 8
RECORD_COST = 4
MAX_RECORDS = 200
# So many take about ten seconds. A decision that depends on more jobs has to wait for a list.
MAX_DECISION_RECORDS = 2000
# A time limit, a partition or required nodes may change while the states do not. A record that no decision needs may be
# this old, as far as one request a second allows.
MAX_AGE_SECONDS = 300.0
REFRESHES_PER_SECOND = 1.0
MAX_REFRESHES = 10
# Every fourth is of the oldest record of all: jobs with nodes, which come first, may be too many for the others.
FAIR_REFRESH = 4
# How long the list of jobs is read instead, after states or records that cannot be used.
LIST_SECONDS = 60.0
# How long no list of jobs is read after one that failed, and after each further one twice as long: it may be too large
# for us, or for slurmrestd's memory.
LIST_REST_SECONDS = 60.0
MAX_LIST_REST_SECONDS = 900.0
# A server whose clock went back would call everything unchanged: so often it is asked without condition.
FULL_LIST_SECONDS = 60.0
NOT_DESCRIBED = Unknown("Slurm is slow to describe its jobs; they are asked for again in the next reconcile")
TOO_LATE = Unknown("Slurm is slow to answer; it is asked again in the next reconcile")
# What these say of one call, they say of every other.
OF_EVERY_CALL = (SlurmUnreachable, SlurmUnauthorized, SlurmWrongCluster)

# By the id of a job.
States = Mapping[int, frozenset[str]]


class JobSource(Protocol):
    """The calls of `SlurmClient` that are needed here."""

    async def job_states(self) -> SlurmList[JobState]:
        """The states of all jobs."""
        ...

    async def job(self, job_id: int) -> JobView:
        """One job."""
        ...

    async def jobs(self, since: int | None = None) -> SlurmList[Job] | Unchanged:
        """All jobs."""
        ...


def is_cheaper_by_id(needed: int, jobs: int) -> bool:
    """Whether so many records of so many jobs are read one by one rather than in a list."""
    return needed <= FEW_RECORDS or (needed <= MAX_RECORDS and needed * RECORD_COST <= jobs)


@dataclass(frozen=True, slots=True)
class _Record:
    """A job as it was read last, and when."""

    job: Job
    read_at: float


@dataclass(slots=True)
class JobRecords:
    """What is known of one cluster's jobs."""

    source: JobSource
    monotonic: Callable[[], float]
    vanished: VanishedJobs = field(default_factory=VanishedJobs)
    _records: dict[int, _Record] = field(default_factory=dict)
    # The last complete list, while lists are read.
    _listed: SlurmList[Job] | None = None
    _list_until: float = float("-inf")
    _full_list_at: float = float("-inf")
    _refreshed_at: float = float("-inf")
    # How many records could be read again since the last one that was the oldest of all.
    _refreshes: int = 0
    # Until when no list is read, since the last one failed, and how long the next rest is.
    _list_rests_until: float = float("-inf")
    _list_rest_seconds: float = LIST_REST_SECONDS

    async def read(self, decision: Decision = NOTHING_DECIDED) -> tuple[Job, ...] | Unknown:
        """All jobs, and those that a complete answer has lost; raises SlurmError."""
        found = await self._by_state(decision)
        if found is None:
            found = await self._by_tried_list(decision)
        if isinstance(found, Unknown):
            return found
        return await self.vanished.believed(found, self._in_time(self.source.job), self.monotonic())

    # By state, and by id

    async def _by_state(self, decision: Decision) -> tuple[Job, ...] | Unknown | None:
        """The jobs; None where a list of them is to be read."""
        list_rests = self.monotonic() < self._list_rests_until
        if self.monotonic() < self._list_until and not list_rests:
            return None
        states = await self._states()
        if states is None:
            self._prefer_list()
            return None
        self._listed = None
        self._records = {job_id: record for job_id, record in self._records.items() if job_id in states}
        needed = list(self._needed(states, decision))
        if list_rests:
            return await self._in_steps(needed, states)
        if not is_cheaper_by_id(len(needed), len(states)):
            return None
        began = self.monotonic()
        if await self._fetch(needed, states):
            # Perhaps one is too large to be read alone: with an array come all its tasks.
            self._prefer_list()
            return NOT_DESCRIBED if self.monotonic() - began >= ONE_BY_ONE_SECONDS else None
        return await self._complete(states, needed)

    async def _in_steps(self, needed: Collection[int], states: States) -> tuple[Job, ...] | Unknown:
        """The jobs where no list can be had: as many records as a look may read, the others in the next looks."""
        unread = [each for each in needed if self._is_unread(each, states[each])]
        is_last = len(unread) <= MAX_RECORDS and len(needed) <= MAX_DECISION_RECORDS
        # What a decision depends on has to be read in one look, and so only once all else is known.
        step = needed if is_last else unread[:MAX_RECORDS]
        undescribed = await self._fetch(step, states)
        return NOT_DESCRIBED if undescribed or not is_last else await self._complete(states, needed)

    async def _complete(self, states: States, needed: Collection[int]) -> tuple[Job, ...]:
        """The jobs, once all records that are needed were read."""
        await self._refresh(states, frozenset(needed))
        return tuple(self._described(states))

    async def _states(self) -> States | None:
        """The states of all jobs by id; None if there is no such list, or none that can be used."""
        try:
            answer = await self.source.job_states()
        except OF_EVERY_CALL:
            raise
        except SlurmError:
            # Whatever Slurm has against this call, it may have nothing against the list of jobs.
            return None
        return {each.job_id: each.states for each in answer.items} if answer.complete else None

    def _needed(self, states: States, decision: Decision) -> Iterator[int]:
        remembered = self.vanished.ids()
        for job_id, now in states.items():
            record = self._records.get(job_id)
            is_over = policy.states_are_over(now)
            if record is None:
                # Of an ended job only its partition may still matter, and whether it is the one that was known.
                is_needed = not is_over or decision.every_job or job_id in remembered
            else:
                is_needed = record.job.states != now or (not is_over and decision.depends_on(record.job))
            if is_needed:
                yield job_id

    def _is_unread(self, job_id: int, now: Set[str]) -> bool:
        record = self._records.get(job_id)
        return record is None or record.job.states != now

    def _described(self, states: States) -> Iterator[Job]:
        for job_id, now in states.items():
            record = self._records.get(job_id)
            if record is not None:
                yield record.job
            elif policy.states_are_over(now):
                yield Job(job_id=job_id, states=now)

    async def _refresh(self, states: States, fresh: Set[int]) -> None:
        """Read the oldest records again, as many as the time since the last ones allows."""
        now = self.monotonic()
        allowed = int(min(MAX_REFRESHES, (now - self._refreshed_at) * REFRESHES_PER_SECOND))
        if allowed < 1:
            return
        self._refreshed_at = now
        old = [
            record
            for job_id, record in self._records.items()
            if record.read_at <= now - MAX_AGE_SECONDS and job_id not in fresh and not policy.is_over(record.job)
        ]
        for job_id in await self._fetch(self._next_refreshed(old, allowed), states):
            # Counts as read, so that the others come first next time.
            self._records[job_id] = _Record(self._records[job_id].job, now)

    def _next_refreshed(self, old: Collection[_Record], allowed: int) -> list[int]:
        """Those of jobs with nodes first, and now and then the oldest of all."""
        fair, self._refreshes = divmod(self._refreshes + allowed, FAIR_REFRESH)
        by_age = nsmallest(fair, ((record.read_at, record.job.job_id) for record in old))
        oldest = {job_id for _, job_id in by_age}
        others = (
            (not policy.holds_nodes(record.job), record.read_at, record.job.job_id)
            for record in old
            if record.job.job_id not in oldest
        )
        first = [job_id for _, _, job_id in nsmallest(allowed - fair, others)]
        return [*first, *oldest]

    async def _fetch(self, ids: Collection[int], states: States) -> list[int]:
        """Read these records; those that were not described in time."""
        answers = await ask_each(self.source.job, ids, self.monotonic) if ids else {}
        return [each for each in ids if not self._keep(each, answers.get(each, TOO_LATE), states[each])]

    def _keep(self, job_id: int, view: JobView, listed: Set[str]) -> bool:
        """Remember a record, or that there is none; whether the view can be believed."""
        if isinstance(view, KnownJob):
            self._records[job_id] = _Record(view.job, self.monotonic())
            return True
        # Slurm forgets ended jobs. One that it has just listed as unfinished it cannot have forgotten.
        is_forgotten = isinstance(view, Absent) and policy.states_are_over(listed)
        if is_forgotten:
            self._records.pop(job_id, None)
        return is_forgotten

    def _in_time(self, ask: Callable[[int], Awaitable[JobView]]) -> Callable[[int], Awaitable[JobView]]:
        """The same question for a bounded time: a reconcile must come to its end."""
        end = self.monotonic() + ONE_BY_ONE_SECONDS

        async def asked(job_id: int) -> JobView:
            return await ask(job_id) if self.monotonic() < end else TOO_LATE

        return asked

    # By list

    def _prefer_list(self) -> None:
        self._list_until = self.monotonic() + LIST_SECONDS

    async def _by_tried_list(self, decision: Decision) -> tuple[Job, ...] | Unknown:
        """The jobs of the list; if that fails, the next looks do without."""
        try:
            found = await self._by_list(decision)
        except (SlurmUnauthorized, SlurmWrongCluster):
            raise
        except SlurmError:
            # Also one that is unreachable: the size of the list may be why.
            self._rest_from_lists()
            raise
        if isinstance(found, Unknown):
            self._rest_from_lists()
        else:
            self._list_rests_until, self._list_rest_seconds = float("-inf"), LIST_REST_SECONDS
        return found

    def _rest_from_lists(self) -> None:
        now = self.monotonic()
        # Without states the list is read all the same: that is no reason to do without it for longer.
        if now >= self._list_rests_until:
            self._list_rests_until = now + self._list_rest_seconds
            self._list_rest_seconds = min(2 * self._list_rest_seconds, MAX_LIST_REST_SECONDS)

    async def _by_list(self, decision: Decision) -> tuple[Job, ...] | Unknown:
        now = self.monotonic()
        is_conditional = self._listed is not None and not decision and now < self._full_list_at
        since = self._listed.last_update if self._listed is not None and is_conditional else None
        if since is None:
            self._full_list_at = now + FULL_LIST_SECONDS
        before, self._listed = self._listed, None
        answer = await self.source.jobs(since)
        if isinstance(answer, Unchanged):
            self._listed = before
            return before.items if before is not None else Unknown("Slurm reports an unchanged list of jobs, unasked")
        if not answer.complete:
            return Unknown("Slurm's list of jobs is incomplete")
        self._listed = answer
        self._records = _by_id(answer.items, now)
        return answer.items


def _by_id(jobs: Iterable[Job], now: float) -> dict[int, _Record]:
    """The records of a list; of an id that it has twice, nothing is known."""
    found: dict[int, _Record] = {}
    twice = set[int]()
    for job in jobs:
        if job.job_id in found:
            twice.add(job.job_id)
        found[job.job_id] = _Record(job, now)
    return {job_id: record for job_id, record in found.items() if job_id not in twice}
