"""Which resource a partition belongs to: a Partition, a NodeSet, a Controller's extraConf, or none.

In: facts and a name, Slurm's or the resource's. Out: an `Owner`, which is where it is changed for good; an scontrol
change of it would be reverted. Used by `diagnose/partition.py` and by the commands of `kubectl slurm partition`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slurm_operator.api.problem import did_you_mean
from slurm_operator.build import labels
from slurm_operator.diagnose.facts import (
    Facts,
    Object,
    Slurm,
    condition_of,
    controller_of,
    host_of,
    label_of,
    name_of,
    spec_of,
)
from slurm_operator.slurm import conf


@dataclass(frozen=True, slots=True)
class Owner:
    """The resource that declares a partition."""

    # Partition, NodeSet, or Controller for a line of its extraConf; empty for a partition that nothing declares.
    kind: str
    resource: Object
    # Its name in Slurm, and the Controller of its cluster.
    partition: str
    cluster: str

    @property
    def name(self) -> str:
        """The resource's name."""
        return name_of(self.resource)

    @property
    def place(self) -> str:
        """Where the options of the partition are written, for people."""
        if not self.kind:
            return "no resource"
        if self.kind == "Controller":
            return f"extraConf of Controller {self.name}"
        return f"{self.kind} {self.name}"

    @property
    def is_leaving(self) -> bool:
        """Whether the resource is being deleted, and its partition with it."""
        return bool((self.resource.get("metadata") or {}).get("deletionTimestamp"))


def owner_of(facts: Facts, name: str) -> Owner | None:
    """The owner of a partition of this name; a refused resource is its owner only if no other declares it."""
    found = list(owners(facts))
    by_object = [each for each in found if each.kind == "Partition" and each.name == name]
    by_title = [each for each in found if each.partition == name]
    by_nodeset = [each for each in found if each.kind == "NodeSet" and each.name == name]
    candidates = [*by_object, *by_title, *by_nodeset]
    return next((each for each in candidates if not _is_refused(each)), next(iter(candidates), None))


def owners(facts: Facts) -> Iterator[Owner]:
    """Every partition that a resource declares, in the order in which they get their names."""
    for each in facts.every("Controller"):
        for name in extra_partitions(each):
            yield Owner("Controller", each, name, name_of(each))
    for each in facts.every("NodeSet"):
        if has_partition(each):
            yield Owner("NodeSet", each, set_name(each), controller_of(each))
    for each in facts.every("Partition"):
        yield Owner("Partition", each, str(spec_of(each).get("partitionName") or name_of(each)), controller_of(each))


def extra_partitions(controller: Object) -> tuple[str, ...]:
    """The partitions of a Controller's own lines."""
    written = str(spec_of(controller).get("extraConf") or "")
    names = (entry.value for entry in conf.parse(written).all("PartitionName"))
    return tuple(dict.fromkeys(name for name in names if name.upper() != "DEFAULT"))


def has_partition(nodeset: Object) -> bool:
    """Whether a NodeSet makes a partition of its own name."""
    return bool((spec_of(nodeset).get("partition") or {}).get("enabled"))


def partition_config(nodeset: Object) -> str:
    """The options that a NodeSet gives its partition."""
    return str((spec_of(nodeset).get("partition") or {}).get("config") or "")


def set_name(nodeset: Object) -> str:
    """A NodeSet's name in Slurm."""
    template = (spec_of(nodeset).get("template") or {}).get("spec") or {}
    return str(template.get("hostname") or "").strip("-") or name_of(nodeset)


def worker_hosts(facts: Facts) -> frozenset[str]:
    """The names in Slurm of all workers."""
    pods = (pod for pod in facts.every("Pod") if label_of(pod).get(labels.NAME) == labels.WORKER.daemon)
    return frozenset(host_of(pod) for pod in pods)


def declared_sets(facts: Facts, cluster: str) -> frozenset[str]:
    """The NodeSets of a Controller's own lines, which a host list may name."""
    written = str(spec_of(facts.get("Controller", cluster) or {}).get("extraConf") or "")
    return frozenset(entry.value for entry in conf.parse(written).all("NodeSet"))


def unknown_partition(facts: Facts, name: str) -> str:
    """What is said of a partition that nobody declares and Slurm does not have."""
    known = {each.partition for each in owners(facts)}
    for slurm in facts.slurm.values():
        known |= set(slurm.partitions) if isinstance(slurm, Slurm) else set()
    return f"there is no partition {name!r} in namespace {facts.namespace}{did_you_mean(name, known)}"


def _is_refused(owner: Owner) -> bool:
    return (condition_of(owner.resource, "Accepted") or {}).get("status") == "False"
