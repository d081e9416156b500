"""What can be asked of Slurm, as data. In: names and changes. Out: `Request`, ready for any REST version. No I/O.

Every name and every text is checked here, since slurmrestd takes host lists where a name is meant (`n[0-9]` would
change ten nodes) and slurmctld accepts partition names that slurm.conf cannot hold. Requests are made by `client.py`,
changes by the planners; a version's adapter says whether its server has what a request `needs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from slurm_operator.slurm import hostlist
from slurm_operator.slurm.errors import SlurmRejected
from slurm_operator.slurm.model import UNLIMITED, Limit
from slurm_operator.slurm.policy import BACK_IN_SERVICE_REASON, drain_reason

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
_CONF_VALUE = re.compile(r"[A-Za-z0-9_.:,/()\[\]+*-]+")
_NOT_A_NAME = re.compile(
    r"t|true|f|false|y|yes|n|no|on|off|null|nan|inf|infinity|[0-9]+\.?[0-9]*|[0-9.]+e[+-]?[0-9]+|0x[0-9a-f]+",
    re.IGNORECASE,
)
MAX_TEXT_CHARACTERS = 16_384

PartitionState = Literal["UP", "DOWN", "DRAIN", "INACTIVE"]


class Feature(Enum):
    """A call that not every REST version has, in words for the person who reads the refusal."""

    TOPOLOGY = "setting a node's topology"
    RESERVATIONS = "changing reservations"
    PARTITIONS = "changing partitions live"
    CONF = "reading the running configuration"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `path` starts after the version; `label` names it in errors and metrics without any object's name."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    label: str
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, Any] | None = None
    needs: Feature | None = None
    large: bool = False
    is_usually_small: bool = False


class NodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """What to change in node records; None leaves a field as it is."""

    state: Literal["DRAIN", "UNDRAIN", "RESUME", "DOWN", "IDLE", "FAIL"] | None = None
    reason: str | None = None
    features: tuple[str, ...] | None = None
    active_features: tuple[str, ...] | None = None
    comment: str | None = None
    extra: str | None = None
    topology: str | None = None
    weight: int | None = None


class PartitionChange(msgspec.Struct, frozen=True, kw_only=True):
    """A partition to create, or what to change in it; None leaves a field as it is. Times are in minutes.

    `flags` maps DEFAULT, HIDDEN, NO_ROOT, ROOT_ONLY, REQ_RESV, LLN, PDOI to on or off. Empty text lifts a restriction.
    """

    name: str
    nodes: str | None = None
    state: PartitionState | None = None
    flags: Mapping[str, bool] = {}
    max_time: Limit = None
    default_time: Limit = None
    grace_time: int | None = None
    max_nodes: Limit = None
    min_nodes: int | None = None
    max_cpus_per_node: Limit = None
    max_cpus_per_socket: Limit = None
    over_time_limit: Limit = None
    priority_tier: int | None = None
    priority_job_factor: int | None = None
    preempt_mode: tuple[str, ...] | None = None
    oversubscribe: str | None = None
    oversubscribe_jobs: int | None = None
    exclusive: str | None = None
    allowed_accounts: str | None = None
    denied_accounts: str | None = None
    allowed_groups: str | None = None
    allowed_qos: str | None = None
    denied_qos: str | None = None
    qos: str | None = None
    alternate: str | None = None
    allowed_alloc_nodes: str | None = None
    memory_per_cpu: Limit = None
    memory_per_node: Limit = None
    max_memory_per_cpu: Limit = None
    max_memory_per_node: Limit = None
    billing_weights: str | None = None
    job_defaults: str | None = None
    topology: str | None = None


class ReservationChange(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation to create, or what to change in it; times in seconds since 1970, duration in minutes."""

    name: str
    nodes: tuple[str, ...] | None = None
    users: tuple[str, ...] | None = None
    accounts: tuple[str, ...] | None = None
    flags: tuple[str, ...] | None = None
    partition: str | None = None
    start_time: int | None = None
    duration: Limit = None
    comment: str | None = None


class JobSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """A batch job. `more` holds further fields of Slurm's job description, as the REST version spells them."""

    script: str
    name: str = "job"
    partition: str | None = None
    nodes: str | None = None
    required_nodes: tuple[str, ...] = ()
    time_limit: int | None = None
    directory: str = "/tmp"  # noqa: S108 - where Slurm starts the job, on the node
    environment: tuple[str, ...] = ("PATH=/usr/local/bin:/usr/bin:/bin",)
    more: Mapping[str, Any] = {}


def read(what: str, *, since: int | None = None, needs: Feature | None = None) -> Request:
    """A list or a document of slurmctld."""
    query = (("update_time", str(since)),) if since is not None else ()
    return Request(method="GET", path=f"/{what}", label=f"GET {what}", query=query, needs=needs, large=True)


def read_job_states() -> Request:
    """The states of all jobs."""
    return msgspec.structs.replace(read("jobs/state"), is_usually_small=True)


def read_one(kind: str, name: str) -> Request:
    """One object by name."""
    return Request(method="GET", path=f"/{kind}/{_in_path(kind, name)}", label=f"GET {kind}")


def update_nodes(names: Iterable[str], change: NodeChange) -> Request:
    """One change of many nodes. A name that Slurm does not know is an error, but the other nodes are changed."""
    chosen = [_checked("node", name) for name in names]
    if not chosen:
        raise SlurmRejected("a node change names no node")
    body: dict[str, Any] = {"name": [hostlist.compress(chosen)]}
    _put(body, "state", [change.state] if change.state else None)
    _put(body, "reason", _node_reason(change))
    _put(body, "features", _conf_names("feature", change.features))
    _put(body, "features_act", _conf_names("feature", change.active_features))
    _put(body, "comment", _text("comment", change.comment))
    _put(body, "extra", _text("extra", change.extra))
    _put(body, "topology_str", _text("topology", change.topology))
    _put(body, "weight", _number(change.weight))
    needs = Feature.TOPOLOGY if change.topology is not None else None
    return Request(method="POST", path="/nodes/", label="POST nodes", body=body, needs=needs)


def delete_node(name: str) -> Request:
    """Remove a node record; refused while jobs run on it."""
    return Request(method="DELETE", path=f"/node/{_in_path('node', name)}", label="DELETE node")


def delete_nodes(names: Iterable[str]) -> Iterator[Request]:
    """Remove node records, each range of numbers in one call: slurmrestd takes no comma in a path.

    One that Slurm does not know, or that has jobs, is an error; the others of its range are removed.
    """
    for some in hostlist.ranges(_checked("node", name) for name in names):
        path = f"/node/{quote(hostlist.compress(some), safe='')}"
        yield Request(method="DELETE", path=path, label="DELETE node")


def set_partition(change: PartitionChange) -> Request:
    """Create the partition, or change what is given of it."""
    return Request(
        method="POST",
        path="/partitions/",
        label="POST partitions",
        body={"partitions": [_partition_body(change)]},
        needs=Feature.PARTITIONS,
    )


def delete_partition(name: str) -> Request:
    """Remove a partition; refused while it is in use."""
    if not is_read_as_name(name):
        raise SlurmRejected(
            f"slurmrestd reads {name!r} in a path as a number or a boolean; use scontrol delete partitionname={name}"
        )
    path = f"/partition/{_in_path('partition', name)}"
    return Request(method="DELETE", path=path, label="DELETE partition", needs=Feature.PARTITIONS)


def is_read_as_name(name: str) -> bool:
    """Whether slurmrestd reads this word of a path as text; it takes `t`, `off` or `007` for something else."""
    return not _NOT_A_NAME.fullmatch(name)


def set_reservation(change: ReservationChange) -> Request:
    """Create the reservation, or change what is given of it."""
    body: dict[str, Any] = {"name": _checked("reservation", change.name)}
    nodes = change.nodes
    _put(body, "node_list", None if nodes is None else [_checked("node", name) for name in nodes])
    _put(body, "users", _conf_names("user", change.users))
    _put(body, "accounts", _conf_names("account", change.accounts))
    _put(body, "flags", _conf_names("flag", change.flags))
    _put(body, "partition", change.partition)
    _put(body, "start_time", _number(change.start_time))
    _put(body, "duration", _number(change.duration))
    _put(body, "comment", _text("comment", change.comment))
    return Request(method="POST", path="/reservation", label="POST reservation", body=body, needs=Feature.RESERVATIONS)


def delete_reservation(name: str) -> Request:
    """Remove a reservation."""
    path = f"/reservation/{_in_path('reservation', name)}"
    return Request(method="DELETE", path=path, label="DELETE reservation", needs=Feature.RESERVATIONS)


def submit_job(job: JobSubmission) -> Request:
    """Submit a batch job."""
    body: dict[str, Any] = {
        "name": job.name,
        "current_working_directory": job.directory,
        "environment": list(job.environment),
    }
    _put(body, "partition", job.partition)
    _put(body, "nodes", job.nodes)
    _put(body, "required_nodes", list(job.required_nodes) or None)
    _put(body, "time_limit", _number(job.time_limit))
    whole = {"script": job.script, "job": body | dict(job.more)}
    return Request(method="POST", path="/job/submit", label="POST job/submit", body=whole)


def cancel_job(job_id: int) -> Request:
    """Cancel a job."""
    return Request(method="DELETE", path=f"/job/{job_id:d}", label="DELETE job")


def reconfigure() -> Request:
    """Make slurmctld read its files again. Slurm serves this as a GET; here it counts as the write that it is."""
    return Request(method="GET", path="/reconfigure", label="GET reconfigure")


def _partition_body(change: PartitionChange) -> dict[str, Any]:
    body = _nested(_partition_texts(change) | _partition_numbers(change))
    body["name"] = _checked("partition", change.name)
    if change.flags:
        body["flags"] = [flag if on else f"{flag}_CLEAR" for flag, on in sorted(change.flags.items())]
    if change.preempt_mode is not None:
        body["preempt_mode"] = list(change.preempt_mode)
    if change.state is not None:
        body.setdefault("partition", {})["state"] = [change.state]
    return body


def _partition_texts(change: PartitionChange) -> dict[str, Any]:
    texts = {
        "nodes.configured": change.nodes,
        "nodes.allowed_allocation": change.allowed_alloc_nodes,
        "accounts.allowed": change.allowed_accounts,
        "accounts.deny": change.denied_accounts,
        "groups.allowed": change.allowed_groups,
        "qos.allowed": change.allowed_qos,
        "qos.deny": change.denied_qos,
        "qos.assigned": change.qos,
        "alternate": change.alternate,
        "topology": change.topology,
        "tres.billing_weights": change.billing_weights,
        "defaults.job": change.job_defaults,
        "partition.exclusive": change.exclusive,
        "partition.oversubscribe": change.oversubscribe,
    }
    return {path: _text(path, text) for path, text in texts.items()}


def _partition_numbers(change: PartitionChange) -> dict[str, Any]:
    return {
        "defaults.time": _number(change.default_time),
        "defaults.partition_memory_per_cpu": _number(change.memory_per_cpu),
        "defaults.partition_memory_per_node": _number(change.memory_per_node),
        "maximums.time": _number(change.max_time),
        "maximums.nodes": _number(change.max_nodes),
        "maximums.cpus_per_node": _number(change.max_cpus_per_node),
        "maximums.cpus_per_socket": _number(change.max_cpus_per_socket),
        "maximums.over_time_limit": _number(change.over_time_limit),
        "maximums.partition_memory_per_cpu": _number(change.max_memory_per_cpu),
        "maximums.partition_memory_per_node": _number(change.max_memory_per_node),
        "maximums.oversubscribe.jobs": change.oversubscribe_jobs,
        "minimums.nodes": change.min_nodes,
        "grace_time": change.grace_time,
        "priority.tier": change.priority_tier,
        "priority.job_factor": change.priority_job_factor,
    }


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`, without what is None."""
    whole: dict[str, Any] = {}
    for path, value in flat.items():
        if value is not None:
            *outer, last = path.split(".")
            place = whole
            for key in outer:
                place = place.setdefault(key, {})
            place[last] = value
    return whole


def _put(body: dict[str, Any], key: str, value: object) -> None:
    if value is not None:
        body[key] = value


def _number(value: Limit) -> dict[str, object] | None:
    """A number as Slurm spells one that may be unlimited."""
    if value is None:
        return None
    if value == UNLIMITED:
        return {"set": False, "infinite": True, "number": 0}
    return {"set": True, "infinite": False, "number": value}


def _node_reason(change: NodeChange) -> str | None:
    if change.state in ("UNDRAIN", "RESUME"):
        return BACK_IN_SERVICE_REASON
    if change.reason is not None:
        return drain_reason(change.reason) if change.reason else ""
    if change.state in {"DRAIN", "DOWN", "FAIL"}:
        raise SlurmRejected(f"state {change.state} needs a reason: without one nobody knows whose drain it is")
    return None


def name_problem(kind: str, name: str) -> str | None:
    """What is wrong with a name that slurmrestd would be sent."""
    if _NAME.fullmatch(name):
        return None
    return f"{name[:80]!r} is not a {kind} name: letters, digits, '_', '.' and '-' only"


def _checked(kind: str, name: str) -> str:
    problem = name_problem(kind, name)
    if problem:
        raise SlurmRejected(problem)
    return name


def _in_path(kind: str, name: str) -> str:
    return quote(_checked(kind, name), safe="")


def _text(what: str, value: str | None) -> str | None:
    if value is not None and (len(value) > MAX_TEXT_CHARACTERS or any(ord(c) < 32 or ord(c) == 127 for c in value)):
        raise SlurmRejected(f"{what} has control characters or more than {MAX_TEXT_CHARACTERS} characters")
    return value


def _conf_names(what: str, names: tuple[str, ...] | None) -> list[str] | None:
    """A list that Slurm joins with commas: none of its words may hold one."""
    for name in names or ():
        if not name or not name.isprintable() or set(name) & set(", \"'="):
            raise SlurmRejected(f"{name[:80]!r} is not a {what}: no blanks, commas, quotes or '='")
    return None if names is None else list(names)
