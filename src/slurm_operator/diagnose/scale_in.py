"""What a NodeSet that becomes smaller, or is deleted, waits for: the jobs, their ends, and what would shorten it.

In: facts, and a NodeSet. Out: a cause, or None when no worker of it is leaving. A job that waits in the partition of a
NodeSet that is being deleted never runs there, and its deletion would wait for ever: that is wrong, not under way. Used
by `diagnose/resource.py`, `diagnose/node.py` and `diagnose/waiting.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

from kube_runtime.text import first_few
from slurm_operator.api.plural import counted
from slurm_operator.build import labels
from slurm_operator.diagnose.cause import Cause, quoted
from slurm_operator.diagnose.facts import (
    Facts,
    Object,
    Slurm,
    SlurmJob,
    clock,
    controller_of,
    host_of,
    name_of,
    spec_of,
)
from slurm_operator.diagnose.partition_owner import owner_of, set_name
from slurm_operator.diagnose.room import OUT, jobs_on, partitions_of
from slurm_operator.plan.registration import read_pod_info
from slurm_operator.slurm import policy

MAX_NAMED = 3
# So many jobs are named in a command that cancels them.
MAX_CANCELLED = 10
# slurmctld refuses most moves of a job whose user has no association, at random, with an errno that an earlier call
# left behind ("Resource temporarily unavailable"): `_update_job` of 24.11 and 26.05. The same command succeeds soon.
MOVE_SECONDS = 20
MOVES_AGAIN = "the command repeats what Slurm refuses at first"


def why(facts: Facts, resource: Object) -> Cause | None:
    """Why workers are still there that should not be."""
    slurm = facts.slurm_of(controller_of(resource))
    pods = facts.pods_of(labels.WORKER, name_of(resource))
    deleting = is_deleted(resource)
    wanted = 0 if deleting else spec_of(resource).get("replicas")
    stuck = _stuck(facts, resource, slurm) if isinstance(slurm, Slurm) and deleting else None
    if stuck is not None:
        return stuck
    if not isinstance(slurm, Slurm) or not isinstance(wanted, int) or len(pods) <= wanted:
        return None
    hosts = [host_of(pod) for pod in pods]
    leaving = hosts if deleting else [host for host in hosts if _is_leaving(slurm, host)]
    if not leaving:
        return None
    becomes = "is being deleted" if deleting else f"goes from {counted(len(pods), 'worker')} to {wanted}"
    jobs = jobs_on(slurm, leaving)
    text = f"NodeSet {name_of(resource)} {becomes}: {_waits(facts, leaving, jobs)}"
    if not jobs:
        look = f"kubectl -n {facts.namespace} describe nodeset {name_of(resource)}"
        return Cause("Deleting" if deleting else "ScalingIn", text, look, waits=True)
    # The job that keeps it longest is the one that shortens it.
    how, command = shortened(facts, slurm, leaving, jobs[-1])
    return Cause("Deleting" if deleting else "ScalingIn", f"{text}. {how}", command, waits=True)


def is_deleted(resource: Object) -> bool:
    """Whether it is being deleted."""
    return bool((resource.get("metadata") or {}).get("deletionTimestamp"))


def shortened(facts: Facts, slurm: Slurm, leaving: Collection[str], job: SlurmJob) -> tuple[str, str]:
    """What would shorten the wait for a job on a worker that leaves, with its price; and the command.

    A requeue helps only where the job can run again, on nodes that stay.
    """
    shell = f"kubectl slurm -n {facts.namespace} shell --"
    if job.can_requeue and _runs_again(facts, slurm, leaving, job):
        how = f"Requeuing job {job.id} would shorten it; the job starts again from its beginning"
        return how, f"{shell} scontrol requeue {job.id}"
    # Nobody has to act, so the command only looks, and the sentence says what scancel would cost.
    return f"Only scancel {job.id} would shorten it, and the job would be lost", f"{shell} squeue -j {job.id}"


def _runs_again(facts: Facts, slurm: Slurm, leaving: Collection[str], job: SlurmJob) -> bool:
    if job.required or never_runs(facts, job):
        return False
    mine = [found for name in partitions_of(job) if (found := slurm.partitions.get(name)) is not None]
    nodes = (name for name, node in slurm.nodes.items() if name not in leaving and not node.states & OUT)
    return sum(any(name in found.nodes for found in mine) for name in nodes) >= job.node_count


def _stuck(facts: Facts, nodeset: Object, slurm: Slurm) -> Cause | None:
    """Jobs that wait in a partition without nodes, or for a node that goes: neither they nor the deletion end."""
    waiting = [job for job in slurm.jobs.values() if job.state == "PENDING"]
    # Thousands of jobs may wait in one partition: each of these is looked into once.
    in_partition = {job.partition: job for job in waiting if set_name(nodeset) in partitions_of(job)}
    lost = {name for name, job in in_partition.items() if never_runs(facts, job)}
    mine = {job.id: job for job in waiting if job.partition in lost}
    uid = str((nodeset.get("metadata") or {}).get("uid", ""))
    own = [node.name for node in slurm.nodes.values() if uid and read_pod_info(node.comment).get("nodeSetUID") == uid]
    mine |= {job.id: job for job in waiting if job.required and any(name in job.required for name in own)}
    if not mine:
        return None
    jobs = sorted(mine.values(), key=lambda job: int(job.id))
    them, which = ("it", "its") if len(jobs) == 1 else ("each", "their")
    move, how = _move(facts, slurm, jobs[0])
    named = first_few([f"job {job.id} of {job.user}" for job in jobs], MAX_NAMED)
    return Cause(
        "JobsNeverRun",
        f"NodeSet {name_of(nodeset)} is being deleted, and waits for {named}, which can never run: "
        f"{which} partition, or a node that {'it' if len(jobs) == 1 else 'they'} must have, goes with the NodeSet. "
        f"Move {them} elsewhere{how}, or cancel {them} ({cancelled([job.id for job in jobs])})",
        move,
        root=f"partition {set_name(nodeset)}",
    )


def never_runs(facts: Facts, job: SlurmJob) -> bool:
    """Whether every partition that a job may run in is removed with its NodeSet, whose nodes take no more jobs."""
    owners = [owner_of(facts, name) for name in partitions_of(job)]
    return bool(owners) and all(each is not None and each.kind == "NodeSet" and each.is_leaving for each in owners)


def why_never(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    """The answer to why such a job does not start; None when it may."""
    if not never_runs(facts, job):
        return None
    move, how = _move(facts, slurm, job)
    text = (
        f"its partition {job.partition} goes, because its NodeSet is being deleted, so the job can never run "
        f"there. Move it to another partition{how}, or cancel it ({cancelled([job.id])})"
    )
    return Cause("JobsNeverRun", text, move, root=f"partition {job.partition}")


def cancelled(ids: Sequence[str]) -> str:
    """The command that cancels jobs; of very many it names the first ones."""
    more = f" and {len(ids) - MAX_CANCELLED} more" if len(ids) > MAX_CANCELLED else ""
    return f"scancel {' '.join(ids[:MAX_CANCELLED])}{more}"


def _move(facts: Facts, slurm: Slurm, job: SlurmJob) -> tuple[str, str]:
    """The command that moves a job to where jobs are taken, and a remark; if there is no such place, one to cancel."""
    shell = f"kubectl slurm -n {facts.namespace} shell --"
    elsewhere = " reqnodelist=" if job.required else ""
    if not never_runs(facts, job):
        return f"{shell} scontrol update jobid={job.id}{elsewhere}", ""
    owners = ((name, found, owner_of(facts, name)) for name, found in sorted(slurm.partitions.items()))
    usable = [
        name
        for name, found, owner in owners
        if found.state == "UP" and found.nodes and not (owner is not None and owner.is_leaving)
    ]
    if not usable:
        return f"{shell} scancel {job.id}", ""
    move = f"until scontrol update jobid={job.id} partition={quoted(usable[0])}{elsewhere}; do sleep 1; done"
    return f"{shell} timeout {MOVE_SECONDS} sh -c {shlex.quote(move)}", f" ({MOVES_AGAIN})"


def _is_leaving(slurm: Slurm, host: str) -> bool:
    node = slurm.nodes.get(host)
    return node is not None and "DRAIN" in node.states and policy.drain_is_ours(node.reason)


def _waits(facts: Facts, leaving: list[str], jobs: list[SlurmJob]) -> str:
    if not jobs:
        one = len(leaving) == 1
        return f"{', '.join(leaving[:MAX_NAMED])} {'runs' if one else 'run'} no job, and {'goes' if one else 'go'} next"
    shown = []
    for host in leaving:
        mine = [job for job in jobs if host in job.nodes]
        shown += [f"{host} waits for {', '.join(_job(facts, job) for job in mine[:MAX_NAMED])}"] if mine else []
    more = (
        f"; {counted(len(shown) - MAX_NAMED, 'more worker waits', 'more workers wait')}"
        if len(shown) > MAX_NAMED
        else ""
    )
    return "; ".join(shown[:MAX_NAMED]) + more


def _job(facts: Facts, job: SlurmJob) -> str:
    until = f"until {clock(facts, job.end)} at the latest" if job.end else "without a time limit"
    return f"job {job.id} of {job.user} ({until})"
