"""The whole loop: start in the right order, stop in the right order.

`run` is what the program calls: sources first (a standby keeps its caches warm), then leadership, then the
controllers; on SIGTERM no new keys, running reconciles to their end, the lease last.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from kube_runtime.clock import Clock, SystemClock
from kube_runtime.loop.controller import Controller
from kube_runtime.loop.leadership import Elector

log = logging.getLogger(__name__)

_SYNC_POLL_SECONDS = 0.05
_CANCEL_TIMEOUT_SECONDS = 5.0

Task = asyncio.Task[Any]
Work = Callable[[], Coroutine[Any, Any, object]]


class Sources(Protocol):
    """What is read of a `SourceSet`."""

    def unsynced(self) -> Sequence[str]: ...

    async def close(self) -> None: ...


class Ending(Enum):
    """Why `run` returned; only the first is a success."""

    ASKED = "asked to stop"
    LEADERSHIP_LOST = "leadership lost"
    FAILED = "a part that must not end has ended"


async def run(
    controllers: Sequence[Controller],
    sources: Sources,
    *,
    elector: Elector | None = None,
    background: Iterable[Work] = (),
    stop: asyncio.Event | None = None,
    grace: float = 20.0,
    clock: Clock | None = None,
) -> Ending:
    """Run until SIGTERM, SIGINT or `stop`, or until leadership is lost, and say which.

    `background` are things that run beside (a watchdog, a certificate keeper); they start first and stop last.
    A process that lost leadership should exit: whoever starts next begins with nothing to forget.
    """
    clock = clock or SystemClock()
    stop = stop or asyncio.Event()
    with _stop_on_signals(stop):
        async with _tasks(background, clock) as beside, _election(elector, clock) as election:
            whole = _Run(controllers, sources, elector, [*beside, *election], stop, grace, clock)
            try:
                return await whole.to_the_end()
            finally:
                await sources.close()


@dataclass(frozen=True, slots=True)
class _Run:
    controllers: Sequence[Controller]
    sources: Sources
    elector: Elector | None
    beside: Sequence[Task]
    stop: asyncio.Event
    grace: float
    clock: Clock

    async def to_the_end(self) -> Ending:
        ending = await self._first_end(self._ready_to_lead, self.beside)
        if ending is not None:
            return ending
        log.info("controllers start: %s", ", ".join(controller.name for controller in self.controllers))
        async with _tasks([controller.run for controller in self.controllers], self.clock) as working:
            ending = await self._first_end(_forever, [*self.beside, *working])
            if ending is Ending.ASKED:
                await self._finish(working)
        return ending or Ending.FAILED

    async def _ready_to_lead(self) -> None:
        while waiting := self.sources.unsynced():
            log.debug("caches are not complete yet: %s", ", ".join(waiting))
            await self.clock.sleep(_SYNC_POLL_SECONDS)
        if self.elector is not None:
            await self.elector.gained()

    async def _leadership_lost(self) -> None:
        await (_forever() if self.elector is None else self.elector.lost())

    async def _first_end(self, goal: Work, vital: Sequence[Task]) -> Ending | None:
        """Wait for what ends this phase; None when it is its goal."""
        async with _tasks([self.stop.wait, self._leadership_lost, goal], self.clock) as mine:
            asked, lost, _ = mine
            done, _ = await asyncio.wait([*mine, *vital], return_when=asyncio.FIRST_COMPLETED)
        if lost in done:
            log.error("leadership is lost: everything that writes is stopped")
            return Ending.LEADERSHIP_LOST
        ended = [task for task in vital if task in done]
        for task in ended:
            error = None if task.cancelled() else task.exception()
            log.error("%s has ended and should not have", task.get_name(), exc_info=error)
        if ended:
            return Ending.FAILED
        return Ending.ASKED if asked in done else None

    async def _finish(self, working: Sequence[Task]) -> None:
        log.info("stopping: no new work, up to %g s for what runs", self.grace)
        for controller in self.controllers:
            controller.stop()
        async with _tasks([lambda: self.clock.sleep(self.grace), self._leadership_lost], self.clock) as limits:
            left = set(working)
            while left and not any(limit.done() for limit in limits):
                await asyncio.wait([*left, *limits], return_when=asyncio.FIRST_COMPLETED)
                left = {task for task in left if not task.done()}
        for controller in self.controllers:
            for key in controller.running:
                log.warning("%s %s did not end in time and is cut off", controller.name, key)


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()


@contextlib.asynccontextmanager
async def _tasks(works: Iterable[Work], clock: Clock) -> AsyncIterator[list[Task]]:
    """Tasks that do not outlive the block."""
    tasks = [asyncio.create_task(work(), name=getattr(work, "__qualname__", None) or repr(work)) for work in works]
    try:
        yield tasks
    finally:
        await _cancel(tasks, clock)


async def _cancel(tasks: Collection[Task], clock: Clock) -> None:
    """Cancel and wait, but not for ever: a task that ignores its cancellation must not keep the lease."""
    for task in tasks:
        task.cancel()
    over = asyncio.Event()
    timer = clock.call_later(_CANCEL_TIMEOUT_SECONDS, over.set)
    patience = asyncio.create_task(over.wait())
    left = {task for task in tasks if not task.done()}
    while left and not patience.done():
        await asyncio.wait([*left, patience], return_when=asyncio.FIRST_COMPLETED)
        left = {task for task in left if not task.done()}
    timer.cancel()
    patience.cancel()
    for task in left:
        log.error("%s ignores its cancellation and is left behind", task.get_name())


@contextlib.asynccontextmanager
async def _election(elector: Elector | None, clock: Clock) -> AsyncIterator[list[Task]]:
    """Take part in the election during the block; whatever happens in it, hand the lease back after it."""
    if elector is None:
        yield []
        return
    try:
        async with _tasks([elector.run], clock) as tasks:
            yield tasks
    finally:
        await elector.stop()


@contextlib.contextmanager
def _stop_on_signals(stop: asyncio.Event) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
