"""How often a status is written: at most once a second for each object.

In: the moment of a write, and which one comes too early. Out: a look at the resource when its time has come, so that
the last word is never lost. A thousand pods that come up one by one would otherwise be a thousand statuses. Used by
`reconcile/execute.py`; `reconcile/operator.py` says whom to call again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kube_runtime.loop.queue import Key

MIN_INTERVAL_SECONDS = 1.0
# How long it is remembered which version a status was written over.
REMEMBERED_SECONDS = 60.0

Again = Callable[[str, Key, float], None]


def _ignore(_: str, __: Key, ___: float) -> None:
    return None


@dataclass(slots=True)
class StatusPace:
    """Remembers when each status was last written."""

    monotonic: Callable[[], float]
    again: Again = _ignore
    _written: dict[tuple[str, Key], tuple[float, str]] = field(default_factory=dict)
    # Statuses that came too early, and from when on each may be written.
    _put_off: dict[tuple[str, Key], float] = field(default_factory=dict)

    def is_early(self, kind: str, key: Key) -> bool:
        """Whether a status must wait; its resource is then called again when it may be written."""
        wait = self._written.get((kind, key), (float("-inf"), ""))[0] + MIN_INTERVAL_SECONDS - self.monotonic()
        self._put_off.pop((kind, key), None)
        if wait <= 0:
            return False
        self._put_off[kind, key] = self.monotonic() + wait
        self.again(kind, key, wait)
        return True

    def is_due(self, kind: str, key: Key) -> bool:
        """Whether a status that came too early may be written by now: whoever does other work lets it come first."""
        return self._put_off.get((kind, key), float("inf")) <= self.monotonic()

    def is_overtaken(self, kind: str, key: Key, seen: str) -> bool:
        """Whether a status was written over this very version: whoever still sees it sees the past."""
        return self._written.get((kind, key), (0.0, ""))[1] == seen != ""

    def written(self, kind: str, key: Key, seen: str = "") -> None:
        """A status was written now, over the version that was seen."""
        now = self.monotonic()
        self._written = {each: then for each, then in self._written.items() if now - then[0] < REMEMBERED_SECONDS}
        self._written[kind, key] = (now, seen)
        self._put_off = {each: then for each, then in self._put_off.items() if now - then < REMEMBERED_SECONDS}
