"""What became of a cluster's live partition changes, remembered between turns.

In: what the Controller's turn did. Out: who was refused and why, and whose drift came back too often to be reverted
again. Kept in `reconcile/clusters.py`; a restart forgets it, which costs a few tries and no truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm_operator.plan.partition_fields import Line

# So many reverts of one partition within the window, and somebody else insists.
MOST_REVERTS = 5
WINDOW = 600.0
# A file takes up to 90 s to a pod that nobody nudges; what differs for that long may be the file's delay.
PATIENCE = 120.0


@dataclass(slots=True)
class PartitionNotes:
    """By partition."""

    # Why Slurm refused the last change.
    refused: dict[str, str] = field(default_factory=dict)
    # The jobs that are waited for before the partition goes.
    waits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    # Wanted options that a live change cannot set.
    unsettable: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # The line that Slurm was last told of live.
    told: dict[str, Line] = field(default_factory=dict)
    # What differs, and since when.
    _seen: dict[str, tuple[object, float]] = field(default_factory=dict)
    _reverts: dict[str, list[float]] = field(default_factory=dict)
    # The line that could not be held, and since when.
    _given_up: dict[str, tuple[str, float]] = field(default_factory=dict)

    def lasting(self, drift: Mapping[str, object], now: float) -> bool:
        """Whether all of this has been so for a while, and not only until a file arrives."""
        before = self._seen
        self._seen = {
            name: before[name] if name in before and before[name][0] == rows else (rows, now)
            for name, rows in drift.items()
        }
        return all(now - since >= PATIENCE for _, since in self._seen.values())

    def reverted(self, name: str, line: str, now: float) -> None:
        """A drift was reverted now."""
        times = [then for then in self._reverts.get(name, []) if now - then < WINDOW] + [now]
        self._reverts[name] = times
        if len(times) >= MOST_REVERTS:
            self._given_up[name] = (line, now)
            self._reverts.pop(name)

    def given_up(self, wanted: Mapping[str, str]) -> frozenset[str]:
        """The partitions whose drift is only reported from now on; another line is a new try."""
        self._given_up = {name: held for name, held in self._given_up.items() if wanted.get(name) == held[0]}
        return frozenset(self._given_up)

    def has_given_up(self, name: str) -> bool:
        """Whether the drift of a partition is no longer reverted."""
        return name in self._given_up

    def without_drift(self, names: Iterable[str], now: float) -> None:
        """These are as wanted; the next drift is a new one when the old one is long ago."""
        for name in names:
            if name in self._given_up and now - self._given_up[name][1] >= WINDOW:
                del self._given_up[name]
