"""When a key with nothing left to do is looked at again: seldom, and with many such keys, not many of them at once.

In: which keys of which controllers are at rest. Out: after how many seconds each is looked at, should nothing wake it.
A change comes through a watch, one in Slurm through a poll; these looks only find what neither told, so they get rarer
with each that found nothing. Up to 800 keys they are about two a second, however many keys there are; beyond that each
key has one in ten minutes. One `Rests` for all controllers of an operator, asked by `controller.py`.
"""

from __future__ import annotations

import random as _random
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

MAX_REST_SECONDS = 600.0
"""However long nothing has changed, an object at rest is looked at once in this time."""

SECONDS_PER_KEY = 0.75
"""Each key at rest adds this much to the time over which the next looks are spread: about two a second."""

JITTER = 0.6
"""Up to this share of that time is taken off at random, so that keys which came to rest together part."""

_MAX_DOUBLINGS = 16


@dataclass(slots=True)
class Rests:
    """The keys at rest, and how many looks in a row have found each of them so."""

    random: Callable[[], float] = _random.random
    _looks: dict[Hashable, int] = field(default_factory=dict)

    def next_look(self, key: Hashable, seconds: float) -> float:
        """In how many seconds to look at this key, which was just found at rest: never sooner than `seconds`."""
        looks = self._looks.get(key, 0)
        self._looks[key] = looks + 1
        later = max(seconds, min(seconds * 2.0 ** min(looks, _MAX_DOUBLINGS), MAX_REST_SECONDS))
        spread_seconds = min(SECONDS_PER_KEY * len(self._looks), MAX_REST_SECONDS)
        return later if spread_seconds <= later else max(later, spread_seconds * (1.0 - JITTER * self.random()))

    def end(self, key: Hashable) -> None:
        """This key has changed, or there is something to do for it."""
        self._looks.pop(key, None)
