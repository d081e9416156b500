"""What is sent to Slurm, and what is never sent: names that are host lists, texts with control characters."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from slurm_operator.slurm import requests
from slurm_operator.slurm.errors import SlurmRejected as Refused
from slurm_operator.slurm.model import UNLIMITED
from slurm_operator.slurm.requests import NodeChange, PartitionChange, Request, ReservationChange
from slurm_operator.slurm.versions import NEWEST_FIRST

BAD_NAMES = ["", "n[0-9]", "a,b", "a b", "a/b", "../x", "-x", "a\nb", "a%2fb", "n" * 300, "ä", "ALL=1"]


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        lambda name: requests.read_one("node", name),
        lambda name: requests.update_nodes(["ok", name], NodeChange(state="UNDRAIN")),
        requests.delete_node,
        lambda name: next(iter(requests.delete_nodes(["ok", name]))),
        lambda name: requests.set_partition(PartitionChange(name=name)),
        requests.delete_partition,
        lambda name: requests.set_reservation(ReservationChange(name=name)),
        lambda name: requests.set_reservation(ReservationChange(name="r", nodes=(name,))),
        requests.delete_reservation,
    ],
    ids=[
        *("read", "update", "delete", "delete many", "set partition", "delete partition", "set reservation"),
        *("reserve node", "delete reservation"),
    ],
)
def test_what_is_not_a_name_is_never_sent(make: Callable[[str], Request], name: str) -> None:
    with pytest.raises(Refused):
        make(name)


@pytest.mark.parametrize(
    "change",
    [
        NodeChange(comment="a\nb"),
        NodeChange(extra="\x00"),
        NodeChange(topology="x\r"),
        NodeChange(comment="x" * 20_000),
        NodeChange(features=("a,b",)),
        NodeChange(features=("",)),
        NodeChange(active_features=("a b",)),
        NodeChange(state="DRAIN"),
    ],
    ids=["newline", "NUL", "return", "long", "comma", "empty word", "blank", "drain without reason"],
)
def test_a_node_change_that_could_be_misread_is_refused(change: NodeChange) -> None:
    with pytest.raises(Refused):
        requests.update_nodes(["n0"], change)


def test_a_change_of_no_node_is_refused() -> None:
    with pytest.raises(Refused, match="names no node"):
        requests.update_nodes([], NodeChange(state="UNDRAIN"))


def test_only_what_is_given_is_changed() -> None:
    request = requests.update_nodes(["n1", "n2"], NodeChange(comment="", features=("a",), weight=5))
    assert request.body == {
        "name": ["n[1-2]"],
        "comment": "",
        "features": ["a"],
        "weight": {"set": True, "infinite": False, "number": 5},
    }


@pytest.mark.parametrize(
    ("change", "body"),
    [
        (PartitionChange(name="p"), {"name": "p"}),
        (PartitionChange(name="p", state="DRAIN"), {"name": "p", "partition": {"state": ["DRAIN"]}}),
        (PartitionChange(name="p", qos=""), {"name": "p", "qos": {"assigned": ""}}),
        (
            PartitionChange(name="p", max_time=UNLIMITED, max_nodes=3),
            {
                "name": "p",
                "maximums": {
                    "time": {"set": False, "infinite": True, "number": 0},
                    "nodes": {"set": True, "infinite": False, "number": 3},
                },
            },
        ),
        (
            PartitionChange(name="p", flags={"HIDDEN": False, "DEFAULT": True}),
            {"name": "p", "flags": ["DEFAULT", "HIDDEN_CLEAR"]},
        ),
        (PartitionChange(name="p", priority_tier=0), {"name": "p", "priority": {"tier": 0}}),
    ],
    ids=["nothing", "state", "restriction lifted", "limits", "flags", "zero"],
)
def test_a_partition_change_holds_what_is_given(change: PartitionChange, body: dict[str, Any]) -> None:
    assert requests.set_partition(change).body == {"partitions": [body]}


def test_versions_are_newest_first_and_only_ever_gain() -> None:
    versions = [adapter.version for adapter in NEWEST_FIRST]
    assert versions == sorted(versions, reverse=True) == ["v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42"]
    for newer, older in itertools.pairwise(NEWEST_FIRST):
        assert newer.offers >= older.offers
