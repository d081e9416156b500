"""Records that name another NodeSet: its they are, in whatever namespace it is."""

from __future__ import annotations

import json

import pytest
from tests.build.resources import nodeset

from slurm_operator.plan.duplicates import Rival, named_owners, taken
from slurm_operator.plan.workers import SlurmWorld
from slurm_operator.slurm.model import Answer, Node, Unknown

OURS = nodeset(replicas=2)
THEIRS = nodeset(metadata={"namespace": "other", "uid": "theirs"}, replicas=2)
NAMES = frozenset({"compute-0", "compute-1"})


def comment(**fields: str) -> str:
    return json.dumps({"namespace": "other", "podName": "compute-0", "nodeSetName": "compute", **fields})


def slurm(name: str, said: str) -> SlurmWorld:
    return SlurmWorld(Answer((Node(name=name, comment=said),), complete=True), ())


@pytest.mark.parametrize(
    ("name", "said", "owners"),
    [
        ("compute-0", comment(nodeSetUID="theirs"), {("other", "compute", "theirs"): frozenset({"compute-0"})}),
        ("elsewhere", comment(nodeSetUID="theirs"), {("other", "compute", "theirs"): frozenset({"elsewhere"})}),
        ("compute-0", comment(nodeSetUID=OURS.metadata.uid), {}),
        ("compute-7", comment(nodeSetUID="theirs"), {}),
        ("compute-0", "spare, ask Bob", {}),
        ("compute-0", comment(), {}),
        ("compute-0", "[" * 100_000, {}),
    ],
    ids=["one we want", "one we have", "our own", "neither", "a person's words", "nobody's", "nonsense"],
)
def test_who_else_is_named_by_records_of_our_names(name: str, said: str, owners: dict[object, object]) -> None:
    assert named_owners(OURS, frozenset({"elsewhere"}), slurm(name, said)) == owners


def test_nobody_is_named_while_slurm_is_silent() -> None:
    assert named_owners(OURS, NAMES, SlurmWorld(Unknown("x"), Unknown("x"))) == {}


def test_a_node_whose_record_names_a_worker_elsewhere_belongs_there_and_no_other_does() -> None:
    rival = Rival(THEIRS, frozenset({"compute-0"}), only_held=True)
    found = taken(OURS, NAMES, NAMES, [rival], slurm("compute-0", comment(nodeSetUID="theirs")))
    assert found == {"compute-0": "NodeSet compute in namespace other"}


def test_a_worker_elsewhere_that_no_record_names_takes_no_node_from_one_with_a_pod() -> None:
    rival = Rival(THEIRS, frozenset({"compute-0"}), only_held=True)
    mine = slurm("compute-0", comment(nodeSetUID=OURS.metadata.uid))
    assert taken(OURS, NAMES, NAMES, [rival], mine) == {}
