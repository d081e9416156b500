"""What is true of a Partition: whether it is in slurm.conf, whether Slurm has it as asked, how full it is.

In: the `PartitionOutcome` that its Controller's reconcile left. Out: conditions and rows of drift. Called by
`reconcile/partition.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kube_runtime.text import first_few, printable
from slurm_operator.api.partition import Drift
from slurm_operator.api.plural import counted
from slurm_operator.api.problem import FieldProblem
from slurm_operator.build.partition import ACCEPTED, NAME_TAKEN
from slurm_operator.plan.partition_fields import Difference
from slurm_operator.plan.partition_outcome import PartitionOutcome
from slurm_operator.slurm.model import Partition, Unknown
from slurm_operator.slurm.requests import is_read_as_name
from slurm_operator.status import workload
from slurm_operator.status.conditions import READY, ConditionDraft, no, unknown, yes

ACCEPTED_TYPE = "Accepted"
APPLIED = "Applied"
IN_SYNC = "InSync"
MAX_NAMED_HOSTS = 10
MAX_NAMED_JOBS = 10
# Of a value in a row of drift: a longer one than the definition allows would keep the whole status from being written.
MAX_DRIFT_CHARACTERS = 16_384


def drafts(outcome: PartitionOutcome) -> list[ConditionDraft]:
    """The conditions of a Partition."""
    acceptance, found = outcome.acceptance, outcome.found
    accepted = _accepted(outcome)
    if not acceptance.accepted:
        return [
            accepted,
            no(APPLIED, acceptance.reason, _left_out(outcome)),
            no(READY, acceptance.reason, acceptance.message),
        ]
    if isinstance(found, Unknown):
        return [
            accepted,
            unknown(APPLIED, found.reason, found.why),
            unknown(READY, found.reason, found.why),
        ]
    if found is None and not outcome.drift:
        waiting, reason = outcome.held or outcome.refused or "Slurm does not have it yet", _why_missing(outcome)
        return [accepted, no(APPLIED, reason, waiting), no(READY, reason, waiting)]
    return [accepted, _applied(outcome), _in_sync(outcome), _ready(found)]


def _left_out(outcome: PartitionOutcome) -> str:
    found = outcome.found
    if outcome.acceptance.reason == NAME_TAKEN or not isinstance(found, Partition):
        return "it is not in slurm.conf"
    return (
        f"it is left out; Slurm still has partition {found.name}, in state {_state(found)}, until its jobs have ended"
    )


def _accepted(outcome: PartitionOutcome) -> ConditionDraft:
    acceptance = outcome.acceptance
    if not acceptance.accepted:
        return no(ACCEPTED_TYPE, acceptance.reason, acceptance.message)
    undone = _undone_nodes(outcome)
    if undone is not None:
        return undone
    if outcome.held:
        return no(ACCEPTED_TYPE, "LinterRefused", outcome.held)
    return yes(ACCEPTED_TYPE, acceptance.reason if acceptance.reason != ACCEPTED else ACCEPTED, acceptance.message)


def _undone_nodes(outcome: PartitionOutcome) -> ConditionDraft | None:
    """Hosts that Slurm does not know, or that only a live change could add or remove where it cannot."""
    if isinstance(outcome.found, Unknown):
        return None
    if outcome.supports_live_partitions:
        missing = _missing_hosts(outcome)
        return yes(ACCEPTED_TYPE, "NodesNotAdded", missing) if missing else None
    added, removed = outcome.acceptance.live_nodes, outcome.acceptance.removed_nodes
    if removed:
        named = first_few(removed, MAX_NAMED_HOSTS)
        message = (
            f"{named} cannot be removed: slurm.conf cannot express it, and this Slurm cannot change partitions live"
        )
        return yes(ACCEPTED_TYPE, "NodesNotTakenOut", message)
    if added:
        named = first_few(added, MAX_NAMED_HOSTS)
        message = (
            f"{named} cannot be added: slurm.conf does not declare it, and this Slurm cannot change partitions live"
        )
        return yes(ACCEPTED_TYPE, "NodesNotAdded", message)
    return None


def _missing_hosts(outcome: PartitionOutcome) -> str:
    """That hosts are not in Slurm; they may still register."""
    if not outcome.unknown_nodes:
        return ""
    named = first_few(outcome.unknown_nodes, MAX_NAMED_HOSTS)
    return f"{named} cannot be added: Slurm has no node of this name; it is added when it registers"


def _why_missing(outcome: PartitionOutcome) -> str:
    if outcome.held:
        return "LinterRefused"
    return "RefusedBySlurm" if outcome.refused else "NotInSlurmYet"


def _applied(outcome: PartitionOutcome) -> ConditionDraft:
    if outcome.held:
        return no(APPLIED, "LinterRefused", f"{outcome.held}; the partition stays as it is in Slurm")
    if outcome.refused:
        return no(APPLIED, "RefusedBySlurm", outcome.refused)
    if outcome.found is None:
        return no(APPLIED, "NotInSlurm", "somebody deleted it in Slurm")
    if outcome.pending:
        return no(APPLIED, "NotInSlurmYet", f"not in effect in Slurm yet: {_rows(outcome.pending)}")
    if outcome.unsettable:
        named = ", ".join(outcome.unsettable)
        message = f"Slurm takes {named} only for a new partition: delete it and create it again"
        return no(APPLIED, "NeedsNewPartition", message)
    if outcome.drift:
        message = f"it took effect as requested, but has been changed in Slurm since: {_rows(outcome.drift)}"
        return yes(APPLIED, "ChangedSince", message)
    if outcome.supports_live_partitions and outcome.unknown_nodes:
        return no(APPLIED, "NodesNotAdded", _missing_hosts(outcome))
    return yes(APPLIED, "InSlurm", "Slurm reports it as requested")


def _in_sync(outcome: PartitionOutcome) -> ConditionDraft:
    if not outcome.drift:
        lacking = outcome.supports_live_partitions and outcome.unknown_nodes
        message = "nobody has changed it in Slurm" if lacking else "Slurm matches this resource"
        return yes(IN_SYNC, "InSync", message)
    rows = _rows(outcome.drift)
    if outcome.policy == "Keep":
        return yes(IN_SYNC, "DriftKept", f"changed in Slurm and kept: {rows}")
    if outcome.policy == "Report":
        return no(IN_SYNC, "Drifted", f"changed in Slurm: {rows}")
    if outcome.given_up:
        message = f"Slurm accepted several reverts and drifted again each time; it is now left as it is: {rows}"
        return no(IN_SYNC, "DriftComesBack", message)
    if outcome.refused:
        return no(IN_SYNC, "RefusedBySlurm", f"changed in Slurm, and not reverted: {outcome.refused}; {rows}")
    return no(IN_SYNC, "Reverting", f"changed in Slurm, being reverted: {rows}")


def _ready(found: Partition | None) -> ConditionDraft:
    if found is None:
        return no(READY, "NotInSlurm", "somebody deleted it in Slurm")
    if "UP" not in found.states:
        return no(READY, "NotUp", f"its state is {_state(found)}")
    if not found.total_nodes:
        return no(READY, "NoNodes", "it has no nodes yet")
    return yes(READY, "Up", f"it is up with {counted(found.total_nodes, 'node')}")


def state(outcome: PartitionOutcome) -> dict[str, str]:
    """`status.state`: the state that Slurm reports; empty if it reports none."""
    found = outcome.found
    return {"state": _state(found)} if isinstance(found, Partition) else {}


def _state(found: Partition) -> str:
    return "+".join(sorted(found.states)) or "unknown"


def refused(problems: Iterable[FieldProblem]) -> list[ConditionDraft]:
    """The conditions of a Partition that a rule refuses."""
    drafts = workload.refused(problems)
    accepted = no(ACCEPTED_TYPE, "InvalidSpec", drafts[0].message)
    return [accepted, no(APPLIED, "InvalidSpec", "what it asks for is not in slurm.conf"), *drafts]


def waiting_for_controller(name: str) -> list[ConditionDraft]:
    """The conditions of a Partition that its Controller's reconcile has not handled yet."""
    message = f"Controller {name!r} has not been reconciled for this generation of the Partition yet"
    return [unknown(APPLIED, "WaitingForController", message), unknown(READY, "WaitingForController", message)]


def deleting(name: str, jobs: Sequence[int] | Unknown, *, finished_too: bool) -> list[ConditionDraft]:
    """The condition of a Partition that is being deleted."""
    if isinstance(jobs, Unknown):
        message = f"it is removed when Slurm reports that its jobs have ended; Slurm does not answer: {jobs.why}"
        return [unknown(READY, jobs.reason, message)]
    if not jobs:
        if not is_read_as_name(name):
            message = f"slurmrestd cannot delete a partition of this name: run scontrol delete partitionname={name}"
            return [no(READY, "Deleting", f"its jobs have ended; {message}")]
        return [no(READY, "Deleting", f"its jobs have ended; partition {name} is being deleted from Slurm")]
    records = "the records of jobs" if finished_too else "jobs"
    return [
        no(
            READY,
            "WaitingForJobs",
            f"it accepts no new jobs, and waits for {records} {first_few(jobs, MAX_NAMED_JOBS)}",
        )
    ]


def drift_rows(before: Iterable[Drift], drift: Iterable[Difference], now: str) -> list[dict[str, str]]:
    """The rows of drift; a row that was there keeps its time."""
    known = {each.field: each for each in before}
    rows = []
    for each in drift:
        old, found = known.get(each.field), printable(each.found, MAX_DRIFT_CHARACTERS)
        since = old.since if old is not None and old.found == found else now
        wanted = printable(each.wanted, MAX_DRIFT_CHARACTERS)
        rows.append({"field": each.field, "wanted": wanted, "found": found, "since": since})
    return rows


def _rows(differences: Iterable[Difference]) -> str:
    return "; ".join(
        f"{each.field} is {each.found or 'not set'}, not {each.wanted or 'not set'}" for each in differences
    )
