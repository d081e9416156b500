"""What is known when a cause is looked for: one namespace of Kubernetes, and what Slurm reports, at one moment.

Made by `cli/kubectl/gather.py`, with Slurm's part by `scontrol.py`, and by tests by hand. Kubernetes objects stay
dictionaries: what a walk looks at is spread over many kinds, and all of it may be missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slurm_operator.build import labels
from slurm_operator.slurm.hostlist import EMPTY, HostList
from slurm_operator.slurm.model import Partition

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node as `scontrol show node` shows it."""

    name: str
    states: frozenset[str]
    reason: str = ""
    partitions: tuple[str, ...] = ()
    cpus: int = 0
    cpus_used: int = 0


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job as `scontrol show job` shows it."""

    id: str
    name: str
    user: str
    state: str
    reason: str = ""
    partition: str = ""
    nodes: Collection[str] = EMPTY
    # By scontrol's words for them.
    wants: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    """A partition as `scontrol show partition` shows it."""

    name: str
    state: str
    nodes: Collection[str] = EMPTY
    # All of its options.
    record: Partition | None = None


@dataclass(frozen=True, slots=True)
class Slurm:
    """What one cluster's slurmctld says."""

    nodes: Mapping[str, SlurmNode] = field(default_factory=dict)
    jobs: Mapping[str, SlurmJob] = field(default_factory=dict)
    partitions: Mapping[str, SlurmPartition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Silence:
    """Slurm could not be asked."""

    why: str


@dataclass(frozen=True, slots=True)
class Facts:
    """One namespace at one moment."""

    namespace: str
    # Kind, then name.
    objects: Mapping[str, Mapping[str, Object]] = field(default_factory=dict)
    # By the Controller's name.
    slurm: Mapping[str, Slurm | Silence] = field(default_factory=dict)
    # The last lines of containers that are not well, by pod and container.
    logs: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    # When it was looked at, as Kubernetes writes times; empty when nobody said.
    now: str = ""

    def get(self, kind: str, name: str) -> Object | None:
        """One object."""
        return self.objects.get(kind, {}).get(name)

    def every(self, kind: str) -> list[Object]:
        """The objects of a kind, by name."""
        return [item for _, item in sorted(self.objects.get(kind, {}).items())]

    def pods_of(self, component: labels.Component, instance: str) -> list[Object]:
        """The pods of one resource."""
        wanted = labels.selector(component, instance).items()
        return [pod for pod in self.every("Pod") if wanted <= dict(label_of(pod)).items()]

    def events_of(self, kind: str, name: str) -> list[Object]:
        """What was reported about an object, newest last."""
        mine = [event for event in self.every("Event") if _regards(event, kind, name)]
        return sorted(mine, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))

    def slurm_of(self, controller: str) -> Slurm | Silence:
        """A cluster's own word."""
        return self.slurm.get(controller, Silence(f"Controller {controller!r} was not asked"))


def seconds_since(facts: Facts, item: Object) -> float | None:
    """How long ago somebody last wrote what an object wants, by the API server's record; None when it has none."""
    metadata = item.get("metadata") or {}
    entries = [each for each in metadata.get("managedFields") or () if not each.get("subresource")]
    times = [str(each["time"]) for each in entries if each.get("time")] or [str(metadata.get("creationTimestamp", ""))]
    try:
        return (datetime.fromisoformat(facts.now) - datetime.fromisoformat(max(times))).total_seconds()
    except (ValueError, TypeError):
        return None


def _regards(event: Object, kind: str, name: str) -> bool:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return about.get("kind") == kind and about.get("name") == name


def name_of(item: Object) -> str:
    """An object's name."""
    return str((item.get("metadata") or {}).get("name", ""))


def label_of(item: Object) -> Mapping[str, str]:
    """An object's labels."""
    return (item.get("metadata") or {}).get("labels") or {}


def annotation_of(item: Object, key: str) -> str:
    """One annotation, or nothing."""
    return str(((item.get("metadata") or {}).get("annotations") or {}).get(key, ""))


def spec_of(item: Object) -> Mapping[str, Any]:
    """An object's spec."""
    return item.get("spec") or {}


def status_of(item: Object) -> Mapping[str, Any]:
    """An object's status."""
    return item.get("status") or {}


def condition_of(item: Object, kind: str) -> Mapping[str, Any] | None:
    """One condition of an object."""
    found = (each for each in status_of(item).get("conditions") or () if each.get("type") == kind)
    return next(found, None)


def controller_of(item: Object) -> str:
    """The Controller that a resource belongs to."""
    return str((spec_of(item).get("controllerRef") or {}).get("name", ""))


def host_of(pod: Object) -> str:
    """The name that a worker has in Slurm."""
    spec = spec_of(pod)
    return str(label_of(pod).get(labels.POD_HOSTNAME) or spec.get("hostname") or name_of(pod))


def shown_hosts(hosts: Collection[str]) -> str:
    """Nodes in a sentence, as short as Slurm writes them."""
    return hosts.text if isinstance(hosts, HostList) else ", ".join(hosts)
