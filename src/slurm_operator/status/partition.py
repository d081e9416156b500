"""What is true of a Partition: whether it is in slurm.conf, whether Slurm has it, how full it is.

In: the builder's verdict and Slurm's own answer. Out: conditions and counts. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slurm_operator.build.partition import ACCEPTED, Verdict
from slurm_operator.slurm.model import Job, Node, Partition, Unknown
from slurm_operator.slurm.policy import is_over
from slurm_operator.status.conditions import READY, Statement, no, unknown, yes

ACCEPTED_TYPE = "Accepted"
APPLIED = "Applied"


def statements(verdict: Verdict, found: Partition | Unknown | None) -> list[Statement]:
    """The conditions of a Partition."""
    accepted = _accepted(verdict)
    if not verdict.accepted:
        return [
            accepted,
            no(APPLIED, verdict.reason, "it is not in slurm.conf"),
            no(READY, verdict.reason, verdict.message),
        ]
    if isinstance(found, Unknown):
        return [
            accepted,
            unknown(APPLIED, "SlurmUnreachable", found.why),
            unknown(READY, "SlurmUnreachable", found.why),
        ]
    if found is None:
        waiting = "it is in slurm.conf; Slurm has not read it yet"
        return [accepted, no(APPLIED, "NotInSlurmYet", waiting), no(READY, "NotInSlurmYet", waiting)]
    return [accepted, yes(APPLIED, "InSlurm", "Slurm's own answer has it"), _ready(found)]


def _accepted(verdict: Verdict) -> Statement:
    if verdict.reason == ACCEPTED:
        return yes(ACCEPTED_TYPE, ACCEPTED, verdict.message)
    if verdict.accepted:
        return yes(ACCEPTED_TYPE, verdict.reason, verdict.message)
    return no(ACCEPTED_TYPE, verdict.reason, verdict.message)


def _ready(found: Partition) -> Statement:
    if "UP" not in found.states:
        state = "+".join(sorted(found.states)) or "unknown"
        return no(READY, "NotUp", f"its state is {state}")
    if not found.total_nodes:
        return no(READY, "NoNodes", "it holds no nodes yet")
    return yes(READY, "Up", f"it is up with {found.total_nodes} nodes")


def fields(found: Partition | Unknown | None, nodes: Iterable[Node], jobs: Iterable[Job]) -> dict[str, Any]:
    """The counts of a Partition's status; none while Slurm cannot be asked."""
    if found is None or isinstance(found, Unknown):
        return {}
    mine = [job for job in jobs if found.name in job.partition.split(",") and not is_over(job)]
    return {
        "nodes": found.total_nodes,
        "cpus": sum(node.cpus for node in nodes if found.name in node.partitions),
        "runningJobs": sum("RUNNING" in job.states for job in mine),
        "pendingJobs": sum("PENDING" in job.states for job in mine),
    }
