"""Which resources a change concerns.

In: a changed object, or the nodes that changed in Slurm. Out: the keys of the resources to reconcile. Every reference
counts: a Secret or ConfigMap that a resource names anywhere, a Controller that it belongs to, a NodeSet or Partition in
slurm.conf. A Kubernetes node is everybody's, and many write on it: it concerns those alone who read what has changed.
Connected to the watches and to the polls by `reconcile/operator.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import Any

from kube_runtime.client.objects import Node, Pod, RawObject
from kube_runtime.loop.queue import Key
from kube_runtime.loop.watches import to_owner
from slurm_operator.api.meta import GROUP
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels, nodeset
from slurm_operator.build.errors import BuildError
from slurm_operator.build.metadata import Object
from slurm_operator.plan import placement
from slurm_operator.plan.records import NODE_NOT_FOUND
from slurm_operator.reconcile.observe import Observer

KeysOf = Callable[[Any], Iterable[Key]]
OWNER = to_owner(GROUP, "NodeSet")
# A place where a numbered worker may be.
HOME = (True, "")
# By daemon: the kind of the resource whose pods run it for a Controller.
SERVED = {labels.RESTAPI.daemon: "RestApi", labels.LOGIN.daemon: "LoginSet"}


@dataclass(slots=True)
class Triggers:
    """Maps changes to keys, by what the caches hold."""

    observer: Observer
    # By uid: the resourceVersion that was read, and the names in it.
    _names: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    # By the uid of a NodeSet: its pods, and what their Slurm nodes may be called.
    _hosts_of: dict[str, tuple[tuple[Pod, ...], frozenset[str]]] = field(default_factory=dict)
    # By the uid of a NodeSet: its generation, and where its workers may stand; None where that cannot be said.
    _placing: dict[str, tuple[int, Object | None]] = field(default_factory=dict)

    def referrers(self, kind: str) -> KeysOf:
        """Resources of a kind that name the changed object anywhere in a reference."""

        def keys(changed: Any) -> Iterator[Key]:
            for item in self.observer.in_namespace(kind, changed.metadata.namespace):
                if changed.metadata.name in self._referenced(item):
                    yield _key(item)

        return keys

    def named_controller(self, changed: RawObject) -> Iterator[Key]:
        """The Controller that the changed resource belongs to."""
        reference = (changed.content().get("spec") or {}).get("controllerRef") or {}
        if isinstance(reference, dict) and reference.get("name"):
            yield Key(changed.metadata.namespace, str(reference["name"]))

    def members(self, kind: str) -> KeysOf:
        """Resources of a kind that belong to the same Controller as the changed one."""

        def keys(changed: RawObject) -> Iterator[Key]:
            wanted = {key.name for key in self.named_controller(changed)}
            for item in self.observer.in_namespace(kind, changed.metadata.namespace):
                if wanted & {key.name for key in self.named_controller(item)}:
                    yield _key(item)

        return keys

    def controller_of_daemon(self, changed: Any) -> Iterator[Key]:
        """The Controller of a slurmctld, slurmrestd or login pod: it reports which of them run with its files."""
        namespace, found = changed.metadata.namespace, changed.metadata.labels
        daemon, instance = found.get(labels.NAME), found.get(labels.INSTANCE, "")
        if daemon == labels.CONTROLLER.daemon and instance:
            yield Key(namespace, instance)
        served = self.observer.get(SERVED[daemon], namespace, instance) if daemon in SERVED else None
        if served is not None:
            yield from self.named_controller(served)

    def users_of_claim(self, changed: Any) -> Iterator[Key]:
        """Controllers that keep their state in the changed claim."""
        for item in self.observer.in_namespace("Controller", changed.metadata.namespace):
            persistence = (item.content().get("spec") or {}).get("persistence") or {}
            if persistence.get("existingClaim") == changed.metadata.name:
                yield _key(item)

    def behind_controllers(self, kind: str) -> KeysOf:
        """Resources of a kind whose Controller names the changed object: its keys are theirs too."""
        named = self.referrers("Controller")

        def keys(changed: Any) -> Iterator[Key]:
            wanted = {key.name for key in named(changed)}
            for item in self.observer.in_namespace(kind, changed.metadata.namespace) if wanted else ():
                if wanted & {key.name for key in self.named_controller(item)}:
                    yield _key(item)

        return keys

    def every_key(self, kind: str) -> KeysOf:
        """All resources of a kind: for what may no longer be read, or may be again."""

        def keys(_: Any) -> Iterator[Key]:
            for cache in self.observer.raw.get(kind, ()):
                yield from (_key(item) for item in cache.items())

        return keys

    def users_of_kubernetes_node(self, old: Node | None, new: Node | None) -> Iterator[Key]:
        """The NodeSets that a node's change concerns: whose workers stand there, or may now, or may no longer."""
        name = next(each.metadata.name for each in (new, old) if each is not None)
        on_it = {key for pod in self.observer.pods_on(name) for key in OWNER(pod)}
        if said_of_workers(old) != said_of_workers(new):
            yield from on_it
        if placed_by(old) != placed_by(new):
            yield from self._placed_otherwise(name, old, new, on_it)

    def _placed_otherwise(self, name: str, old: Node | None, new: Node | None, on_it: Set[Key]) -> Iterator[Key]:
        """Those who place workers by a node, or keep them on theirs, and for whom it is another place than before."""
        mixed: set[str] = set()
        for cr in self.observer.everywhere(NodeSet):
            key = Key(cr.namespace, cr.name)
            if cr.is_daemon and self._wants_otherwise(cr, old, new):
                mixed.add(cr.namespace)
            elif _is_pinned_to(cr, name, is_on_it=key in on_it) and self._is_other_place(cr, old, new):
                yield key
        # Which host names one in DaemonSet mode takes counts for every NodeSet beside it.
        for namespace in mixed:
            yield from map(_key, self.observer.in_namespace("NodeSet", namespace))

    def _wants_otherwise(self, cr: NodeSet, old: Node | None, new: Node | None) -> bool:
        # A record may outlive its worker, and goes with the node.
        prunes = new is None and cr.spec.prune_slurm_node_records == NODE_NOT_FOUND
        return prunes or self._is_other_place(cr, old, new)

    def _is_other_place(self, cr: NodeSet, old: Node | None, new: Node | None) -> bool:
        try:
            return self._place(cr, old) != self._place(cr, new)
        except Exception:
            # Anybody may have written that overlay: its own reconcile meets it too, and no other waits for that.
            return True

    def _place(self, cr: NodeSet, node: Node | None) -> tuple[bool, str] | None:
        """What a node is for a NodeSet: whether a new worker belongs there, and its host name; None for no place."""
        spec = self._placing_spec(cr) if node is not None else None
        if node is None or spec is None or not placement.may_stay(spec, node):
            return None
        # Of its own node, a numbered worker only asks whether it may stay.
        return (placement.should_run(spec, node), placement.daemon_worker(node).hostname(cr)) if cr.is_daemon else HOME

    def _placing_spec(self, cr: NodeSet) -> Object | None:
        generation, spec = self._placing.get(cr.metadata.uid, (None, None))
        if generation != cr.metadata.generation:
            spec = _placing_spec(cr)
            self._placing[cr.metadata.uid] = (cr.metadata.generation, spec)
        return spec

    def users_of_slurm_nodes(self, controller: Key, nodes: frozenset[str] | None) -> Iterator[tuple[str, Key]]:
        """The resources that report on these nodes of a cluster (None: on any), or have to do with them.

        A node without a pod may be a record that any NodeSet has left. A Partition may hold any node: what it reports
        is made by its Controller's reconcile.
        """
        # Empty: no node is concerned, as when only a job that waits has changed.
        nodesets = self.observer.in_namespace("NodeSet", controller.namespace) if nodes is None or nodes else ()
        hosts = {_key(item): self._hosts(item) for item in nodesets if controller in self.named_controller(item)}
        concerns_all = nodes is None or bool(_without(nodes, hosts.values()))
        for key, own in hosts.items():
            if concerns_all or (nodes and not nodes.isdisjoint(own)):
                yield "NodeSet", key
        partitions = self.observer.in_namespace("Partition", controller.namespace)
        if any(controller in self.named_controller(item) for item in partitions):
            yield "Controller", controller

    def _hosts(self, nodeset: RawObject) -> frozenset[str]:
        """What the Slurm nodes of its workers may be called."""
        uid = nodeset.metadata.uid
        pods, known = self.observer.controlled_pods(nodeset.metadata.namespace, uid), self._hosts_of.get(uid)
        if known is None or known[0] is not pods:
            names = (name for pod in pods for name in (pod.spec.hostname, pod.metadata.name, pod.spec.node_name))
            known = self._hosts_of[uid] = (pods, frozenset(name for name in names if name))
        return known[1]

    def _referenced(self, item: RawObject) -> frozenset[str]:
        version, names = self._names.get(item.metadata.uid, ("", None))
        if names is None or version != item.metadata.resource_version:
            names = frozenset(referenced_names(item.content().get("spec") or {}))
            self._names[item.metadata.uid] = (item.metadata.resource_version, names)
        return names

    def forget(self, uid: str) -> None:
        """Drop what was remembered of an object that has gone."""
        self._names.pop(uid, None)
        self._hosts_of.pop(uid, None)
        self._placing.pop(uid, None)


def _is_pinned_to(cr: NodeSet, node: str, *, is_on_it: bool) -> bool:
    """Whether a number of the NodeSet belongs on a Kubernetes node, or gets to, as it runs there."""
    return cr.spec.pin_to_node and not cr.is_daemon and (is_on_it or node in (cr.status.ordinal_to_node or {}).values())


def _placing_spec(cr: NodeSet) -> Object | None:
    """Where its workers may stand; None for an overlay that cannot be laid: nothing is planned by it either."""
    try:
        return nodeset.placing_spec(cr)
    except BuildError:
        return None


def _without(nodes: frozenset[str], hosts: Iterable[frozenset[str]]) -> frozenset[str]:
    """The nodes that none of these has; ten thousand hosts are not copied for one node."""
    for own in hosts:
        nodes -= own
    return nodes


def referenced_names(value: Any) -> Iterator[str]:
    """The names in every field whose own name ends in Ref or Refs."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key.endswith(("Ref", "Refs")):
                yield from _names(item)
            yield from referenced_names(item)


def _names(value: Any) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield item["name"]


def spec_changed(old: Any, new: Any) -> bool:
    """Whether more than the status changed."""
    before, after = old.metadata, new.metadata
    return bool(
        before.generation != after.generation
        or before.labels != after.labels
        or before.annotations != after.annotations
        or before.finalizers != after.finalizers
        or before.deletion_timestamp != after.deletion_timestamp
    )


def daemon_changed(old: Any, new: Any) -> bool:
    """Whether a pod started or stopped: not by our own annotation."""
    return bool(
        old.status.phase != new.status.phase or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )


def node_changed(old: Node | None, new: Node | None) -> bool:
    """Whether anything of a Kubernetes node changed that is read of it: not its heartbeat, nor another's annotation."""
    return said_of_workers(old) != said_of_workers(new) or placed_by(old) != placed_by(new)


def said_of_workers(node: Node | None) -> tuple[Any, ...] | None:
    """What a Kubernetes node says of the workers on it.

    Its conditions only word a drain that follows from a cordon: they are read then, and change nothing by themselves.
    """
    if node is None:
        return None
    given = node.metadata.annotations
    reason = given.get(labels.NODE_CORDON_REASON, "") if node.spec.unschedulable else ""
    return node.spec.unschedulable, reason, given.get(labels.FEATURES, ""), given.get(labels.TOPOLOGY, "")


def placed_by(node: Node | None) -> tuple[Any, ...] | None:
    """What workers are placed on a Kubernetes node by, and named by there."""
    if node is None:
        return None
    return node.metadata.labels, node.spec.taints, node.metadata.annotations.get(labels.HOSTNAME_OVERRIDE)


def _key(item: RawObject) -> Key:
    return Key(item.metadata.namespace, item.metadata.name)
