"""How often a status is written: once a second for each object, but what somebody waits for comes sooner.

In: the moment of a write, and which one comes too early. Out: a look at the resource when its time has come, so that
the last word is never lost. A thousand pods that come up one by one would otherwise be a thousand statuses. Used by
`reconcile/execute.py`; `reconcile/operator.py` says whom to call again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_runtime.loop.queue import Key
from slurm_operator.status.conditions import DEGRADED, PROGRESSING

MIN_INTERVAL_SECONDS = 1.0
# A status that ends a wait comes so long after the one before.
END_INTERVAL_SECONDS = 0.25
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

    def is_early(self, kind: str, key: Key, is_end: Callable[[], bool] = lambda: False) -> bool:
        """Whether a status must wait; its resource is then called again when it may be written."""
        age = self.monotonic() - self._written.get((kind, key), (float("-inf"), ""))[0]
        self._put_off.pop((kind, key), None)
        if age >= MIN_INTERVAL_SECONDS:
            return False
        wait = (END_INTERVAL_SECONDS if is_end() else MIN_INTERVAL_SECONDS) - age
        if wait <= 0:
            return False
        self._put_off[kind, key] = self.monotonic() + wait
        self.again(kind, key, wait)
        return True

    def is_due(self, kind: str, key: Key, within_seconds: float = 0.0) -> bool:
        """Whether a status that came too early may be written by then: whoever does other work lets it come first."""
        return self._put_off.get((kind, key), float("inf")) <= self.monotonic() + within_seconds

    def is_overtaken(self, kind: str, key: Key, seen: str) -> bool:
        """Whether a status was written over this very version: whoever still sees it sees the past."""
        return self._written.get((kind, key), (0.0, ""))[1] == seen != ""

    def written(self, kind: str, key: Key, seen: str = "") -> None:
        """A status was written now, over the version that was seen."""
        now = self.monotonic()
        self._written = {each: then for each, then in self._written.items() if now - then[0] < REMEMBERED_SECONDS}
        self._written[kind, key] = (now, seen)
        self._put_off = {each: then for each, then in self._put_off.items() if now - then < REMEMBERED_SECONDS}


def ends_a_wait(desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether a status says what somebody may wait for: a condition turns True, or as many are ready as are wanted."""
    now, before = desired["status"], _mapping(live.get("status"))
    if not _true_conditions(now) <= _true_conditions(before):
        return True
    wanted, ready = _mapping(live.get("spec")).get("replicas"), now.get("readyReplicas")
    return ready is not None and ready == wanted != before.get("readyReplicas")


def _true_conditions(status: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The types, each with the generation that it is true of: a wait for another one is not over."""
    some = (_mapping(each) for each in status.get("conditions") or ())
    found = (each for each in some if each.get("status") == "True" and each.get("type") not in (PROGRESSING, DEGRADED))
    return {(str(each.get("type")), str(each.get("observedGeneration"))) for each in found}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
