"""What each of Slurm's reasons for a waiting job means: a sentence, whether it passes, and the next command.

In: a reason as `squeue` and `scontrol` print it. Out: a `Reason`, or a `Limit` of a QOS or association. Data only; used
by `diagnose/wording.py`, `limits.py` and `short_of_nodes.py`. The names are those of Slurm 24.11 to 26.05 (JOB REASON
CODES of squeue, and Slurm's own table).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SHOW = "scontrol show job {id}"
RELEASE = "scontrol release {id}"
# What the nodes have, to compare with what was asked for.
OFFERS = "sinfo -N -o '%N %t %c %m %f %G'"


@dataclass(frozen=True, slots=True)
class Reason:
    """What a reason means; words in braces are those of `SlurmJob.wants`."""

    meaning: str
    command: str = SHOW
    # It passes by itself, or somebody wants it this way.
    waits: bool = True


def _never(meaning: str, command: str = SHOW) -> Reason:
    return Reason(meaning, command, waits=False)


REASONS: dict[str, Reason] = {
    "None": Reason("Slurm has not tried to start it yet"),
    "Prolog": Reason("its prolog still runs"),
    "Priority": Reason("jobs of higher priority wait for the same nodes", "squeue -t PD -S -p -p {Partition}"),
    "Dependency": Reason("it waits for another job: {Dependency}"),
    "DependencyNeverSatisfied": _never(
        "it depends on a job that did not end as it had to, and will never start: {Dependency}", "scancel {id}"
    ),
    "Resources": Reason("every node that fits is busy", "squeue -t R -p {Partition}"),
    "PartitionNodeLimit": _never("it asks for {NumNodes} nodes, which its partition {Partition} does not allow"),
    "PartitionTimeLimit": _never("it asks for {TimeLimit}, which is more than its partition {Partition} allows"),
    "PartitionDown": Reason("its partition {Partition} is DOWN"),
    "PartitionInactive": Reason("its partition {Partition} is INACTIVE"),
    "PartitionConfig": _never("what it asks for does not fit its partition {Partition}", OFFERS),
    "JobHeldAdmin": Reason("an administrator holds it", RELEASE),
    "JobHeldUser": Reason("its owner {User} holds it", RELEASE),
    "launch failed requeued held": _never("it could not be launched on its node, and is held", RELEASE),
    "job requeued in held state": Reason("it was requeued and held", RELEASE),
    "JobHoldMaxRequeue": _never("it was requeued too often, and is held", RELEASE),
    "BeginTime": Reason("it must not start before {StartTime}", "scontrol update jobid={id} starttime=now"),
    "Licenses": Reason("it waits for licenses: {Licenses}", "scontrol show licenses"),
    "AssociationJobLimit": Reason("its association has as many jobs as it may have"),
    "AssociationResourceLimit": Reason("its association uses as much as it may use"),
    "AssociationTimeLimit": _never("its association's time is used up"),
    "Reservation": Reason("its reservation {Reservation} has not begun, or is full", "scontrol show reservation"),
    "ReservationDeleted": _never(
        "its reservation {Reservation} was deleted", "scontrol update jobid={id} reservationname="
    ),
    "ReservationInvalid": _never(
        "its reservation {Reservation} is not valid for it", "scontrol update jobid={id} reservationname="
    ),
    "ReqNodeNotAvail": Reason("a node that it needs is not available", OFFERS),
    "FrontEndDown": _never("no front end is up"),
    "SchedDefer": Reason("Slurm does not try jobs at once: SchedulerParameters holds defer"),
    "NodeDown": _never("a node that it needs is down", OFFERS),
    "BadConstraints": _never("no node has what it asks for: {Asked}", OFFERS),
    "Constraints": _never("no node has what it asks for: {Asked}", OFFERS),
    "SystemFailure": _never("Slurm itself failed"),
    "JobLaunchFailure": _never("it could not be launched", RELEASE),
    "NonZeroExitCode": _never("it ended with an error"),
    "RaisedSignal": _never("a signal ended it"),
    "TimeLimit": _never("it ran for its time limit {TimeLimit}"),
    "InactiveLimit": _never("it did nothing for longer than InactiveLimit"),
    "OutOfMemory": _never("it used more memory than it had"),
    "DeadLine": _never("it could not end before its deadline", "scancel {id}"),
    "InvalidAccount": _never("its account {Account} does not exist", "sacctmgr show assoc user={User}"),
    "InvalidQOS": _never("its QOS {QOS} does not exist for it", "sacctmgr show assoc user={User}"),
    "QOSNotAllowed": _never("its partition {Partition} does not allow QOS {QOS}", "scontrol show partition"),
    "AccountNotAllowed": _never(
        "its partition {Partition} does not allow account {Account}", "scontrol show partition"
    ),
    "AccountingPolicy": _never("a policy of the accounting does not allow it", "sacctmgr show assoc user={User}"),
    "QOSUsageThreshold": Reason("its QOS {QOS} has been used too much: UsageThreshold", "sshare -u {User}"),
    "QOSJobLimit": Reason("QOS {QOS} has as many jobs as it may have"),
    "QOSResourceLimit": Reason("QOS {QOS} uses as much as it may use"),
    "QOSTimeLimit": _never("the time of QOS {QOS} is used up"),
    "Cleaning": Reason("its last run is still being cleaned up"),
    "JobArrayTaskLimit": Reason(
        "its array runs at most {ArrayTaskThrottle} tasks at once", "scontrol update jobid={id} arraytaskthrottle=0"
    ),
    "BurstBufferResources": Reason("it waits for room in the burst buffer", "scontrol show burst"),
    "BurstBufferStageIn": Reason("its files are copied into the burst buffer", "scontrol show burst"),
    "BurstBufferOperation": _never("the burst buffer failed", "scontrol show burst"),
    "PowerNotAvail": Reason("there is too little electric power left"),
    "PowerReserved": Reason("the electric power that is left is reserved"),
    "FedJobLock": Reason("another cluster of the federation may start it"),
    "MaxMemPerLimit": _never(
        "it asks for more memory than MaxMemPerCPU or MaxMemPerNode allows", "scontrol show partition"
    ),
    "MaxPoweredUpNodes": Reason("as many nodes run as may run: MaxPoweredUpNodes"),
    "MpiPortsBusy": Reason("every port for MPI is in use"),
    "NvidiaImexChannels": Reason("every IMEX channel is in use"),
}


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that a QOS or an association sets."""

    # "QOS" or "association".
    scope: str
    # What it applies to: "job", "node", "user", "account", or "" for all together.
    each: str
    # In the words of sacctmgr: the column, and the trackable resource in it, if it holds several.
    column: str
    tres: str = ""
    # What is counted, for people.
    noun: str = ""
    least: bool = False

    @property
    def waits(self) -> bool:
        """Whether waiting helps: what other jobs use becomes free, but what one job asks for stays the same."""
        return self.each not in ("job", "node") and not self.column.endswith(("TRESMins", "GrpWall"))


_TRES = {
    "cpu": ("cpu", "CPUs"),
    "mem": ("mem", "memory"),
    "memory": ("mem", "memory"),
    "node": ("node", "nodes"),
    "energy": ("energy", "energy"),
    "gres": ("gres", "generic resources (GPUs)"),
    "license": ("license", "licenses"),
    "bb": ("bb", "burst buffer"),
    "billing": ("billing", "billing units"),
    "unknown": ("", "a resource"),
}
_LIMIT = re.compile(
    r"(?P<scope>QOS|Assoc|)(?P<kind>Grp|Max|Min)"
    r"(?P<what>Cpu|CPU|Memory|Mem|Node|Energy|GRES|License|BB|Billing|Unknown|SubmitJobs?|Jobs?|WallDuration|Wall)"
    r"(?P<minutes>RunMinutes|RunMins|Minutes|)(?:Per(?P<each>Job|User|Node|Account)|)(?:Limit|NotSatisfied|)"
)
_SUFFIX = {"user": "PU", "account": "PA", "node": "PN"}


def limit_of(reason: str) -> Limit | None:
    """The limit that a reason such as QOSMaxCpuPerUserLimit or AssocGrpMem names."""
    found = _LIMIT.fullmatch(reason)
    if found is None or reason in REASONS:
        return None
    scope = "association" if found["scope"] == "Assoc" else "QOS"
    each = (found["each"] or "").lower() or _implied(scope, found["kind"])
    what = found["what"].lower()
    if what.startswith(("submit", "job", "wall")):
        return _counted(scope, each, found["kind"], what)
    tres, noun = _TRES[what]
    minutes = found["minutes"]
    if minutes:
        noun += " minutes of running jobs" if minutes.startswith("Run") else " minutes"
    return Limit(scope, each, _tres_column(found["kind"], each, minutes), tres, noun, found["kind"] == "Min")


def _implied(scope: str, kind: str) -> str:
    """What a limit applies to if its name does not say it."""
    if kind == "Grp":
        return ""
    return "user" if scope == "association" and kind == "Max" else "job"


def _counted(scope: str, each: str, kind: str, what: str) -> Limit:
    if what.startswith("wall"):
        return Limit(scope, each if kind == "Grp" else "job", "GrpWall" if kind == "Grp" else "MaxWall", noun="time")
    base, noun = ("Submit", "jobs in the queue") if what.startswith("submit") else ("Jobs", "running jobs")
    if kind == "Grp":
        return Limit(scope, "", f"Grp{base}", noun=noun)
    suffix = _SUFFIX.get(each, "PU") if scope == "QOS" else ""
    return Limit(scope, each if each != "job" else "user", f"Max{base}{suffix}", noun=noun)


def _tres_column(kind: str, each: str, minutes: str) -> str:
    if kind == "Grp":
        return {"": "GrpTRES", "Minutes": "GrpTRESMins"}.get(minutes, "GrpTRESRunMins")
    if kind == "Min":
        return "MinTRES"
    if minutes == "Minutes":
        return "MaxTRESMins"
    return f"MaxTRES{'RunMins' if minutes else ''}{_SUFFIX.get(each, '')}"
