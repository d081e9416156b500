"""Waits that are never silent: what is waited for, why, and what would help.

In: a check that is polled until it is true, and a function that says why it is not yet. Out: on a terminal, one line
that is redrawn, and above it each reason that lasts; elsewhere, a new line when the reason changes, and from time to
time one that says that it has not. Used by every command that waits: `local up`, `kubectl slurm`, the demo.
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

# A wait that is over sooner prints nothing.
SILENT_SECONDS = 2.0
# Between two polls for the reason, which take longer than the check itself.
REASON_POLL_SECONDS = 3.0
# Between two lines with different reasons, and with the same reason, if a line cannot be redrawn.
NEW_REASON_SECONDS = 3.0
SAME_REASON_SECONDS = 10.0
# After this long, a reason on a terminal gets a line that stays.
LASTING_REASON_SECONDS = 6.0
POLL_SECONDS = 0.25
# How much longer than the wait itself the first check may take.
FIRST_CHECK_SECONDS = 10.0
MAX_REASON_CHARACTERS = 600
_ERASE = "\r\x1b[K"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a wait is not over, and the command that would help or shows more."""

    sentence: str = ""
    command: str = ""
    # How far it is. It changes all the time, so it does not make another reason.
    progress: str = field(default="", compare=False)

    @property
    def line(self) -> str:
        """How far it is, and the reason."""
        sentence = printable(self.sentence, MAX_REASON_CHARACTERS)
        return f"{self.progress}; {sentence}" if self.progress else sentence

    @property
    def text(self) -> str:
        """Progress, reason and command, on one line."""
        return f"{self.line}; {printable(self.command, MAX_REASON_CHARACTERS)}" if self.command else self.line


def reason_of(answer: Diagnosis) -> Reason:
    """A diagnosis as a reason."""
    return Reason(answer.sentence, "" if isinstance(answer, Fine) else answer.command)


UNKNOWN = Reason("the reason is not known yet")


@dataclass(frozen=True, slots=True)
class Waited:
    """How a wait ended."""

    is_so: bool
    seconds: float
    reason: Reason


@dataclass(slots=True)
class Waiting:
    """How one wait is displayed."""

    what: str
    out: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    reason: Reason = UNKNOWN
    _start: float = 0.0
    _reason_since: float = 0.0
    _printed: Reason | None = None
    _printed_at: float = float("-inf")
    _drawn: bool = False

    def __post_init__(self) -> None:
        self._start = self._reason_since = self.clock()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return self.clock() - self._start

    def because(self, reason: Reason) -> None:
        """Set the current reason, and show it."""
        if reason != self.reason:
            self._reason_since = self.clock()
        self.reason = reason
        self.show()

    def show(self) -> None:
        """Print what is due at this moment; cheap, so it can be called often."""
        if self.seconds < SILENT_SECONDS:
            return
        if self.out.isatty():
            self._redraw()
        elif self._is_news():
            self._write_line("")

    def _is_news(self) -> bool:
        if self.reason == UNKNOWN and self.seconds < LASTING_REASON_SECONDS:
            return False
        passed = self.clock() - self._printed_at
        return passed >= (SAME_REASON_SECONDS if self._printed == self.reason else NEW_REASON_SECONDS)

    def _write_line(self, erase: str) -> None:
        still = "still " if self._printed == self.reason else ""
        self.out.write(f"{erase}[{self.seconds:5.1f} s] {still}waiting until {self.what}: {self.reason.text}\n")
        self.out.flush()
        self._printed, self._printed_at = self.reason, self.clock()

    def _redraw(self) -> None:
        lasted = self.clock() - self._reason_since
        if lasted >= LASTING_REASON_SECONDS and self.reason not in (self._printed, UNKNOWN):
            self._write_line(_ERASE)
        columns = max(shutil.get_terminal_size().columns, 20)
        line = f"{self.seconds:4.0f} s  waiting until {self.what}: {printable(self.reason.line, columns)}"
        self.out.write(_ERASE + (line if len(line) < columns else line[: columns - 2] + "…"))
        self.out.flush()
        self._drawn = True

    def close(self) -> None:
        """Erase the line that is being redrawn."""
        if self._drawn:
            self.out.write(_ERASE)
            self.out.flush()
            self._drawn = False


@contextmanager
def waiting(what: str, out: TextIO | None = None) -> Iterator[Waiting]:
    """Display a wait until the block ends, also with an exception."""
    display = Waiting(what, out or sys.stderr)
    try:
        yield display
    finally:
        display.close()


async def until(
    what: str,
    is_so: Callable[[], Awaitable[bool]],
    why: Callable[[], Awaitable[Reason]],
    seconds: float,
    *,
    poll_seconds: float = POLL_SECONDS,
) -> Waited:
    """Poll `is_so` until it is true or `seconds` have passed; meanwhile display `why`, which may be slow or fail."""
    with waiting(what) as display:
        reasons, check = _ReasonPoll(why, display), asyncio.ensure_future(is_so())
        # A first check that is slow may still succeed.
        deadline = seconds + FIRST_CHECK_SECONDS
        try:
            while display.seconds < deadline:
                await asyncio.wait({check}, timeout=poll_seconds)
                reasons.poll()
                if not check.done():
                    continue
                if check.result() or display.seconds >= seconds:
                    return Waited(check.result(), display.seconds, display.reason)
                await asyncio.sleep(poll_seconds)
                check, deadline = asyncio.ensure_future(is_so()), seconds
            return Waited(False, display.seconds, display.reason)
        finally:
            await _end(check)
            await _end(reasons.task)


@dataclass(slots=True)
class _ReasonPoll:
    """Polls for the reason, one call at a time, and displays the last one."""

    why: Callable[[], Awaitable[Reason]]
    display: Waiting
    task: asyncio.Future[Reason] | None = None
    _polled_at: float = float("-inf")

    def poll(self) -> None:
        """Take the result of a call that has ended, start the next one when it is due, and redraw."""
        display = self.display
        if self.task is not None and self.task.done():
            display.because(_result(self.task, display.reason))
            self.task = None
        is_due = display.seconds >= SILENT_SECONDS / 2 and display.seconds - self._polled_at >= REASON_POLL_SECONDS
        if self.task is None and is_due:
            self.task, self._polled_at = asyncio.ensure_future(self.why()), display.seconds
        display.show()


async def _end(task: asyncio.Future[T] | None) -> None:
    """Cancel a task whose result is no longer needed."""
    if task is not None and not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError, OperatorError, OSError):
            await task


def _result(ended: asyncio.Future[Reason], before: Reason) -> Reason:
    """The reason that was found; if the call failed, the one before, since a wait goes on without a reason."""
    try:
        return ended.result()
    except (OperatorError, OSError) as error:
        return Reason(f"the reason cannot be read: {error}") if before == UNKNOWN else before
