"""What the builders may look at besides the resource itself: one namespace, read once.

Filled by `reconcile/observe.py` from the caches and by `cli/world.py` from files. Look-ups by name never leave the
namespace, because it contains nothing of another namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import ControllerRef
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import Partition
from slurm_operator.api.problem import Path
from slurm_operator.build import images
from slurm_operator.build.errors import InvalidSpec, MissingReference, UnreadableReference
from slurm_operator.build.made_of import PodOrigin

# The kinds whose resources stand in slurm.conf, or change what stands there.
MEMBERS = ("NodeSet", "Partition", "RestApi")
CONTROLLER_REF: Path = ("spec", "controllerRef")


@dataclass(frozen=True, slots=True)
class Refs:
    """One namespace as the builders see it."""

    controllers: Mapping[str, Controller] = field(default_factory=dict)
    accountings: Mapping[str, Accounting] = field(default_factory=dict)
    nodesets: tuple[NodeSet, ...] = ()
    partitions: tuple[Partition, ...] = ()
    # The Controllers with a RestApi that may change partitions: only there can it be done live.
    served: frozenset[str] = frozenset()
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    # The access modes of claims.
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    domain: str = "cluster.local"
    kubernetes_nodes: int = 0
    serves_service_monitors: bool = True
    # What a StatefulSet of an older release is governed by; the field cannot change without losing its pods.
    governing_services: Mapping[str, str] = field(default_factory=dict)
    # By kind and name: what is there but cannot be read, and the Controller that it names, empty when not even that
    # can be read. It is neither absent nor known: nothing is released, pruned or left out on its account.
    unreadable: Mapping[tuple[str, str], str] = field(default_factory=dict)
    # How far pod templates may reach; None where nobody has set a bound, as on the command line.
    allowed_pod_features: frozenset[str] | None = None
    # The images that a privileged worker may run: repositories, or all below one that ends in `/`.
    worker_images: tuple[str, ...] = images.TRUSTED
    # By the uid of a resource, what pods of it were made of before.
    pod_origins: Mapping[str, tuple[PodOrigin, ...]] = field(default_factory=dict)

    def controller(self, namespace: str, ref: ControllerRef) -> Controller:
        """The Controller that a resource belongs to."""
        if ref.namespace not in (None, "", namespace):
            raise InvalidSpec(
                (*CONTROLLER_REF, "namespace"),
                f"must be {namespace!r}, the namespace of this resource; references do not leave it",
            )
        found = self.controllers.get(ref.name)
        if found is None and ("Controller", ref.name) in self.unreadable:
            raise UnreadableReference((*CONTROLLER_REF, "name"), "Controller", ref.name)
        if found is None:
            raise MissingReference((*CONTROLLER_REF, "name"), "Controller", ref.name)
        return found

    def config_map(self, name: str, path: Path) -> Mapping[str, str]:
        """The data of a ConfigMap that must be there."""
        if name not in self.config_maps:
            raise MissingReference(path, "ConfigMap", name)
        return self.config_maps[name]

    def secret_value(self, name: str, key: str, path: Path) -> bytes:
        """The value of a Secret's key that must be there."""
        if name not in self.secrets:
            raise MissingReference((*path, "name"), "Secret", name)
        if key not in self.secrets[name]:
            raise MissingReference((*path, "key"), "Secret key", key, f"Secret {name!r} has no key {key!r}")
        return self.secrets[name][key]

    def nodesets_of(self, controller: Controller) -> tuple[NodeSet, ...]:
        """The NodeSets of a cluster, by name."""
        mine = (nodeset for nodeset in self.nodesets if nodeset.spec.controller_ref.name == controller.name)
        return tuple(sorted(mine, key=lambda nodeset: nodeset.name))

    def partitions_of(self, controller: Controller) -> tuple[Partition, ...]:
        """The Partitions of a cluster, oldest first."""
        mine = (partition for partition in self.partitions if partition.spec.controller_ref.name == controller.name)
        return tuple(sorted(mine, key=lambda each: (each.metadata.creation_timestamp or "", each.name)))

    def members_unreadable(self, controller: Controller, *kinds: str) -> list[tuple[str, str]]:
        """What belongs to a cluster, or may belong to it, and cannot be read, by kind and name."""
        found = (key for key, named in self.unreadable.items() if named in ("", controller.name))
        return sorted(key for key in found if key[0] in kinds)

    def demand_readable(self, controller: Controller) -> None:
        """Raise `UnreadableReference` when something that stands in a cluster's configuration cannot be read."""
        ref = controller.spec.accounting_ref
        if ref and ("Accounting", ref.name) in self.unreadable:
            raise UnreadableReference(("spec", "accountingRef", "name"), "Accounting", ref.name)
        unreadable = self.members_unreadable(controller, *MEMBERS)
        if unreadable:
            raise UnreadableReference((), *unreadable[0])

    def accounting_of(self, controller: Controller) -> Accounting | None:
        """The Accounting of a cluster; one that is named but missing counts as none."""
        ref = controller.spec.accounting_ref
        return self.accountings.get(ref.name) if ref and ref.name else None
