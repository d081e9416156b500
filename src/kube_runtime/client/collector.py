"""Keeps Python's cyclic garbage collector out of a long list.

Decoding 10,000 objects makes the collector walk everything again and again, which is most of the cost. The caches of
one process share a `Collector`: it stops collecting while the first list of any of them runs, then moves what was read
out of the collector's sight.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Collector:
    """Counts who needs quiet; `gc`'s functions can be replaced in tests."""

    enable: Callable[[], None] = gc.enable
    disable: Callable[[], None] = gc.disable
    is_enabled: Callable[[], bool] = gc.isenabled
    freeze: Callable[[], None] = gc.freeze
    _holders: int = 0
    _was_enabled: bool = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No collection until the last one that asked for quiet is done; then what is there is frozen."""
        if self._holders == 0:
            self._was_enabled = self.is_enabled()
            self.disable()
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                self.freeze()
                if self._was_enabled:
                    self.enable()


PROCESS = Collector()
