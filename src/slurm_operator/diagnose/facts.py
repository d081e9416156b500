"""What is known when a cause is looked for: one namespace of Kubernetes, and Slurm's own word, at one moment.

Made by `cli/kubectl/gather.py`, and by tests by hand. Kubernetes objects stay dictionaries: what a walk looks at is
spread over many kinds, and all of it may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slurm_operator.api.text import printable_lines, whole_number
from slurm_operator.build import labels
from slurm_operator.slurm.hostlist import EMPTY, HostList, HostListError

Object = Mapping[str, Any]

_FIELD = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z:/_]*)=")


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
    wants: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    """A partition as `scontrol show partition` shows it."""

    name: str
    state: str
    nodes: Collection[str] = EMPTY
    fields: Mapping[str, str] = field(default_factory=dict)


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


# What scontrol prints


def slurm_facts(nodes: str, jobs: str, partitions: str) -> Slurm:
    """Slurm's word out of what `scontrol -o show …` printed."""
    return Slurm(
        nodes={node.name: node for node in map(_node, rows(nodes, "NodeName"))},
        jobs={job.id: job for job in map(_job, rows(jobs, "JobId"))},
        partitions={each.name: each for each in map(_partition, rows(partitions, "PartitionName"))},
    )


def rows(text: str, first: str) -> Iterator[dict[str, str]]:
    """The fields of each line that begins with a certain one."""
    # Names and comments are what users typed: nothing in them begins a line or moves a cursor.
    for line in printable_lines(text).split("\n"):
        if line.startswith(f"{first}="):
            yield dict(pairs(line))


def pairs(line: str) -> Iterable[tuple[str, str]]:
    """`Key=value` pairs; a value may hold spaces."""
    marks = list(_FIELD.finditer(line))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        yield mark[1], line[mark.end() : following.start() if following else len(line)].strip()


def _node(row: Mapping[str, str]) -> SlurmNode:
    return SlurmNode(
        name=row["NodeName"],
        states=frozenset(row.get("State", "").replace("*", "+NOT_RESPONDING").upper().split("+")),
        # The reason is followed by who gave it and when.
        reason=row.get("Reason", "").partition(" [")[0],
        partitions=tuple(name for name in row.get("Partitions", "").split(",") if name),
        cpus=_number(row.get("CPUTot")),
        cpus_used=_number(row.get("CPUAlloc")),
    )


def _job(row: Mapping[str, str]) -> SlurmJob:
    return SlurmJob(
        id=row["JobId"],
        name=row.get("JobName", row.get("Name", "")),
        user=row.get("UserId", "").partition("(")[0],
        state=row.get("JobState", ""),
        reason=row.get("Reason", ""),
        partition=row.get("Partition", ""),
        nodes=_hosts(row.get("NodeList", "")),
        wants=dict(row),
    )


def _partition(row: Mapping[str, str]) -> SlurmPartition:
    return SlurmPartition(row["PartitionName"], row.get("State", ""), _hosts(row.get("Nodes", "")), dict(row))


def _hosts(text: str) -> Collection[str]:
    if not text or text == "(null)":
        return EMPTY
    try:
        return HostList(text)
    except HostListError:
        return (text,)


def shown_hosts(hosts: Collection[str]) -> str:
    """Nodes in a sentence, as short as Slurm writes them."""
    return hosts.text if isinstance(hosts, HostList) else ", ".join(hosts)


def _number(text: str | None) -> int:
    return whole_number(text or "") or 0
