"""Why a job gets no nodes: too few, too small, out of order, reserved or busy, by how much, and until when.

In: facts, a job that is pending, and its cluster. Out: a cause, or None where the nodes do not explain it. Used by
`diagnose/waiting.py`; `diagnose/room.py` sorts the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from kube_runtime.text import first_few
from kube_runtime.times import parse_seconds
from slurm_operator.api.plural import counted
from slurm_operator.diagnose import leftovers, short_of_memory, staying
from slurm_operator.diagnose import node as nodes
from slurm_operator.diagnose import partition as partitions
from slurm_operator.diagnose import resource as resources
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmJob, clock, name_of, spec_of
from slurm_operator.diagnose.reasons import OFFERS
from slurm_operator.diagnose.room import (
    Room,
    features_of,
    jobs_on,
    nodes_needed,
    partitions_of,
    reservation_of,
    room_for,
)
from slurm_operator.diagnose.scale_in import is_deleted
from slurm_operator.diagnose.scontrol import NONE
from slurm_operator.diagnose.staying import Kept
from slurm_operator.diagnose.wording import code_of, in_shell, plain, title

MAX_NAMED = 3
RUNNING = "squeue -t R -S e -p {Partition}"
ELSEWHERE = "scontrol update jobid={id} reqnodelist="
# How many of the nodes that a job requires are examined.
MAX_ASKED_FOR = 100


def why(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    """What is missing."""
    room = room_for(job, slurm)
    wanted = nodes_needed(job, room)
    need = _Need(facts, job, slurm, room, staying.kept_for(facts, job, slurm, room), wanted)
    # If no node is large enough, more of them would not help; if a partition has too few nodes, it does not matter what
    # else is wrong with them.
    upper = _all_too_small(need) or _never(need) or (_too_few(need) if room.all else None) or _partitions(facts, job)
    if upper is not None:
        return upper
    for look in (_lost, _too_few, _too_small, _out, _reserved, _busy):
        cause = look(need)
        if cause is not None:
            return cause
    if code_of(job) != "Resources":
        return None
    there = counted(len(room.free), "node has room", "nodes have room")
    text = (
        f"it needs {_shape(wanted, room, job)}, and {there} for that; Slurm has not tried again since, keeps them for "
        "another job, or the job needs them whole"
    )
    return plain(facts, job, text, command=in_shell(facts, job, "sdiag"))


@dataclass(frozen=True, slots=True)
class _Need:
    facts: Facts
    job: SlurmJob
    slurm: Slurm
    room: Room
    kept: Kept
    wanted: int


def _partitions(facts: Facts, job: SlurmJob) -> Cause | None:
    """Its partition's own trouble, where every partition that it may run in has some."""
    answers = [partitions.why_no_jobs(facts, name) for name in partitions_of(job)]
    causes = [answer for answer in answers if isinstance(answer, Cause)]
    return causes[0] if causes and len(causes) == len(answers) else None


def _shape(wanted: int, room: Room, job: SlurmJob) -> str:
    if job.exclusive:
        return counted(wanted, "whole node")
    memory = f" and {room.memory_mib} MiB of memory" if room.memory_mib else ""
    return f"{counted(wanted, 'node')} of {counted(room.cpus, 'CPU')}{memory}"


def without_pod(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    """A node that it asked for by name, and that is gone."""
    for name in islice(job.required, MAX_ASKED_FOR):
        if name not in slurm.nodes:
            text = f"{title(job)} can run on no node but {name} (sbatch -w), of which Slurm has no record any more"
            return Cause("PodGone", text, in_shell(facts, job, ELSEWHERE))
        answer = nodes.why(facts, name)
        if isinstance(answer, Cause) and answer.code == "PodGone":
            return _own(facts, job, slurm, name, answer).under(f"it must run on {name}")
    return None


def _own(facts: Facts, job: SlurmJob, slurm: Slurm, name: str, answer: Cause) -> Cause:
    """The same for this job: the record may be kept for another one, whose end does not help this one."""
    first = leftovers.requiring(slurm, name)
    if first is None or first.id == job.id:
        return answer
    text = (
        f"node {name} no longer has a pod, and {title(job)} can run on no other node (sbatch -w). Let the job run on "
        f"other nodes, or cancel the job (scancel {job.id})"
    )
    return replace(answer, sentence=text, command=in_shell(facts, job, ELSEWHERE), waits=False)


def why_never(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    """What keeps it from ever running, whatever other jobs do."""
    room = room_for(job, slurm)
    need = _Need(facts, job, slurm, room, staying.kept_for(facts, job, slurm, room), nodes_needed(job, room))
    cause = _never(need) or (_too_few(need) if room.all else None)
    return cause if cause is not None and cause.wrong else None


def _never(need: _Need) -> Cause | None:
    """A node that it asked for by name, and that leaves for good."""
    facts, job, slurm = need.facts, need.job, need.slurm
    for name in islice(job.required, MAX_ASKED_FOR):
        owner = staying.nodeset_of(facts, name)
        if owner is None or name not in slurm.nodes or not staying.goes(facts, slurm.nodes[name]):
            continue
        deleted = is_deleted(owner)
        becomes = "is being deleted" if deleted else f"becomes smaller (replicas {spec_of(owner).get('replicas')})"
        scale = "" if deleted else "scale the NodeSet out again, "
        text = (
            f"{title(job)} must run on {name} (sbatch -w), which leaves because NodeSet {name_of(owner)} {becomes}: it "
            f"can never run. Let the job run on other nodes, {scale}or cancel it (scancel {job.id})"
        )
        return Cause("JobsNeverRun", text, in_shell(facts, job, ELSEWHERE))
    return None


def _lost(need: _Need) -> Cause | None:
    """A node that it asked for by name, and that takes no jobs."""
    facts, job, room = need.facts, need.job, need.room
    gone = without_pod(facts, job, need.slurm)
    if gone is not None:
        return gone
    for name in room.out if job.required else ():
        answer = nodes.why(facts, name) if name in job.required else None
        if isinstance(answer, Cause):
            return answer.under(f"it must run on {name}")
    return None


def _too_few(need: _Need) -> Cause | None:
    """Fewer nodes than it asks for, now and when all workers are there that the NodeSets ask for."""
    facts, job, kept, wanted = need.facts, need.job, need.kept, need.wanted
    there = kept.there if kept.sets else need.room.all
    enough = kept.number >= wanted if kept.sets else there >= wanted
    if (there >= wanted and enough) or _is_fixed(job):
        return None
    if enough:
        return _absent(need)
    return Cause(
        "PartitionTooSmall",
        f"{title(job)} asks for {counted(wanted, 'node')}, and partition {job.partition} {_size(need, there)}",
        staying.more(facts, kept, wanted - kept.number)
        or in_shell(facts, job, f"scontrol update jobid={{id}} numnodes={there}"),
    )


def _is_fixed(job: SlurmJob) -> bool:
    """Whether it may run on the nodes that it names, and on no other."""
    return bool(job.required) and job.node_count <= len(job.required)


def _size(need: _Need, there: int) -> str:
    """How many nodes its partition has, or will have where that differs from what Slurm shows."""
    kept = need.kept
    if not kept.sets or (kept.number == there and not kept.going):
        return f"has {there}"
    sets = ", ".join(f"NodeSet {name_of(each)} has replicas {spec_of(each)['replicas']}" for each in kept.sets)
    gone = f", and {first_few(sorted(kept.going), MAX_NAMED)} {'goes' if len(kept.going) == 1 else 'go'}"
    return f"will have {kept.number}: {sets}{gone if kept.going else ''}"


def _absent(need: _Need) -> Cause:
    """Why workers are missing, where the NodeSets would have enough of them without growing."""
    facts, sets = need.facts, need.kept.sets
    answers = [resources.why(facts, "NodeSet", name_of(each)) for each in sets]
    wrong = [each for each in answers if isinstance(each, Cause) and each.wrong]
    verb = "has" if need.kept.there == 1 else "have"
    has = (
        f"it needs {counted(need.wanted, 'node')}, and only {need.kept.there} of the desired workers {verb} registered"
    )
    if wrong:
        return wrong[0].under(has)
    return plain(facts, need.job, has, command=_why_nodeset(need), waits=True)


def _why_nodeset(need: _Need) -> str:
    return f"kubectl slurm -n {need.facts.namespace} why nodeset/{name_of(need.kept.sets[0])}"


def _all_too_small(need: _Need) -> Cause | None:
    return _too_small(need) if not need.room.able and not need.room.out and not need.job.required else None


def _too_small(need: _Need) -> Cause | None:
    job, room, wanted = need.job, need.room, need.wanted
    fitting = room.able + len(room.out)
    if fitting >= wanted or not room.unfit:
        return None
    have = f"only {fitting} of {room.all} nodes of partition" if fitting else "no node of partition"
    verb = "have" if fitting > 1 else "has"
    return Cause(
        "NodesTooSmall",
        f"{title(job)} needs {counted(wanted, 'node')} with {_of_each(job, room)}, and {have} {job.partition} {verb} "
        f"that: {_offered(need)}",
        in_shell(need.facts, job, OFFERS),
    )


def _of_each(job: SlurmJob, room: Room) -> str:
    """What one node would have to have."""
    parts = [counted(room.cpus, "CPU") + _why_so_many(job)]
    if room.memory_mib:
        by_cpu = "" if job.memory_mib else f" ({job.memory_per_cpu_mib} for each CPU)"
        parts.append(f"{room.memory_mib} MiB of memory{by_cpu}")
    features = job.wants.get("Features", NONE)
    parts += [f"features {features}"] if features not in ("", NONE) else []
    parts += [f"gres/{name}:{number}" for name, number in job.gres.items()]
    return " and ".join(parts)


def _why_so_many(job: SlurmJob) -> str:
    if job.tasks_per_node > 1:
        return f" ({job.tasks_per_node} tasks of {counted(job.cpus_per_task, 'CPU')} go on one node)"
    return " for one task" if job.cpus_per_task > 1 else ""


def _offered(need: _Need) -> str:
    """What the nodes that do not fit have, of what they lack."""
    job, room = need.job, need.room
    unfit = [need.slurm.nodes[name] for name in room.unfit]
    others = "the others have" if len(unfit) < room.all else "they have"
    cpus, memory = max(node.cpus for node in unfit), max(node.memory_mib for node in unfit)
    parts = [f"at most {counted(cpus, 'CPU')}"] if cpus < room.cpus else []
    parts += [f"at most {memory} MiB"] if 0 < memory < room.memory_mib else []
    missing = features_of(job) - frozenset[str]().union(*(node.features for node in unfit))
    parts += [f"no feature {name}" for name in sorted(missing)]
    for name, number in job.gres.items():
        most = max(node.gres.get(name, 0) for node in unfit)
        parts += [f"{f'at most {most}' if most else 'no'} gres/{name}"] if most < number else []
    lacking = " and ".join(parts)
    return f"{others} {lacking}" if parts else f"{others} not all of it at once"


def _out(need: _Need) -> Cause | None:
    """Enough would fit, but too many of them take no jobs."""
    facts, job, room, wanted = need.facts, need.job, need.room, need.wanted
    # What ends the trouble of a node that goes does not give this job a node.
    out = [name for name in room.out if name not in need.kept.going] or room.out
    for name in out if room.able < wanted else ():
        answer = nodes.why(facts, name)
        if isinstance(answer, Cause):
            takes = counted(room.able, "takes jobs", "take jobs")
            share = f"{takes}, and {counted(len(out), 'fits but takes none', 'fit but take none')}"
            return answer.under(f"it needs {_shape(wanted, room, job)}: {share}")
    return None


def _reserved(need: _Need) -> Cause | None:
    facts, job, slurm, room, wanted = need.facts, need.job, need.slurm, need.room, need.wanted
    if len(room.free) + len(room.busy) >= wanted or not room.reserved:
        return None
    name = room.reserved[0]
    owner = reservation_of(job, slurm, name)
    found = (slurm.reservations or {}).get(owner)
    text = f"it needs {_shape(wanted, room, job)}, and {name} is in reservation {owner}"
    show = in_shell(facts, job, "scontrol show reservation")
    now = parse_seconds(facts.now) or 0
    minutes = int(found.start - now) // 60 - 1 if found is not None else 0
    if found is not None and minutes > 0:
        text += f" from {clock(facts, found.start)}, before which it would not end; a time limit below that helps"
        show = in_shell(facts, job, f"scontrol update jobid={{id}} timelimit={minutes}")
    until = f" until {clock(facts, found.end)}" if found is not None and found.end and minutes <= 0 else ""
    return plain(facts, job, text + until, command=show, waits=True)


def _busy(need: _Need) -> Cause | None:
    facts, job, slurm, room, wanted = need.facts, need.job, need.slurm, need.room, need.wanted
    missing = wanted - len(room.free)
    if missing <= 0 or not room.busy:
        return None
    free = counted(len(room.free), "is", "are") if room.free else ""
    has = f"{free} free, {missing} more needed" if free else f"none is free, and {missing} needed"
    memory = short_of_memory.shortage(job, slurm, room, wanted)
    parts = [f"it needs {_shape(wanted, room, job)}{memory.whole}", has, memory.left]
    parts += _users(facts, slurm, room.busy, missing)
    coming = need.kept.coming
    parts += [counted(coming, "worker has not registered yet", "workers have not registered yet")] if coming else []
    parts += [f"with {memory.less} MiB of memory on each node it would fit now"] if memory.less else []
    if memory.less:
        command = in_shell(facts, job, f"scontrol update jobid={{id}} minmemorynode={memory.less}")
    else:
        command = staying.more(facts, need.kept, missing - coming) or in_shell(facts, job, RUNNING)
    return plain(facts, job, "; ".join(filter(None, parts)), command=command, waits=True)


def _users(facts: Facts, slurm: Slurm, busy: Sequence[str], missing: int) -> list[str]:
    """Who uses the nodes that become free first."""
    last = {name: found[-1] for name in busy if (found := jobs_on(slurm, (name,)))}
    soonest = sorted(last, key=lambda name: (not last[name].end, last[name].end, name))[: min(missing, MAX_NAMED)]
    nodes_of: dict[str, list[str]] = {}
    for name in soonest:
        nodes_of.setdefault(f"{title(last[name])} of {last[name].user} {_until(facts, last[name])}", []).append(name)
    return [f"{' and '.join(names)} {'runs' if len(names) == 1 else 'run'} {job}" for job, names in nodes_of.items()]


def _until(facts: Facts, job: SlurmJob) -> str:
    return f"until {clock(facts, job.end)} at the latest" if job.end else "without a time limit"
