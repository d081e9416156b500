"""Seeing what changed in Slurm, which has no watch. In: a list call of the client. Out: `on_change` with each answer.

Asks with the time of the last answer, so that a quiet cluster costs an empty reply: every second while somebody waits
for something, every five otherwise, and less and less often (up to 30 s) while Slurm cannot be asked. From time to time
it asks for all without condition, so that a server whose clock went back is not believed to be quiet.
Made by the wiring, one per list and cluster; `reconcile/` says who waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from slurm_operator.slurm.errors import SlurmError
from slurm_operator.slurm.model import Answer, Unchanged, Unknown

T = TypeVar("T")

WAITED_FOR = 1.0
QUIET = 5.0
LONGEST_BACKOFF = 30.0
ALL_EVERY = 60.0


class Poll(Generic[T]):
    """Follows one list of one cluster. `latest` is the last answer, or Unknown with the reason."""

    def __init__(
        self,
        ask: Callable[[int | None], Awaitable[Answer[T] | Unchanged]],
        on_change: Callable[[Answer[T] | Unknown], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ask = ask
        self._on_change = on_change
        self._monotonic = monotonic
        self._sleep = sleep
        self._waiters = 0
        self._failures = 0
        self._all_at = float("-inf")
        self._woken = asyncio.Event()
        self.latest: Answer[T] | Unknown = Unknown("Slurm has not been asked yet")

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While inside, somebody waits for a change: look every second, beginning now."""
        self._waiters += 1
        self.wake()
        try:
            yield
        finally:
            self._waiters -= 1

    def wake(self) -> None:
        """Look now: something was just written."""
        self._woken.set()

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self.step()
            await self._pause(self.delay())

    async def step(self) -> None:
        """Ask once, and tell if something is new."""
        self._woken.clear()
        try:
            answer = await self._ask(self._since())
        except SlurmError as problem:
            self._failures += 1
            self._tell(Unknown(str(problem)))
            return
        self._failures = 0
        if isinstance(answer, Answer):
            self._tell(answer)

    def delay(self) -> float:
        """How long to wait before the next look."""
        if self._failures:
            return float(min(WAITED_FOR * 2 ** min(self._failures - 1, 10), LONGEST_BACKOFF))
        return WAITED_FOR if self._waiters else QUIET

    def _since(self) -> int | None:
        now = self._monotonic()
        known = isinstance(self.latest, Answer) and self.latest.complete
        if not known or now >= self._all_at:
            self._all_at = now + ALL_EVERY
            return None
        return self.latest.last_update if isinstance(self.latest, Answer) else None

    def _tell(self, answer: Answer[T] | Unknown) -> None:
        news = _content(answer) != _content(self.latest)
        self.latest = answer
        if news:
            self._on_change(answer)

    async def _pause(self, seconds: float) -> None:
        """Until the time is over or somebody wakes us; a wake does not cut short a backoff."""
        if self._failures:
            await self._sleep(seconds)
            return
        sleeping = asyncio.ensure_future(self._sleep(seconds))
        waking = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sleeping, waking):
                task.cancel()
            await asyncio.gather(sleeping, waking, return_exceptions=True)


def _content(answer: Answer[T] | Unknown) -> object:
    """What makes two answers different for the reader: not the time, and not the words of a failure."""
    return (answer.items, answer.complete) if isinstance(answer, Answer) else Unknown
