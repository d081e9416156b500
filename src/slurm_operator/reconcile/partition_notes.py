"""What became of a cluster's live partition changes, remembered between turns.

In: what the Controller's turn did on a complete answer of Slurm; without one nothing is noted. Out: who was refused
and why, and whose drift came back too often to be reverted again. Kept in `reconcile/clusters.py`; a restart forgets
it, which costs a few tries and no truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm_operator.plan.partition_fields import Line

# So many reverts of one partition within the window, and somebody else insists.
MOST_REVERTS = 5
WINDOW_SECONDS = 600.0
# A file takes up to 90 s to a pod that nobody nudges; what differs for that long may be the file's delay.
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that was not made."""

    why: str
    # The line that was wanted then; None where none was.
    line: Line | None = None
    # Whether Slurm itself said no, and did not merely give no answer.
    is_answer: bool = True


@dataclass(slots=True)
class PartitionNotes:
    """By partition."""

    # What became of the last change, where it was not made.
    refused: dict[str, Refusal] = field(default_factory=dict)
    # Wanted options that a live change cannot set.
    unsettable: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # The line that Slurm was last told of live.
    told: dict[str, Line] = field(default_factory=dict)
    # What differs, and since when.
    _seen: dict[str, tuple[object, float]] = field(default_factory=dict)
    # When Slurm accepted a revert, by partition and line.
    _reverts: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    # The line that could not be held, and since when.
    _given_up: dict[str, tuple[str, float]] = field(default_factory=dict)

    def still_refused(self, wanted: Mapping[str, Line]) -> dict[str, str]:
        """Why Slurm refused lines that are still wanted; another line is a new try."""
        return {
            name: each.why for name, each in self.refused.items() if each.is_answer and wanted.get(name) == each.line
        }

    def lasting(self, drift: Mapping[str, object], now: float) -> frozenset[str]:
        """The partitions whose drift has been the same for a while, and not only until a file arrives."""
        before = self._seen
        self._seen = {
            name: before[name] if name in before and before[name][0] == rows else (rows, now)
            for name, rows in drift.items()
        }
        return frozenset(name for name, (_, since) in self._seen.items() if now - since >= PATIENCE_SECONDS)

    def reverted(self, name: str, line: str, now: float) -> None:
        """Slurm accepted the revert of a drift now."""
        times = [then for then in self._reverts.get((name, line), []) if now - then < WINDOW_SECONDS] + [now]
        self._reverts[name, line] = times
        if len(times) >= MOST_REVERTS:
            self._given_up[name] = (line, now)
            self._reverts.pop((name, line))

    def given_up(self, wanted: Mapping[str, str]) -> frozenset[str]:
        """Those of the lines to hold whose drift is only reported from now on; another line is a new try."""
        self._reverts = {key: times for key, times in self._reverts.items() if wanted.get(key[0]) == key[1]}
        self._given_up = {name: held for name, held in self._given_up.items() if wanted.get(name) == held[0]}
        return frozenset(self._given_up)

    def has_given_up(self, name: str) -> bool:
        """Whether the drift of a partition is no longer reverted."""
        return name in self._given_up

    def without_drift(self, names: Iterable[str], now: float) -> None:
        """These are as wanted; the next drift is a new one when the old one is long ago."""
        for name in names:
            if name in self._given_up and now - self._given_up[name][1] >= WINDOW_SECONDS:
                del self._given_up[name]
