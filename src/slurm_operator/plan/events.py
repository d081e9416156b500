"""The events of a NodeSet's reconcile, with the reasons that the Go operator has for the same.

In: the world, and what a plan creates and deletes. Out: events, one for each decision: a scale-out that takes several
reconciles, or a rolling update of many steps, gets one. A world at rest has none. Pure; used by
`plan/nodeset.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kube_runtime.text import first_few
from slurm_operator.api.plural import counted
from slurm_operator.plan.actions import Action, Delete, DeleteNodes, RecordEvent
from slurm_operator.plan.choice import outdated
from slurm_operator.plan.leaving import SCALE_IN, UPDATE
from slurm_operator.plan.nodeset_world import NodeSetWorld


def events(
    world: NodeSetWorld, missing: int, unregistered: Iterable[Action], leftovers: Iterable[Action]
) -> Iterator[RecordEvent]:
    """The events of one reconcile; `missing` workers are to be created."""
    if missing and not _is_reported(world):
        yield RecordEvent("ScalingUp", f"creating {counted(missing, 'worker')}")
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


def _is_reported(world: NodeSetWorld) -> bool:
    """Whether the status says already that workers are missing, after a scale-out or for an update."""
    cr, before = world.cr, world.cr.status
    return not cr.is_daemon and before.desired == cr.spec.replicas and before.updated_replicas < before.desired


def _chosen(world: NodeSetWorld) -> Iterator[RecordEvent]:
    """Workers that are chosen for removal now: this reconcile writes the choice down, on pods or by the drain."""
    new = Counter(why for worker, why in world.choice.leaving.values() if worker.condemned != why)
    when = "each when Slurm has drained its node"
    if new[SCALE_IN]:
        yield RecordEvent("ScalingDown", f"removing {counted(new[SCALE_IN], 'worker')}, {when}")
    if new[UPDATE] and not _has_begun(world):
        old = sum(1 for _ in outdated(world, world.unsettled))
        yield RecordEvent("RollingUpdate", f"replacing {counted(old, 'worker')}, {when}")


def _has_begun(world: NodeSetWorld) -> bool:
    """Whether workers have been replaced already, or chosen for that."""
    old = {worker.name for worker in outdated(world, world.unsettled)}
    begun = (worker.name not in old or worker.condemned == UPDATE for worker in world.unsettled)
    return bool(world.settled.rows) or any(begun)


def _named(what: str, names: list[str]) -> str:
    return f"{counted(len(names), what)} ({first_few(sorted(names))})"
