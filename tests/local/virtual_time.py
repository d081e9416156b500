"""An event loop whose hours pass at once, for tests of whole servers and controllers."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any


class VirtualSelector(selectors.DefaultSelector):
    """Never waits: where an event loop would sleep, the virtual time is moved on instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """What is ready now."""
        self.now += timeout or 0.0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self) -> None:
        self._virtual = VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds."""
        return self._virtual.now
