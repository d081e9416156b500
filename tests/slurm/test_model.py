"""What a list answer says about one node: known, absent or unknown."""

from __future__ import annotations

import pytest

from slurm_operator.slurm.model import Absent, Known, Node, NodeView, SlurmList, Unknown, view

N0 = Node(name="n0", states=frozenset({"IDLE"}))


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (SlurmList((N0,), complete=True), Known(N0)),
        (SlurmList((N0,), complete=False), Known(N0)),
        (SlurmList((), complete=True), Absent()),
        (SlurmList((), complete=False), Unknown("Slurm's list is incomplete and does not have n0")),
        (Unknown("no route"), Unknown("no route")),
    ],
    ids=["listed", "listed in part", "missing in all", "missing in part", "nothing known"],
)
def test_only_a_complete_answer_makes_a_node_absent(answer: SlurmList[Node] | Unknown, seen: NodeView) -> None:
    assert view("n0", answer) == seen
