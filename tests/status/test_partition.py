"""What a Partition says of itself."""

from __future__ import annotations

import pytest

from slurm_operator.api.partition import Drift
from slurm_operator.api.problem import FieldProblem
from slurm_operator.build.partition import ACCEPTED, IN_FORCE, NAME_TAKEN, NODESET_NOT_FOUND, Acceptance
from slurm_operator.plan.partition_fields import Difference
from slurm_operator.plan.partition_outcome import PartitionOutcome
from slurm_operator.slurm.model import Partition, Unknown
from slurm_operator.status import partition as status

LINE = "PartitionName=p Nodes=compute"
GOOD = Acceptance("Partition", "p", "p", ACCEPTED, IN_FORCE, LINE)
TAKEN = Acceptance("Partition", "p", "p", NAME_TAKEN, "the name is taken")
EDITED = Acceptance("Partition", "p", "p", ACCEPTED, IN_FORCE, LINE, removed_nodes=("n1",))
ADDED = Acceptance("Partition", "p", "p", ACCEPTED, IN_FORCE, LINE, live_nodes=("n1",))
UP = Partition(name="p", states=frozenset({"UP"}), total_nodes=3)
DOWN = Partition(name="p", states=frozenset({"DOWN"}), total_nodes=3)
EMPTY = Partition(name="p", states=frozenset({"UP"}))
LATE = (Difference("MaxTime", "01:00:00", "UNLIMITED"),)
MISSING = Acceptance("Partition", "p", "p", NODESET_NOT_FOUND, "there is no NodeSet 'gone'; the partition is left out")
DRAINED = Partition(name="p", states=frozenset({"DRAIN"}))


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        pytest.param(PartitionOutcome(MISSING, None), "it is not in slurm.conf", id="it is gone"),
        pytest.param(PartitionOutcome(TAKEN, UP), "it is not in slurm.conf", id="Slurm has somebody else's"),
        pytest.param(PartitionOutcome(MISSING, Unknown("no")), "it is not in slurm.conf", id="nobody knows"),
        pytest.param(
            PartitionOutcome(MISSING, DRAINED),
            "it is left out; Slurm still has partition p, in state DRAIN, until its jobs have ended",
            id="it has jobs",
        ),
    ],
)
def test_what_is_said_of_a_partition_that_is_left_out_is_true(outcome: PartitionOutcome, message: str) -> None:
    """It was not in slurm.conf, said the condition, and slurm.conf had it with State=DRAIN."""
    (applied,) = [each for each in status.drafts(outcome) if each.type == status.APPLIED]
    assert applied.message == message


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(PartitionOutcome(GOOD, UP), "Accepted InSlurm InSync Up", id="all is well"),
        pytest.param(PartitionOutcome(TAKEN, UP), "-NameTaken -NameTaken -NameTaken", id="not in slurm.conf"),
        pytest.param(
            PartitionOutcome(GOOD, Unknown("no answer")), "Accepted ?SlurmUnreachable ?SlurmUnreachable", id="blind"
        ),
        pytest.param(PartitionOutcome(GOOD, None), "Accepted -NotInSlurmYet -NotInSlurmYet", id="not there yet"),
        pytest.param(
            PartitionOutcome(GOOD, None, refused="no"), "Accepted -RefusedBySlurm -RefusedBySlurm", id="refused"
        ),
        pytest.param(
            PartitionOutcome(GOOD, UP, refused="no"), "Accepted -RefusedBySlurm InSync Up", id="a change was refused"
        ),
        pytest.param(
            PartitionOutcome(GOOD, UP, pending=LATE), "Accepted -NotInSlurmYet InSync Up", id="a change is on its way"
        ),
        pytest.param(
            PartitionOutcome(GOOD, UP, unsettable=("CpuBind",)),
            "Accepted -NeedsNewPartition InSync Up",
            id="not for this one",
        ),
        pytest.param(
            PartitionOutcome(GOOD, UP, drift=LATE), "Accepted ChangedSince -Reverting Up", id="drift is reverted"
        ),
        pytest.param(
            PartitionOutcome(GOOD, UP, drift=LATE, policy="Report"), "Accepted ChangedSince -Drifted Up", id="reported"
        ),
        pytest.param(
            PartitionOutcome(GOOD, UP, drift=LATE, policy="Keep"), "Accepted ChangedSince DriftKept Up", id="kept"
        ),
        pytest.param(
            PartitionOutcome(GOOD, UP, drift=LATE, given_up=True),
            "Accepted ChangedSince -DriftComesBack Up",
            id="given up",
        ),
        pytest.param(
            PartitionOutcome(GOOD, UP, drift=LATE, policy="Report", given_up=True),
            "Accepted ChangedSince -Drifted Up",
            id="reported, whatever was reverted under another policy",
        ),
        pytest.param(
            PartitionOutcome(GOOD, UP, drift=LATE, refused="no"),
            "Accepted -RefusedBySlurm -RefusedBySlurm Up",
            id="a revert was refused",
        ),
        pytest.param(
            PartitionOutcome(GOOD, None, drift=LATE, policy="Report"),
            "Accepted -NotInSlurm -Drifted -NotInSlurm",
            id="deleted by hand",
        ),
        pytest.param(PartitionOutcome(GOOD, DOWN), "Accepted InSlurm InSync -NotUp", id="down"),
        pytest.param(PartitionOutcome(GOOD, EMPTY), "Accepted InSlurm InSync -NoNodes", id="without nodes"),
        pytest.param(
            PartitionOutcome(EDITED, UP),
            "NodesNotTakenOut InSlurm InSync Up",
            id="hosts that only a live change takes out",
        ),
        pytest.param(
            PartitionOutcome(EDITED, UP, supports_live_partitions=True), "Accepted InSlurm InSync Up", id="and it did"
        ),
        pytest.param(
            PartitionOutcome(ADDED, UP), "NodesNotAdded InSlurm InSync Up", id="hosts that only a live change adds"
        ),
        pytest.param(
            PartitionOutcome(ADDED, UP, supports_live_partitions=True),
            "Accepted InSlurm InSync Up",
            id="they are there",
        ),
        pytest.param(
            PartitionOutcome(ADDED, UP, supports_live_partitions=True, unknown_nodes=("n1",)),
            "NodesNotAdded -NodesNotAdded InSync Up",
            id="hosts that Slurm does not have",
        ),
        pytest.param(
            PartitionOutcome(EDITED, Unknown("no answer")),
            "Accepted ?SlurmUnreachable ?SlurmUnreachable",
            id="hosts to take out of a Slurm that nobody can ask",
        ),
    ],
)
def test_conditions(outcome: PartitionOutcome, expected: str) -> None:
    sign = {"True": "", "False": "-", "Unknown": "?"}
    assert " ".join(sign[each.truth.value] + each.reason for each in status.drafts(outcome)) == expected


def test_a_host_that_slurm_does_not_have_is_named_and_nothing_is_called_as_requested() -> None:
    outcome = PartitionOutcome(ADDED, UP, supports_live_partitions=True, unknown_nodes=("n1",))
    said = {each.type: each.message for each in status.drafts(outcome)}
    assert said["Accepted"] == said["Applied"]
    assert said["Applied"] == "n1 cannot be added: Slurm has no node of this name; it is added when it registers"
    assert said["InSync"] == "nobody has changed it in Slurm"


def test_drift_is_told_with_both_values() -> None:
    said = status.drafts(PartitionOutcome(GOOD, UP, drift=LATE, policy="Report"))
    assert "MaxTime is UNLIMITED, not 01:00:00" in next(each.message for each in said if each.type == "InSync")


@pytest.mark.parametrize("policy", ["Revert", "Report", "Keep"])
def test_applied_does_not_call_it_as_requested_while_slurm_differs(policy: str) -> None:
    said = {each.type: each for each in status.drafts(PartitionOutcome(GOOD, UP, drift=LATE, policy=policy))}
    assert said["Applied"].message == (
        "it took effect as requested, but has been changed in Slurm since: MaxTime is UNLIMITED, not 01:00:00"
    )


def test_a_partition_that_a_rule_refuses_is_not_accepted() -> None:
    said = {each.type: each for each in status.refused([FieldProblem(("spec", "config"), "must not contain '#'")])}
    assert (said["Accepted"].truth.value, said["Accepted"].reason) == ("False", "InvalidSpec")
    assert said["Accepted"].message == said["Ready"].message == "spec.config: must not contain '#'"
    assert said["Applied"].truth.value == "False"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(UP, {"state": "UP"}, id="up"),
        pytest.param(DOWN, {"state": "DOWN"}, id="down"),
        pytest.param(None, {}, id="Slurm lacks it"),
        pytest.param(Unknown("no answer"), {}, id="nobody can say"),
    ],
)
def test_the_state_is_slurms_own_word(found: Partition | Unknown | None, expected: dict[str, str]) -> None:
    assert status.state(PartitionOutcome(GOOD, found)) == expected


def test_a_row_of_drift_keeps_its_time_while_it_is_the_same() -> None:
    before = (Drift(field="MaxTime", wanted="x", found="UNLIMITED", since="then"),)
    other = Difference("State", "UP", "DOWN")
    rows = status.drift_rows(before, [*LATE, other], "now")
    assert [(row["field"], row["since"]) for row in rows] == [("MaxTime", "then"), ("State", "now")]
    changed = status.drift_rows(before, [Difference("MaxTime", "01:00:00", "00:05:00")], "now")
    assert changed[0]["since"] == "now"


@pytest.mark.parametrize(
    ("jobs", "finished_too", "reason", "words"),
    [
        pytest.param((7, 8), False, "WaitingForJobs", "jobs 7, 8", id="jobs"),
        pytest.param(tuple(range(12)), False, "WaitingForJobs", "and 2 more", id="many jobs"),
        pytest.param((7,), True, "WaitingForJobs", "records of jobs 7", id="records"),
        pytest.param((), False, "Deleting", "being deleted", id="none"),
        pytest.param(Unknown("no answer"), False, "SlurmUnreachable", "no answer", id="nobody knows"),
    ],
)
def test_who_is_waited_for_is_named(
    jobs: tuple[int, ...] | Unknown, finished_too: bool, reason: str, words: str
) -> None:
    (said,) = status.deleting("p", jobs, finished_too=finished_too)
    assert said.reason == reason
    assert words in said.message


def test_an_endless_value_in_slurm_leaves_room_for_the_status() -> None:
    """The definition takes 65,536 characters: with more, no status was written at all."""
    drift = [Difference("Nodes", "compute", ",".join(f"host-{number}" for number in range(20_000)))]
    (first,) = status.drift_rows((), drift, "2030-01-01T12:00:00Z")
    assert len(first["found"]) == status.MAX_DRIFT_CHARACTERS
    before = Drift(field="Nodes", wanted="compute", found=first["found"], since="2030-01-01T12:00:00Z")
    (again,) = status.drift_rows([before], drift, "2030-01-01T13:00:00Z")
    assert again == first
