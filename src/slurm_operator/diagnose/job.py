"""Why a job does not run, or how it ended: Slurm's own reason, and what is behind it.

In: facts and a job's number: `9`, a task `9_500` of an array, a component `12+1` of a heterogeneous job. Out: an
answer.
"""

from __future__ import annotations

from slurm_operator.diagnose import ghosts, waiting
from slurm_operator.diagnose import node as nodes
from slurm_operator.diagnose.cause import Cause, Diagnosis, Fine, Unseen
from slurm_operator.diagnose.facts import Facts, Silence, Slurm, SlurmJob, clock, shown_hosts, spec_of
from slurm_operator.diagnose.wording import SAFE, filled, in_shell, title

ENDINGS = {
    "NODE_FAIL": "a node that it ran on failed",
    "OUT_OF_MEMORY": "it used more memory than it had asked for",
    "TIMEOUT": "it ran longer than its time limit {TimeLimit}",
    "CANCELLED": "somebody, or a program, cancelled it",
    "PREEMPTED": "a job of higher priority took its place",
    "FAILED": "its script ended with code {ExitCode}",
    "BOOT_FAIL": "its node could not be started",
    "DEADLINE": "it could not end before its deadline",
    "LAUNCH_FAILED": "it could not be launched on its node",
    "RECONFIG_FAIL": "its node could not be configured for it",
    "REVOKED": "another cluster of the federation runs it",
}
# Somebody wanted these.
CHOSEN_ENDINGS = frozenset({"CANCELLED", "PREEMPTED", "REVOKED"})
HOLDS = {"SUSPENDED": "resume", "STOPPED": "resume", "REQUEUE_HOLD": "release", "SPECIAL_EXIT": "release"}


def why(facts: Facts, name: str) -> Diagnosis:
    """Why a job does not run."""
    for slurm in facts.slurm.values():
        job = found(slurm, name) if isinstance(slurm, Slurm) else None
        if job is not None and isinstance(slurm, Slurm):
            return _job(facts, job, slurm)
    for cluster, slurm in facts.slurm.items():
        if isinstance(slurm, Silence):
            return nodes.silent(facts, cluster, slurm)
    if not facts.slurm:
        return nodes.silent(facts, "", Silence("there is none"))
    return _forgotten(facts, name)


def found(slurm: Slurm, name: str) -> SlurmJob | None:
    """The record that stands for a job, a task or a component."""
    array, underscore, task = name.partition("_")
    if underscore:
        return _task(slurm, array, task)
    if "+" in name:
        return next((job for job in slurm.jobs.values() if job.component == name), None)
    return slurm.jobs.get(name)


def _task(slurm: Slurm, array: str, task: str) -> SlurmJob | None:
    """The task's own record once it has one, and until then that of all tasks that wait."""
    mine = [job for job in slurm.jobs.values() if job.array == array]
    own = next((job for job in mine if job.tasks == task), None)
    return own or next((job for job in mine if _covers(job.tasks, task)), None)


def _covers(tasks: str, task: str) -> bool:
    """Whether `0-99:2,200%4` holds a task; Slurm cuts long lists off, and what is cut off may hold it."""
    number = int(task) if task.isdecimal() else -1
    for part in tasks.partition("%")[0].split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        if "..." in part:
            return True
        if first.isdecimal() and int(first) <= number <= int(last if last.isdecimal() else first):
            return (number - int(first)) % (int(step) if step.isdecimal() and int(step) else 1) == 0
    return False


def _forgotten(facts: Facts, name: str) -> Unseen:
    number = name if name.replace("_", "").replace("+", "").isalnum() else ""
    if any(spec_of(each).get("accountingRef") for each in facts.every("Controller")):
        return Unseen(
            f"Slurm has no job {name}: it ended some time ago, which its accounting tells, or there never was one",
            f"kubectl slurm -n {facts.namespace} shell -- sacct -j {number} -o JobID,State%20,ExitCode,End,NodeList",
        )
    return Unseen(
        f"Slurm has no job {name}, and keeps no record of old ones: its Controller has no accountingRef",
        f"kubectl slurm -n {facts.namespace} shell -- squeue -t all",
    )


def _job(facts: Facts, job: SlurmJob, slurm: Slurm) -> Diagnosis:
    if job.state == "PENDING":
        return waiting.why(facts, job, slurm)
    if job.state in ENDINGS:
        return _ended(facts, job)
    ghost = ghosts.why(facts, job)
    if ghost is not None:
        return ghost
    if job.state in HOLDS:
        command = in_shell(facts, job, f"scontrol {HOLDS[job.state]} {{id}}")
        return Cause(job.state, f"{title(job)} is {job.state}: somebody stopped it", command, chosen=True)
    if job.state == "COMPLETING":
        return _completing(facts, job)
    until = f", until {clock(facts, job.end)} at the latest" if job.state == "RUNNING" and job.end else ""
    place = f" on {shown_hosts(job.nodes)}" if job.nodes else ""
    return Fine(f"{title(job)} is {job.state.lower()}{place}{until}")


def _completing(facts: Facts, job: SlurmJob) -> Diagnosis:
    """It has ended, but not all of its nodes have confirmed it."""
    for host in job.nodes:
        answer = nodes.why(facts, host)
        if isinstance(answer, Cause) and answer.wrong:
            return answer.under(f"{title(job)} has ended, and {host} has not cleaned up after it")
    return Fine(f"{title(job)} has ended, and its nodes clean up: {shown_hosts(job.nodes)}")


def _ended(facts: Facts, job: SlurmJob) -> Cause:
    record = "sacct -j {id} -o JobID,State%20,ExitCode,NodeList"
    kept = any(spec_of(each).get("accountingRef") for each in facts.every("Controller"))
    command = in_shell(facts, job, record if kept else "scontrol show job {id}")
    text = filled(ENDINGS[job.state], job)
    if job.state == "NODE_FAIL" and SAFE.fullmatch(job.failed_node):
        text = f"node {job.failed_node}, which it ran on, failed"
        command = f"kubectl slurm -n {facts.namespace} why node/{job.failed_node}"
    return Cause(job.state, f"{title(job)} is {job.state}: {text}", command, chosen=job.state in CHOSEN_ENDINGS)
