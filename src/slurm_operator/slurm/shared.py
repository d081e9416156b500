"""One answer of Slurm for many reconciles, since Slurm has no watch and a cluster has many resources.

In: who asks, and how to ask. Out: an answer, and whether somebody else asked for it. Whoever comes back for an answer
that it has already seen asks anew, and all others use what came of it: twenty NodeSets of a cluster that wait for
something, each of which looks once a second, ask once a second together. Those at rest leave it to a poll.
An answer that says something only to whoever asked (see `is_for_all`) is kept for nobody else.
A removal is never decided by a shared answer: `fresh` asks in that very reconcile. Used by `reconcile/clusters.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

# So many reconciles in a row of one resource cost one question.
SEEN_MAX_AGE_SECONDS = 0.9
# Older than this it serves nobody, even if whoever asked for it never comes back.
MAX_AGE_SECONDS = 6.0
# How old an answer may be for a caller that decides nothing and does not wait for the one in flight.
IMPATIENT_MAX_AGE_SECONDS = 60.0
# For how many answers it is remembered who saw them.
MAX_REMEMBERED_LOOKS = 100


@dataclass(slots=True)
class Shared(Generic[T]):
    """The last answer, when it was asked for, and who has seen it."""

    monotonic: Callable[[], float]
    is_for_all: Callable[[T], bool] = lambda _: True
    _answer: tuple[T, float] | None = None
    # The same, also while another question is on its way, or after a write.
    _latest: tuple[T, float] | None = None
    _number: int = 0
    _writes: int = 0
    _seen: dict[Hashable, int] = field(default_factory=dict)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get(
        self,
        caller: Hashable,
        ask: Callable[[], Awaitable[T]],
        *,
        fresh: bool = False,
        max_age: float = SEEN_MAX_AGE_SECONDS,
        waits: bool = True,
    ) -> tuple[T, bool]:
        """An answer, and whether it was asked for by another reconcile; one question at a time.

        `max_age` is how old an answer may be that `caller` has seen already. Who does not wait gets the latest answer
        while another question is on its way.
        """
        if not fresh and not waits and self._asking.locked() and (latest := self.latest()) is not None:
            return latest, True
        async with self._asking:
            held = None if fresh else self._usable(caller, max_age)
            if held is None:
                return await self._ask(caller, ask), False
            self._seen[caller] = self._number
        return held

    def latest(self) -> T | None:
        """The latest answer, for whoever decides nothing by it and asks nobody; None where it is too old."""
        if self._latest is None:
            return None
        answer, asked_at = self._latest
        return answer if self.monotonic() - asked_at < IMPATIENT_MAX_AGE_SECONDS else None

    def expire(self) -> None:
        """Something was just written: what was answered before it serves nobody."""
        self._answer = None
        self._writes += 1

    def _usable(self, caller: Hashable, max_age: float) -> tuple[T, bool] | None:
        if self._answer is None:
            return None
        answer, asked_at = self._answer
        age = self.monotonic() - asked_at
        is_news = self._seen.get(caller) != self._number
        return (answer, True) if age < max_age or (is_news and age < MAX_AGE_SECONDS) else None

    async def _ask(self, caller: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        # From before the question: what happens while it is on its way may not be in the answer.
        began, number, writes = self.monotonic(), self._number + 1, self._writes
        before, self._answer = self._answer, None
        answer = await ask()
        if self.is_for_all(answer):
            before = self._latest = (answer, began)
            self._seen = {each: seen for each, seen in self._seen.items() if number - seen < MAX_REMEMBERED_LOOKS}
            self._seen[caller] = self._number = number
        self._answer = before if writes == self._writes else None
        return answer
