"""How a build tells where it is, and two ways to show that.

In: `Progress` from `build.py`. Out: a bar on a terminal, a line now and then elsewhere. `show()` picks the right one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

LINE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a build: what is being done and how far it is; a total of 0 means that nobody knows."""

    step: str
    done: float = 0
    total: float = 0
    unit: str = ""

    @property
    def finished(self) -> bool:
        """Whether this step is over."""
        return self.total > 0 and self.done >= self.total

    @property
    def amount(self) -> str:
        """How far, for people."""
        if self.total <= 0:
            return ""
        if self.unit == "bytes":
            return f"{self.done / 1e6:.0f} of {self.total / 1e6:.0f} MB"
        return f"{self.done:.0f} of {self.total:.0f} {self.unit}".rstrip()


Report = Callable[[Progress], None]


class Lines:
    """Plain lines: each new step at once, and how far it is every few seconds."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._start = clock()
        self._last: tuple[str, float] = ("", 0.0)
        self._ended = ""

    def __call__(self, progress: Progress) -> None:
        """Print when there is something new to say."""
        now = self._clock()
        step, text = self._last
        ends = progress.finished and self._ended != progress.step
        if step == progress.step and now - text < LINE_SECONDS and not ends:
            return
        self._last = (progress.step, now)
        if progress.finished:
            self._ended = progress.step
        amount = f": {progress.amount}" if progress.amount else ""
        print(f"[{now - self._start:5.1f} s] {progress.step}{amount}", file=self._out, flush=True)


class _Bars:
    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, progress: Progress) -> None:
        if progress.step not in self._tasks:
            self._finish_all()
            self._tasks[progress.step] = self._bar.add_task(progress.step, total=None, amount="")
        self._bar.update(
            self._tasks[progress.step],
            completed=progress.done,
            total=progress.total or None,
            amount=progress.amount,
        )

    def _finish_all(self) -> None:
        for task in self._bar.tasks:
            if not task.finished:
                self._bar.update(task.id, total=1, completed=1)


@contextmanager
def show(out: TextIO = sys.stderr) -> Iterator[Report]:
    """A report function that draws bars on a terminal and prints lines elsewhere."""
    if not out.isatty():
        yield Lines(out)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(file=out)) as bar:
        yield _Bars(bar)
