"""What `scontrol show … --json` prints, as facts of a diagnosis.

In: the three answers as bytes. Out: `Slurm`, with every record that Slurm has, or a SlurmError: a list of which one
record cannot be read is no list. The `Key=Value` text of scontrol is not read: a job's name, comment or folder may hold
spaces, line breaks and `JobId=`, so that a user could forge and hide jobs in it. Pure; called by
`cli/kubectl/gather.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from kube_runtime.text import printable, whole_number
from kube_runtime.times import seconds_text
from slurm_operator.api.plural import counted
from slurm_operator.diagnose.facts import Slurm, SlurmJob, SlurmLicense, SlurmNode, SlurmPartition, SlurmReservation
from slurm_operator.plan.partition_fields import shown_time
from slurm_operator.slurm import lenient, model, shapes, wire
from slurm_operator.slurm.errors import SlurmBadAnswer
from slurm_operator.slurm.hostlist import EMPTY, HostList, HostListError
from slurm_operator.slurm.policy import states_are_over

LISTS = ("nodes", "jobs", "partitions")
JSON = "application/json"
UNKNOWN = "Unknown"
NONE = "(none)"
# Slurm 26.05 does not say it of a job in any other field.
EXCLUSIVE = "--exclusive"
YEAR_SECONDS = 365 * 24 * 3600
# As Slurm writes memory: `mem=24105M`, `mem=1.50G`.
_REQUESTED = re.compile(r"(?:^|,)mem=(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)", re.ASCII)
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_GRES_DETAIL = re.compile(r"\([^)]*\)")
# A job has a base state and flags; scontrol and squeue show the first of these flags in the place of the state.
SHOWN_FLAGS = ("COMPLETING", "STAGE_OUT", "CONFIGURING", "RESIZING", "REQUEUE_HOLD", "SPECIAL_EXIT", "STOPPED")


class _Signal(lenient.Item, frozen=True):
    id: shapes.Number = shapes.NOT_SET


class _Exit(lenient.Item, frozen=True):
    return_code: shapes.Number = shapes.NOT_SET
    signal: _Signal = _Signal()


class _Job(lenient.Item, frozen=True):
    """A job without its id is unreadable; anything else may be bad, and the job is shown all the same."""

    job_id: shapes.Count
    job_state: list[shapes.State] = []
    name: str = ""
    user_name: str = ""
    state_reason: str = ""
    state_description: str = ""
    partition: str = ""
    nodes: str = ""
    batch_flag: bool = False
    batch_host: str = ""
    node_count: shapes.Number = shapes.NOT_SET
    start_time: shapes.Number = shapes.NOT_SET
    end_time: shapes.Number = shapes.NOT_SET
    time_limit: shapes.Number = shapes.NOT_SET
    dependency: str = ""
    features: str = ""
    licenses: str = ""
    account: str = ""
    qos: str = ""
    exit_code: _Exit = _Exit()
    priority: shapes.Number = shapes.NOT_SET
    cpus: shapes.Number = shapes.NOT_SET
    memory_per_node: shapes.Number = shapes.NOT_SET
    memory_per_cpu: shapes.Number = shapes.NOT_SET
    memory_per_tres: str = ""
    tres_req_str: str = ""
    cpus_per_task: shapes.Number = shapes.NOT_SET
    tasks_per_node: shapes.Number = shapes.NOT_SET
    minimum_cpus_per_node: shapes.Number = shapes.NOT_SET
    max_nodes: shapes.Number = shapes.NOT_SET
    tres_per_node: str = ""
    shared: list[str] = []
    submit_line: str = ""
    required_nodes: str = ""
    excluded_nodes: str = ""
    resv_name: str = ""
    array_job_id: shapes.Number = shapes.NOT_SET
    array_task_id: shapes.Number = shapes.NOT_SET
    array_task_string: str = ""
    array_max_tasks: shapes.Number = shapes.NOT_SET
    het_job_id: shapes.Number = shapes.NOT_SET
    het_job_offset: shapes.Number = shapes.NOT_SET
    requeue: bool = False
    failed_node: str = ""


# scontrol asks slurmdbd for the names of trackable resources when it writes JSON, and fails, or waits long, without it.
# With a slurm.conf that names no accounting it writes the same records, with a warning. Where no folder can be made, it
# is asked as it is.
WITHOUT_DATABASE = r"""
conf=${SLURM_CONF:-/etc/slurm/slurm.conf}
d=$(mktemp -d 2>/dev/null || mktemp -d -p /run 2>/dev/null) || exec "$@"
trap 'rm -rf "$d"' EXIT
ln -s "${conf%/*}"/* "$d"/ 2>/dev/null
rm -f "$d/slurm.conf"
sed '/^[[:space:]]*AccountingStorage/Id' "$conf" >"$d/slurm.conf" && export SLURM_CONF="$d/slurm.conf"
"$@"
"""


def arguments(name: str) -> tuple[str, ...]:
    """What to ask scontrol for a list."""
    return "show", name, "--json"


def command(*arguments: str) -> tuple[str, ...]:
    """scontrol in a slurmctld's container, in such a way that it needs no database."""
    return "sh", "-c", WITHOUT_DATABASE, "sh", "scontrol", *arguments


def slurm_facts(nodes: bytes, jobs: bytes, partitions: bytes) -> Slurm:
    """What Slurm reports in its three lists; raises a SlurmError where one is not whole."""
    stream = wire.Streamed("jobs", _job)
    _whole(wire.jobs(_reply("jobs", jobs, stream), _call("jobs")), "jobs")
    return Slurm(
        nodes={each.name: _node(each) for each in _nodes(nodes)},
        jobs=_by_id(stream.found),
        partitions={each.name: _partition(each) for each in _partitions(partitions)},
    )


def node_names(body: bytes) -> frozenset[str]:
    """The names of a list of nodes."""
    return frozenset(each.name for each in _nodes(body))


def partitions(body: bytes) -> dict[str, model.Partition]:
    """A list of partitions, by name, with all of their options."""
    return {each.name: each for each in _partitions(body)}


def _nodes(body: bytes) -> tuple[model.Node, ...]:
    return _whole(wire.nodes(_reply("nodes", body), _call("nodes")), "nodes").items


def _partitions(body: bytes) -> tuple[model.Partition, ...]:
    return _whole(wire.partitions(_reply("partitions", body), _call("partitions")), "partitions").items


def _call(name: str) -> str:
    return " ".join(("scontrol", *arguments(name)))


def _reply(name: str, body: bytes, stream: wire.Streamed | None = None) -> wire.Reply:
    reader = stream or wire.streamed(name)
    if reader is None:
        raise KeyError(name)
    reader.feed(body, _call(name))
    return wire.Reply(200, JSON, reader.close(_call(name)), streamed=reader)


def _whole(answer: model.SlurmList[wire.T], name: str) -> model.SlurmList[wire.T]:
    """A list that misses a record would say that there is none."""
    if not answer.last_update:
        # scontrol prints an empty list of jobs, and ends with 0, when slurmctld is down.
        raise SlurmBadAnswer("slurmctld did not answer", call=_call(name))
    if not answer.complete:
        raise SlurmBadAnswer("the list is incomplete: not every record in it can be read", call=_call(name))
    return answer


def _node(node: model.Node) -> SlurmNode:
    return SlurmNode(
        name=node.name,
        states=node.states,
        reason=printable(node.reason),
        comment=node.comment,
        partitions=node.partitions,
        cpus=node.cpus,
        cpus_used=node.alloc_cpus,
        memory_mib=node.real_memory,
        memory_used_mib=node.alloc_memory,
        features=frozenset((*node.features, *node.active_features)),
        gres=gres_counts(node.gres),
        gres_used=gres_counts(node.gres_used),
        reason_by=printable(node.reason_by),
        reason_at=node.reason_at,
        reservation=printable(node.reservation),
    )


def gres_counts(text: str) -> dict[str, int]:
    """`gpu:h100:4(S:0-1)` and `gres/gpu:2` as counts by the first word."""
    found: dict[str, int] = {}
    for part in _GRES_DETAIL.sub("", text).split(","):
        fields = part.removeprefix("gres/").removeprefix("gres:").split(":")
        number = whole_number(fields[-1]) if len(fields) > 1 else 1
        if fields[0] and number is not None:
            found[fields[0]] = found.get(fields[0], 0) + number
    return found


def _by_id(jobs: Iterable[SlurmJob]) -> dict[str, SlurmJob]:
    """Of several records under one id, the last one that is not over."""
    return {job.id: job for job in sorted(jobs, key=lambda job: not states_are_over(frozenset({job.state})))}


def _job(raw: wire.Bytes) -> SlurmJob:
    job = lenient.decode(raw, _Job)
    return SlurmJob(
        id=str(job.job_id),
        name=printable(job.name),
        user=printable(job.user_name),
        state=_state(job.job_state),
        # The description is of Slurm's making, and says more: which nodes are missing, which limit was reached.
        reason=printable(job.state_description) or printable(job.state_reason),
        partition=printable(job.partition),
        nodes=_hosts(job.nodes),
        wants=_wants(job),
        code=printable(job.state_reason),
        priority=job.priority.seconds(),
        node_count=job.node_count.seconds() or 1,
        cpus=job.cpus.seconds() or 1,
        memory_mib=_memory(job),
        memory_per_cpu_mib=job.memory_per_cpu.seconds(),
        whole_memory_mib=0 if _memory(job) or job.memory_per_cpu.seconds() else _requested_memory(job),
        cpus_per_task=job.cpus_per_task.seconds() or 1,
        tasks_per_node=job.tasks_per_node.seconds(),
        min_cpus_per_node=job.minimum_cpus_per_node.seconds(),
        max_nodes=job.max_nodes.seconds(),
        gres=gres_counts(job.tres_per_node),
        exclusive="none" in job.shared or EXCLUSIVE in job.submit_line.split(),
        required=_hosts(job.required_nodes),
        excluded=_hosts(job.excluded_nodes),
        start=job.start_time.seconds(),
        end=_end(job),
        array=str(job.array_job_id.seconds() or ""),
        tasks=_tasks(job),
        component=_component(job),
        can_requeue=job.batch_flag and job.requeue,
        failed_node=printable(job.failed_node),
    )


def _memory(job: _Job) -> int:
    # Memory for each GPU stands in no other number.
    return job.memory_per_node.seconds() or (_requested_memory(job) if job.memory_per_tres else 0)


def _requested_memory(job: _Job) -> int:
    """MiB on each node by the request as Slurm counts it, `cpu=1,mem=1.50G,node=1`, which is of all nodes together."""
    found = _REQUESTED.search(job.tres_req_str)
    if found is None:
        return 0
    return int(float(found[1]) * _MIB[found[2]]) // (job.node_count.seconds() or 1)


def _end(job: _Job) -> int:
    """When it ends at the latest; Slurm gives one without a limit a year."""
    end = job.end_time.seconds()
    endless = not job.time_limit.set and end - job.start_time.seconds() >= YEAR_SECONDS
    return 0 if job.time_limit.infinite or endless else end


def _tasks(job: _Job) -> str:
    if not job.array_job_id.seconds():
        return ""
    return str(job.array_task_id.seconds()) if job.array_task_id.set else printable(job.array_task_string)


def _component(job: _Job) -> str:
    return f"{job.het_job_id.seconds()}+{job.het_job_offset.seconds()}" if job.het_job_id.seconds() else ""


def _state(states: Collection[str]) -> str:
    shown = (flag for flag in SHOWN_FLAGS if flag in states)
    return next(shown, next(iter(states), "UNKNOWN"))


def _wants(job: _Job) -> Mapping[str, str]:
    """What the sentences of `job.py` and `forecast.py` name, in the words of scontrol."""
    return {
        "NumNodes": str(job.node_count.seconds() or 1),
        "StartTime": _time(job.start_time),
        "BatchHost": printable(job.batch_host) if job.batch_flag else "",
        "EndTime": _time(job.end_time) if _end(job) else UNKNOWN,
        "TimeLimit": _limit(job.time_limit),
        "Dependency": printable(job.dependency) or NONE,
        "Features": printable(job.features) or NONE,
        "Licenses": printable(job.licenses) or NONE,
        "Account": printable(job.account) or NONE,
        "QOS": printable(job.qos) or NONE,
        "Reservation": printable(job.resv_name) or NONE,
        "Partition": printable(job.partition),
        "User": printable(job.user_name),
        "ArrayTaskThrottle": str(job.array_max_tasks.seconds()),
        "Asked": _asked(job),
        "ExitCode": f"{job.exit_code.return_code.seconds()}:{job.exit_code.signal.id.seconds()}",
    }


def _asked(job: _Job) -> str:
    """What may make a job fit nowhere."""
    cpus, nodes = job.cpus.seconds() or 1, job.node_count.seconds() or 1
    parts = [f"{counted(cpus, 'CPU')} in all, on {counted(nodes, 'node')}"]
    parts += [f"features {printable(job.features)}"] if job.features else []
    parts += [printable(job.tres_per_node)] if job.tres_per_node else []
    by_node, by_cpu = job.memory_per_node.seconds(), job.memory_per_cpu.seconds()
    parts += [f"{by_node} MiB on each node"] if by_node else []
    parts += [f"{by_cpu} MiB for each CPU"] if by_cpu and not by_node else []
    return ", ".join(parts)


def _time(number: shapes.Number) -> str:
    seconds = number.seconds()
    return seconds_text(seconds) if seconds else UNKNOWN


def _limit(number: shapes.Number) -> str:
    limit = number.limit()
    if isinstance(limit, int):
        return shown_time(limit)
    return limit or "its partition's limit"


def _partition(found: model.Partition) -> SlurmPartition:
    return SlurmPartition(
        found.name,
        "+".join(sorted(found.states)),
        _hosts(found.nodes),
        max_time=found.max_time,
        max_nodes=found.max_nodes,
        min_nodes=found.min_nodes,
        qos=printable(found.qos),
        record=found,
    )


def _hosts(text: str) -> Collection[str]:
    try:
        return HostList(text) if text else EMPTY
    except HostListError:
        return (printable(text),)


# What is asked for only where a job waits for it


def reservations(body: bytes) -> dict[str, SlurmReservation]:
    """Every reservation; raises a SlurmError where the list is not whole."""
    found = wire.reservations(_reply("reservations", body), _call("reservations"))
    return {
        each.name: SlurmReservation(
            printable(each.name),
            each.start_time,
            each.end_time,
            tuple(map(printable, each.users)),
            each.nodes,
        )
        for each in found.items
    }


class _License(lenient.Item, frozen=True):
    license_name: str = msgspec.field(name="LicenseName", default="")
    total: shapes.Count = msgspec.field(name="Total", default=0)
    used: shapes.Count = msgspec.field(name="Used", default=0)


class _Licenses(msgspec.Struct, frozen=True):
    licenses: list[msgspec.Raw] = []


def licenses(body: bytes) -> dict[str, SlurmLicense] | None:
    """Every license; None where the answer cannot be read."""
    try:
        found = [lenient.decode(each, _License) for each in msgspec.json.decode(body, type=_Licenses).licenses]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return {each.license_name: SlurmLicense(printable(each.license_name), each.total, each.used) for each in found}
