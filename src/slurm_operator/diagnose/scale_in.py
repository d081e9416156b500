"""What a NodeSet that becomes smaller, or is deleted, waits for: the jobs, their ends, and what would shorten it.

In: facts, and a NodeSet. Out: a cause, or None when no worker of it is leaving. Used by `diagnose/resource.py`.
"""

from __future__ import annotations

from slurm_operator.api.plural import counted
from slurm_operator.build import labels
from slurm_operator.diagnose.cause import Cause
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
from slurm_operator.diagnose.room import jobs_on
from slurm_operator.slurm import policy

MAX_NAMED = 3


def why(facts: Facts, resource: Object) -> Cause | None:
    """Why workers are still there that should not be."""
    slurm = facts.slurm_of(controller_of(resource))
    pods = facts.pods_of(labels.WORKER, name_of(resource))
    deleting = bool((resource.get("metadata") or {}).get("deletionTimestamp"))
    wanted = 0 if deleting else spec_of(resource).get("replicas")
    if not isinstance(slurm, Slurm) or not isinstance(wanted, int) or len(pods) <= wanted:
        return None
    hosts = [host_of(pod) for pod in pods]
    leaving = hosts if deleting else [host for host in hosts if _is_leaving(slurm, host)]
    if not leaving:
        return None
    becomes = "is being deleted" if deleting else f"goes from {counted(len(pods), 'worker')} to {wanted}"
    jobs = jobs_on(slurm, leaving)
    text = f"NodeSet {name_of(resource)} {becomes}: {_waits(facts, leaving, jobs)}"
    return Cause("Deleting" if deleting else "ScalingIn", text, _command(facts, resource, jobs), waits=True)


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
    return "; ".join(shown[:MAX_NAMED]) + more + f". To {_way(jobs[-1])} job {jobs[-1].id} would shorten it"


def _job(facts: Facts, job: SlurmJob) -> str:
    until = f"until {clock(facts, job.end)} at the latest" if job.end else "without a time limit"
    return f"job {job.id} of {job.user} ({until})"


def _way(job: SlurmJob) -> str:
    return "requeue" if job.can_requeue else "cancel"


def _command(facts: Facts, resource: Object, jobs: list[SlurmJob]) -> str:
    """The job that keeps it longest is the one that shortens it."""
    if not jobs:
        return f"kubectl -n {facts.namespace} describe nodeset {name_of(resource)}"
    last = jobs[-1]
    return (
        f"kubectl slurm -n {facts.namespace} shell -- {'scontrol requeue' if last.can_requeue else 'scancel'} {last.id}"
    )
