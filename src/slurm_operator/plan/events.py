"""What a NodeSet's reconcile tells people as events, under the reasons that the Go operator has for the same.

In: the world, and the actions of a plan that are told of. Out: events. Each goes with a change that happens once, so a
quiet world has none. Pure; used by `plan/nodeset.py`. That workers are created is told where that is planned.
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
    """What is told of one reconcile."""
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
    """Workers that were chosen to go just now: the choice is written onto them in this reconcile."""
    new = (why for worker, why in world.choice.leaving.values() if worker.condemned != why)
    for why, count in sorted(Counter(new).items()):
        if why in CHOSEN:
            reason, doing = CHOSEN[why]
            yield RecordEvent(reason, f"{doing} {counted(count, 'worker')}, each when Slurm has drained its node")


def _named(what: str, names: list[str]) -> str:
    return f"{counted(len(names), what)} ({first_few(sorted(names))})"
