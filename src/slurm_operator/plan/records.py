"""Node records that nobody will use again.

In: Slurm's nodes and the pods that there are. Out: records to delete. Slurm itself never forgets a dynamic node. Only
records whose comment names this very NodeSet, whose slurmd is silent and which no job holds are taken away. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from slurm_operator.api.nodeset import NodeSet
from slurm_operator.plan.actions import Action, DeleteNode
from slurm_operator.plan.registration import read_pod_info
from slurm_operator.plan.workers import NodeSnapshot
from slurm_operator.slurm import policy
from slurm_operator.slurm.model import Node, SlurmList, Unknown

NODE_NOT_FOUND = "NodeNotFound"


def defunct(
    cr: NodeSet, slurm: NodeSnapshot, pods: Collection[str], hostnames: Collection[str], nodes: Collection[str]
) -> Iterator[Action]:
    """Every record to delete; `pods` and `hostnames` are of all pods, also of those that are going.

    `nodes` are the names of the Kubernetes nodes that there are.
    """
    if not isinstance(slurm.nodes, SlurmList) or isinstance(slurm.jobs, Unknown):
        return
    if cr.is_daemon and cr.spec.prune_slurm_node_records != NODE_NOT_FOUND:
        return
    for node in slurm.nodes.items:
        info = read_pod_info(node.comment)
        ours = (info.get("namespace"), info.get("nodeSetUID")) == (cr.namespace, cr.metadata.uid)
        if not ours or node.name in hostnames or info.get("podName") in pods or not _is_silent(node):
            continue
        if cr.is_daemon and (not info.get("node") or info.get("node") in nodes):
            continue
        if not any(policy.occupies(job, node.name) for job in slurm.jobs):
            yield DeleteNode(node.name, f"its pod {info.get('podName')} is gone for good")


def _is_silent(node: Node) -> bool:
    return {"DOWN", "NOT_RESPONDING"} <= node.states and not policy.is_busy(node)
