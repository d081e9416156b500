"""Clock, sleep and randomness, handed to every part of this package that waits.

The program passes `Timing()`; tests and campaigns pass their own functions and see waits without waiting.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Timing:
    """What the outside world gives: two clocks, a way to wait, and a number in [0, 1)."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random


@dataclass(slots=True)
class Backoff:
    """Growing waits with jitter: each is between half and all of the current step, which doubles up to `most`."""

    timing: Timing = field(default_factory=Timing)
    first: float = 0.1
    most: float = 30.0
    failures: int = 0

    def next(self) -> float:
        """How long to wait after one more failure."""
        # The exponent is capped so that a week of failures does not overflow a float.
        step = min(self.most, self.first * 2.0 ** min(self.failures, 32))
        self.failures += 1
        return step * (0.5 + self.timing.random() / 2)

    def reset(self) -> None:
        """Forget the failures: the next one waits shortly again."""
        self.failures = 0
