"""How long to wait after a failure, for whoever tries again: the queue, the client, its caches, a node agent.

In: how often it failed, and a number in [0, 1). Out: seconds. Pure, except that `RetryWaits` counts.
"""

from __future__ import annotations

import math
import random as _random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double from `first` seconds up to `limit`, spread upwards by `jitter`."""

    first: float = 0.005
    limit: float = 300.0
    jitter: float = 0.2

    def delay(self, failures: int, draw: float) -> float:
        """Seconds before try number `failures` + 1; `draw` is in [0, 1)."""
        ceiling = self.limit / (1 + self.jitter)
        doublings = min(failures - 1, math.ceil(math.log2(max(1.0, ceiling / self.first))))
        base = min(self.first * 2.0**doublings, ceiling)
        return min(self.limit, base * (1 + self.jitter * draw))


@dataclass(slots=True)
class RetryWaits:
    """The failures of one piece of work, and the wait after each."""

    backoff: Backoff
    random: Callable[[], float] = _random.random
    failures: int = 0

    def next(self) -> float:
        """How long to wait after one more failure."""
        self.failures += 1
        return self.backoff.delay(self.failures, self.random())

    def reset(self) -> None:
        """Forget the failures: the next one waits shortly again."""
        self.failures = 0
