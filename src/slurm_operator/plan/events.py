"""The events of a NodeSet's reconcile, with the reasons that the Go operator has for the same.

In: the world, and the deletions of a plan. Out: events. Each belongs to a change that happens once, so a world at rest
has none. Pure; used by `plan/nodeset.py`, which records the creation of workers itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kube_runtime.text import first_few
from slurm_operator.api.plural import counted
from slurm_operator.plan.actions import Action, Delete, DeleteNodes, RecordEvent
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.plan.workers import SCALE_IN, UPDATE

CHOSEN = {SCALE_IN: ("ScalingDown", "removing"), UPDATE: ("RollingUpdate", "replacing")}


def events(world: NodeSetWorld, unregistered: Iterable[Action], leftovers: Iterable[Action]) -> Iterator[RecordEvent]:
    """The events of one reconcile."""
    yield from _chosen(world)
    lost = [each.name for each in unregistered if isinstance(each, Delete)]
    if lost:
        message = f"deleting {_named('worker', lost)}: ready, but Slurm has no record of the node"
        yield RecordEvent("SlurmNodeNotRegistered", message, warning=True)
    pruned = [name for each in leftovers if isinstance(each, DeleteNodes) for name in each.nodes]
    if pruned:
        yield RecordEvent(
            "DefunctSlurmNodePruned", f"deleting {_named('node record', pruned)} of workers that are gone"
        )


def _chosen(world: NodeSetWorld) -> Iterator[RecordEvent]:
    """Workers that are chosen for removal now: this reconcile writes the choice onto their pods."""
    new = (why for worker, why in world.choice.leaving.values() if worker.condemned != why)
    for why, count in sorted(Counter(new).items()):
        if why in CHOSEN:
            reason, doing = CHOSEN[why]
            yield RecordEvent(reason, f"{doing} {counted(count, 'worker')}, each when Slurm has drained its node")


def _named(what: str, names: list[str]) -> str:
    return f"{counted(len(names), what)} ({first_few(sorted(names))})"
