"""When a key with nothing left to do is looked at again: seldom, and with many such keys, not many of them at once.

In: which keys of which controllers are at rest. Out: after how many seconds each is looked at, should nothing wake it.
A change always comes through a watch; these looks only find what no watch told, so they get rarer with each that found
nothing, and their rate does not grow with the number of keys. One `Rests` for all controllers of an operator, asked by
`controller.py`.
"""

from __future__ import annotations

import random as _random
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

MAX_REST_SECONDS = 600.0
"""However long nothing has changed, an object at rest is looked at once in this time."""

SECONDS_PER_KEY = 0.75
"""Times the number of keys at rest: the longest wait for the next look at one of them. About two looks a second."""

JITTER = 0.6
"""Up to this share of that wait is taken off at random, so that keys which came to rest together part."""

_MAX_DOUBLINGS = 16


@dataclass(slots=True)
class Rests:
    """The keys at rest, and how many looks in a row have found each of them so."""

    random: Callable[[], float] = _random.random
    _looks: dict[Hashable, int] = field(default_factory=dict)

    def next_look(self, key: Hashable, seconds: float) -> float:
        """In how many seconds to look at this key, which was just found at rest; `seconds` if it is the first time."""
        looks = self._looks.get(key, 0)
        self._looks[key] = looks + 1
        later = max(seconds, min(seconds * 2.0 ** min(looks, _MAX_DOUBLINGS), MAX_REST_SECONDS))
        share = min(SECONDS_PER_KEY * len(self._looks), MAX_REST_SECONDS)
        return later if share <= later else max(later, share * (1.0 - JITTER * self.random()))

    def end(self, key: Hashable) -> None:
        """This key has changed, or there is something to do for it."""
        self._looks.pop(key, None)
