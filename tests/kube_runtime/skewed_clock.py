"""The clock of another machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from kube_runtime.clock import Clock, Timer


class SkewedClock:
    """Another machine's view of `true`: its wall clock is off, and its monotonic clock began elsewhere."""

    def __init__(self, true: Clock, wall_offset: float, monotonic_offset: float = 0.0) -> None:
        self._true = true
        self._wall_offset = timedelta(seconds=wall_offset)
        self._monotonic_offset = monotonic_offset

    def monotonic(self) -> float:
        return self._true.monotonic() + self._monotonic_offset

    def now(self) -> datetime:
        return self._true.now() + self._wall_offset

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        return self._true.call_later(seconds, call)

    async def sleep(self, seconds: float) -> None:
        await self._true.sleep(seconds)
