"""Waits that are never silent: what is waited for, why, and what would help.

In: a question that is asked again and again, and one that says why the answer is still no. Out: on a terminal one line
that is redrawn, and each new reason above it once it has lasted; elsewhere a line when the reason changes, and now and
then one that says that nothing has. Used by every command that waits: `local up`, `kubectl slurm`, the demo.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO, TypeVar

from kube_runtime.errors import OperatorError
from kube_runtime.text import printable
from slurm_operator.diagnose.cause import Diagnosis, Fine

# What is over sooner needs no words.
QUIET_SECONDS = 2.0
# Between two questions for the reason: they take longer than the question whether it is over.
REASON_SECONDS = 3.0
# Between two lines where a line cannot be redrawn.
LINE_SECONDS = 3.0
STILL_SECONDS = 30.0
# A reason that lasts as long is worth more than a line that is redrawn.
LASTING_SECONDS = 6.0
LOOK_SECONDS = 0.25
# How long the very first answer is waited for beyond the time of the wait itself.
ANSWER_SECONDS = 10.0
MAX_REASON_CHARACTERS = 600
_ERASE = "\r\x1b[K"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why it is not so yet, and the command that would help or shows more."""

    sentence: str = ""
    command: str = ""
    # How far it is. That changes all the time, and is no other reason.
    progress: str = field(default="", compare=False)

    @property
    def line(self) -> str:
        """How far it is, and why no further."""
        sentence = printable(self.sentence, MAX_REASON_CHARACTERS)
        return f"{self.progress}; {sentence}" if self.progress else sentence

    @property
    def text(self) -> str:
        """All of it, on one line."""
        return f"{self.line}; {printable(self.command, MAX_REASON_CHARACTERS)}" if self.command else self.line


def reason_of(answer: Diagnosis) -> Reason:
    """A diagnosis as a reason."""
    return Reason(answer.sentence, "" if isinstance(answer, Fine) else answer.command)


UNKNOWN = Reason("there is no answer yet")


@dataclass(frozen=True, slots=True)
class Waited:
    """How a wait ended."""

    is_so: bool
    seconds: float
    reason: Reason


@dataclass(slots=True)
class Waiting:
    """One wait, as people see it."""

    what: str
    out: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    reason: Reason = UNKNOWN
    _start: float = 0.0
    _reason_since: float = 0.0
    _said: Reason | None = None
    _said_at: float = float("-inf")
    _drawn: bool = False

    def __post_init__(self) -> None:
        self._start = self._reason_since = self.clock()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return self.clock() - self._start

    def because(self, reason: Reason) -> None:
        """The reason as of now."""
        if reason != self.reason:
            self._reason_since = self.clock()
        self.reason = reason
        self.show()

    def show(self) -> None:
        """Say what there is to say at this moment; cheap, to be called often."""
        if self.seconds < QUIET_SECONDS:
            return
        if self.out.isatty():
            self._redraw()
        elif self._is_news():
            self._write_line("")

    def _is_news(self) -> bool:
        if self.reason == UNKNOWN and self.seconds < LASTING_SECONDS:
            return False
        passed = self.clock() - self._said_at
        return passed >= (STILL_SECONDS if self._said == self.reason else LINE_SECONDS)

    def _write_line(self, erase: str) -> None:
        still = "still " if self._said == self.reason else ""
        self.out.write(f"{erase}[{self.seconds:5.1f} s] {still}waiting until {self.what}: {self.reason.text}\n")
        self.out.flush()
        self._said, self._said_at = self.reason, self.clock()

    def _redraw(self) -> None:
        lasted = self.clock() - self._reason_since
        if lasted >= LASTING_SECONDS and self.reason not in (self._said, UNKNOWN):
            self._write_line(_ERASE)
        columns = max(shutil.get_terminal_size().columns, 20)
        line = f"{self.seconds:4.0f} s  waiting until {self.what}: {printable(self.reason.line, columns)}"
        self.out.write(_ERASE + (line if len(line) < columns else line[: columns - 2] + "…"))
        self.out.flush()
        self._drawn = True

    def close(self) -> None:
        """Leave no half line behind."""
        if self._drawn:
            self.out.write(_ERASE)
            self.out.flush()
            self._drawn = False


@contextmanager
def waiting(what: str, out: TextIO | None = None) -> Iterator[Waiting]:
    """A wait that is shown until it is over, however that comes about."""
    told = Waiting(what, out or sys.stderr)
    try:
        yield told
    finally:
        told.close()


async def until(
    what: str,
    is_so: Callable[[], Awaitable[bool]],
    why: Callable[[], Awaitable[Reason]],
    seconds: float,
    *,
    look_seconds: float = LOOK_SECONDS,
) -> Waited:
    """Ask until it is so, or `seconds` have passed; `why` is asked meanwhile, and may take its time or fail."""
    with waiting(what) as told:
        asking, check = _Asking(why, told), asyncio.ensure_future(is_so())
        # One that was asked at the last moment may still answer.
        deadline = seconds + ANSWER_SECONDS
        try:
            while told.seconds < deadline:
                await asyncio.wait({check}, timeout=look_seconds)
                asking.look()
                if not check.done():
                    continue
                if check.result() or told.seconds >= seconds:
                    return Waited(check.result(), told.seconds, told.reason)
                await asyncio.sleep(look_seconds)
                check, deadline = asyncio.ensure_future(is_so()), seconds
            return Waited(False, told.seconds, told.reason)
        finally:
            await _end(check)
            await _end(asking.task)


@dataclass(slots=True)
class _Asking:
    """Asks for the reason now and then, one question at a time, and shows what is known."""

    why: Callable[[], Awaitable[Reason]]
    told: Waiting
    task: asyncio.Future[Reason] | None = None
    _asked_at: float = float("-inf")

    def look(self) -> None:
        """Take an answer that has come, ask again when it is time, and show."""
        told = self.told
        if self.task is not None and self.task.done():
            told.because(_answer(self.task, told.reason))
            self.task = None
        is_due = told.seconds >= QUIET_SECONDS / 2 and told.seconds - self._asked_at >= REASON_SECONDS
        if self.task is None and is_due:
            self.task, self._asked_at = asyncio.ensure_future(self.why()), told.seconds
        told.show()


async def _end(task: asyncio.Future[T] | None) -> None:
    """Nobody waits for it any more."""
    if task is not None and not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError, OperatorError, OSError):
            await task


def _answer(asked: asyncio.Future[Reason], before: Reason) -> Reason:
    """What was found; whoever cannot say why keeps nobody from waiting."""
    try:
        return asked.result()
    except (OperatorError, OSError) as error:
        return Reason(f"it cannot be asked why: {error}") if before == UNKNOWN else before
