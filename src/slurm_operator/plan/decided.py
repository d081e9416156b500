"""What a plan of a NodeSet decides, and so what must have been read from Slurm for it in the same reconcile.

In: a plan, and the world that it was made from. Out: the decision, and the plan without what its world was not read
for. Pure; used by `reconcile/nodeset.py`, which reads what is missing and has the plan made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slurm_operator.build import labels
from slurm_operator.plan.actions import (
    Action,
    Create,
    Delete,
    DeleteNodes,
    Drain,
    PatchMetadata,
    PatchPodConditions,
    Plan,
    RequestRegistration,
    SlurmAction,
    Undrain,
    UpdateNodes,
)
from slurm_operator.plan.nodeset import finalizer_removal, hosts_to_confirm
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.plan.workers import Worker
from slurm_operator.slurm import policy
from slurm_operator.slurm.decision import EVERYTHING, NOTHING_DECIDED, Decision
from slurm_operator.slurm.model import Known, Node

# Marks on a pod that say who goes, and whom others need not wait for.
DECIDING_MARKS = frozenset({labels.CONDEMNED, labels.RELEASED_FOR_KEY})


def decision(plan: Plan, world: NodeSetWorld) -> Decision:
    """What a plan takes away, writes to Slurm, or says of who may go: never decided by an older snapshot.

    Also the nodes that Slurm has to be asked for before anything is planned about them.
    """
    if world.deleting and finalizer_removal(world) is not None:
        return EVERYTHING
    hosts = _hosts_of(world)
    asked = Decision(hosts_to_confirm(world) if world.may_confirm else frozenset())
    return Decision.all_of((asked, *(_decided(action, world, hosts) for action in plan.actions)))


def covered(plan: Plan, world: NodeSetWorld) -> Plan:
    """A plan without what its world was not read for."""
    hosts = _hosts_of(world)
    stages = (
        tuple(each for each in stage if world.slurm.fresh.covers(_decided(each, world, hosts))) for stage in plan.stages
    )
    return replace(plan, stages=tuple(stage for stage in stages if stage))


def leaving_now(plan: Plan, world: NodeSetWorld) -> dict[str, Worker]:
    """By node: the workers that a plan deletes."""
    uids = {each.uid for each in plan.actions if isinstance(each, Delete) and each.kind == "Pod"}
    return {worker.hostname: worker for worker in world.unsettled if worker.pod.metadata.uid in uids}


def may_still_go(node: Node, worker: Worker) -> bool:
    """Whether a worker that was found free to go still is, by a newer record of its node."""
    return not policy.is_busy(node) and (policy.is_draining(node) or worker.is_over)


def _hosts_of(world: NodeSetWorld) -> Mapping[str, str]:
    return {worker.pod.metadata.uid: worker.hostname for worker in world.unsettled}


def _decided(action: Action, world: NodeSetWorld, hosts: Mapping[str, str]) -> Decision:
    match action:
        case PatchMetadata(finalizers=None, owners=None):
            marks = not DECIDING_MARKS.isdisjoint(action.annotations)
            return _about([action.seen.uid], hosts) if marks else NOTHING_DECIDED
        case PatchMetadata(kind="PersistentVolumeClaim", finalizers=None, owners=tuple(owners)):
            # The worker that a claim goes with; or, if it goes with none, any.
            return _about([str(owner.get("uid")) for owner in owners if owner.get("kind") == "Pod"], hosts)
        case Create(desired={"kind": "Pod"}):
            # Whether its old record goes first depends on what its old slurmd did a moment ago.
            host = str(action.desired["spec"]["hostname"])
            return Decision(frozenset({host})) if isinstance(world.slurm.view(host), Known) else NOTHING_DECIDED
        case Delete(kind="Pod"):
            return _about([action.seen.uid], hosts)
        case UpdateNodes(changes={"comment": _, **others}) if not others:
            # It says whose worker the node is, which does not depend on what Slurm reports.
            return NOTHING_DECIDED
        case Drain() | Undrain() | UpdateNodes() | RequestRegistration():
            return Decision(frozenset(action.nodes))
        case DeleteNodes():
            # A job that waits may require one of them.
            return Decision(frozenset(action.nodes), every_job=True)
        case _:
            # A finalizer that holds a reservation, or what has no worker.
            return EVERYTHING if isinstance(action, PatchMetadata | Delete | SlurmAction) else NOTHING_DECIDED


def _about(pods: Sequence[str], hosts: Mapping[str, str]) -> Decision:
    """Something is decided about the workers with these uids; about everything, if one of them is not known."""
    is_known = bool(pods) and all(uid in hosts for uid in pods)
    return Decision(frozenset(hosts[uid] for uid in pods)) if is_known else EVERYTHING


def deletes_pods(plan: Plan) -> bool:
    """Whether a worker goes."""
    return any(isinstance(each, Delete) and each.kind == "Pod" for each in plan.actions)


def writes_pods(plan: Plan) -> bool:
    """Whether a pod is made, changed or deleted."""
    return any(map(_writes_pod, plan.actions))


def _writes_pod(action: Action) -> bool:
    match action:
        case PatchPodConditions() | Create(desired={"kind": "Pod"}):
            return True
        case PatchMetadata(kind="Pod") | Delete(kind="Pod"):
            return True
    return False
