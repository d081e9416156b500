"""What the reconcile of each Controller left for the reconciles of its Partitions.

In: the outcomes of one cluster, frozen, left as a whole by `reconcile/controller.py`. Out: the outcome of one
Partition, for `reconcile/partition.py`. An outcome that changed wakes its Partition; one that is missing wakes the
Controller, so that a restart costs one reconcile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kube_runtime.loop.queue import Key
from slurm_operator.api.controller import Controller
from slurm_operator.plan.partition_outcome import PartitionOutcome
from slurm_operator.status.conditions import Statement


@dataclass(frozen=True, slots=True)
class ClusterOutcome:
    """What one reconcile of a Controller left."""

    # By the name of the Partition.
    partitions: Mapping[str, PartitionOutcome] = field(default_factory=dict)
    # Why nothing was decided, as a Partition says it; empty where something was.
    failure: Sequence[Statement] = ()


def _nobody(_: Key) -> None:
    return None


@dataclass(slots=True)
class PartitionOutcomes:
    """The last outcome of each cluster; it is replaced as a whole, and never changed."""

    wake_partition: Callable[[Key], None] = _nobody
    wake_controller: Callable[[Key], None] = _nobody
    # By the uid of a Controller, since a namesake is another one: its last outcome, and when it was left.
    _left: dict[str, tuple[ClusterOutcome, float]] = field(default_factory=dict)

    def leave(self, controller: Controller, outcome: ClusterOutcome, names: Sequence[str], now: float) -> None:
        """Replace what is known of a cluster, and wake those of its Partitions that have something new to say."""
        before, _ = self._left.get(controller.metadata.uid, (ClusterOutcome(), 0.0))
        self._left[controller.metadata.uid] = (outcome, now)
        for name in names:
            is_same = before.partitions.get(name) == outcome.partitions.get(name)
            if not is_same or before.failure != outcome.failure:
                self.wake_partition(Key(controller.namespace, name))

    def find(self, controller: Controller, now: float, at_most_seconds: float) -> ClusterOutcome | None:
        """What was left last, unless it is too old to be true."""
        outcome, left_at = self._left.get(controller.metadata.uid, (None, 0.0))
        return outcome if outcome is not None and now - left_at <= at_most_seconds else None

    def forget(self, uid: str) -> None:
        """Drop what was left of a Controller that has gone."""
        self._left.pop(uid, None)
