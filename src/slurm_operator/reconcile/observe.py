"""All reading: what the caches know, put together for one reconcile.

In: caches. Out: frozen values: resources, `Refs` of a namespace, what a resource owns. Nothing is decided by what is
read later in a reconcile, but by a NodeSet: with each new answer of Slurm, before it deletes, and while it writes
conditions. Decoded objects are kept by resourceVersion, since most of a namespace is the same at the next reconcile.
Called by every reconcile.
"""

from __future__ import annotations

import contextlib
from base64 import b64decode
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from kube_runtime.client.cache import Cache
from kube_runtime.client.objects import Node, Pod, RawObject
from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import Resource
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import Partition
from slurm_operator.api.restapi import RestApi
from slurm_operator.api.validate import Decoded, decode
from slurm_operator.build import images, labels, names
from slurm_operator.build.made_of import PodOrigin
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import may_serve_partitions
from slurm_operator.plan import pod_origin
from slurm_operator.plan.objects import Identity
from slurm_operator.plan.ownership import COMPONENTS, controller_of, is_controlled_by

BY_OWNER = "owner"
BY_NAMESPACE = "namespace"
# Of pods alone.
BY_CONTROLLER = "controller"
BY_DAEMON = "daemon"
BY_NODE = "node"
OURS_READ = ("Controller", "Accounting", "NodeSet", "RestApi", "Partition")
# Stands for the uid of whoever controls an object that nobody controls.
NO_CONTROLLER = ""
# What pods are made by, and how it is read what they were made of.
RECORDS: Mapping[str, Callable[[RawObject], PodOrigin]] = {
    "ControllerRevision": pod_origin.of_revision,
    "StatefulSet": pod_origin.of_workload,
    "Deployment": pod_origin.of_workload,
}
# A Controller's revisions are configurations.
CONFIG_HISTORY = ("ControllerRevision", "Controller")

R = TypeVar("R", bound=Resource)


def owners(item: Any) -> Iterable[str]:
    """Index function: the uids of an object's owners."""
    return [reference.uid for reference in item.metadata.owner_references]


def controllers(item: Any) -> Iterable[str]:
    """Index function: an object's namespace and the uid of what controls it; an owner elsewhere is none of ours."""
    owner = controller_of(item.metadata)
    return [_controller_key(item.metadata.namespace, owner.uid if owner is not None else NO_CONTROLLER)]


def _controller_key(namespace: str, uid: str) -> str:
    return f"{namespace}/{uid}"


def daemons(item: Any) -> Iterable[str]:
    """Index function: an object's namespace and the daemon that it says it is of."""
    return [_daemon_key(item.metadata.namespace, item.metadata.labels.get(labels.NAME, ""))]


def _daemon_key(namespace: str, daemon: str) -> str:
    return f"{namespace}/{daemon}"


def kubernetes_nodes(item: Any) -> Iterable[str]:
    """Index function: the Kubernetes node that a pod stands on; none while it stands on none."""
    return [item.spec.node_name] if item.spec.node_name else []


def namespaces(item: Any) -> Iterable[str]:
    """Index function: an object's namespace."""
    return [item.metadata.namespace]


@dataclass(slots=True)
class Observer:
    """Reads the caches of one operator."""

    # By kind; several caches of one kind when only some namespaces are watched.
    raw: Mapping[str, tuple[Cache[RawObject], ...]]
    pods: tuple[Cache[Pod], ...]
    nodes: Cache[Node] | None = None
    domain: str = "cluster.local"
    allowed_pod_features: frozenset[str] | None = None
    worker_images: tuple[str, ...] = images.TRUSTED
    # Kinds that need not be served, and those of them that are not.
    optional: frozenset[str] = frozenset()
    unserved: set[str] = field(default_factory=set)
    # By uid: the resourceVersion that was read, and what came of it.
    _decoded: dict[str, tuple[str, Decoded]] = field(default_factory=dict)
    _data: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    _records: dict[str, tuple[str, PodOrigin]] = field(default_factory=dict)
    _nodes_by_name: tuple[tuple[Node, ...], Mapping[str, Node]] = ((), MappingProxyType({}))

    def get(self, kind: str, namespace: str, name: str) -> RawObject | None:
        """One object as it is."""
        found = (cache.get(namespace, name) for cache in self.raw.get(kind, ()))
        return next((item for item in found if item is not None), None)

    def resource(self, kind: str, namespace: str, name: str) -> Decoded | None:
        """One of our resources, decoded, or what is wrong with it."""
        item = self.get(kind, namespace, name)
        return None if item is None else self._decode(item)

    def _decode(self, item: RawObject) -> Decoded:
        version, decoded = self._decoded.get(item.metadata.uid, ("", None))
        if decoded is None or version != item.metadata.resource_version:
            decoded = decode(item.content(), served=True)
            self._decoded[item.metadata.uid] = (item.metadata.resource_version, decoded)
        return decoded

    def on_deleted(self, kind: str, forget: Callable[[str], None]) -> None:
        """Call `forget` with the uid of each object of a kind that is gone, also when a namesake has its place."""
        self.on_gone(kind, lambda raw: forget(raw.metadata.uid))

    def on_gone(self, kind: str, forget: Callable[[RawObject], None]) -> None:
        """The same with the object as it was last."""

        def changed(old: RawObject | None, new: RawObject | None) -> None:
            if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
                forget(old)

        for cache in self.raw.get(kind, ()):
            cache.on_change(changed)

    def in_namespace(self, kind: str, namespace: str) -> Iterator[RawObject]:
        """Every object of a kind in a namespace."""
        for cache in self.raw.get(kind, ()):
            yield from cache.by_index(BY_NAMESPACE, namespace)

    def resources(self, kind: type[R], namespace: str) -> list[R]:
        """Our resources of a kind that can be read, by name; also those that are wrong, which say so themselves."""
        decoded = (self._decode(item).readable for item in self.in_namespace(kind.__name__, namespace))
        return sorted((each for each in decoded if isinstance(each, kind)), key=lambda each: each.name)

    def everywhere(self, kind: type[R]) -> Iterator[R]:
        """Our resources of a kind in all namespaces, as far as they can be read."""
        decoded = (self._decode(item).readable for cache in self.raw.get(kind.__name__, ()) for item in cache.items())
        return (each for each in decoded if isinstance(each, kind))

    def owned(self, uid: str) -> dict[Identity, RawObject]:
        """Every object that a resource controls."""
        result: dict[Identity, RawObject] = {}
        for caches in (caches for kind, caches in self.raw.items() if kind not in self.unserved):
            for cache in caches:
                for item in cache.by_index(BY_OWNER, uid):
                    if any(owner.uid == uid and owner.controller for owner in item.metadata.owner_references):
                        result[_identity(cache, item)] = item
        return result

    def live(self, wanted: Iterable[Identity]) -> dict[Identity, RawObject]:
        """The objects of these names that are there."""
        found = ((key, self.get(key[1], key[2], key[3])) for key in wanted)
        return {key: item for key, item in found if item is not None}

    def refs(self, namespace: str) -> Refs:
        """What the builders may look at."""
        return Refs(
            controllers={each.name: each for each in self.resources(Controller, namespace)},
            accountings={each.name: each for each in self.resources(Accounting, namespace)},
            nodesets=tuple(self.resources(NodeSet, namespace)),
            served=frozenset(_served(self.resources(RestApi, namespace))),
            partitions=tuple(self.resources(Partition, namespace)),
            config_maps={item.metadata.name: self._texts(item) for item in self.in_namespace("ConfigMap", namespace)},
            secrets={item.metadata.name: self._bytes(item) for item in self.in_namespace("Secret", namespace)},
            claims={
                item.metadata.name: self._modes(item) for item in self.in_namespace("PersistentVolumeClaim", namespace)
            },
            domain=self.domain,
            kubernetes_nodes=len(self.nodes) if self.nodes is not None else 0,
            serves_service_monitors=self._serves("ServiceMonitor"),
            governing_services=dict(self._governing(namespace)),
            unreadable=dict(self._unreadable(namespace)),
            allowed_pod_features=self.allowed_pod_features,
            worker_images=self.worker_images,
            pod_origins=self._pod_origins(namespace),
        )

    def _unreadable(self, namespace: str) -> Iterator[tuple[tuple[str, str], str]]:
        """Our resources that are there but cannot be read, and the Controller that each names as far as one can see."""
        for kind in OURS_READ:
            for item in self.in_namespace(kind, namespace):
                if self._decode(item).readable is None:
                    yield (kind, item.metadata.name), controller_name(item)
            for cache in self.raw.get(kind, ()):
                yield from (((kind, name), "") for place, name in cache.unreadable if place == namespace)

    def nodes_by_name(self) -> Mapping[str, Node]:
        """Kubernetes' nodes; the same mapping until one of them changes."""
        items = self.nodes.items() if self.nodes is not None else ()
        if self._nodes_by_name[0] is not items:
            self._nodes_by_name = (items, {node.metadata.name: node for node in items})
        return self._nodes_by_name[1]

    def unreadable_nodes(self) -> frozenset[str]:
        """The names of Kubernetes nodes that are there but cannot be read."""
        return frozenset(name for _, name in self.nodes.unreadable) if self.nodes is not None else frozenset()

    def unreadable_pods(self, namespace: str) -> list[str]:
        """The names of pods that are there but cannot be read."""
        return sorted(name for cache in self.pods for place, name in cache.unreadable if place == namespace)

    def refusal(self, kind: str, namespace: str) -> str:
        """Why objects of a kind cannot be read; empty when they can, or nobody serves them."""
        caches = self.raw.get(kind, ()) if kind not in self.unserved else ()
        return next((cache.refusal for cache in caches if cache.namespace in ("", namespace) and cache.refusal), "")

    def _serves(self, kind: str) -> bool:
        caches = self.raw.get(kind, ())
        return bool(caches) and kind not in self.unserved and all(cache.synced for cache in caches)

    def _governing(self, namespace: str) -> Iterator[tuple[str, str]]:
        for item in self.in_namespace("StatefulSet", namespace):
            service = item.content().get("spec", {}).get("serviceName")
            if service:
                yield item.metadata.name, str(service)

    def _pod_origins(self, namespace: str) -> dict[str, tuple[PodOrigin, ...]]:
        """By the uid of a resource: what its pods were made of, by each object that they were made by."""
        found: dict[str, tuple[PodOrigin, ...]] = {}
        for kind, read in RECORDS.items():
            for item in self.in_namespace(kind, namespace):
                owner = controller_of(item.metadata)
                if owner is not None and owner.kind in COMPONENTS and (kind, owner.kind) != CONFIG_HISTORY:
                    found[owner.uid] = (*found.get(owner.uid, ()), self._record(item, owner.uid, read))
        return found

    def _record(self, item: RawObject, owner: str, read: Callable[[RawObject], PodOrigin]) -> PodOrigin:
        version, origin = self._records.get(item.metadata.uid, ("", None))
        if origin is None or version != item.metadata.resource_version:
            origin = read(item)
            self._records[item.metadata.uid] = (item.metadata.resource_version, origin)
        hash_ = item.metadata.labels.get(labels.REVISION)
        if origin.pods or hash_ is None:
            return origin
        made = (
            pod
            for pod in self.controlled_pods(item.metadata.namespace, owner)
            if pod.metadata.labels.get(labels.REVISION) == hash_
        )
        return replace(origin, has_privileged_worker=any(_has_privileged_slurmd(pod) for pod in made))

    def _texts(self, item: RawObject) -> Mapping[str, str]:
        return self._remembered(item, lambda data: data)

    def _bytes(self, item: RawObject) -> Mapping[str, bytes]:
        return self._remembered(item, _decoded_values)

    def _modes(self, item: RawObject) -> tuple[str, ...]:
        return tuple(self._remembered(item, lambda spec: spec, "spec").get("accessModes") or ())

    def _remembered(self, item: RawObject, convert: Any, part: str = "data") -> Mapping[str, Any]:
        version, data = self._data.get(item.metadata.uid, ("", None))
        if data is None or version != item.metadata.resource_version:
            found = item.content().get(part)
            data = convert(found if isinstance(found, dict) else {})
            self._data[item.metadata.uid] = (item.metadata.resource_version, data)
        return data

    def forget(self, uid: str) -> None:
        """Drop what was remembered of an object that has gone."""
        self._decoded.pop(uid, None)
        self._data.pop(uid, None)
        self._records.pop(uid, None)

    def worker_pods(self, namespace: str, controller: str) -> Iterator[Pod]:
        """The worker pods of a cluster: those that its NodeSets control, and those that a NodeSet has left behind."""
        for uid in self._nodesets_of(namespace, controller):
            yield from self.controlled_pods(namespace, uid)
        wanted = {labels.NAME: labels.WORKER.daemon, labels.CLUSTER: controller}.items()
        yield from (pod for pod in self.orphaned_pods(namespace) if wanted <= pod.metadata.labels.items())

    def _nodesets_of(self, namespace: str, controller: str) -> Iterator[str]:
        """The uids of a cluster's NodeSets, also of those that cannot be read but for that."""
        for item in self.in_namespace("NodeSet", namespace):
            if controller_name(item) == controller:
                yield item.metadata.uid

    def controlled_pods(self, namespace: str, uid: str) -> tuple[Pod, ...]:
        """The pods that a resource, or a workload, controls; the same tuple until one of them changes."""
        return self._pods_by(BY_CONTROLLER, _controller_key(namespace, uid))

    def orphaned_pods(self, namespace: str) -> tuple[Pod, ...]:
        """The pods that nobody controls."""
        return self._pods_by(BY_CONTROLLER, _controller_key(namespace, NO_CONTROLLER))

    def pods_on(self, node: str) -> Iterator[Pod]:
        """The pods on a Kubernetes node, of every namespace."""
        for cache in self.pods:
            yield from cache.by_index(BY_NODE, node)

    def _pods_by(self, index: str, value: str) -> tuple[Pod, ...]:
        # What is asked for is in one namespace, and every cache that watches this has it.
        return next((pods for cache in self.pods if (pods := cache.by_index(index, value))), ())

    def pods_of(self, namespace: str, component: labels.Component, instances: Container[str]) -> list[Pod]:
        """The pods of some resources of one kind."""
        pods = self._pods_by(BY_DAEMON, _daemon_key(namespace, component.daemon))
        return [pod for pod in pods if pod.metadata.labels.get(labels.INSTANCE) in instances]

    def controller_pods(self, cr: Controller) -> list[Pod]:
        """The slurmctld pods of a Controller, by name: those of the StatefulSet that it controls."""
        workload = self.get("StatefulSet", cr.namespace, names.controller(cr))
        if workload is None or not is_controlled_by(cr.metadata.uid, workload.metadata):
            return []
        return sorted(self.controlled_pods(cr.namespace, workload.metadata.uid), key=lambda pod: pod.metadata.name)


def controller_name(item: RawObject) -> str:
    """The Controller that a resource says it belongs to, as far as that can be read."""
    spec = item.content().get("spec")
    reference = spec.get("controllerRef") if isinstance(spec, dict) else None
    name = reference.get("name") if isinstance(reference, dict) else None
    return name if isinstance(name, str) else ""


def _has_privileged_slurmd(pod: Pod) -> bool:
    slurmd = (each for each in pod.spec.containers if each.name == labels.WORKER.daemon)
    return any(each.security_context.privileged for each in slurmd)


def _served(restapis: Iterable[RestApi]) -> Iterator[str]:
    return (each.spec.controller_ref.name for each in restapis if may_serve_partitions(each))


def _identity(cache: Cache[RawObject], item: RawObject) -> Identity:
    return (cache.resource.api_version, cache.resource.kind, item.metadata.namespace, item.metadata.name)


def _decoded_values(data: Mapping[str, str]) -> dict[str, bytes]:
    """The values of a Secret; one that is not base64 is as good as missing."""
    found: dict[str, bytes] = {}
    for key, value in data.items():
        with contextlib.suppress(ValueError, TypeError):
            found[key] = b64decode(value)
    return found
