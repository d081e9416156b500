"""When a change of a partition counts as done."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_operator.cli.kubectl.change import NOT_RECONCILED, _Change, is_as_asked, outcome, refusal, reverse
from slurm_operator.diagnose.partition_owner import Owner
from slurm_operator.slurm.model import UNLIMITED, Partition

UP = {"status": "True", "reason": "Up", "message": "2 nodes"}
DRAIN = {"status": "False", "reason": "NotUp", "message": "its state is DRAIN"}
WAITS = {"status": "False", "reason": "NotInSlurmYet", "message": "state"}


@pytest.mark.parametrize(
    ("ready", "state", "wanted"),
    [
        (UP, "UP", True),
        (DRAIN, "UP", False),
        (DRAIN, "DRAIN", True),
        (UP, "DRAIN", False),
        (DRAIN, "DOWN", False),
        (DRAIN, "", True),
        (UP, "", True),
        (WAITS, "", False),
    ],
    ids=[
        "up",
        "still drained",
        "drained",
        "still up",
        "still in the old state",
        "nodes of a drained one",
        "nodes",
        "waits",
    ],
)
def test_an_old_state_is_not_taken_for_the_new_one(ready: dict[str, str], state: str, wanted: bool) -> None:
    assert is_as_asked(ready, state) is wanted


def partition(generation: int, **conditions: tuple[str, str, str]) -> dict[str, Any]:
    rows = [
        {"type": kind, "status": status, "reason": reason, "message": message}
        for kind, (status, reason, message) in conditions.items()
    ]
    return {"status": {"observedGeneration": generation, "conditions": rows}}


YES = ("True", "Accepted", "is in slurm.conf")
IN_SLURM = ("True", "InSlurm", "as requested")
IS_UP = ("True", "Up", "it is up with 2 nodes")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(partition(1, Ready=IS_UP), (NOT_RECONCILED, None), id="of the generation before"),
        pytest.param(
            partition(2, Accepted=YES, Applied=IN_SLURM, Ready=IS_UP), ("it is up with 2 nodes", True), id="in effect"
        ),
        pytest.param(
            partition(2, Accepted=YES, Applied=("False", "NotInSlurmYet", "MaxTime is 5, not 6"), Ready=IS_UP),
            ("MaxTime is 5, not 6", None),
            id="up, and not as asked for yet",
        ),
        pytest.param(
            partition(2, Accepted=YES, Applied=("False", "RefusedBySlurm", "Invalid qos"), Ready=IS_UP),
            ("Invalid qos", False),
            id="up, and refused by Slurm",
        ),
        pytest.param(
            partition(2, Accepted=("False", "NameTaken", "the name is taken"), Ready=IS_UP),
            ("the name is taken", False),
            id="not accepted",
        ),
        pytest.param(
            partition(2, Accepted=("True", "NodesNotTakenOut", "n1 cannot be removed"), Applied=IN_SLURM, Ready=IS_UP),
            ("n1 cannot be removed", False),
            id="hosts that this Slurm cannot take out",
        ),
        pytest.param(
            partition(2, Accepted=YES, Applied=("Unknown", "SlurmUnreachable", "no answer"), Ready=IS_UP),
            ("no answer", None),
            id="Slurm does not answer",
        ),
    ],
)
def test_only_what_slurm_has_is_called_in_effect(seen: dict[str, Any], expected: tuple[str, bool | None]) -> None:
    assert outcome(seen, 2, "") == expected


NODESET = Owner("NodeSet", {"metadata": {"name": "compute"}}, "compute", "slurm")


def live(**fields: object) -> Partition:
    bare = {
        "name": "compute",
        "states": frozenset({"UP"}),
        "flags": frozenset({"DEFAULT"}),
        "node_sets": "compute",
        "max_time": UNLIMITED,
        "max_nodes": UNLIMITED,
        "grace_time": 7,
    }
    return Partition(**{**bare, **fields})  # type: ignore[arg-type]  # a table row's own types


@pytest.mark.parametrize(
    ("found", "is_open", "words"),
    [
        pytest.param(live(), True, "State is UP, not DRAIN", id="not yet"),
        pytest.param(
            live(states=frozenset({"DRAIN"})),
            False,
            "NodeSet compute, partition compute: State=DRAIN",
            id="in effect, whatever else differs",
        ),
        pytest.param(None, True, "Slurm does not have partition compute", id="not there"),
    ],
)
def test_a_change_of_a_nodesets_partition_is_done_when_slurm_has_it(
    found: Partition | None, is_open: bool, words: str
) -> None:
    change = _Change(NODESET, {"State": "DRAIN"}, "Default=YES", "Default=YES State=DRAIN")
    still, sentence = change.still_open(found)
    assert (still, words in sentence) == (is_open, True), sentence


def test_an_option_that_slurm_does_not_show_is_not_called_confirmed() -> None:
    change = _Change(NODESET, {"CpuBind": "core"}, "", "CpuBind=core")
    still, sentence = change.still_open(live())
    assert not still
    assert "Slurm does not show CpuBind" in sentence


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        pytest.param(("True", "RefusedBySlurm", "partition compute: no such qos"), True, id="of this partition"),
        pytest.param(("True", "RefusedBySlurm", "partition compute-2: no such qos"), False, id="of one like it"),
        pytest.param(("True", "RefusedBySlurm", "partition short: no such qos"), False, id="of another"),
        pytest.param(("True", "NameTaken", "partition compute: ours"), False, id="something else"),
        pytest.param(("False", "AsExpected", "partition compute"), False, id="nothing is wrong"),
    ],
)
def test_a_refusal_is_found_on_the_controller(condition: tuple[str, str, str], expected: bool) -> None:
    assert bool(refusal(partition(1, Degraded=condition), "compute")) is expected


@pytest.mark.parametrize(
    ("before", "after", "undo"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": 1}),
        ({}, {"a": 2}, {"a": None}),
        ({"a": 1}, {}, {"a": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": {"b": 1, "d": 4}}, {"a": {"d": None}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1]}),
    ],
)
def test_a_change_is_reversed_by_a_merge_patch_of_what_differs(
    before: dict[str, Any], after: dict[str, Any], undo: dict[str, Any]
) -> None:
    assert reverse(before, after) == undo
