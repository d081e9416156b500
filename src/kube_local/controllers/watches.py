"""Which change concerns which controller: the wiring between caches and queues. Called by `run.assemble`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kube_local.controllers.decide.lifecycle import evicting, readiness
from kube_local.controllers.decide.pods import controller_of, is_ready
from kube_local.controllers.decide.selector import selects
from kube_local.controllers.decide.volumes import volume_name
from kube_local.controllers.objects import (
    Claim,
    EndpointSlice,
    Node,
    PersistentVolume,
    Pod,
    StorageClass,
)
from kube_local.controllers.scheduler import wants_place
from kube_local.controllers.world import BY_CLAIM, BY_NAMESPACE, Caches, by_service
from kube_runtime.loop.controller import Controller
from kube_runtime.loop.queue import Key
from kube_runtime.loop.watches import KeysOf, Watch, to_itself, to_owner


def _key(item: Any) -> Key:
    return Key(item.metadata.namespace, item.metadata.name)


def _never(_: object, __: object) -> bool:
    """Only what comes and goes, not what changes."""
    return False


def replicas_changed(old: Any, new: Any) -> bool:
    """Whether the wanted number changed."""
    return bool(old.spec.replicas != new.spec.replicas)


def address_changed(old: Pod, new: Pod) -> bool:
    """Whether a pod's endpoints look different now."""
    return _shown(old) != _shown(new)


def _shown(pod: Pod) -> tuple[object, ...]:
    head, status = pod.metadata, pod.status
    return status.pod_ip, status.phase, is_ready(pod), head.deletion_timestamp, head.labels, pod.spec.node_name


def readiness_changed(old: Node, new: Node) -> bool:
    """Whether a node came or went in spirit."""
    return readiness(old) != readiness(new)


def node_changed(old: Node, new: Node) -> bool:
    """Whether anything but heartbeats changed."""
    return old.spec != new.spec or _statuses(old) != _statuses(new)


def _statuses(node: Node) -> list[tuple[object, object]]:
    return [(one.get("type"), one.get("status")) for one in node.status.conditions]


@dataclass(frozen=True, slots=True)
class Maps:
    """From an object to those that it concerns, by what the caches know."""

    caches: Caches

    def services_of(self, pod: Pod) -> Iterable[Key]:
        """The Services that select a pod."""
        labels = pod.metadata.labels
        for service in self.caches.services.by_index(BY_NAMESPACE, pod.metadata.namespace):
            wanted = service.spec.selector
            if wanted and all(labels.get(key) == value for key, value in wanted.items()):
                yield _key(service)

    def budgets_of(self, pod: Pod) -> Iterable[Key]:
        """The budgets that cover a pod."""
        for budget in self.caches.budgets.by_index(BY_NAMESPACE, pod.metadata.namespace):
            if selects(budget.spec.selector, pod.metadata.labels):
                yield _key(budget)

    def budgets_near(self, workload: Any) -> Iterable[Key]:
        """Every budget of a workload's namespace."""
        return [_key(one) for one in self.caches.budgets.by_index(BY_NAMESPACE, workload.metadata.namespace)]

    def deployment_of(self, pod: Pod) -> Iterable[Key]:
        """The Deployment above a pod's ReplicaSet."""
        owner = controller_of(pod)
        found = self.caches.replica_sets.get(pod.metadata.namespace, owner.name) if owner else None
        above = controller_of(found) if found else None
        return [Key(pod.metadata.namespace, above.name)] if above and above.kind == "Deployment" else []

    def stateful_sets_of(self, claim: Claim) -> Iterable[Key]:
        """The StatefulSets whose pods use a claim."""
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        for pod in self.caches.pods.by_index(BY_CLAIM, name):
            yield from to_owner("apps", "StatefulSet")(pod)

    def claims_for(self, volume: PersistentVolume) -> Iterable[Key]:
        """The claim of a volume, or all that wait when it has none."""
        held = volume.spec.claim_ref
        return [Key(held.namespace, held.name)] if held else self.waiting_claims(volume)

    def waiting_claims(self, _: PersistentVolume | StorageClass) -> Iterable[Key]:
        """Claims that are not bound."""
        return [_key(one) for one in self.caches.claims.items() if one.status.get("phase") != "Bound"]

    def all_nodes(self, _: Node) -> Iterable[Key]:
        """Every node."""
        return [_key(one) for one in self.caches.nodes.items()]

    def tainted_node(self, pod: Pod) -> Iterable[Key]:
        """The node of a pod, when pods must leave it."""
        node = self.caches.nodes.get("", pod.spec.node_name) if pod.spec.node_name else None
        return [_key(node)] if node is not None and evicting(node) else []

    def missing_node(self, pod: Pod) -> Iterable[Key]:
        """The node of a pod, when there is none of that name."""
        name = pod.spec.node_name
        return [Key("", name)] if name and self.caches.nodes.get("", name) is None else []


def to_volume(claim: Claim) -> Iterable[Key]:
    """The volume of a claim: the one that it names, and the one that is made for it."""
    names = {claim.spec.volume_name, volume_name(claim)} - {""}
    return [Key("", name) for name in sorted(names)]


def to_service(item: EndpointSlice) -> Iterable[Key]:
    """The Service of a slice."""
    namespace, _, name = next(by_service(item)).partition("/")
    return [Key(namespace, name)] if name else []


def to_unplaced(pod: Pod) -> Iterable[Key]:
    """A pod that waits for a node."""
    return [_key(pod)] if wants_place(pod) else []


def connect(caches: Caches, controllers: dict[str, Controller]) -> None:
    """Let every change reach the controllers that it matters to."""
    maps = Maps(caches)

    def watch(source: Any, name: str, mapping: KeysOf = to_itself, when: Any = None) -> None:
        made = (
            Watch(source, controllers[name], mapping)
            if when is None
            else Watch(source, controllers[name], mapping, when)
        )
        made.connect()

    watch(caches.pods, "scheduler", to_unplaced)
    watch(caches.stateful_sets, "statefulsets")
    watch(caches.pods, "statefulsets", to_owner("apps", "StatefulSet"))
    watch(caches.claims, "statefulsets", maps.stateful_sets_of, _never)
    watch(caches.replica_sets, "replicasets")
    watch(caches.pods, "replicasets", to_owner("apps", "ReplicaSet"))
    watch(caches.deployments, "deployments")
    watch(caches.replica_sets, "deployments", to_owner("apps", "Deployment"))
    watch(caches.pods, "deployments", maps.deployment_of, _never)
    watch(caches.services, "endpointslices")
    watch(caches.pods, "endpointslices", maps.services_of, address_changed)
    watch(caches.slices, "endpointslices", to_service)
    watch(caches.budgets, "budgets")
    watch(caches.pods, "budgets", maps.budgets_of)
    for workloads in (caches.deployments, caches.replica_sets, caches.stateful_sets):
        watch(workloads, "budgets", maps.budgets_near, replicas_changed)
    watch(caches.claims, "claims")
    watch(caches.volumes, "claims", maps.claims_for)
    watch(caches.storage_classes, "claims", maps.waiting_claims)
    watch(caches.volumes, "volumes")
    watch(caches.claims, "volumes", to_volume)
    watch(caches.nodes, "nodes", when=node_changed)
    watch(caches.nodes, "nodes", maps.all_nodes, readiness_changed)
    watch(caches.pods, "nodes", maps.tainted_node)
    watch(caches.nodes, "lostpods", when=_never)
    watch(caches.pods, "lostpods", maps.missing_node)
