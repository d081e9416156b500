"""Why a job waits, or how it ended: Slurm's own reason, and what is behind it.

In: facts and a job's number. Out: an answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from kube_runtime.text import whole_number
from slurm_operator.api.plural import counted
from slurm_operator.diagnose import ghosts
from slurm_operator.diagnose import node as nodes
from slurm_operator.diagnose import partition as partitions
from slurm_operator.diagnose.cause import Cause, Diagnosis, Fine, Unseen
from slurm_operator.diagnose.facts import Facts, Silence, Slurm, SlurmJob, shown_hosts

# Slurm's reason: what it means.
MEANINGS = {
    "Priority": "jobs of higher priority wait for the same nodes",
    "Dependency": "it waits for another job: {Dependency}",
    "DependencyNeverSatisfied": "it waits for a job that failed, and so will never start",
    "BeginTime": "it must not start before {StartTime}",
    "JobHeldUser": "its owner put it on hold",
    "JobHeldAdmin": "an administrator put it on hold",
    "PartitionTimeLimit": "it asks for {TimeLimit}, which is more than its partition allows",
    "PartitionNodeLimit": "it asks for {NumNodes} nodes, which is more, or fewer, than its partition allows",
    "PartitionConfig": "what it asks for does not fit its partition",
    "BadConstraints": "no node has what it asks for: {Features}",
    "Licenses": "it waits for licenses: {Licenses}",
    "Reservation": "its reservation has not started",
    "ReqNodeNotAvail": "a node that it needs is not available",
    "InvalidAccount": "its account {Account} does not exist",
    "InvalidQOS": "its QOS {QOS} does not exist",
    "NodeDown": "a node that it needs is down",
    "launch failed requeued held": "it could not be launched, and is held",
}
COMMANDS = {
    "JobHeldUser": "scontrol release {id}",
    "JobHeldAdmin": "scontrol release {id}",
    "launch failed requeued held": "scontrol release {id}",
    "DependencyNeverSatisfied": "scancel {id}",
}
ENDINGS = {
    "NODE_FAIL": "a node that it ran on failed",
    "OUT_OF_MEMORY": "it used more memory than it had asked for",
    "TIMEOUT": "it ran longer than its time limit {TimeLimit}",
    "CANCELLED": "it was cancelled",
    "PREEMPTED": "a job of higher priority took its place",
    "FAILED": "its script ended with code {ExitCode}",
}
_NAMED = re.compile(r"\{(\w+)\}")
PARTITION_REASONS = frozenset({"PartitionDown", "PartitionInactive"})


def why(facts: Facts, name: str) -> Diagnosis:
    """Why a job does not run."""
    for slurm in facts.slurm.values():
        if isinstance(slurm, Slurm) and name in slurm.jobs:
            return _job(facts, slurm.jobs[name], slurm)
    for cluster, slurm in facts.slurm.items():
        if isinstance(slurm, Silence):
            return nodes.silent(facts, cluster, slurm)
    if not facts.slurm:
        return nodes.silent(facts, "", Silence("there is none"))
    return Unseen(
        f"Slurm no longer has job {name}; accounting may",
        f"kubectl slurm -n {facts.namespace} shell -- sacct -j {name}",
    )


def _job(facts: Facts, job: SlurmJob, slurm: Slurm) -> Diagnosis:
    if job.state == "PENDING":
        return _pending(facts, job, slurm)
    if job.state in ENDINGS:
        return Cause(
            job.state,
            f"job {job.id} is {job.state}: {_filled(ENDINGS[job.state], job)}",
            f"kubectl slurm -n {facts.namespace} shell -- sacct -j {job.id} -o JobID,State,ExitCode,NodeList",
        )
    ghost = ghosts.why(facts, job)
    if ghost is not None:
        return ghost
    return Fine(f"job {job.id} is {job.state.lower()}" + (f" on {shown_hosts(job.nodes)}" if job.nodes else ""))


def _pending(facts: Facts, job: SlurmJob, slurm: Slurm) -> Diagnosis:
    step = f"job {job.id} waits, and Slurm says {job.reason}"
    reason = job.reason.partition(",")[0].strip()
    if reason in PARTITION_REASONS:
        answer = partitions.why(facts, job.partition)
        return answer.under(step) if isinstance(answer, Cause) else _plain(facts, job, "its partition is not up", step)
    if reason in ("Resources", "ReqNodeNotAvail", "NodeDown", "PartitionConfig", "None") or "DOWN" in job.reason:
        deeper = _short_of_nodes(facts, job, slurm)
        if deeper is not None:
            return deeper.under(step)
    if reason == "Resources":
        return _plain(facts, job, f"every node that fits it in partition {job.partition} is busy", step)
    if reason in ("None", ""):
        return Fine(f"job {job.id} was just submitted; Slurm has not tried to start it yet")
    meaning = MEANINGS.get(reason)
    if meaning is None and reason.startswith(("QOS", "Assoc", "MaxJobs", "MaxCpu")):
        meaning = f"a limit of its account, user or QOS is reached: {reason}"
    return _plain(facts, job, _filled(meaning, job) if meaning else f"Slurm says {job.reason}", step)


def _short_of_nodes(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    """Nodes that are missing, not merely busy."""
    upper = partitions.why(facts, job.partition)
    if isinstance(upper, Cause):
        return upper
    found = slurm.partitions.get(job.partition)
    names: Collection[str] = found.nodes if found is not None else ()
    wanted = whole_number(job.wants.get("NumNodes", "1").partition("-")[0]) or 1
    if len(names) < wanted:
        return Cause(
            "PartitionTooSmall",
            f"it asks for {counted(wanted, 'node')}, and partition {job.partition} has {len(names)}",
            f"kubectl -n {facts.namespace} get nodesets.slinky.slurm.net",
        )
    for name in names if len(names) == wanted else ():
        answer = nodes.why(facts, name)
        if isinstance(answer, Cause):
            return answer
    return None


def _plain(facts: Facts, job: SlurmJob, meaning: str, step: str) -> Cause:
    reason = job.reason.partition(",")[0].strip()
    command = COMMANDS.get(reason, "scontrol show job {id}").format(id=job.id)
    return Cause(
        reason, f"job {job.id} waits: {meaning}", f"kubectl slurm -n {facts.namespace} shell -- {command}", (step,)
    )


def _filled(text: str, job: SlurmJob) -> str:
    # In one pass: an account may be named {QOS}.
    return _NAMED.sub(lambda found: job.wants.get(found[1], found[0]), text)
