"""What slurmrestd's responses look like: one class for each object, with only the fields that are used.

Data only; `wire.py` decodes into these and makes values of `model.py` of them. Fields that removals stand on (a node's
name, states and use, a job's id, states, nodes and partitions) must be readable; any other falls back to its default.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Annotated, Any, ClassVar

import msgspec

from slurm_operator.slurm import errors, model
from slurm_operator.slurm.items import items
from slurm_operator.slurm.lenient import Item

MAX_PROBLEMS = 20
MAX_NUMBER = 2**63 - 1

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
# A name or a state that was mended is not the one that Slurm meant: the item is unreadable.
Name = Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,255}\Z")]
# A job names the partitions that it may run in. Nobody names so many, and each is a name to keep.
PartitionText = Annotated[str, msgspec.Meta(max_length=65_536)]
HostText = Annotated[str, msgspec.Meta(pattern=r"^[!-~]*\Z")]
State = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_]{1,255}\Z")]
# In a list of states: the id of the job record, with its task in an array or its part in a heterogeneous job.
JobIdText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,10}([_+][0-9]{1,10})?\Z")]
NO_TEXT = msgspec.Raw(b'""')
NO_LIST = msgspec.Raw(b"[]")
NOTHING = msgspec.Raw(b"null")


class Number(Item, frozen=True):
    """A number that may be unset or unlimited."""

    set: bool = False  # Slurm's own name for it
    infinite: bool = False
    number: int | float = 0

    def seconds(self) -> int:
        """A time that a calendar can write, 0 when there is none."""
        return min(self._whole(), model.MAX_EPOCH_SECONDS) if self.set and not self.infinite else 0

    def limit(self) -> model.Limit:
        """A limit."""
        if self.infinite:
            return model.UNLIMITED
        return self._whole() if self.set else None

    def _whole(self) -> int:
        # An endless float has no integer, and none of ours is below zero.
        if isinstance(self.number, float) and not math.isfinite(self.number):
            return MAX_NUMBER
        return int(min(max(self.number, 0), MAX_NUMBER))


NOT_SET = Number()


class Problem(Item, frozen=True):
    """One entry of errors[] or warnings[]."""

    description: str = ""
    error: str = ""
    error_number: Annotated[int, msgspec.Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)] = 0

    def text(self) -> str:
        """What to show: Slurm's description and its own word for the number."""
        return ": ".join(part for part in (self.description, self.error) if part)


class Server(msgspec.Struct, frozen=True):
    """Which Slurm answered."""

    release: str = ""
    cluster: str = ""


class Meta(msgspec.Struct, frozen=True):
    """The part of every answer that proves that slurmrestd made it."""

    slurm: Server = Server()


class Envelope(msgspec.Struct, frozen=True):
    """What every answer has."""

    meta: Meta = Meta()
    errors: msgspec.Raw = NO_LIST
    warnings: msgspec.Raw = NO_LIST
    last_update: Number = NOT_SET

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What Slurm says is wrong, the first of it; raises when that cannot be read."""
        return tuple(msgspec.json.decode(each, type=Problem) for each in islice(items(self.errors), MAX_PROBLEMS))

    @property
    def is_absence(self) -> bool:
        """Slurm's way to say "no such object": an error with the number 0."""
        found = self.problems
        return bool(found) and all(e.error_number == errors.NO_ERROR for e in found)


class Nodes(Envelope, frozen=True):
    nodes: msgspec.Raw = NOTHING


class Jobs(Envelope, frozen=True):
    jobs: msgspec.Raw = NOTHING


class JobStates(Envelope, frozen=True):
    jobs: msgspec.Raw = NOTHING


class Partitions(Envelope, frozen=True):
    partitions: msgspec.Raw = NOTHING


class Reservations(Envelope, frozen=True):
    reservations: msgspec.Raw = NOTHING


class Pings(Envelope, frozen=True):
    pings: msgspec.Raw = NOTHING


class Conf(Envelope, frozen=True):
    """The running configuration."""

    slurm_conf: dict[str, Any] | None = None


class Submitted(Envelope, frozen=True):
    """The answer to a job submission."""

    job_id: int = 0


class StatusError(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class JobStatus(msgspec.Struct, frozen=True):
    error: StatusError = StatusError()


class Cancelled(Envelope, frozen=True):
    """The answer to a job cancel: refusals come in `status`, not in `errors`."""

    status: list[JobStatus] = []


class Statistics(Item, frozen=True):
    server_thread_count: Count = 0
    agent_queue_size: Count = 0
    dbd_agent_queue_size: Count = 0
    jobs_running: Count = 0
    jobs_pending: Count = 0
    jobs_submitted: Count = 0
    jobs_completed: Count = 0
    req_time_start: Number = NOT_SET


class Diag(Envelope, frozen=True):
    statistics: msgspec.Raw = NO_LIST


class Node(Item, frozen=True):
    ESSENTIAL: ClassVar[frozenset[str]] = frozenset({"alloc_cpus", "alloc_memory"})
    name: Name
    state: list[State]
    reason: str = ""
    reason_set_by_user: str = ""
    reason_changed_at: Number = NOT_SET
    features: list[str] = []
    active_features: list[str] = []
    comment: str = ""
    extra: str = ""
    topology: str = ""
    partitions: list[str] = []
    cpus: Count = 0
    alloc_cpus: Count = 0
    real_memory: Count = 0
    alloc_memory: Count = 0
    gres: str = ""
    gres_used: str = ""
    address: str = ""
    hostname: str = ""
    port: Count = 0
    reservation: str = ""
    weight: Count = 0
    last_busy: Number = NOT_SET
    boot_time: Number = NOT_SET
    slurmd_start_time: Number = NOT_SET
    version: str = ""


class Job(Item, frozen=True):
    ESSENTIAL: ClassVar[frozenset[str]] = frozenset({"partition"})
    job_id: Count
    job_state: list[State]
    name: str = ""
    user_name: str = ""
    account: str = ""
    partition: PartitionText = ""
    qos: str = ""
    state_reason: str = ""
    nodes: msgspec.Raw = NO_TEXT
    required_nodes: msgspec.Raw = NO_TEXT
    batch_flag: bool = False
    batch_host: str = ""
    submit_time: Number = NOT_SET
    restart_cnt: Count = 0
    start_time: Number = NOT_SET
    end_time: Number = NOT_SET
    time_limit: Number = NOT_SET
    resv_name: str = ""
    comment: str = ""
    admin_comment: str = ""


class JobState(Item, frozen=True):
    job_id: JobIdText
    state: list[State]


class Fields(Item, frozen=True):
    """The nested texts and numbers of a partition, all groups in one."""

    configured: str = ""
    total: Count = 0
    allowed_allocation: str = ""
    allowed: str = ""
    deny: str = ""
    assigned: str = ""
    billing_weights: str = ""
    time: Number = NOT_SET
    job: str = ""
    partition_memory_per_cpu: Number = NOT_SET
    partition_memory_per_node: Number = NOT_SET
    state: list[str] = []
    exclusive: str | None = None
    oversubscribe: Any = None
    cpus_per_node: Number = NOT_SET
    cpus_per_socket: Number = NOT_SET
    over_time_limit: Number = NOT_SET
    nodes: Number | Count = NOT_SET
    tier: Count = 0
    job_factor: Count = 0


NO_FIELDS = Fields()


class Partition(Item, frozen=True):
    name: str
    nodes: Fields = NO_FIELDS
    accounts: Fields = NO_FIELDS
    groups: Fields = NO_FIELDS
    qos: Fields = NO_FIELDS
    tres: Fields = NO_FIELDS
    defaults: Fields = NO_FIELDS
    maximums: Fields = NO_FIELDS
    minimums: Fields = NO_FIELDS
    priority: Fields = NO_FIELDS
    partition: Fields = NO_FIELDS
    alternate: str = ""
    grace_time: Count = 0
    node_sets: str = ""
    topology: str = ""
    flags: list[str] | None = None
    preempt_mode: list[str] | None = None


class Reservation(Item, frozen=True):
    ESSENTIAL: ClassVar[frozenset[str]] = frozenset({"node_list"})
    name: str
    node_list: HostText = ""
    flags: list[str] = []
    users: str = ""
    accounts: str = ""
    partition: str = ""
    start_time: Number = NOT_SET
    end_time: Number = NOT_SET


class Ping(Item, frozen=True):
    hostname: str
    responding: bool
    primary: bool = False
    latency: Count = 0
    status: str = ""
    pinged: str = ""
