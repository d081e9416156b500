"""Users of a real Slurm: a queue that stays as long as it is, while its jobs start and end all the time.

In: a `RealSlurm`, how many jobs it is to hold, and the partition in which they run. Out: `Queue`: filled once, then
kept up turn by turn: short jobs, arrays, jobs that are held and released, suspended and resumed, cancelled. Jobs that
ended stay in the list for MinJobAge, so it changes in every poll. Called by `slurmrestd_memory.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.real_slurm.slurm import RealSlurm

ALICE = "setpriv --reuid=1000 --regid=1000 --clear-groups"
# Of ten submissions one is an array and two are held.
KINDS = ("plain", "array", "plain", "held", "plain", "plain", "held", "plain", "plain", "plain")
OPTIONS = {"plain": "", "array": "--array=0-4", "held": "--hold"}
MIN_SLEEP_SECONDS, MAX_SLEEP_SECONDS = 2, 8
# More than this share of the queue is not left on hold.
HELD_SHARE = 0.1
# So many are submitted with one shell.
AT_ONCE = 200
CHANGED_PER_TURN = 3
STARTED = re.compile(r"Jobs started:\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Listed:
    """A line of squeue."""

    job_id: str
    state: str
    reason: str

    @property
    def is_held(self) -> bool:
        """Whether somebody has to release it."""
        return self.state == "PD" and self.reason.startswith("JobHeld")


def parse_queue(text: str) -> list[Listed]:
    """Lines of `squeue -o '%F|%t|%r'`."""
    rows = (line.split("|") for line in text.splitlines() if line.count("|") == 2)
    return [Listed(job_id.strip(), state.strip(), reason.strip()) for job_id, state, reason in rows]


def submissions(first: int, count: int, partition: str) -> list[str]:
    """Command lines of so many jobs, from the number on that was given last."""
    span = MAX_SLEEP_SECONDS - MIN_SLEEP_SECONDS + 1
    return [
        f"sbatch -Q -p {partition} -o /dev/null -t 5 -J job-{number} {OPTIONS[KINDS[number % len(KINDS)]]}"
        f" --wrap 'sleep {MIN_SLEEP_SECONDS + number * 5 % span}'"
        for number in range(first, first + count)
    ]


@dataclass(slots=True)
class Queue:
    """The queue, and what was done to it."""

    slurm: RealSlurm
    partition: str
    size: int
    done: Counter[str] = field(default_factory=Counter)
    listed: list[Listed] = field(default_factory=list)
    fewest: int = 0
    most: int = 0
    _suspended: list[str] = field(default_factory=list)
    _number: int = 0

    def fill(self) -> None:
        """So many jobs as it is to hold."""
        while len(self.look()) < self.size:
            self._submit(min(AT_ONCE, self.size - len(self.listed)))
        self.fewest = self.most = len(self.listed)

    def look(self) -> list[Listed]:
        """All jobs that Slurm remembers."""
        self.listed = parse_queue(self.slurm.run("squeue", "-h", "-a", "-t", "all", "-o", "%F|%t|%r", timeout=60))
        return self.listed

    def turn(self) -> None:
        """One turn of all users."""
        count = len(self.look())
        self.fewest, self.most = min(self.fewest, count), max(self.most, count)
        if count < self.size:
            self._submit(min(AT_ONCE, self.size - count))
        self._release()
        self._suspend()

    def started(self) -> int:
        """How many jobs slurmctld has started."""
        found = STARTED.search(self.slurm.run("sdiag", check=False))
        return int(found[1]) if found else 0

    def _submit(self, count: int) -> None:
        lines = submissions(self._number, count, self.partition)
        self._number += count
        self.done["submitted"] += count
        self.slurm.shell(f'cd /tmp; {ALICE} bash -c "{"; ".join(lines)}"', check=False, timeout=300)

    def _release(self) -> None:
        """The oldest that are held go on, a few that wait are held, one is cancelled."""
        held = [each.job_id for each in self.listed if each.is_held]
        waiting = [each.job_id for each in self.listed if each.state == "PD" and not each.is_held]
        if len(held) > HELD_SHARE * self.size:
            self._change("release", held[: 3 * CHANGED_PER_TURN])
        self._change("hold", waiting[-CHANGED_PER_TURN:])
        if waiting:
            self.slurm.run("scancel", waiting[len(waiting) // 2], check=False)
            self.done["cancelled"] += 1

    def _suspend(self) -> None:
        """Those of the last turn are resumed, others are suspended."""
        self._change("resume", self._suspended)
        self._suspended = [each.job_id for each in self.listed if each.state == "R"][:CHANGED_PER_TURN]
        self._change("suspend", self._suspended)

    def _change(self, verb: str, jobs: Sequence[str]) -> None:
        if jobs:
            # One that ended meanwhile is none of our business.
            self.slurm.run("scontrol", verb, ",".join(jobs), check=False)
            self.done[verb] += len(jobs)
