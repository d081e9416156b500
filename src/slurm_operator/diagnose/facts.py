"""What is known when a cause is looked for: one namespace of Kubernetes, and what Slurm reports, at one moment.

Made by `cli/kubectl/gather.py`, with Slurm's part by `scontrol.py`, and by tests by hand. Kubernetes objects stay
dictionaries: what a walk looks at is spread over many kinds, and all of it may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeVar

from kube_runtime.times import parse_time
from slurm_operator.build import labels
from slurm_operator.slurm.hostlist import EMPTY, HostList
from slurm_operator.slurm.model import Limit, Partition

T = TypeVar("T")
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node as `scontrol show node` shows it."""

    name: str
    states: frozenset[str]
    reason: str = ""
    comment: str = ""
    partitions: tuple[str, ...] = ()
    cpus: int = 0
    cpus_used: int = 0
    memory_mib: int = 0
    memory_used_mib: int = 0
    features: frozenset[str] = frozenset()
    # By the name of a generic resource: how many there are, and how many are in use.
    gres: Mapping[str, int] = field(default_factory=dict)
    gres_used: Mapping[str, int] = field(default_factory=dict)
    # Who set the reason and when, in seconds since 1970, and the reservation that the node is in.
    reason_by: str = ""
    reason_at: int = 0
    reservation: str = ""


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
    # The code of Slurm's reason; `reason` may be a longer text.
    code: str = ""
    priority: int = 0
    # What it needs to start.
    node_count: int = 1
    cpus: int = 1
    # On each node; for a job that asks for memory per CPU, `memory_per_cpu_mib` counts.
    memory_mib: int = 0
    memory_per_cpu_mib: int = 0
    # Of a job that says neither: Slurm gives it all memory of each node, which on average is so much.
    whole_memory_mib: int = 0
    # What must fit on one node: neither a task nor the tasks that belong on the same node are split.
    cpus_per_task: int = 1
    tasks_per_node: int = 0
    min_cpus_per_node: int = 0
    # 0 where it may spread over any number.
    max_nodes: int = 0
    gres: Mapping[str, int] = field(default_factory=dict)
    exclusive: bool = False
    required: Collection[str] = EMPTY
    excluded: Collection[str] = EMPTY
    # Seconds since 1970, 0 where Slurm has none; of a job that waits, the start that Slurm expects.
    start: int = 0
    end: int = 0
    # Of an array: its id, and the tasks that this record stands for.
    array: str = ""
    tasks: str = ""
    # Of a component of a heterogeneous job: `12+1`.
    component: str = ""
    can_requeue: bool = False
    failed_node: str = ""


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    """A partition as `scontrol show partition` shows it."""

    name: str
    state: str
    nodes: Collection[str] = EMPTY
    # In minutes.
    max_time: Limit = None
    max_nodes: Limit = None
    min_nodes: int = 0
    qos: str = ""
    # All of its options.
    record: Partition | None = None


@dataclass(frozen=True, slots=True)
class SlurmReservation:
    """A reservation; times are seconds since 1970."""

    name: str
    start: int = 0
    end: int = 0
    users: tuple[str, ...] = ()
    nodes: Collection[str] = EMPTY


@dataclass(frozen=True, slots=True)
class SlurmLicense:
    """A license, and how many there are."""

    name: str
    total: int = 0
    used: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """What sacctmgr says of limits: rows by column, of every QOS, and of every association."""

    qos: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    associations: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Indexed:
    """Facts that are searched in several ways: each index is built once and kept, since there may be thousands."""

    _index: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` returns, made once."""
        if name not in self._index:
            self._index[name] = make()
        found: T = self._index[name]
        return found


@dataclass(frozen=True, slots=True)
class Slurm(Indexed):
    """What one cluster's slurmctld says."""

    nodes: Mapping[str, SlurmNode] = field(default_factory=dict)
    jobs: Mapping[str, SlurmJob] = field(default_factory=dict)
    partitions: Mapping[str, SlurmPartition] = field(default_factory=dict)
    # Fetched only if a job waits for one of them; None if they were not fetched, or there was no answer.
    reservations: Mapping[str, SlurmReservation] | None = None
    licenses: Mapping[str, SlurmLicense] | None = None
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """Slurm could not be asked."""

    why: str


@dataclass(frozen=True, slots=True)
class Facts(Indexed):
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
    # Names and keys of Secrets, never their values, each with a fingerprint; None when they may not be read.
    secrets: Mapping[str, Mapping[str, str]] | None = None
    # By the Accounting's name: what sacctmgr said of a slurmdbd that did not answer; empty when it answered.
    databases: Mapping[str, str] = field(default_factory=dict)
    # Login pods that should run sssd, and do not.
    without_sssd: frozenset[str] = frozenset()

    def get(self, kind: str, name: str) -> Object | None:
        """One object."""
        return self.objects.get(kind, {}).get(name)

    def every(self, kind: str) -> list[Object]:
        """The objects of a kind, by name."""
        return self.once(kind, lambda: [item for _, item in sorted(self.objects.get(kind, {}).items())])

    def pods_of(self, component: labels.Component, instance: str) -> list[Object]:
        """The pods of one resource."""
        wanted = labels.selector(component, instance).items()
        return [pod for pod in self.every("Pod") if wanted <= dict(label_of(pod)).items()]

    def events_of(self, kind: str, name: str) -> list[Object]:
        """What was reported about an object, newest last."""
        return self.once("events by object", self._events_by_object).get((kind, name), [])

    def _events_by_object(self) -> dict[tuple[object, object], list[Object]]:
        found: dict[tuple[object, object], list[Object]] = {}
        for event in sorted(self.every("Event"), key=_time_of):
            about = event.get("involvedObject") or event.get("regarding") or {}
            found.setdefault((about.get("kind"), about.get("name")), []).append(event)
        return found

    def worker(self, name: str) -> Object | None:
        """The worker that has a name, as a pod or in Slurm."""
        return self.once("workers by name", self._workers_by_name).get(name)

    def _workers_by_name(self) -> dict[str, Object]:
        workers = [pod for pod in self.every("Pod") if label_of(pod).get(labels.NAME) == labels.WORKER.daemon]
        found: dict[str, Object] = {}
        for pod in workers:
            # The first of several, as they are listed.
            found.setdefault(name_of(pod), pod)
            found.setdefault(host_of(pod), pod)
        return found

    def slurm_of(self, controller: str) -> Slurm | Silence:
        """What a cluster reports, or why it reports nothing."""
        return self.slurm.get(controller, Silence(f"Controller {controller!r} was not asked"))


def fingerprint(value: bytes) -> str:
    """Tells two values of Secrets apart, so no value has to be kept."""
    return sha256(value).hexdigest()


def age_seconds(facts: Facts, time: object) -> float | None:
    """How long ago that was; None when nobody knows."""
    then, now = parse_time(str(time or "")), parse_time(facts.now)
    return (now - then).total_seconds() if then is not None and now is not None else None


def clock(facts: Facts, seconds: int) -> str:
    """A moment for people: only the time if it is today, otherwise with the date."""
    moment, now = datetime.fromtimestamp(seconds, UTC), parse_time(facts.now)
    if now is not None and moment.date() == now.astimezone(UTC).date():
        return f"{moment:%H:%M:%S} UTC"
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def seconds_since(facts: Facts, item: Object) -> float | None:
    """How long ago somebody last wrote what an object wants, by the API server's record; None when it has none."""
    metadata = item.get("metadata") or {}
    entries = [each for each in metadata.get("managedFields") or () if not each.get("subresource")]
    times = [str(each["time"]) for each in entries if each.get("time")] or [str(metadata.get("creationTimestamp", ""))]
    try:
        return (datetime.fromisoformat(facts.now) - datetime.fromisoformat(max(times))).total_seconds()
    except (ValueError, TypeError):
        return None


def _time_of(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


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


def is_ready(item: Object) -> bool:
    """Whether an object's condition Ready is True."""
    return (condition_of(item, "Ready") or {}).get("status") == "True"


def controller_of(item: Object) -> str:
    """The Controller that a resource belongs to."""
    return str((spec_of(item).get("controllerRef") or {}).get("name", ""))


def host_of(pod: Object) -> str:
    """The name that a worker has in Slurm."""
    spec = spec_of(pod)
    return str(label_of(pod).get(labels.POD_HOSTNAME) or spec.get("hostname") or name_of(pod))


def known_hosts(hosts: Collection[str], known: Set[str]) -> Set[str]:
    """The nodes that are in both collections, without comparing each with each."""
    return hosts.within(known) if isinstance(hosts, HostList) else known & set(hosts)


def shown_hosts(hosts: Collection[str]) -> str:
    """Nodes in a sentence, as short as Slurm writes them."""
    return hosts.text if isinstance(hosts, HostList) else ", ".join(hosts)
