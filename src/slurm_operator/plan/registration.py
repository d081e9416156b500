"""What Slurm knows of a worker beside its state: whose pod it is, on which Kubernetes node, with which features.

In: the workers that stay, and Kubernetes' nodes. Out: node updates, one for all nodes that get the same, and the pod's
own note of its place in the topology. A record that was never updated is not on slurmctld's disk: so the comment is
written as soon as a worker has registered. Pure; used by `plan/nodeset.py` and `plan/records.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

from kube_runtime.client.objects import Node as KubeNode
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels
from slurm_operator.build.nodeset import SLURMD
from slurm_operator.plan.actions import Action, UpdateNodes
from slurm_operator.plan.workers import Worker
from slurm_operator.slurm import hostlist, policy
from slurm_operator.slurm.model import Node
from slurm_operator.slurm.requests import Feature

FROM_KUBERNETES = "k8s/"
MAX_REMEMBERED_COMMENTS = 4096
MAX_REMEMBERED_CHARACTERS = 1024

Changes = dict[str, object]


def updates(
    cr: NodeSet, some: Iterable[Worker], nodes: Mapping[str, KubeNode], offers: frozenset[Feature]
) -> Iterator[Action]:
    """Every node record that does not say what it should."""
    known = [(worker, worker.node) for worker in some if worker.node is not None]
    yield from _together(_changes(cr, worker, node, nodes, offers) for worker, node in known)
    back = [worker.hostname for worker, node in known if worker.is_ready and left_down_by_its_pod(node)]
    if back:
        yield UpdateNodes(tuple(hostlist.in_order(back)), {"state": "RESUME"}, "their pods are back")


def comments(cr: NodeSet, some: Iterable[Worker]) -> Iterator[Action]:
    """The comments of records of workers that are not ready or are leaving: a record is deleted with its pod only if
    its comment names the NodeSet.

    Without this, a worker that is chosen for removal before its first comment, in an outage, would leave its record.
    """
    known = ((worker, worker.node) for worker in some if worker.node is not None)
    return _together((worker.hostname, _mark(cr, worker, node)) for worker, node in known)


def _together(changes: Iterable[tuple[str, Changes]]) -> Iterator[Action]:
    """One update for all nodes that get the same."""
    by_content: dict[str, tuple[Changes, list[str]]] = {}
    for name, change in changes:
        if change:
            by_content.setdefault(json.dumps(change, sort_keys=True), (change, []))[1].append(name)
    for change, names in by_content.values():
        yield UpdateNodes(tuple(hostlist.in_order(names)), change, f"{', '.join(sorted(change))} of their pods")


def _changes(
    cr: NodeSet, worker: Worker, node: Node, nodes: Mapping[str, KubeNode], offers: frozenset[Feature]
) -> tuple[str, Changes]:
    if not worker.is_ready:
        return worker.hostname, _mark(cr, worker, node)
    kube = nodes.get(worker.pod.spec.node_name)
    return worker.hostname, {**_comment(cr, worker, node), **_features(kube, node), **_topology(worker, kube, offers)}


def _mark(cr: NodeSet, worker: Worker, node: Node) -> Changes:
    return _comment(cr, worker, node) if _has_registered(worker, node) else {}


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
    """The comment of a node record: whose it is, in the words that dashboards read.

    The same for all numbered workers, so that a thousand comments are one write. In DaemonSet mode it names the
    Kubernetes node too, since a record is deleted with that.
    """
    place = (("podName", worker.name), ("node", worker.pod.spec.node_name)) if cr.is_daemon else ()
    return _info_text(("namespace", cr.namespace), ("nodeSetName", cr.name), ("nodeSetUID", cr.metadata.uid), *place)


@lru_cache(MAX_REMEMBERED_COMMENTS)
def _info_text(*fields: tuple[str, str]) -> str:
    return json.dumps(dict(fields), separators=(",", ":"))


def read_pod_info(comment: str) -> Mapping[str, str]:
    """What a comment says in texts; empty when it is not of ours. Anybody may have written it."""
    # The workers of a NodeSet share one. What somebody else has written may be long, and is not kept.
    return _read(comment) if len(comment) > MAX_REMEMBERED_CHARACTERS else _read_once(comment)


@lru_cache(MAX_REMEMBERED_COMMENTS)
def _read_once(comment: str) -> Mapping[str, str]:
    return MappingProxyType(dict(_read(comment)))


def _read(comment: str) -> Mapping[str, str]:
    try:
        found = json.loads(comment)
    except (ValueError, RecursionError):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _comment(cr: NodeSet, worker: Worker, node: Node) -> Changes:
    wanted = pod_info(cr, worker)
    return {} if node.comment == wanted else {"comment": wanted}


def _features(kube: KubeNode | None, node: Node) -> Changes:
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


def _topology(worker: Worker, kube: KubeNode | None, offers: frozenset[Feature]) -> Changes:
    # The pod notes what was last sent to Slurm: Slurm shows a place in its own words, which cannot be compared.
    wanted = topology_of(kube)
    sent = worker.pod.metadata.annotations.get(labels.TOPOLOGY, "")
    if wanted == sent or not wanted.isprintable() or Feature.TOPOLOGY not in offers:
        return {}
    return {"topology": wanted}
