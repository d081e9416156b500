"""The status of a NodeSet: counts and conditions.

In: the world of one reconcile, with the workers that were chosen in it. Out: drafts of conditions, and fields. Called
by `reconcile/nodeset.py`, which writes the status last. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.plural import counted, share
from slurm_operator.build import labels
from slurm_operator.plan import placement, reservation
from slurm_operator.plan.choice import outdated
from slurm_operator.plan.leaving import KEY
from slurm_operator.plan.nodeset import kept_by_slurm, pins, same_hostnames
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.plan.settled import USELESS_STATES
from slurm_operator.plan.workers import Worker
from slurm_operator.slurm import policy
from slurm_operator.slurm.model import Absent, Unknown
from slurm_operator.slurm.requests import Feature
from slurm_operator.status.conditions import (
    DEGRADED,
    PROGRESSING,
    READY,
    SLURM_REACHABLE,
    ConditionDraft,
    no,
    unknown,
    yes,
)

RESERVED = "ReservationCreated"


def fields(world: NodeSetWorld) -> dict[str, Any]:
    """The counts of a NodeSet's status."""
    cr, present = world.cr, world.unsettled
    old = {worker.name for worker in outdated(world, present)}
    # A worker without a node record of its own is of no use, however ready its pod is.
    useful = [worker for worker in present if not worker.rival]
    settled = len(world.settled)
    available = sum(worker.is_available(cr.spec.min_ready_seconds, world.now) for worker in useful) + settled
    desired = _desired(world)
    there = sum(bool(worker.pod.status.phase) for worker in present) + settled
    result = {
        "replicas": there,
        "updatedReplicas": sum(worker.name not in old and not worker.is_terminating for worker in present) + settled,
        "readyReplicas": sum(worker.is_ready for worker in useful) + settled,
        "availableReplicas": available,
        "unavailableReplicas": max((desired if cr.is_daemon else there) - available, 0),
        "desired": desired,
        "nodeSetHash": world.revision,
        "selector": labels.selector_text(labels.WORKER, cr.name),
        **_slurm_counts(world, useful),
    }
    optional = {
        "ordinalToNode": pins(world, present) if not world.deleting else {},
        "collisionCount": world.collisions,
    }
    return {**result, **{key: value for key, value in optional.items() if value}}


def _desired(world: NodeSetWorld) -> int:
    if not world.cr.is_daemon:
        return world.cr.spec.replicas
    return sum(placement.should_run(world.template["spec"], node) for node in world.nodes.values())


def _slurm_counts(world: NodeSetWorld, useful: Sequence[Worker]) -> dict[str, int]:
    if isinstance(world.slurm.nodes, Unknown):
        # The last word stands until there is a new one; Ready says that it is old.
        before = world.cr.status
        return {
            "slurmIdle": before.slurm_idle,
            "slurmAllocated": before.slurm_allocated,
            "slurmDown": before.slurm_down,
            "slurmDrain": before.slurm_drain,
        }
    states = [worker.node.states for worker in useful if worker.node is not None]

    def count(*some: str) -> int:
        return sum(not each.isdisjoint(some) for each in states) + world.settled.count(*some)

    return {
        "slurmIdle": count("IDLE"),
        "slurmAllocated": count("ALLOCATED", "MIXED"),
        "slurmDown": count("DOWN"),
        "slurmDrain": count("DRAIN"),
    }


def drafts(world: NodeSetWorld) -> list[ConditionDraft]:
    """The conditions of a NodeSet."""
    return [_reachable(world), *_reservation(world), *_state(world)]


def _reservation(world: NodeSetWorld) -> list[ConditionDraft]:
    if world.cr.spec.update_strategy.type != reservation.SCHEDULED:
        return []
    if isinstance(world.slurm.reservations, Unknown):
        return [unknown(RESERVED, world.slurm.reservations.reason, world.slurm.reservations.why)]
    if Feature.RESERVATIONS not in world.slurm.offers:
        return [
            no(
                RESERVED,
                "NotSupported",
                "this Slurm's REST API cannot create reservations; Slurm 25.05 or newer is needed",
            )
        ]
    if reservation.found(world.cr, world.slurm) is None:
        return [no(RESERVED, "NotExists", "there is no reservation: the window is over, or no worker has registered")]
    return [yes(RESERVED, "Created", "the reservation for the window is in Slurm")]


def _reachable(world: NodeSetWorld) -> ConditionDraft:
    if isinstance(world.slurm.nodes, Unknown):
        nodes = world.slurm.nodes
        return no(SLURM_REACHABLE, nodes.reason, f"{nodes.why}; no worker is removed meanwhile")
    if isinstance(world.slurm.jobs, Unknown):
        return no(SLURM_REACHABLE, "JobsUnknown", _half(world.slurm.jobs))
    return yes(SLURM_REACHABLE, "Answering", "slurmctld answers")


def is_called_reachable(cr: NodeSet) -> bool:
    """Whether the status says that Slurm answers."""
    return any(each.type == SLURM_REACHABLE and each.status == "True" for each in cr.status.conditions)


def _half(jobs: Unknown) -> str:
    return f"Slurm lists its nodes, but not its jobs: {jobs.why}; no worker is removed meanwhile"


def _degraded(world: NodeSetWorld) -> ConditionDraft:
    broken = _broken(world.unsettled)
    if broken:
        return yes(DEGRADED, "WorkersDown", broken)
    if isinstance(world.slurm.jobs, Unknown):
        return yes(DEGRADED, "JobsUnknown", _half(world.slurm.jobs))
    return no(DEGRADED, "AsExpected", "no worker is down")


def _state(world: NodeSetWorld) -> list[ConditionDraft]:
    message = _waiting(world)
    if world.deleting:
        waits = [each for each in (message, kept_by_slurm(world)) if each]
        why = "; ".join(waits) or "its objects are being deleted"
        return [no(READY, "Deleting", why), yes(PROGRESSING, "Deleting", why), no(DEGRADED, "AsExpected", why)]
    if isinstance(world.slurm.nodes, Unknown):
        why = f"Slurm cannot be asked: {world.slurm.nodes.why}"
        progressing = yes(PROGRESSING, "WaitingForSlurm", message) if message else no(PROGRESSING, "Settled", why)
        reason = world.slurm.nodes.reason
        return [unknown(READY, reason, why), progressing, yes(DEGRADED, reason, why)]
    degraded = _degraded(world)
    same = same_hostnames(world)
    if same:
        why = _same_hostnames(world, same)
        progressing = yes(PROGRESSING, "Working", message) if message else no(PROGRESSING, "Settled", why)
        return [no(READY, "DuplicateHostname", why), progressing, yes(DEGRADED, "DuplicateHostname", why)]
    if message:
        return [no(READY, "WorkersNotReady", message), yes(PROGRESSING, "Working", message), degraded]
    text = f"{counted(world.staying_count, 'worker is', 'workers are')} ready and registered"
    return [yes(READY, "AllReady", text), no(PROGRESSING, "Settled", text), degraded]


def _same_hostnames(world: NodeSetWorld, same: Sequence[tuple[str, str]]) -> str:
    host, rival = same[0]
    more = f", and {len(same) - 1} more like it" if len(same) > 1 else ""
    return (
        f"a worker of NodeSet {world.cr.name} would have the host name {host}, which belongs to {rival}{more}: no such "
        "worker is created, and the node record is left alone. Give the workers different names: set "
        f"template.spec.hostname, rename a NodeSet, or annotate a Kubernetes node with {labels.HOSTNAME_OVERRIDE}"
    )


def _numbers(world: NodeSetWorld) -> Iterator[str]:
    wanted = _desired(world)
    surplus = world.staying_count - wanted
    # While Slurm answers, all that are too many have been chosen.
    if surplus > 0 and world.is_blind and not world.cr.is_daemon:
        yield f"{counted(surplus, 'worker')} too many; none is chosen before Slurm answers"
    # One that Kubernetes is taking down may still be ready.
    ready = sum(worker.is_ready and not worker.rival for worker in world.choice.staying_unsettled) + len(world.settled)
    if ready < wanted:
        yield f"{share(ready, wanted, 'worker')} ready"


def _waiting(world: NodeSetWorld) -> str:
    """What is still to come, in one sentence; empty when nothing is."""
    choice = world.choice
    parts: list[str] = []
    blocked = [why.why for worker, _ in choice.leaving.values() if isinstance(why := worker.may_remove, policy.No)]
    if blocked:
        parts.append(f"{counted(len(blocked), 'worker waits', 'workers wait')} to be removed: {blocked[0]}")
    if not world.deleting:
        parts.extend(_numbers(world))
    going = sum(worker.is_terminating for worker in world.unsettled)
    if going and not world.deleting:
        parts.append(f"{counted(going, 'worker is', 'workers are')} being taken down")
    unregistered = [worker.hostname for worker in choice.staying_unsettled if isinstance(worker.view, Absent)]
    if unregistered:
        parts.append(f"{counted(len(unregistered), 'is', 'are')} not registered in Slurm yet: {unregistered[0]}")
    if world.key.is_changing and not world.controller.spec.external:
        waiting = [worker for worker, why in choice.leaving.values() if why == KEY]
        free = sum(isinstance(worker.may_remove, policy.Yes) for worker in waiting)
        parts.append(f"the cluster's key changes once no jobs run: {share(free, len(waiting), 'worker')} free")
    old = sum(1 for _ in outdated(world, choice.staying_unsettled))
    if old and world.cr.spec.update_strategy.type == "RollingUpdate":
        parts.append(f"{counted(old, 'still runs', 'still run')} an older template")
    return "; ".join(parts)


def _broken(workers: Sequence[Worker]) -> str:
    # The hook of a pod that Kubernetes takes down sets its node down: nothing is wrong with it.
    there = (worker for worker in workers if not worker.is_terminating)
    down = [worker for worker in there if worker.node is not None and USELESS_STATES & worker.node.states]
    if not down:
        return ""
    first = down[0]
    reason = first.node.reason if first.node else ""
    many = counted(len(down), "worker is", "workers are")
    return f"{many} down in Slurm: {first.hostname} ({reason or 'no reason given'})"
