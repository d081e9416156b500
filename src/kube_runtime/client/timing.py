"""Time and chance, handed to every part of this package that waits.

The program passes `Timing()`; tests and campaigns pass a clock of their own and see waits without waiting.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from kube_runtime.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True)
class Timing:
    """A clock, and a number in [0, 1)."""

    clock: Clock = field(default_factory=SystemClock)
    random: Callable[[], float] = random.random
