"""Hostile jobs beside a soak's own: a bounded mix that the seed decides, submitted as alice in the login pod.

In: a cluster and a seed. Out: `HostileFeeder`, a thread that submits, suspends, resumes and cancels; `judge` says
of each job whether it came to the end that its kind has. What the jobs are stands in `tests/real/hostile_jobs.py`. Used
by `soak.py`.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.real.hostile_jobs import GROUPS, End, HostileJob, command
from tests.real.local.e2e.cluster import LocalCluster

EVERY_SECONDS = 4.0
AT_ONCE = 3
# So many of its jobs wait or run at a time; the oldest that would stay for ever is cancelled first.
MOST = 24
RESUME_AFTER_SECONDS = 8.0
ROOT = "dependency-root"
REFUSED = "refused"
# The script comes through standard input: a request's address is too short for it.
RUN = 'script=$(cat); timeout 30 bash -c "$script" </dev/null'
OVER = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"})


@dataclass(slots=True)
class Submission:
    """One hostile job that Slurm accepted."""

    job: HostileJob
    job_id: str
    at: float
    cancelled: bool = False
    resumed: bool = False


@dataclass(slots=True)
class HostileVerdict:
    """What became of the hostile jobs."""

    submitted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)

    def as_rows(self) -> Iterable[tuple[str, str]]:
        """For the soak's table."""
        yield "hostile submitted", f"{self.submitted.total()} of {len(self.submitted)} kinds"
        yield "hostile refused by Slurm", str(self.refused.total())
        for what, count in sorted(self.ends.items()):
            yield f"hostile {what}", str(count)
        yield "hostile lost", str(len(self.lost))


class HostileFeeder(threading.Thread):
    """Keeps a few hostile jobs of every kind in the queue."""

    def __init__(self, cluster: LocalCluster, seed: int, script: str, resting: threading.Event) -> None:
        super().__init__(name="hostile feeder", daemon=True)
        self.cluster, self.script, self.resting = cluster, script, resting
        self.random = random.Random(f"hostile-{seed}")  # noqa: S311 - the same seed is the same mix
        self.stopped = threading.Event()
        self.submissions: list[Submission] = []
        self.refused: Counter[str] = Counter()
        self._left: list[HostileJob] = []

    def run(self) -> None:
        """Until stopped."""
        while not self.stopped.wait(EVERY_SECONDS):
            if not self.resting.is_set():
                self.feed()

    def feed(self) -> None:
        """Resume, make room, submit."""
        lines = [f"scontrol resume {one.job_id}" for one in self._suspended(time.monotonic())]
        lines += [f"scancel {one.job_id}" for one in self._surplus()]
        jobs = [self._next() for _ in range(AT_ONCE)]
        lines += [self._line(job) for job in jobs]
        self._read(self._as_alice("\n".join(lines)))

    def _next(self) -> HostileJob:
        """Every kind comes once before any comes again."""
        if not self._left:
            every = [job for group in GROUPS.values() for job in group if job.label != ROOT]
            self._left = self.random.sample(every, len(every))
            # Others refer to it.
            self._left += [job for job in GROUPS["dependencies"] if job.label == ROOT]
        return self._left.pop()

    def _line(self, job: HostileJob) -> str:
        roots = [one.job_id for one in self.submissions if one.job.label == ROOT and not one.cancelled]
        sent = command(job, self.script, roots[-1] if roots else "1")
        then = job.then.replace("{id}", "$id") or "true"
        return f"if id=$({sent}); then echo {job.label} $id; {then}; else echo {job.label} {REFUSED}; fi"

    def _read(self, said: str) -> None:
        kinds = {job.label: job for group in GROUPS.values() for job in group}
        for line in said.splitlines():
            label, _, job_id = line.partition(" ")
            if job_id == REFUSED:
                self.refused[label] += 1
            elif label in kinds and job_id.isdecimal():
                self.submissions.append(Submission(kinds[label], job_id, time.monotonic()))

    def _suspended(self, now: float) -> Iterator[Submission]:
        for one in self.submissions:
            if one.job.suspends and not one.resumed and now - one.at > RESUME_AFTER_SECONDS:
                one.resumed = True
                yield one

    def _surplus(self) -> Iterator[Submission]:
        waiting = [one for one in self.submissions if one.job.end is not End.COMPLETES and not one.cancelled]
        newest_root = [one for one in waiting if one.job.label == ROOT][-1:]
        for one in waiting[: max(0, len(waiting) + AT_ONCE - MOST)]:
            if one not in newest_root:
                one.cancelled = True
                yield one

    def finish(self, seconds: float) -> HostileVerdict:
        """Cancel what would stay for ever, wait for the others, and judge all of them."""
        ids = [one.job_id for one in self.submissions if one.job.end is not End.COMPLETES]
        resumed = [f"scontrol resume {one.job_id}" for one in self.submissions if one.job.suspends]
        self._as_alice("\n".join([*resumed, f"echo {' '.join(ids)} | xargs -r -n 100 scancel"]))
        deadline = time.monotonic() + seconds
        while True:
            records = self.accounting()
            done = all(_is_over(records.get(one.job_id, [])) for one in self.submissions)
            if done or time.monotonic() > deadline:
                return judge(self.submissions, self.refused, records)
            time.sleep(2)

    def accounting(self) -> dict[str, list[str]]:
        """The states of every record of every job, by its id; names are not asked for."""
        found: dict[str, list[str]] = {}
        # Without ids it would leave out what was never eligible.
        ids = ",".join(one.job_id for one in self.submissions)
        for line in self._as_alice(f"sacct -nXPD -j {ids} -o JobID,State").splitlines():
            job, _, state = line.partition("|")
            found.setdefault(job.split("_")[0], []).append(state.split(" ")[0])
        return found

    def _as_alice(self, script: str) -> str:
        where = ("exec", "-i", "deploy/login", "-c", "login", "--", "su", "-", "alice", "-c", RUN)
        return self.cluster.attempt(*where, stdin=script).stdout


def judge(
    submissions: Iterable[Submission], refused: Mapping[str, int], records: Mapping[str, list[str]]
) -> HostileVerdict:
    """Those that can complete have, once and without a requeue; of the others Slurm knows an end."""
    verdict = HostileVerdict(refused=Counter(refused))
    for one in submissions:
        states = records.get(one.job_id, [])
        verdict.submitted[one.job.label] += 1
        verdict.ends.update(set(states) or {"unknown to the accounting"})
        if one.job.end is End.COMPLETES and set(states) != {"COMPLETED"}:
            verdict.lost.append(f"hostile job {one.job_id} ({one.job.label}) should complete: {states or 'unknown'}")
        elif not _is_over(states):
            verdict.lost.append(f"hostile job {one.job_id} ({one.job.label}) has no end: {states or 'unknown'}")
    return verdict


def _is_over(states: list[str]) -> bool:
    """A job that was requeued has a record of that, and one of its end."""
    return bool(states) and all(state in OVER | {"REQUEUED"} for state in states) and bool(OVER & set(states))
