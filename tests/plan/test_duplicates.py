"""Whose a host name is that two workers would have: everybody comes to the same answer."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.build.resources import nodeset
from tests.plan.small_cluster import Cluster

from slurm_operator.api.nodeset import NodeSet
from slurm_operator.plan.duplicates import Rival, named_owners, taken, twins
from slurm_operator.plan.workers import NodeSnapshot, workers
from slurm_operator.slurm.model import Node, SlurmList, Unknown

OURS = nodeset(replicas=2)
THEIRS = nodeset(metadata={"namespace": "other", "uid": "theirs"}, replicas=2)
NAMES = frozenset({"compute-0", "compute-1"})


def named(cluster: Cluster, name: str, uid: str, created: str = "2030-01-01T00:00:00Z", **spec: object) -> NodeSet:
    cr = cluster.nodeset(**spec)
    meta = msgspec.structs.replace(cr.metadata, name=name, uid=uid, creation_timestamp=created)
    return msgspec.structs.replace(cr, metadata=meta)


def owner(own: Rival, other: Rival, slurm: NodeSnapshot, name: str = "w-0") -> str:
    """Who has a name, asked by both."""
    names = frozenset({name})
    by_own = taken(own.cr, names, own.held, [other], slurm).get(name, f"NodeSet {own.cr.name}")
    by_other = taken(other.cr, names, other.held, [own], slurm).get(name, f"NodeSet {other.cr.name}")
    assert by_own == by_other
    return by_own.removeprefix("NodeSet ")


def test_the_record_decides_then_the_pod_then_the_age(cluster: Cluster) -> None:
    held = frozenset({"w-0"})
    young = Rival(named(cluster, "young", "nodeset", "2031-01-01T00:00:00Z"), held, held)
    old = Rival(named(cluster, "old", "b"), held, held)
    assert owner(young, old, cluster.slurm(cluster.node("w-0"))) == "young"
    assert owner(young, old, cluster.slurm()) == "old"
    assert owner(young, Rival(old.cr, frozenset(), held), cluster.slurm()) == "young"


def test_a_name_that_nobody_else_wants_is_free(cluster: Cluster) -> None:
    other = Rival(named(cluster, "other", "b"), frozenset({"x-0"}))
    assert taken(cluster.nodeset(), frozenset({"w-0"}), frozenset(), [other], cluster.slurm()) == {}


@pytest.mark.parametrize(("deleting", "wanted"), [(False, True), (True, False)], ids=["it lives", "it is deleted"])
def test_a_nodeset_that_is_deleted_wants_only_what_it_has(cluster: Cluster, deleting: bool, wanted: bool) -> None:
    other = named(cluster, "other", "b", "2029-01-01T00:00:00Z")
    if deleting:
        meta = msgspec.structs.replace(other.metadata, deletion_timestamp="2030-01-01T00:00:00Z")
        other = msgspec.structs.replace(other, metadata=meta)
    own = named(cluster, "own", "a", scalingMode="DaemonSet")
    rival = Rival(other, wanted=frozenset({"k1"}))
    assert bool(taken(own, frozenset({"k1"}), frozenset(), [rival], cluster.slurm())) is wanted


def test_of_two_pods_with_one_host_name_the_first_node_has_it(cluster: Cluster) -> None:
    pods = [cluster.pod("w-b", host="k9", node="k9.rack2"), cluster.pod("w-a", host="k9", node="k9.rack1")]
    found = workers(cluster.nodeset(scalingMode="DaemonSet"), pods, cluster.slurm(), cluster.now)
    assert twins(found) == {"w-b": "pod w-a on node k9.rack1"}


def comment(**fields: str) -> str:
    return json.dumps({"namespace": "other", "podName": "compute-0", "nodeSetName": "compute", **fields})


def slurm(name: str, said: str) -> NodeSnapshot:
    return NodeSnapshot(SlurmList((Node(name=name, comment=said),), complete=True), ())


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
    assert named_owners(OURS, NAMES, NodeSnapshot(Unknown("x"), Unknown("x"))) == {}


def test_a_node_whose_record_names_a_worker_elsewhere_belongs_there_and_no_other_does() -> None:
    rival = Rival(THEIRS, frozenset({"compute-0"}), only_held=True)
    found = taken(OURS, NAMES, NAMES, [rival], slurm("compute-0", comment(nodeSetUID="theirs")))
    assert found == {"compute-0": "NodeSet compute in namespace other"}


def test_a_worker_elsewhere_that_no_record_names_takes_no_node_from_one_with_a_pod() -> None:
    rival = Rival(THEIRS, frozenset({"compute-0"}), only_held=True)
    mine = slurm("compute-0", comment(nodeSetUID=OURS.metadata.uid))
    assert taken(OURS, NAMES, NAMES, [rival], mine) == {}
