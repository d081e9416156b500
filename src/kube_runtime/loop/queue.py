"""The keyed queue: many changes of one name become one entry, and one name is never worked on twice at once.

Sources and controllers put keys in (`add`, `add_after`, `retry`); workers take them out (`get`, or `take`
when single-stepped) and hand them back with `done`. A key that is added while it is worked on comes again
after `done`. Keys leave in the order in which they first became dirty, so no busy key can starve another.

Keys belong to groups (the clusters), among which the places are shared: a group always gets one place, and more only
while it has fewer than its share and places are left. So no group, however slow or busy, keeps another one waiting.

A failing key waits for its backoff. A change during that wait is taken sooner, but not at once: a reconcile
that fails and causes an event each time would otherwise run as fast as the machine allows.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import random as _random
import sys
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from kube_runtime.backoff import Backoff
from kube_runtime.clock import Clock, Timer

# A change of a failing key is taken after this time, or after its backoff if that is shorter.
HURRY_SECONDS = 0.2


class Key(NamedTuple):
    """The name of an object; `namespace` is empty for cluster-wide ones."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


K = TypeVar("K", bound=Hashable)
# A group in a heap: the order of its oldest ready key, a number that no other entry has, and the group.
_Head: TypeAlias = tuple[int, int, Hashable]


class ShutDownError(Exception):
    """The queue gives out no more keys."""


@dataclass(frozen=True, slots=True)
class Places:
    """How many keys are worked on at once: `per_group` of one group, `shared` of all beyond each group's first."""

    per_group: int = sys.maxsize
    shared: int = sys.maxsize


class Queue(Generic[K]):
    """See the module's opening. Not for threads: everything happens on one event loop."""

    def __init__(
        self,
        clock: Clock,
        *,
        backoff: Backoff | None = None,
        random: Callable[[], float] = _random.random,
        group_of: Callable[[K], Hashable] = lambda _: None,
        places: Places | None = None,
    ) -> None:
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._group_of = group_of
        self._places = places or Places()
        self._random = random
        self._order = itertools.count()
        self._dirty: dict[K, int] = {}
        # By group, each a heap; a group without ready keys has none.
        self._ready: dict[Hashable, list[tuple[int, K]]] = {}
        # Heaps of groups by their oldest key: those that have no place yet, and those that may have another. An entry
        # that is no longer true of its group means nothing, so that no change has to look at all groups.
        self._without_place: list[_Head] = []
        self._with_places: list[_Head] = []
        self._processing: dict[K, Hashable] = {}
        self._busy: Counter[Hashable] = Counter()
        self._failures: dict[K, int] = {}
        # A retry and a wish to be called again are kept apart: success takes back the first, not the second.
        self._retry_due: dict[K, float] = {}
        self._wish_due: dict[K, float] = {}
        self._delays: list[tuple[float, int, K]] = []
        self._timer: Timer | None = None
        self._timer_due = math.inf
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.adds = 0
        self.retries = 0
        # Called with the seconds that a key has waited, when a worker takes it.
        self.on_wait: Callable[[float], object] | None = None
        self._since: dict[K, float] = {}

    def __len__(self) -> int:
        """How many keys are ready, whether or not their group has a place for them now."""
        return sum(map(len, self._ready.values()))

    @property
    def waiting(self) -> frozenset[K]:
        """Keys that have changed since work on them last began."""
        return frozenset(self._dirty)

    def is_waiting(self, key: K) -> bool:
        """Whether this key has changed since work on it last began."""
        return key in self._dirty

    @property
    def processing(self) -> frozenset[K]:
        return frozenset(self._processing)

    @property
    def failing(self) -> frozenset[K]:
        """Keys whose last try failed and that will be tried again by themselves."""
        return frozenset(self._retry_due)

    @property
    def closed(self) -> bool:
        return self._closed

    def next_due(self) -> float | None:
        """When the next delayed key becomes ready (by the clock's monotonic time)."""
        return min((*self._retry_due.values(), *self._wish_due.values()), default=None)

    def add(self, key: K) -> None:
        """This key has changed."""
        if self._closed:
            return
        self.adds += 1
        failures = self._failures.get(key)
        if failures is None:
            self._mark(key)
        else:
            self._wish(key, min(HURRY_SECONDS, self._backoff.delay(failures, 0.0)))

    def add_after(self, key: K, seconds: float) -> None:
        """Look at this key again in `seconds`; of several such wishes the earliest counts."""
        if seconds <= 0:
            self.add(key)
        elif not self._closed:
            self.adds += 1
            self._wish(key, seconds)

    def retry(self, key: K, min_delay: float = 0.0) -> float:
        """The work on this key failed: it comes again after its backoff, whose length is returned.

        `min_delay` is what a server asked for (Retry-After); it counts up to the backoff's limit.
        """
        failures = self._failures.get(key, 0) + 1
        delay = max(self._backoff.delay(failures, self._random()), min(min_delay, self._backoff.limit))
        if not self._closed:
            self._failures[key] = failures
            self.retries += 1
            self._retry_due[key] = self._clock.monotonic() + delay
            self._delay(key, self._retry_due[key])
        return delay

    def give_up(self, key: K) -> None:
        """The work on this key failed and only a change can help: no retry, but its backoff is remembered."""
        self._failures[key] = self._failures.get(key, 0) + 1
        self._retry_due.pop(key, None)

    def forget(self, key: K) -> None:
        """The work on this key succeeded: its backoff starts afresh."""
        self._failures.pop(key, None)
        self._retry_due.pop(key, None)

    def take(self) -> K | None:
        """The next key, which is from now on worked on; None when there is none."""
        head = None if self._closed else self._oldest_with_place()
        if head is None:
            return None
        group = head[2]
        _, key = heapq.heappop(self._ready[group])
        if not self._ready[group]:
            del self._ready[group]
        del self._dirty[key]
        waited = self._clock.monotonic() - self._since.pop(key)
        if self.on_wait is not None:
            self.on_wait(waited)
        self._processing[key] = group
        self._busy[group] += 1
        self._offer(group)
        return key

    def _oldest_with_place(self) -> _Head | None:
        """The group with the oldest ready key, of those that have a place for it."""
        heads = [self._oldest(self._without_place, is_first=True)]
        if self._places.shared > len(self._processing) - len(self._busy):
            heads.append(self._oldest(self._with_places, is_first=False))
        return min((head for head in heads if head is not None), default=None)

    def _oldest(self, heads: list[_Head], *, is_first: bool) -> _Head | None:
        """The first entry that is still true."""
        while heads:
            order, _, group = heads[0]
            ready, busy = self._ready.get(group), self._busy.get(group, 0)
            has_place = busy == 0 if is_first else 0 < busy < self._places.per_group
            if ready and ready[0][0] == order and has_place:
                return heads[0]
            heapq.heappop(heads)
        return None

    def _offer(self, group: Hashable) -> None:
        """The oldest key of a group, or how many places it has, is another one now."""
        busy = self._busy.get(group, 0)
        if group in self._ready and busy < self._places.per_group:
            heads = self._with_places if busy else self._without_place
            heapq.heappush(heads, (self._ready[group][0][0], next(self._order), group))

    async def get(self) -> K:
        """Wait for the next key; ShutDownError once the queue is shut down."""
        while not self._closed:
            key = self.take()
            if key is not None:
                return key
            await self._wait()
        raise ShutDownError

    def done(self, key: K) -> None:
        """The work on this key is over, however it ended."""
        if key in self._processing:
            self._leave(self._processing.pop(key))
        if key in self._dirty:
            self._push(key)
        elif self._ready:
            # A place has become free.
            self._wake_one()

    def _leave(self, group: Hashable) -> None:
        self._busy[group] -= 1
        if not self._busy[group]:
            del self._busy[group]
        self._offer(group)

    def shut_down(self) -> None:
        """Give out nothing more; who waits in `get` is told. Keys being worked on may still be done."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _mark(self, key: K) -> None:
        if key in self._dirty:
            return
        self._dirty[key] = next(self._order)
        self._since[key] = self._clock.monotonic()
        if key not in self._processing:
            self._push(key)

    def _push(self, key: K) -> None:
        group = self._group_of(key)
        ready = self._ready.setdefault(group, [])
        heapq.heappush(ready, (self._dirty[key], key))
        if ready[0][1] == key:
            self._offer(group)
        self._wake_one()

    def _wish(self, key: K, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        if due < self._wish_due.get(key, math.inf):
            self._wish_due[key] = due
            self._delay(key, due)

    def _delay(self, key: K, due: float) -> None:
        heapq.heappush(self._delays, (due, next(self._order), key))
        self._set_timer()

    def _set_timer(self) -> None:
        due = self._delays[0][0] if self._delays else math.inf
        if due == self._timer_due:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_due = due
        if due < math.inf:
            self._timer = self._clock.call_later(due - self._clock.monotonic(), self._release_due)

    def _release_due(self) -> None:
        # What the timer was set for is due, even if the clock's rounding says it is a hair too early.
        now = max(self._clock.monotonic(), self._timer_due)
        while self._delays and self._delays[0][0] <= now:
            due, _, key = heapq.heappop(self._delays)
            # Entries that a later or earlier wish replaced are still in the heap; they mean nothing.
            if self._drop_if(self._wish_due, key, due) | self._drop_if(self._retry_due, key, due):
                self._mark(key)
        self._timer_due = math.inf
        self._set_timer()

    @staticmethod
    def _drop_if(dues: dict[K, float], key: K, due: float) -> bool:
        if dues.get(key) != due:
            return False
        del dues[key]
        return True

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # Woken and cancelled at once: the key that it was woken for needs another worker.
            if self._ready and waiter.done() and not waiter.cancelled():
                self._wake_one()
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
