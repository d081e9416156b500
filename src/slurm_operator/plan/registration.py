"""What Slurm knows of a worker beside its state: whose pod it is, on which Kubernetes node, with which features.

In: the workers that stay, and Kubernetes' nodes. Out: node updates, one per node, and the pod's own note of its place
in the topology. A record that was never updated is not on slurmctld's disk: so the comment is written as soon as a
worker has registered. Pure; used by `plan/nodeset.py` and `plan/records.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from kube_runtime.client.objects import Node as KubeNode
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels
from slurm_operator.build.nodeset import SLURMD
from slurm_operator.plan.actions import Action, UpdateNode
from slurm_operator.plan.workers import Worker
from slurm_operator.slurm import policy
from slurm_operator.slurm.model import Node
from slurm_operator.slurm.requests import Feature

FROM_KUBERNETES = "k8s/"


def updates(
    cr: NodeSet, some: Iterable[Worker], nodes: Mapping[str, KubeNode], offers: frozenset[Feature]
) -> Iterator[Action]:
    """Every node record that does not say what it should."""
    for worker in some:
        node = worker.node
        if node is None:
            continue
        if not worker.is_ready:
            yield from marks(cr, (worker,))
            continue
        kube = nodes.get(worker.pod.spec.node_name)
        changes = {**_comment(cr, worker, node), **_features(kube, node), **_topology(worker, kube, offers)}
        if changes:
            yield UpdateNode(worker.hostname, changes, f"{', '.join(sorted(changes))} of its pod")
        if left_down_by_its_pod(node):
            yield UpdateNode(worker.hostname, {"state": "RESUME"}, "its pod is back")


def marks(cr: NodeSet, some: Iterable[Worker]) -> Iterator[Action]:
    """The comments of records of workers that are not ready or are leaving: a record is deleted with its pod only if
    its comment names the NodeSet.

    Without this, a worker that is chosen for removal before its first comment, in an outage, would leave its record.
    """
    for worker in some:
        node = worker.node
        if node is not None and _has_registered(worker, node) and _comment(cr, worker, node):
            yield UpdateNode(worker.hostname, _comment(cr, worker, node), "comment of its pod")


def _has_registered(worker: Worker, node: Node) -> bool:
    """Whether a record belongs to this very pod: one with its name but another address does not."""
    address = worker.pod.status.pod_ip
    is_here = bool(address) and node.address == address and not node.states & {"DOWN", "NOT_RESPONDING"}
    return is_here and (not worker.pod.spec.host_network or _is_started_by(worker, node))


def _is_started_by(worker: Worker, node: Node) -> bool:
    """Whether a record's slurmd is no older than the worker's: the machine may run one of its own at this address."""
    since = worker.container_since(SLURMD)
    # Both times are of the same machine's clock.
    return since is not None and node.slurmd_start_time >= int(since.timestamp())


def left_down_by_its_pod(node: Node) -> bool:
    """Whether a node is down only because its earlier pod ended: it said so, or fell silent when we had drained it."""
    down = "DOWN" in node.states and not node.states & {"NOT_RESPONDING", "INVALID_REG"}
    return down and policy.is_of_our_making(node.reason) and not policy.is_draining(node)


def pod_info(cr: NodeSet, worker: Worker) -> str:
    """The comment of a node record: whose it is, in the words that dashboards read."""
    fields = {
        "namespace": cr.namespace,
        "podName": worker.name,
        "node": worker.pod.spec.node_name,
        "nodeSetName": cr.name,
        "nodeSetUID": cr.metadata.uid,
    }
    return json.dumps(fields, separators=(",", ":"))


def read_pod_info(comment: str) -> Mapping[str, str]:
    """What a comment says in texts; empty when it is not of ours. Anybody may have written it."""
    try:
        found = json.loads(comment)
    except (ValueError, RecursionError):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _comment(cr: NodeSet, worker: Worker, node: Node) -> dict[str, object]:
    wanted = pod_info(cr, worker)
    return {} if node.comment == wanted else {"comment": wanted}


def _features(kube: KubeNode | None, node: Node) -> dict[str, object]:
    given = kube.metadata.annotations.get(labels.FEATURES, "") if kube is not None else ""
    wanted = sorted(
        {f"{FROM_KUBERNETES}{feature.strip()}" for feature in given.split(",") if _is_feature(feature.strip())}
    )
    changes: dict[str, object] = {}
    for key, present in (("features", node.features), ("active_features", node.active_features)):
        others = tuple(each for each in present if not each.startswith(FROM_KUBERNETES))
        if set(present) != {*others, *wanted}:
            changes[key] = (*others, *wanted)
    return changes


def _is_feature(feature: str) -> bool:
    # The same bar as the client's: a feature that it would refuse is left out here, or nothing would be updated.
    return bool(feature) and feature.isprintable() and not set(feature) & set(" \"'=")


def topology_of(kube: KubeNode | None) -> str:
    """A Kubernetes node's place in Slurm's topology."""
    return kube.metadata.annotations.get(labels.TOPOLOGY, "") if kube is not None else ""


def _topology(worker: Worker, kube: KubeNode | None, offers: frozenset[Feature]) -> dict[str, object]:
    # The pod notes what was last sent to Slurm: Slurm shows a place in its own words, which cannot be compared.
    wanted = topology_of(kube)
    sent = worker.pod.metadata.annotations.get(labels.TOPOLOGY, "")
    if wanted == sent or not wanted.isprintable() or Feature.TOPOLOGY not in offers:
        return {}
    return {"topology": wanted}
