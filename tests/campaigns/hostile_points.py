"""Points that need no history: each is tried in a forked process and gives a list of violations.

In: names of points and how to try one. Out: a `Result`, as the other campaigns give it. Two ways: `in_workers` for many
cheap ones, where a worker tries one after the other, and `in_batches` for those that begin in a world at rest: a child
goes on from there. A point that kills or outlasts its process is a violation of that point alone.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Generic, Protocol, TypeVar

from tests.campaigns.campaign import Outcome, Result, Spawner
from tests.campaigns.rig import World

Attempt = Callable[[int], list[str]]
P = TypeVar("P", bound="Named")
W = TypeVar("W", bound=World)

MEMORY_BYTES = 3 * 2**30


class OutOfTime(BaseException):
    """A point used more CPU than any may."""


@contextmanager
def at_most(cpu_seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the midst of what takes longer, as far as it is Python."""

    def expire(_: int, frame: FrameType | None) -> None:
        where = " < ".join(f"{each.name}:{each.lineno}" for each in traceback.extract_stack(frame)[:-6:-1])
        raise OutOfTime(f"after {cpu_seconds:g} s of CPU in {where}")

    before = signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def peak_bytes() -> int:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def in_workers(names: Sequence[str], attempt: Attempt, at_once: int) -> Result:
    """Try each point, shared among so many workers."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        workers = [
            _Worker(list(range(first, len(names), at_once)), Path(folder) / str(first), attempt)
            for first in range(min(at_once, len(names)))
        ]
        for worker in workers:
            worker.start()
        while any(worker.process for worker in workers):
            ended, _ = os.waitpid(-1, 0)
            for worker in workers:
                if worker.process == ended:
                    worker.ended()
        outcomes = sorted((line for worker in workers for line in worker.lines), key=lambda line: int(line[0]))
    found = [Outcome(names[number], tuple(said), seconds) for number, said, seconds in outcomes]
    return Result(found, time.monotonic() - began)


@dataclass
class _Worker:
    share: list[int]
    file: Path
    attempt: Attempt
    process: int = 0
    lines: list[tuple[int, list[str], float]] = field(default_factory=list)

    def start(self) -> None:
        self.file.write_text("")
        self.process = os.fork()
        if self.process == 0:
            self._work()

    def _work(self) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        try:
            with self.file.open("a", buffering=1) as out:
                for number in self.share:
                    began = time.process_time()
                    said = self.attempt(number)
                    out.write(json.dumps([number, said, time.process_time() - began]) + "\n")
        finally:
            os._exit(0)

    def ended(self) -> None:
        """Take what it wrote; when it died, that was its point's doing, and another goes on behind it."""
        new = [tuple(json.loads(line)) for line in self.file.read_text().splitlines()]
        self.lines += new
        self.process, left = 0, self.share[len(new) :]
        if left:
            self.lines.append((left[0], ["I11: its process ended early"], 0.0))
            self.share = left[1:]
            self.start()


@dataclass
class Forks:
    """Points that each begin in a copy of this very process."""

    folder: Path
    at_once: int
    cpu_seconds: float
    spawner: Spawner = field(init=False)

    def __post_init__(self) -> None:
        self.spawner = Spawner("", lambda _: True, self.folder, self.at_once)

    def is_mine(self, number: int) -> bool:
        """Fork, and say in the child that this is its point."""
        if not self.spawner(f"{number:06}"):
            return False
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        signal.signal(signal.SIGPROF, self._expire)
        signal.setitimer(signal.ITIMER_PROF, self.cpu_seconds)
        return True

    def end(self, violations: Sequence[str]) -> None:
        """The child's last act."""
        assert self.spawner.mine is not None
        self.spawner.mine.write_text(json.dumps(list(violations)))
        os._exit(0)

    def _expire(self, _: int, frame: FrameType | None) -> None:
        where = " < ".join(f"{each.name}:{each.lineno}" for each in traceback.extract_stack(frame)[:-8:-1])
        self.end([f"I11: still at work after {self.cpu_seconds:g} s of CPU in {where}"])

    def outcomes(self, names: Sequence[str]) -> list[Outcome]:
        """What the children left, once all have ended."""
        self.spawner.wait()
        return [self._outcome(names[int(point)], point, path) for point, path in self.spawner.points]

    def _outcome(self, name: str, point: str, path: Path) -> Outcome:
        seconds = self.spawner.seconds[point]
        if not path.exists():
            return Outcome(name, ("I11: its process ended early",), seconds)
        return Outcome(name, tuple(json.loads(path.read_text())), seconds)


def every(points: Sequence[P], step: int) -> list[P]:
    """One of so many, spread over all."""
    return list(points[step - 1 :: step]) if step > 1 else list(points)


# Batches


class Named(Protocol):
    """What a point must have."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class Trial(Generic[P, W]):
    """How points are tried: the world in which they begin, and what each batch of them does to it."""

    settled: Callable[[], Awaitable[W]]
    suffer: Callable[[W, Sequence[P]], Awaitable[list[str]]]
    cpu_seconds: float = 40.0


def in_batches(trial: Trial[P, W], batches: Sequence[Sequence[P]], at_once: int) -> list[Outcome]:
    """Points that follow each other in one world; where something was wrong, each of the batch is tried alone."""
    first = _run(trial, batches, at_once)
    suspects = [batch for batch, outcome in zip(batches, first, strict=True) if outcome.violations and len(batch) > 1]
    alone = [[point] for batch in suspects for point in batch]
    again = _run(trial, alone, at_once)
    second = {batch[0].name: outcome for batch, outcome in zip(alone, again, strict=True)}
    return [outcome for batch, one in zip(batches, first, strict=True) for outcome in _split(batch, one, second)]


def _split(batch: Sequence[P], together: Outcome, second: Mapping[str, Outcome]) -> Iterator[Outcome]:
    alone = [second.get(point.name) for point in batch]
    # What none of them does alone, they do together.
    is_joint = bool(together.violations) and not any(each and each.violations for each in alone)
    for point, own in zip(batch, alone, strict=True):
        if own is not None and not is_joint:
            yield Outcome(point.name, own.violations, own.seconds)
        else:
            yield Outcome(point.name, together.violations, together.seconds / len(batch))


def _run(trial: Trial[P, W], batches: Sequence[Sequence[P]], at_once: int) -> list[Outcome]:
    if not batches:
        return []
    with tempfile.TemporaryDirectory() as folder:
        forks = Forks(Path(folder), at_once, trial.cpu_seconds)
        asyncio.run(_fork_each(trial, batches, forks))
        return forks.outcomes([batch[0].name for batch in batches])


async def _fork_each(trial: Trial[P, W], batches: Sequence[Sequence[P]], forks: Forks) -> None:
    world = await trial.settled()
    # What is there now is not looked at by the collector of any child.
    gc.collect()
    gc.freeze()
    try:
        for number, batch in enumerate(batches):
            if forks.is_mine(number):
                await _end_with(forks, world, trial, batch)
    finally:
        gc.unfreeze()
        forks.spawner.wait()
        await world.close()


async def _end_with(forks: Forks, world: W, trial: Trial[P, W], batch: Sequence[P]) -> None:
    try:
        forks.end(await trial.suffer(world, batch))
    except BaseException as error:
        forks.end([f"I11: {traced(error)}"])


def traced(error: BaseException) -> str:
    """An error, and the last place of ours that it came through."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [(name, line) for name, line in frames if "src/slurm_operator" in name]
    where = f" at {ours[-1][0].rpartition('slurm_operator/')[2]}:{ours[-1][1]}" if ours else ""
    return f"{type(error).__name__}: {str(error)[:120]}{where}"
