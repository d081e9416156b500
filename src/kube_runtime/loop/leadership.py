"""Leadership by a Lease: at most one process may write at any instant.

`run` starts an `Elector`; both doors ask its `check` right before each write is sent. The store is a small protocol
over one Lease object with optimistic locking; `kube_runtime/client/` supplies the real one.

Why two processes never lead at once. A leader's right ends `renew_deadline` after it *sent* its last
successful write. A candidate takes over only `lease_seconds` after it *received* the record that it then
replaces, and only if that very version is still there. The candidate's wait begins after the leader's write
began, and lasts longer (15 s against 10 s), so the leader's right has ended before. All of it is measured on
local clocks that go on while a process is stopped or its machine suspended; the times in the record are for people, and
a wrong wall clock changes nothing. Timers tell of the end of a reign, but do not decide it: who wakes up too late is no
leader although none has fired. Time-outs after which a write may or may not have happened grant nothing: a right
follows from a confirmed write alone.

What no Lease can prevent: somebody deletes the object by hand, and a process that never saw it creates it
anew while the old leader (for up to one retry period) has not noticed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random as _random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from kube_runtime.clock import Clock, SystemClock, Timer, within
from kube_runtime.errors import Retryable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The contents of a Lease; `version` is its resourceVersion, `holder` is empty when nobody has it."""

    holder: str
    lease_seconds: int
    acquired: datetime | None
    renewed: datetime | None
    transitions: int
    version: str = ""


class LeaseStore(Protocol):
    """One Lease object. Every failure, also a lost race, is an exception; which one does not matter."""

    async def get(self) -> LeaseRecord | None:
        """The record as it is now, or None when there is no Lease."""
        ...

    async def create(self, record: LeaseRecord) -> LeaseRecord:
        """Make the Lease; fails when there is one."""
        ...

    async def update(self, record: LeaseRecord) -> LeaseRecord:
        """Replace the record; fails unless `record.version` is still the current one."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds: how long others wait, how long a leader trusts its last write, how often it writes."""

    lease: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_period < self.renew_deadline < self.lease:
            raise ValueError(
                "lease times must satisfy 0 < retry period < renew deadline < lease, "
                f"not {self.retry_period:g}, {self.renew_deadline:g}, {self.lease:g}"
            )


class NotLeader(Retryable):
    """This process may not write now."""

    reason = "NotLeader"


class Elector:
    """Tries to get and to keep the Lease; see the module's opening.

    `identity` must be unique to this process, not only to its pod: a restarted twin is somebody else.
    """

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        *,
        times: LeaseTimes | None = None,
        clock: Clock | None = None,
        random: Callable[[], float] = _random.random,
    ) -> None:
        if not identity:
            raise ValueError("an elector needs an identity: an empty holder means that nobody leads")
        self.identity = identity
        self._store = store
        self._times = times or LeaseTimes()
        self._clock: Clock = clock or SystemClock()
        self._random = random
        self._until = -math.inf
        self._held: LeaseRecord | None = None
        self._claimed = False
        self._seen: LeaseRecord | None = None
        self._seen_at = self._clock.monotonic()
        self._met_holder = False
        self._stopped = False
        self._gained = asyncio.Event()
        self._lost = asyncio.Event()
        self._deadline: Timer | None = None

    @property
    def is_leader(self) -> bool:
        """May this process write at this instant?"""
        return self._clock.monotonic() < self._until

    def time_left(self) -> float:
        """Seconds of leadership that are certain."""
        return max(0.0, self._until - self._clock.monotonic())

    def check(self) -> None:
        """Raise NotLeader unless this process may write: the fence in front of every write."""
        if not self.is_leader:
            raise NotLeader(f"{self.identity} does not hold the lease; another replica does the work")

    async def gained(self) -> None:
        """Wait until this process leads for the first time."""
        await self._gained.wait()

    async def lost(self) -> None:
        """Wait until this process has led and no longer does."""
        await self._lost.wait()

    async def run(self) -> None:
        """Acquire, renew, and acquire again, until `stop` or cancellation."""
        while not self._stopped:
            await self.attempt()
            await self._clock.sleep(self._pause())

    async def stop(self) -> None:
        """Give up leadership at once and then tell the others, so that they need not wait it out.

        Call this when nothing writes any more, and after the task of `run` has ended.
        """
        self._stopped = True
        self._step_down()
        if not self._claimed:
            return
        try:
            await within(self._clock, self._times.retry_period, self._release())
        except Exception as error:
            log.warning("the lease was not released (%r); others wait until it runs out", error)

    async def attempt(self) -> None:
        """One try to acquire or renew; failures are logged and leave the right as it was."""
        limit = self._times.renew_deadline / 2
        try:
            await within(self._clock, limit, self._try())
        except Exception as error:
            # Whether the write happened is unknown: read before writing again.
            self._held = None
            level = logging.WARNING if self.is_leader else logging.INFO
            log.log(level, "lease not obtained: %r", error)

    async def _try(self) -> None:
        if self._held is not None and self.is_leader:
            await self._write(replace(self._held, renewed=self._clock.now()), self._store.update)
            return
        current = await self._store.get()
        self._observe(current)
        if not self._mine(current):
            self._step_down()
            if not self._free(current):
                return
        claim = self._claim(current)
        await self._write(claim, self._store.update if current is not None else self._store.create)

    async def _write(
        self, record: LeaseRecord, write: Callable[[LeaseRecord], Coroutine[Any, Any, LeaseRecord]]
    ) -> None:
        sent = self._clock.monotonic()
        self._claimed = True
        self._held = await write(record)
        if not self._stopped:
            self._lead_until(sent + self._times.renew_deadline)

    def _observe(self, current: LeaseRecord | None) -> None:
        # Any new version counts, not only a new renewal time: a holder's wall clock may stand still.
        if current != self._seen:
            self._seen, self._seen_at = current, self._clock.monotonic()
        self._met_holder = self._met_holder or (current is not None and bool(current.holder))

    def _mine(self, current: LeaseRecord | None) -> bool:
        return current is not None and current.holder == self.identity and self._claimed

    def _free(self, current: LeaseRecord | None) -> bool:
        if current is None:
            # Somebody deleted the Lease under a holder that may not have noticed yet.
            patience = self._times.lease if self._met_holder else 0.0
        elif not current.holder:
            patience = 0.0
        else:
            patience = max(self._times.lease, float(current.lease_seconds))
        return self._clock.monotonic() - self._seen_at >= patience

    def _claim(self, current: LeaseRecord | None) -> LeaseRecord:
        now = self._clock.now()
        again = current is not None and current.holder == self.identity
        return LeaseRecord(
            holder=self.identity,
            lease_seconds=math.ceil(self._times.lease),
            acquired=current.acquired if again and current is not None else now,
            renewed=now,
            transitions=0 if current is None else current.transitions + (not again),
            version="" if current is None else current.version,
        )

    async def _release(self) -> None:
        current = await self._store.get()
        if current is not None and current.holder == self.identity:
            await self._store.update(replace(current, holder="", renewed=self._clock.now()))

    def _lead_until(self, until: float) -> None:
        if not self.is_leader:
            log.info("%s leads", self.identity)
        self._until = until
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._clock.call_later(until - self._clock.monotonic(), self._step_down)
        self._lost.clear()
        self._gained.set()

    def _step_down(self) -> None:
        led = self._until > -math.inf
        self._until = -math.inf
        self._held = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if led:
            log.warning("%s no longer leads", self.identity)
            self._gained.clear()
            self._lost.set()

    def _pause(self) -> float:
        period = self._times.retry_period
        # A candidate's pause is spread, so that many of them do not ask in step.
        return period if self.is_leader else period * (1 + 0.2 * self._random())
