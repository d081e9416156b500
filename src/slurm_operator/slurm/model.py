"""What Slurm said, as frozen values. In: answers decoded by `wire.py`. Out: nodes, jobs, partitions for the rest.

Three things are kept apart that must never be mixed up: a node that Slurm described (`Known`), a node that Slurm
said it does not have (`Absent`), and a node of which nothing is known now (`Unknown`, with the reason).
States are sets of words as Slurm spells them; a word that this program has never seen is kept, never an error.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec

from slurm_operator.slurm.hostlist import EMPTY, HostList

T = TypeVar("T")

UNLIMITED: Literal["UNLIMITED"] = "UNLIMITED"
Limit = int | Literal["UNLIMITED"] | None
# 9999-12-31T23:59:59Z: no calendar of ours writes a later time.
MAX_EPOCH_SECONDS = 253_402_300_799


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node record. Times are seconds since 1970, 0 when Slurm has none; memory is in MiB."""

    name: str
    states: frozenset[str] = frozenset()
    reason: str = ""
    reason_by: str = ""
    # Seconds since 1970, as all times here.
    reason_at: int = 0
    features: tuple[str, ...] = ()
    active_features: tuple[str, ...] = ()
    comment: str = ""
    extra: str = ""
    topology: str = ""
    partitions: tuple[str, ...] = ()
    cpus: int = 0
    alloc_cpus: int = 0
    real_memory: int = 0
    alloc_memory: int = 0
    gres: str = ""
    gres_used: str = ""
    address: str = ""
    hostname: str = ""
    port: int = 0
    reservation: str = ""
    weight: int = 0
    last_busy: int = 0
    boot_time: int = 0
    slurmd_start_time: int = 0
    version: str = ""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job record; `nodes` are those that it holds, none when it is over; `time_limit` is in minutes.

    `batch_host` is the node of its script; empty when it has none, as with salloc and srun. `required` are the nodes
    that it must have, those of `sbatch -w`, until it is over; None where that list cannot be read: it may be any node.

    Slurm reuses ids, so `submit_time` is part of a job's identity; a requeue sets a new one and increments `restarts`.
    """

    job_id: int
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    states: frozenset[str] = frozenset()
    state_reason: str = ""
    nodes: HostList = EMPTY
    required: HostList | None = EMPTY
    batch_host: str = ""
    submit_time: int = 0
    restarts: int = 0
    start_time: int = 0
    end_time: int = 0
    time_limit: Limit = None
    reservation: str = ""
    comment: str = ""
    admin_comment: str = ""


class JobState(msgspec.Struct, frozen=True):
    """The states of one job record, and nothing else of it."""

    job_id: int
    states: frozenset[str]


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition; times are in minutes. `nodes` is the expanded list, `node_sets` what it was declared with."""

    name: str
    states: frozenset[str] = frozenset()
    flags: frozenset[str] | None = None
    nodes: str = ""
    node_sets: str = ""
    total_nodes: int = 0
    max_time: Limit = None
    default_time: Limit = None
    grace_time: int = 0
    max_nodes: Limit = None
    min_nodes: int = 0
    max_cpus_per_node: Limit = None
    max_cpus_per_socket: Limit = None
    over_time_limit: Limit = None
    priority_tier: int = 0
    priority_job_factor: int = 0
    preempt_mode: tuple[str, ...] | None = None
    oversubscribe: str | None = None
    exclusive: str | None = None
    allowed_accounts: str = ""
    denied_accounts: str = ""
    allowed_groups: str = ""
    allowed_qos: str = ""
    denied_qos: str = ""
    qos: str = ""
    alternate: str = ""
    allowed_alloc_nodes: str = ""
    memory_per_cpu: Limit = None
    memory_per_node: Limit = None
    max_memory_per_cpu: Limit = None
    max_memory_per_node: Limit = None
    billing_weights: str = ""
    job_defaults: str = ""
    topology: str = ""


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """One reservation."""

    name: str
    nodes: HostList = EMPTY
    flags: frozenset[str] = frozenset()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partition: str = ""
    start_time: int = 0
    end_time: int = 0


class Ping(msgspec.Struct, frozen=True, kw_only=True):
    """How one slurmctld answered slurmrestd; latency in microseconds."""

    hostname: str
    responding: bool
    primary: bool
    latency: int = 0
    status: str = ""


class Diag(msgspec.Struct, frozen=True, kw_only=True):
    """A few of slurmctld's own statistics."""

    server_threads: int = 0
    agent_queue: int = 0
    dbd_queue: int = 0
    jobs_running: int = 0
    jobs_pending: int = 0
    jobs_submitted: int = 0
    jobs_completed: int = 0
    since: int = 0


class SlurmList(msgspec.Struct, Generic[T], frozen=True):
    """A list out of one answer. Only where `complete` does a missing item mean that Slurm has none."""

    items: tuple[T, ...]
    complete: bool
    last_update: int = 0


class Unchanged(msgspec.Struct, frozen=True):
    """Nothing changed since the time that was asked for."""


class Known(msgspec.Struct, frozen=True):
    """Slurm described the node."""

    node: Node


class Absent(msgspec.Struct, frozen=True):
    """Slurm answered, and has no such node or job."""


class Unknown(msgspec.Struct, frozen=True):
    """Slurm could not be asked, or its answer cannot be used; `reason` is that of the conditions that say so."""

    why: str
    reason: str = "SlurmUnreachable"


class KnownJob(msgspec.Struct, frozen=True):
    """Slurm described the job."""

    job: Job


NodeView = Known | Absent | Unknown
JobView = KnownJob | Absent | Unknown


def view(name: str, answer: SlurmList[Node] | Unknown) -> NodeView:
    """What one list answer says about one node."""
    if isinstance(answer, Unknown):
        return answer
    found = next((node for node in answer.items if node.name == name), None)
    return Known(found) if found is not None else absence(name, answer)


def absence(name: str, answer: SlurmList[Node]) -> Absent | Unknown:
    """What it means that a list does not have a node."""
    return Absent() if answer.complete else Unknown(f"Slurm's list is incomplete and does not have {name}")
