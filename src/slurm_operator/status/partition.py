"""What is true of a Partition: whether it is in slurm.conf, whether Slurm has it as asked, how full it is.

In: the builder's verdict, Slurm's own answer, and what differs. Out: conditions, counts and rows of drift. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_operator.api.partition import Drift
from slurm_operator.api.plural import counted
from slurm_operator.build.partition import ACCEPTED, Verdict
from slurm_operator.plan.partition_fields import Difference
from slurm_operator.slurm.model import Job, Node, Partition, Unknown
from slurm_operator.slurm.policy import is_over
from slurm_operator.slurm.requests import is_read_as_name
from slurm_operator.status.conditions import READY, Statement, no, unknown, yes

ACCEPTED_TYPE = "Accepted"
APPLIED = "Applied"
IN_SYNC = "InSync"
MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Seen:
    """What one turn found out about a partition."""

    verdict: Verdict
    # None: Slurm does not have it.
    found: Partition | Unknown | None
    # Fields that are on their way, and fields that somebody changed by hand.
    pending: tuple[Difference, ...] = ()
    drift: tuple[Difference, ...] = ()
    policy: str = "Revert"
    given_up: bool = False
    live_way: bool = False
    # What Slurm said to the last change, and what no live change can set.
    refused: str | None = None
    unsettable: tuple[str, ...] = ()


def statements(seen: Seen) -> list[Statement]:
    """The conditions of a Partition."""
    verdict, found = seen.verdict, seen.found
    accepted = _accepted(seen)
    if not verdict.accepted:
        return [
            accepted,
            no(APPLIED, verdict.reason, "it is not in slurm.conf"),
            no(READY, verdict.reason, verdict.message),
        ]
    if isinstance(found, Unknown):
        return [
            accepted,
            unknown(APPLIED, found.reason, found.why),
            unknown(READY, found.reason, found.why),
        ]
    if found is None and not seen.drift:
        waiting = seen.refused or "Slurm does not have it yet"
        reason = "RefusedBySlurm" if seen.refused else "NotInSlurmYet"
        return [accepted, no(APPLIED, reason, waiting), no(READY, reason, waiting)]
    return [accepted, _applied(seen), _in_sync(seen), _ready(found)]


def _accepted(seen: Seen) -> Statement:
    verdict = seen.verdict
    if not verdict.accepted:
        return no(ACCEPTED_TYPE, verdict.reason, verdict.message)
    if verdict.removed_nodes and not seen.live_way:
        named = _some(verdict.removed_nodes)
        message = f"{named} cannot be taken out: slurm.conf has no word for it, and this Slurm has no live partitions"
        return yes(ACCEPTED_TYPE, "NodesNotTakenOut", message)
    return yes(ACCEPTED_TYPE, verdict.reason if verdict.reason != ACCEPTED else ACCEPTED, verdict.message)


def _applied(seen: Seen) -> Statement:
    if seen.refused:
        return no(APPLIED, "RefusedBySlurm", seen.refused)
    if seen.found is None:
        return no(APPLIED, "NotInSlurm", "somebody deleted it in Slurm")
    if seen.pending:
        return no(APPLIED, "NotInSlurmYet", f"Slurm has not taken over: {_rows(seen.pending)}")
    if seen.unsettable:
        named = ", ".join(seen.unsettable)
        message = f"Slurm takes {named} only for a new partition: delete it and make it again"
        return no(APPLIED, "NeedsNewPartition", message)
    return yes(APPLIED, "InSlurm", "Slurm's own answer has it")


def _in_sync(seen: Seen) -> Statement:
    if not seen.drift:
        return yes(IN_SYNC, "InSync", "Slurm has what is asked for here")
    rows = _rows(seen.drift)
    if seen.policy == "Keep":
        return yes(IN_SYNC, "DriftKept", f"changed in Slurm and kept: {rows}")
    if seen.policy == "Report":
        return no(IN_SYNC, "Drifted", f"changed in Slurm: {rows}")
    if seen.given_up:
        message = f"Slurm accepted several reverts and drifted again each time; it is now left as it is: {rows}"
        return no(IN_SYNC, "DriftComesBack", message)
    if seen.refused:
        return no(IN_SYNC, "RefusedBySlurm", f"changed in Slurm, and not reverted: {seen.refused}; {rows}")
    return no(IN_SYNC, "Reverting", f"changed in Slurm, being reverted: {rows}")


def _ready(found: Partition | None) -> Statement:
    if found is None:
        return no(READY, "NotInSlurm", "somebody deleted it in Slurm")
    if "UP" not in found.states:
        state = "+".join(sorted(found.states)) or "unknown"
        return no(READY, "NotUp", f"its state is {state}")
    if not found.total_nodes:
        return no(READY, "NoNodes", "it holds no nodes yet")
    return yes(READY, "Up", f"it is up with {counted(found.total_nodes, 'node')}")


def deleting(name: str, jobs: Sequence[int] | Unknown, *, finished_too: bool) -> list[Statement]:
    """The condition of a Partition that waits to go."""
    if isinstance(jobs, Unknown):
        message = f"it goes when Slurm says that its jobs have ended; Slurm does not answer: {jobs.why}"
        return [unknown(READY, jobs.reason, message)]
    if not jobs:
        if not is_read_as_name(name):
            message = f"slurmrestd cannot delete a partition of this name: run scontrol delete partitionname={name}"
            return [no(READY, "Deleting", f"its jobs have ended; {message}")]
        return [no(READY, "Deleting", f"its jobs have ended; partition {name} is being taken out of Slurm")]
    records = "the records of jobs" if finished_too else "jobs"
    return [no(READY, "WaitingForJobs", f"it takes no new jobs, and waits for {records} {_some(jobs)}")]


def drift_rows(before: Iterable[Drift], drift: Iterable[Difference], now: str) -> list[dict[str, str]]:
    """The rows of drift; a row that was there keeps its time."""
    known = {each.field: each for each in before}
    rows = []
    for each in drift:
        old = known.get(each.field)
        since = old.since if old is not None and old.found == each.found else now
        rows.append({"field": each.field, "wanted": each.wanted, "found": each.found, "since": since})
    return rows


def fields(
    found: Partition | Unknown | None, nodes: Iterable[Node] | Unknown, jobs: Iterable[Job] | Unknown
) -> dict[str, Any]:
    """The counts of a Partition's status; those that Slurm cannot be asked for are left out, not 0."""
    if found is None or isinstance(found, Unknown):
        return {}
    counts = {"nodes": found.total_nodes}
    if not isinstance(nodes, Unknown):
        counts["cpus"] = sum(node.cpus for node in nodes if found.name in node.partitions)
    if not isinstance(jobs, Unknown):
        mine = [job for job in jobs if found.name in job.partition.split(",") and not is_over(job)]
        counts["runningJobs"] = sum("RUNNING" in job.states for job in mine)
        counts["pendingJobs"] = sum("PENDING" in job.states for job in mine)
    return counts


def _rows(differences: Iterable[Difference]) -> str:
    return "; ".join(
        f"{each.field} is {each.found or 'not set'}, not {each.wanted or 'not set'}" for each in differences
    )


def _some(items: Sequence[object]) -> str:
    named = ", ".join(map(str, items[:MOST_NAMED]))
    return named if len(items) <= MOST_NAMED else f"{named} and {len(items) - MOST_NAMED} more"
