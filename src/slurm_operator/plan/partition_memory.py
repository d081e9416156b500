"""What the reconciles of a Controller learn of its partitions: refusals, reverts, and since when something drifts.

In: a plan on a complete answer of Slurm, and its outcomes; without an answer nothing is learned. Out: a new
`PartitionMemory`. Frozen: each reconcile derives its own from the previous one. A restart of the operator forgets it,
which costs a few retries and nothing else. Called by `plan/cluster.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slurm_operator.plan.actions import Outcomes, PartitionAction, Plan, Refused, SetPartition, partitions_of
from slurm_operator.plan.partition_fields import Line

# So many reverts of one partition within the window, and somebody else insists.
MAX_REVERTS = 5
WINDOW_SECONDS = 600.0
# A file takes up to 90 s to a pod that nobody nudges; what differs for that long may be the file's delay.
PATIENCE_SECONDS = 120.0
# The same change that Slurm refused is sent again after a second, and then half as often each time, down to this.
FIRST_REST_SECONDS = 1.0
MAX_REST_SECONDS = 16.0
# A revert that Slurm accepted and that is not seen yet is not sent again sooner.
REVERT_PACE_SECONDS = 4.5


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that was not made."""

    why: str
    # The line that was wanted then; None where none was.
    line: Line | None = None
    # Whether Slurm itself said no, and did not merely give no answer.
    is_answer: bool = True
    # The change, until when it is not sent again, and for how long that was.
    action: PartitionAction | None = None
    until: float = float("-inf")
    rest_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PartitionMemory:
    """By partition."""

    # What became of the last change, where it was not made.
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    # Wanted options that a live change cannot set.
    unsettable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The line that was last sent to Slurm live.
    sent: Mapping[str, Line] = field(default_factory=dict)
    # What differs, and since when.
    drifting: Mapping[str, tuple[object, float]] = field(default_factory=dict)
    # When Slurm accepted a revert, by partition and line.
    reverts: Mapping[tuple[str, str], tuple[float, ...]] = field(default_factory=dict)
    # The line that could not be held, and since when.
    given_up: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    def has_times(self, now: float) -> bool:
        """Whether something of it ends at some time by itself."""
        return bool(self.refused or self.drifting or self.given_up or self.just_reverted(now))

    def still_refused(self, wanted: Mapping[str, Line]) -> dict[str, str]:
        """Why Slurm refused lines that are still wanted; another line is a new try."""
        return {
            name: each.why for name, each in self.refused.items() if each.is_answer and wanted.get(name) == each.line
        }

    def rest(self, action: PartitionAction, now: float) -> Refused | None:
        """What Slurm said to this very change, while it is too early to send it again."""
        held = [self.refused.get(name) for name in partitions_of(action)]
        if not all(each is not None and each.action == action and now < each.until for each in held):
            return None
        return next((Refused(action, each.why) for each in held if each is not None), None)

    def after_refusal(self, name: str, refused: Refused, line: Line | None, now: float) -> Refusal:
        """What is remembered of a change that was not made; one that rests is remembered as it was."""
        before = self.refused.get(name)
        is_same = before is not None and before.action == refused.action
        if before is not None and is_same and now < before.until:
            return before
        if not refused.is_answer:
            return Refusal(refused.why, line, is_answer=False)
        longer = 2 * before.rest_seconds if before is not None and is_same else 0.0
        rest = min(max(longer, FIRST_REST_SECONDS), MAX_REST_SECONDS)
        return Refusal(refused.why, line, action=refused.action, until=now + rest, rest_seconds=rest)

    def holding(self, wanted: Mapping[str, str]) -> PartitionMemory:
        """Without what is known of other lines than those to hold: another line is a new try."""
        return replace(
            self,
            reverts={key: times for key, times in self.reverts.items() if wanted.get(key[0]) == key[1]},
            given_up={name: held for name, held in self.given_up.items() if wanted.get(name) == held[0]},
        )

    def seeing(self, drift: Mapping[str, object], now: float) -> PartitionMemory:
        """With what differs now; what is as it was keeps its time."""
        before = self.drifting
        return replace(
            self,
            drifting={
                name: before[name] if name in before and before[name][0] == rows else (rows, now)
                for name, rows in drift.items()
            },
        )

    def lasting(self, now: float) -> frozenset[str]:
        """The partitions whose drift has been the same for a while, and not only until a file arrives."""
        return frozenset(name for name, (_, since) in self.drifting.items() if now - since >= PATIENCE_SECONDS)

    def just_reverted(self, now: float) -> frozenset[str]:
        """The partitions whose last revert may not be seen yet."""
        return frozenset(name for (name, _), times in self.reverts.items() if now - times[-1] < REVERT_PACE_SECONDS)

    def reverted(self, lines: Mapping[str, str], now: float) -> PartitionMemory:
        """Slurm accepted the revert of a drift of these partitions, by the line that they are to have, now."""
        reverts, given_up = dict(self.reverts), dict(self.given_up)
        for key in lines.items():
            times = (*(then for then in reverts.get(key, ()) if now - then < WINDOW_SECONDS), now)
            if len(times) < MAX_REVERTS:
                reverts[key] = times
            else:
                reverts.pop(key, None)
                given_up[key[0]] = (key[1], now)
        return replace(self, reverts=reverts, given_up=given_up)

    def without_drift(self, names: frozenset[str], now: float) -> PartitionMemory:
        """These are as wanted; the next drift is a new one when the old one is long ago."""
        return replace(
            self,
            given_up={
                name: held
                for name, held in self.given_up.items()
                if name not in names or now - held[1] < WINDOW_SECONDS
            },
        )


@dataclass(frozen=True, slots=True)
class PartitionLines:
    """The lines of one reconcile: as the file declares them, and with the hosts that only a live change names."""

    declared: Mapping[str, Line]
    edited: Mapping[str, Line]


def learned(
    memory: PartitionMemory, lines: PartitionLines, plan: Plan, outcomes: Outcomes, now: float
) -> PartitionMemory:
    """What is known after a plan was carried out; accepted is enough, since whoever insists may be faster."""
    refused = {
        name: memory.after_refusal(name, each, lines.declared.get(name), now)
        for name, each in outcomes.by_partition.items()
    }
    sent = {name: line for name, line in memory.sent.items() if name in lines.edited}
    for action in plan.actions:
        name = action.change.name if isinstance(action, SetPartition) else ""
        if name in lines.edited and name not in refused:
            sent[name] = lines.edited[name]
    after = replace(memory, refused=refused, unsettable=plan.partitions.unsettable, sent=sent)
    accepted = {name for each in plan.actions for name in partitions_of(each)} - refused.keys()
    after = after.reverted({name: lines.edited[name].text for name in plan.partitions.reverts & accepted}, now)
    return after.without_drift(frozenset(lines.edited.keys() - plan.partitions.drift.keys()), now)
