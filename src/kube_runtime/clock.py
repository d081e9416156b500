"""Time as an argument: one real clock, and one that a test moves by hand.

Everything in `kube_runtime/loop/` that waits, measures or dates something is given a `Clock`. The program passes
`SystemClock`; tests and campaigns pass `VirtualClock`, where an hour passes in a microsecond and always in
the same order. `within` is the time limit that works on any of them; `check_deadline` asks for it right before a write,
because no timer fires while a process is stopped or its machine suspended.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from kube_runtime.errors import Retryable

T = TypeVar("T")

_YIELDS_WITHOUT_A_READY_LIST = 100


class Timer(Protocol):
    """A call that is to come; `cancel` takes it back, also when it has been made already."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Where time comes from."""

    def monotonic(self) -> float:
        """Seconds that never run backwards and go on while the machine sleeps; only differences mean something."""
        ...

    def now(self) -> datetime:
        """The wall clock in UTC: for people and for records, never for decisions."""
        ...

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call `call` once, `seconds` from now."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class DeadlinePassedError(TimeoutError):
    """The work took longer than `within` allowed."""


class DeadlinePassed(Retryable):
    """What is about to be done was decided within a time limit that is over."""

    reason = "DeadlinePassed"


def _find_clock() -> int | None:
    """CLOCK_BOOTTIME, where there is one: CLOCK_MONOTONIC stands still while a machine is suspended."""
    wanted: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    try:
        if wanted is not None:
            time.clock_gettime(wanted)
    except OSError:
        return None
    return wanted


_BOOTTIME = _find_clock()


class SystemClock:
    """The machine's clock and the running event loop's timers.

    The timers stand still while the machine is suspended; `monotonic` does not, so it is what decides. A hypervisor
    that stops a guest with all its clocks leaves nothing to notice it by; uids and resourceVersions guard then.
    """

    def monotonic(self) -> float:
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, seconds), call)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


@dataclass(order=True, slots=True)
class _VirtualTimer:
    due: float
    order: int
    call: Callable[[], object] | None = field(compare=False)

    def cancel(self) -> None:
        self.call = None


class VirtualClock:
    """A clock that stands still until told to move; timers fire in order of time, then of creation."""

    def __init__(self, start: float = 0.0, epoch: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._time = start
        # Timers are kept in time awake, which is this much behind.
        self._suspended_seconds = 0.0
        self._wall_at_zero = epoch - timedelta(seconds=start)
        self._timers: list[_VirtualTimer] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        return self._time

    def now(self) -> datetime:
        return self._wall_at_zero + timedelta(seconds=self._time)

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: time passes, and every timer fires so much later."""
        self._time += seconds
        self._suspended_seconds += seconds

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        due = self._time - self._suspended_seconds + max(0.0, seconds)
        timer = _VirtualTimer(due, next(self._order), call)
        heapq.heappush(self._timers, timer)
        return timer

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, functools.partial(_finish, over))
        try:
            await over
        finally:
            timer.cancel()

    def next_due(self) -> float | None:
        """When the next timer fires, or None when nobody waits."""
        while self._timers and self._timers[0].call is None:
            heapq.heappop(self._timers)
        return self._timers[0].due + self._suspended_seconds if self._timers else None

    def fire_next(self, until: float = float("inf")) -> bool:
        """Jump to the next timer and fire it, if it is due by `until`; say whether there was one."""
        due = self.next_due()
        if due is None or due > until:
            return False
        timer = heapq.heappop(self._timers)
        self._time = max(self._time, due)
        call, timer.call = timer.call, None
        if call is not None:
            call()
        return True

    def advance(self, seconds: float) -> None:
        """Move on and fire what falls due, without letting tasks run in between."""
        end = self._time + seconds
        while self.fire_next(end):
            pass
        self._time = end

    async def run_for(self, seconds: float, after_each: Callable[[], object] = lambda: None) -> None:
        """Move on, letting every task that a timer woke run before the next timer fires."""
        end = self._time + seconds
        await run_until_idle()
        after_each()
        while self.fire_next(end):
            await run_until_idle()
            after_each()
        self._time = end
        after_each()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def run_until_idle() -> None:
    """Let tasks run until none can go on without a timer or the outside world.

    asyncio has no public question for "is anything runnable", so this reads the loop's ready list where
    there is one and otherwise yields often. Only one task may do so at a time: two would wait for each
    other.
    """
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    if ready is None:
        for _ in range(_YIELDS_WITHOUT_A_READY_LIST):
            await asyncio.sleep(0)
        return
    while True:
        await asyncio.sleep(0)
        if not ready:
            return


_DEADLINES: ContextVar[tuple[tuple[Clock, float], ...]] = ContextVar("deadlines", default=())


def check_deadline() -> None:
    """Raise DeadlinePassed when a time limit that the caller works within is over, whether its timer fired or not."""
    for clock, due in _DEADLINES.get():
        late = clock.monotonic() - due
        if late > 0:
            raise DeadlinePassed(f"the time limit passed {late:.0f} s ago: what was decided then is not done any more")


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`; after `seconds` it is cancelled, waited for, and DeadlinePassedError raised.

    Within the work `check_deadline` knows of the limit.
    """
    outer = _DEADLINES.set((*_DEADLINES.get(), (clock, clock.monotonic() + seconds)))
    try:
        task = asyncio.ensure_future(work)
    finally:
        _DEADLINES.reset(outer)
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = task.cancel()

    timer = clock.call_later(seconds, expire)
    try:
        return await task
    except asyncio.CancelledError:
        if expired and not _being_cancelled():
            raise DeadlinePassedError(f"not done within {seconds:g} s") from None
        raise
    finally:
        timer.cancel()


def _being_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
