"""Which nodes take no new jobs, and which may again.

In: the workers that stay and those that go. Out: drains and undrains, many nodes in one call where the reason is the
same. A drain, or a DOWN, of somebody else is theirs. Pure; used by `plan/nodeset.py`, and by `reconcile/clusters.py` to
look once more right before it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kube_runtime.client.objects import Node as KubeNode
from slurm_operator.build import labels
from slurm_operator.plan.actions import Action, Drain, Undrain
from slurm_operator.plan.leaving import leaving_reason
from slurm_operator.plan.workers import Worker
from slurm_operator.slurm import hostlist, policy
from slurm_operator.slurm.model import Node


def drains(
    name: str,
    staying: Iterable[Worker],
    leaving: Iterable[tuple[Worker, str]],
    nodes: Mapping[str, KubeNode],
    propagated: frozenset[str],
) -> Iterator[Action]:
    """Every drain and undrain that is due; `name` is the NodeSet's, as people write it."""
    by_reason: dict[str, list[str]] = {}
    undrained: list[str] = []
    for worker in staying:
        reason = cordon_reason(worker, nodes, propagated)
        if reason is not None and worker.node is not None and may_drain(worker.node):
            by_reason.setdefault(reason, []).append(worker.hostname)
        elif reason is None and worker.node is not None and may_undrain(worker.node):
            undrained.append(worker.hostname)
    for worker, why in leaving:
        if worker.node is not None and may_drain(worker.node):
            # One reason for all of them: a scale-in of a thousand nodes is one call.
            by_reason.setdefault(leaving_reason(name, why), []).append(worker.hostname)
    for reason, hosts in sorted(by_reason.items()):
        yield Drain(tuple(hostlist.in_order(hosts)), reason)
    if undrained:
        yield Undrain(tuple(hostlist.in_order(undrained)))


def cordon_reason(worker: Worker, nodes: Mapping[str, KubeNode], propagated: frozenset[str]) -> str | None:
    """Why a worker that stays should take no jobs; None when it should."""
    meta = worker.pod.metadata
    pod = f"{meta.namespace}/{meta.name}"
    node = nodes.get(worker.pod.spec.node_name)
    if node is not None and node.spec.unschedulable:
        given = policy.clean_reason(node.metadata.annotations.get(labels.NODE_CORDON_REASON, ""))
        cause = policy.clean_reason(_cordon_cause(node, propagated))
        return given or cause or f"Node ({node.metadata.name}) was cordoned, Pod ({pod}) must be cordoned"
    return f"Pod ({pod}) was cordoned" if worker.is_cordoned_by_user else None


def _cordon_cause(node: KubeNode, propagated: frozenset[str]) -> str:
    """What the node's own conditions say, of those that were asked for."""
    true = (each for each in node.status.conditions if each.type in propagated and each.status == "True")
    return "; ".join(f"({each.reason}: {each.message})" for each in true)


def may_drain(node: Node) -> bool:
    """Whether a node may be drained by us: it is not drained, and nobody else has taken it down."""
    if policy.is_draining(node):
        return False
    # Slurm 24.11 keeps the reason of a drain that was lifted: on a node in service it says nothing any more.
    in_service = not node.states & {"DOWN", "FAIL"}
    has_own_reason = node.reason not in ("", policy.NOT_RESPONDING) and not policy.is_of_our_making(node.reason)
    return in_service or not has_own_reason or policy.drain_is_ours(node.reason)


def is_drained_by_us(node: Node) -> bool:
    """Whether a drain is ours to lift."""
    return policy.is_draining(node) and policy.drain_is_ours(node.reason)


def may_undrain(node: Node) -> bool:
    """Whether a drain of ours can be lifted now: slurmctld refuses that for a node whose registration it refused."""
    return is_drained_by_us(node) and "INVALID_REG" not in node.states
