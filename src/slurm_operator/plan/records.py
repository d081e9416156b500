"""Slurm's node records that no worker will use again.

In: the world of a NodeSet's reconcile. Out: the records to delete, all in one call, and those that the deletion of a
NodeSet waits for. Slurm itself never forgets a dynamic node. A record is deleted only if its comment names this
NodeSet, its slurmd has ended and no unfinished job holds or requires it: at its next reconfigure slurmctld fails a job
that requires a node without a record. Pure; used by `plan/nodeset.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from kube_runtime.times import parse_time
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build.nodeset import TERMINATING
from slurm_operator.plan.actions import Action, DeleteNodes
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.plan.registration import read_pod_info
from slurm_operator.plan.workers import NodeSnapshot, jobs_by_node
from slurm_operator.slurm import hostlist, policy
from slurm_operator.slurm.model import Node, SlurmList, Unknown

NODE_NOT_FOUND = "NodeNotFound"
# Slurm gives up a slurmd that ended without notice after SlurmdTimeout, five minutes by default. A record that is still
# there after twice that time is left for a person to delete: `kubectl slurm doctor` finds it.
MAX_WAIT_SECONDS = 600.0


def defunct(world: NodeSetWorld, wanted: Collection[str]) -> Iterator[Action]:
    """The deletion of every record that is left over; `wanted` are the host names of workers that are created now."""
    cr = world.cr
    if not isinstance(world.slurm.nodes, SlurmList) or isinstance(world.slurm.jobs, Unknown):
        return
    if cr.is_daemon and cr.spec.prune_slurm_node_records != NODE_NOT_FOUND and not world.deleting:
        return
    kept = {*wanted, *(worker.hostname for worker in world.unsettled)}
    left = [node for node in own(cr, world.slurm.nodes, ended=True) if _may_go(node) and node.name not in kept]
    pods = {pod.metadata.name for pod in world.pods} if left else set()
    gone = [node for node in left if _is_without_pod(world, read_pod_info(node.comment), pods)]
    names = hostlist.in_order(unnamed((node.name for node in gone), world.slurm))
    if names and len(names) >= _about_to_end(world):
        yield DeleteNodes(tuple(names), "their pods are gone for good")


def _about_to_end(world: NodeSetWorld) -> int:
    """How many more pods are about to end: their records are deleted together, in few calls."""
    ends = (parse_time(worker.pod.metadata.deletion_timestamp) for worker in world.unsettled if worker.is_terminating)
    return sum(end is not None and end > world.now for end in ends)


def _is_without_pod(world: NodeSetWorld, info: Mapping[str, str], pods: Collection[str]) -> bool:
    if info.get("podName") in pods:
        return False
    if not world.cr.is_daemon or world.deleting:
        return True
    # The worker comes back with its Kubernetes node.
    return bool(info.get("node")) and info["node"] not in world.nodes and info["node"] not in world.unread_nodes


def own(cr: NodeSet, listed: SlurmList[Node] | Unknown, *, ended: bool = False) -> list[Node]:
    """The records that name this NodeSet; of all, or only of those whose slurmd may have ended."""
    nodes = listed.items if isinstance(listed, SlurmList) else ()
    # A cheap test first, since there may be ten thousand comments: one that names it contains its uid.
    near = (node for node in nodes if cr.metadata.uid in node.comment and (not ended or "DOWN" in node.states))
    return [node for node in near if _names(cr, read_pod_info(node.comment))]


def _names(cr: NodeSet, info: Mapping[str, str]) -> bool:
    return (info.get("namespace"), info.get("nodeSetUID")) == (cr.namespace, cr.metadata.uid)


def has_ended(node: Node) -> bool:
    """Whether a record's slurmd has ended: its pod set it down when it stopped, or slurmctld has given it up."""
    is_stopped = node.reason == TERMINATING
    return "DOWN" in node.states and (is_stopped or "NOT_RESPONDING" in node.states) and not policy.is_busy(node)


def _may_go(node: Node) -> bool:
    return has_ended(node) and policy.may_be_forgotten(node)


def unnamed(names: Iterable[str], slurm: NodeSnapshot) -> list[str]:
    """The nodes among these that no unfinished job holds or requires."""
    some = list(names)
    if isinstance(slurm.jobs, Unknown):
        return []
    on_nodes = jobs_by_node(slurm.jobs, frozenset(some))
    required = policy.jobs_by_required_node(slurm.jobs, frozenset(some))
    free = (name for name in some if not any(policy.holds_nodes(job) for job in on_nodes.get(name, ())))
    return [name for name in free if name not in required]


def to_wait_for(world: NodeSetWorld) -> list[str]:
    """The records whose end the deletion of a NodeSet waits for; each must be missing in two lists in a row."""
    since = parse_time(world.cr.metadata.deletion_timestamp or "") or world.now
    known = [*own(world.cr, world.slurm.nodes), *own(world.cr, world.slurm.nodes_before)]
    is_late = (world.now - since).total_seconds() >= MAX_WAIT_SECONDS
    # A record that a reservation keeps, perhaps for years, is not waited for.
    return hostlist.in_order(node.name for node in known if _may_go(node) or not (is_late or has_ended(node)))
