"""Why a job waits: Slurm's reason, what is behind it in numbers, what would end it, and when it is expected to start.

In: facts, a job that is pending, and its cluster. Out: a cause; it is wrong only where the wait does not end by itself.
Used by `diagnose/job.py`. The texts for reasons that need no numbers are in `diagnose/reasons.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from kube_runtime.times import parse_seconds
from slurm_operator.api.plural import counted
from slurm_operator.diagnose import limits, scale_in, short_of_nodes
from slurm_operator.diagnose import node as nodes
from slurm_operator.diagnose import partition as partitions
from slurm_operator.diagnose.cause import Cause, Fine
from slurm_operator.diagnose.dependency import dependency
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmJob, SlurmPartition, clock
from slurm_operator.diagnose.room import jobs_on, nodes_needed, nodes_of, partitions_of, room_for
from slurm_operator.diagnose.scontrol import NONE, YEAR_SECONDS
from slurm_operator.diagnose.wording import SAFE, code_of, in_shell, plain, title, why_job
from slurm_operator.plan.partition_fields import shown_time

SHOW_PARTITION = "scontrol show partition {Partition}"
# What Slurm writes on a node on which a job could not be launched.
LAUNCH_FAULTS = re.compile(r"(?i)prolog error|job env setup error|batch job complete failure|launch failed")
# Reasons with which the start time that Slurm reports is a forecast.
FORESEEN = frozenset({"Resources", "Priority", "ReqNodeNotAvail", "Licenses", "Reservation"})
# No plan reaches so far; and how much a start in it is later than the end that it follows.
UNFORESEEN_SECONDS = 300 * 24 * 3600
PLAN_SECONDS = 600
# Jobs that Slurm would start if it could.
READY_TO_RUN = frozenset({"Resources", "Priority", "None", "ReqNodeNotAvail"})


def why(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | Fine:
    """Why a job that is pending does not start."""
    code = code_of(job)
    step = f"{title(job)} waits, and Slurm says {job.reason or 'nothing'}"
    never = scale_in.why_never(facts, job, slurm)
    if never is not None:
        return never.under(step)
    look = WALKS.get(code)
    cause = look(facts, job, slurm) if look is not None else None
    if code in ("None", "") and (cause is None or cause.waits):
        return Fine(f"{title(job)} was just submitted; Slurm has not tried to start it yet")
    cause = cause or limits.why(facts, job, slurm) or plain(facts, job)
    return _with_start(facts, job, slurm, cause).under(step)


def _with_start(facts: Facts, job: SlurmJob, slurm: Slurm, cause: Cause) -> Cause:
    now = parse_seconds(facts.now)
    if not cause.waits or code_of(job) not in FORESEEN or now is None or job.start <= now:
        return cause
    known = not _is_placeholder(job, slurm, now)
    start = f"expects to start it at {clock(facts, job.start)}" if known else "knows no time for its start"
    return replace(cause, sentence=f"{cause.sentence}; Slurm {start}")


def _is_placeholder(job: SlurmJob, slurm: Slurm, now: float) -> bool:
    """Whether Slurm put a start into its plan without knowing one: it takes a job without an end to last a year."""
    if job.start - now > UNFORESEEN_SECONDS:
        return True
    endless = (each for each in jobs_on(slurm, slurm.nodes) if not each.end and each.start)
    return any(abs(job.start - each.start - YEAR_SECONDS) < PLAN_SECONDS for each in endless)


# Partitions


def _partition(facts: Facts, job: SlurmJob, _: Slurm) -> Cause | None:
    for name in partitions_of(job):
        answer = partitions.why_no_jobs(facts, name)
        if isinstance(answer, Cause):
            return answer
    return None


def _time_limit(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    bounds = [found.max_time for name in partitions_of(job) if (found := slurm.partitions.get(name))]
    minutes = [bound for bound in bounds if isinstance(bound, int)]
    if not minutes:
        return None
    most = max(minutes)
    text = (
        f"it asks for {job.wants.get('TimeLimit')}, and partition {job.partition} allows at most {shown_time(most)} "
        "(MaxTime)"
    )
    return plain(facts, job, text, command=in_shell(facts, job, f"scontrol update jobid={{id}} timelimit={most}"))


def _node_limit(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    known = [found for name in partitions_of(job) if (found := slurm.partitions.get(name))]
    needed = nodes_needed(job, room_for(job, slurm))
    spread = f" for its {counted(job.cpus, 'CPU')}" if needed > job.node_count else ""
    asks = f"it asks for {counted(needed, 'node')}{spread}"
    for found in known:
        if isinstance(found.max_nodes, int) and needed > found.max_nodes:
            text, bound = f"allows at most {found.max_nodes} (MaxNodes)", found.max_nodes
        elif needed < found.min_nodes:
            text, bound = f"allows no fewer than {found.min_nodes} (MinNodes)", found.min_nodes
        else:
            continue
        # A job that spreads because of its CPUs does not run on fewer nodes.
        change = f"scontrol update jobid={{id}} numnodes={bound}" if not spread else SHOW_PARTITION
        text = f"{asks}, and partition {found.name} {text}"
        return plain(facts, job, text, command=in_shell(facts, job, change))
    # Slurm says so as well of a partition that has fewer nodes than the job asks for.
    return short_of_nodes.why(facts, job, slurm) or _bounds(facts, job, known, asks)


def _bounds(facts: Facts, job: SlurmJob, known: list[SlurmPartition], asks: str) -> Cause | None:
    """Both sides, where Slurm refuses and the bounds do not say why."""
    if not known:
        return None
    has = "; ".join(
        f"partition {each.name} has {counted(len(each.nodes), 'node')}, MinNodes={each.min_nodes}, "
        f"MaxNodes={each.max_nodes if isinstance(each.max_nodes, int) else 'UNLIMITED'}"
        for each in known
    )
    return plain(facts, job, f"{asks}, and {has}", command=in_shell(facts, job, SHOW_PARTITION))


# Other jobs


def _ahead(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    never = short_of_nodes.why_never(facts, job, slurm)
    if never is not None:
        return never
    before = _jobs_ahead(job, slurm)
    return plain(facts, job, _named(job, before), command=why_job(facts, before[0])) if before else None


def _short(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    """The nodes that are missing, and the jobs ahead, which get those that become free."""
    cause = short_of_nodes.why(facts, job, slurm)
    before = _jobs_ahead(job, slurm) if cause is not None and cause.waits else []
    if cause is None or not before:
        return cause
    return replace(cause, sentence=f"{cause.sentence}; {_named(job, before)}", command=why_job(facts, before[0]))


def _named(job: SlurmJob, before: list[SlurmJob]) -> str:
    # Only the first is named; the next step is to ask why that one waits.
    first = before[0]
    same = first.priority == job.priority
    rank = "of the same priority and older" if same else f"with priority {first.priority} against {job.priority}"
    return f"{counted(len(before), 'job is', 'jobs are')} ahead of it: first {title(first)} of {first.user}, {rank}"


def _jobs_ahead(job: SlurmJob, slurm: Slurm) -> list[SlurmJob]:
    mine = frozenset[str]().union(*(nodes_of(name, slurm) for name in partitions_of(job)))
    rival = frozenset(name for name in slurm.partitions if not mine.isdisjoint(nodes_of(name, slurm)))
    ahead = (each for each in slurm.jobs.values() if _is_before(each, job))
    before = (each for each in ahead if not rival.isdisjoint(partitions_of(each)))
    return sorted(before, key=lambda each: (-each.priority, int(each.id)))


def _is_before(other: SlurmJob, job: SlurmJob) -> bool:
    if other.id == job.id or other.state != "PENDING" or code_of(other) not in READY_TO_RUN:
        return False
    return other.priority > job.priority or (other.priority == job.priority and int(other.id) < int(job.id))


def _throttle(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    running = [each for each in jobs_on(slurm, slurm.nodes) if each.array == job.array]
    if not job.array or not running:
        return None
    most = counted(int(job.wants.get("ArrayTaskThrottle", "0")), "task")
    first = running[0]
    end = f", the first of them until {clock(facts, first.end)} at the latest" if first.end else ""
    tasks = counted(len(running), "task runs", "tasks run")
    return plain(facts, job, f"its array may run {most} at once, and {tasks} now{end}")


def _licenses(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    for part in job.wants.get("Licenses", "").split(","):
        name, _, number = part.partition(":")
        known = (slurm.licenses or {}).get(name)
        if known is None:
            continue
        wanted, left = int(number) if number.isdecimal() else 1, known.total - known.used
        if wanted > left:
            text = (
                f"it needs {wanted} of license {name}, and {left} of {known.total} {'is' if left == 1 else 'are'} free"
            )
            holders = f"squeue -t R -L {name}" if SAFE.fullmatch(name) else "scontrol show licenses"
            if wanted > known.total:
                return plain(facts, job, f"{text}; there are never enough", waits=False)
            return plain(facts, job, text, command=in_shell(facts, job, holders))
    return None


def _reservation(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    name = job.wants.get("Reservation", NONE)
    if slurm.reservations is None or name == NONE:
        return short_of_nodes.why(facts, job, slurm)
    found = slurm.reservations.get(name)
    show = in_shell(facts, job, "scontrol show reservation {Reservation}")
    if found is None:
        gone = in_shell(facts, job, "scontrol update jobid={id} reservationname=")
        return plain(facts, job, f"reservation {name} does not exist any more", command=gone, waits=False)
    now = parse_seconds(facts.now) or 0
    if found.start > now:
        text = f"reservation {name} begins at {clock(facts, found.start)} and ends at {clock(facts, found.end)}"
        return plain(facts, job, text, command=show)
    return plain(facts, job, f"the nodes of reservation {name} are in use", command=show)


def _begin(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    gone = short_of_nodes.without_pod(facts, job, slurm)
    if gone is not None or not job.start:
        return gone
    return plain(facts, job, f"it must not start before {clock(facts, job.start)}")


def _not_launched(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    """A node that Slurm drained because nothing could be launched on it: its prolog must be fixed first."""
    for name in sorted(frozenset[str]().union(*(nodes_of(name, slurm) for name in partitions_of(job)))):
        node = slurm.nodes[name]
        if "DRAIN" not in node.states or not LAUNCH_FAULTS.match(node.reason):
            continue
        answer = nodes.why(facts, name)
        text = (
            f"it could not be launched, and is held; Slurm has drained {name} for that: {node.reason}. Once that is "
            f"fixed, resume the node, and then release the job: scontrol release {job.id}"
        )
        command = answer.command if isinstance(answer, Cause) else ""
        return plain(facts, job, text, command=command, waits=False)
    return None


WALKS: dict[str, Callable[[Facts, SlurmJob, Slurm], Cause | None]] = {
    "PartitionDown": _partition,
    "PartitionInactive": _partition,
    "PartitionTimeLimit": _time_limit,
    "PartitionNodeLimit": _node_limit,
    "Priority": _ahead,
    "Dependency": dependency,
    "DependencyNeverSatisfied": dependency,
    "JobArrayTaskLimit": _throttle,
    "Licenses": _licenses,
    "Reservation": _reservation,
    "BeginTime": _begin,
    **dict.fromkeys(("launch failed requeued held", "JobLaunchFailure", "JobHoldMaxRequeue"), _not_launched),
    **dict.fromkeys(
        ("Resources", "ReqNodeNotAvail", "NodeDown", "PartitionConfig", "BadConstraints", "Constraints", "None"),
        _short,
    ),
}
