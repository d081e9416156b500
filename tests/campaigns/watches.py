"""What R3 and R4 do to an operator's caches: events come late, or are overtaken by the next one and never come.

R3 (stale): everything of one kind is shown some seconds late, for the whole life; reconciles act on the past.
R4 (unobserved): one event is not shown before another event of the same object has overtaken it, and is then left out;
or the watch of a kind breaks at every event and expires, so that whatever happened meanwhile is seen as one list.

Each asks `world.disturbance` whether this is its point; the cases are in `leaders.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.campaigns.led_world import LEASES, LedWorld
from tests.campaigns.processes import FairWeather, Process, plural_of
from tests.campaigns.weather import cached_plurals, rows_of

from kube_local.apiserver.store import Change
from kube_runtime.client.requests import Request

# Shorter and longer than what a cache waits for a write of its own to be shown (10 s).
LAGS_SECONDS = (1, 8, 25)
# Whatever is overtaken is so within this time; an event that nothing overtakes is merely late.
HIDDEN_SECONDS = 30.0
GAP_SECONDS = 5.0
EXPIRED_SECONDS = 120.0
STEP_SECONDS = 0.25
EXPIRED = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}


def _is_watch_of(plural: str, request: Request) -> bool:
    # The log of a pod is a stream too.
    return plural_of(request) == plural and ("watch", "true") in request.query


class Late(FairWeather):
    """The watch of one kind shows every event so many seconds after it happened; the point is `pods-8`."""

    def __init__(self, world: LedWorld) -> None:
        super().__init__(world)
        self.plural, self.lag_seconds = "", 0
        self.happened: dict[int, float] = {}
        world.server.store.listen(self._note)

    def _note(self, change: Change) -> None:
        self.happened[change.revision] = self.world.clock.monotonic()

    def armed(self) -> None:
        for plural in cached_plurals(self.world):
            for lag in LAGS_SECONDS:
                if not self.plural and self.world.disturbance.strikes("R3", f"{plural}-{lag}"):
                    self.plural, self.lag_seconds = plural, lag
                    self.world.disturbed.append(f"the watch of {plural} is {lag} s late")

    async def chunk(self, process: Process, request: Request, chunk: bytes) -> bytes:
        if self.plural and _is_watch_of(self.plural, request):
            newest = max(event.revision for event in _events(chunk))
            now = self.world.clock.monotonic()
            await process.clock.sleep(self.happened.get(newest, now) + self.lag_seconds - now)
        return chunk


@dataclass(frozen=True)
class _Event:
    """One line of a watch."""

    line: bytes
    type: str
    metadata: dict[str, Any]

    @property
    def revision(self) -> int:
        return int(self.metadata["resourceVersion"])

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", ""))


def _events(chunk: bytes) -> Iterator[_Event]:
    for line in chunk.splitlines():
        event = json.loads(line)
        yield _Event(line, event["type"], event["object"]["metadata"])


class Unobserved(FairWeather):
    """One event is never shown: the watch waits until another one of that object is there; the point is its number."""

    def __init__(self, world: LedWorld) -> None:
        super().__init__(world)
        self.seen = 0
        # The event that nobody sees, and until when it is waited for what overtakes it.
        self.hidden_revision, self.hidden_until = 0, 0.0

    async def chunk(self, process: Process, request: Request, chunk: bytes) -> bytes:
        plural = plural_of(request)
        if not self.world.armed or plural == LEASES.partition(".")[0] or not _is_watch_of(plural, request):
            return chunk
        kept = [event for event in _events(chunk) if not await self._hides(process, plural, event)]
        return b"".join(event.line + b"\n" for event in kept)

    async def _hides(self, process: Process, plural: str, event: _Event) -> bool:
        if event.type == "BOOKMARK" or not (event.revision == self.hidden_revision or self._is_point(plural, event)):
            return False
        while not self._is_overtaken(plural, event):
            if self.world.clock.monotonic() >= self.hidden_until:
                return False
            await process.clock.sleep(STEP_SECONDS)
        return True

    def _is_point(self, plural: str, event: _Event) -> bool:
        if self.hidden_revision:
            return False
        self.seen += 1
        if not self.world.disturbance.strikes("R4", f"{self.seen - 1:03}"):
            return False
        self.hidden_revision = event.revision
        self.hidden_until = self.world.clock.monotonic() + HIDDEN_SECONDS
        self.world.disturbed.append(f"{event.type} of {plural} {event.name} is not seen")
        return True

    def _is_overtaken(self, plural: str, event: _Event) -> bool:
        now = [row for row in rows_of(self.world, plural) if row.name == event.name]
        return bool(now) == (event.type == "DELETED") or any(row.revision > event.revision for row in now)


class Expired(FairWeather):
    """For two minutes each event of a kind breaks its watch, which has then expired; the point is its kind."""

    def __init__(self, world: LedWorld) -> None:
        super().__init__(world)
        self.plural, self.until = "", 0.0

    def armed(self) -> None:
        for plural in cached_plurals(self.world):
            if not self.plural and self.world.disturbance.strikes("R4", plural):
                self.plural, self.until = plural, self.world.clock.monotonic() + EXPIRED_SECONDS
                self.world.disturbed.append(f"each event of {plural} expires its watch")

    async def chunk(self, process: Process, request: Request, chunk: bytes) -> bytes:
        if not _is_watch_of(self.plural, request) or self.world.clock.monotonic() >= self.until:
            return chunk
        await process.clock.sleep(GAP_SECONDS)
        return json.dumps({"type": "ERROR", "object": EXPIRED}).encode() + b"\n"
