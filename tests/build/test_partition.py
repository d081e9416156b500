"""Partition lines: one acceptance for each wish, and never a line that would stop slurmctld."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.build.resources import nodeset, partition

from slurm_operator.build import partition as build
from slurm_operator.build.partition import Acceptance, Claimed
from slurm_operator.slurm import hostlist


def acceptances(*resources: Any, claimed: Claimed | None = None) -> list[Acceptance]:
    nodesets = [each for each in resources if type(each).__name__ == "NodeSet"]
    partitions = [each for each in resources if type(each).__name__ == "Partition"]
    return list(build.acceptances(nodesets, partitions, claimed or Claimed()))


def only(*resources: Any, claimed: Claimed | None = None) -> Acceptance:
    return acceptances(*resources, claimed=claimed)[-1]


CPU = nodeset("cpu")


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        pytest.param({"nodeSets": ["cpu"]}, "PartitionName=p Nodes=cpu State=UP", id="a NodeSet"),
        pytest.param({"nodeSets": ["ALL"]}, "PartitionName=p Nodes=ALL State=UP", id="all nodes"),
        pytest.param({"nodeSets": ["cpu"], "state": "DRAIN"}, "PartitionName=p Nodes=cpu State=DRAIN", id="state"),
        pytest.param(
            {"nodeSets": ["cpu"], "default": True}, "PartitionName=p Nodes=cpu Default=YES State=UP", id="default"
        ),
        pytest.param(
            {"nodeSets": ["cpu"], "config": "default=yes LLN=YES"},
            "PartitionName=p Nodes=cpu Default=YES State=UP LLN=YES",
            id="default among the options",
        ),
        pytest.param(
            {"nodeSets": ["cpu"], "minNodes": 0, "hidden": False, "graceTime": 0},
            "PartitionName=p Nodes=cpu State=UP MinNodes=0 GraceTime=0 Hidden=NO",
            id="explicit zeros and false",
        ),
        pytest.param(
            {"nodeSets": ["cpu"], "partitionName": "Big.One"}, "PartitionName=Big.One Nodes=cpu State=UP", id="a name"
        ),
    ],
)
def test_the_line_of_a_partition(spec: dict[str, Any], line: str) -> None:
    acceptance = only(CPU, partition("p", **spec))
    assert (acceptance.reason, acceptance.line, acceptance.accepted) == (build.ACCEPTED, line, True)


@pytest.mark.parametrize(
    ("resource", "reason", "path"),
    [
        pytest.param(
            nodeset("n", partition={"enabled": True, "config": "A"}), build.INVALID, "config", id="no Key=Value"
        ),
        pytest.param(
            nodeset("n", partition={"enabled": True, "config": "A=b #c"}), build.INVALID, "config", id="a comment"
        ),
        pytest.param(
            nodeset("n", partition={"enabled": True, "config": "partitionname=x"}),
            build.INVALID,
            "config",
            id="another name",
        ),
        pytest.param(partition("p", config="nodes=x", nodeSets=["cpu"]), build.INVALID, "config", id="other nodes"),
        pytest.param(partition("p", nodes="a[", nodeSets=["cpu"]), build.INVALID, "nodes", id="no host list"),
        pytest.param(partition("p", nodes="a\\b", nodeSets=["cpu"]), build.INVALID, "nodes", id="a backslash"),
        pytest.param(
            partition("p", tresBillingWeights={"CPU": "1 2"}, nodeSets=["cpu"]), build.INVALID, "CPU", id="a weight"
        ),
        pytest.param(partition("p" * 253), build.NO_NODES, "nodeSets", id="no nodes"),
        pytest.param(partition("p", nodeSets=["gone"]), build.NODESET_NOT_FOUND, 0, id="no such NodeSet"),
        pytest.param(partition("p", nodes="elsewhere"), build.NO_NODES, "nodes", id="nodes that nobody declares"),
    ],
)
def test_a_partition_that_is_left_out(resource: Any, reason: str, path: object) -> None:
    acceptance = only(CPU, resource)
    assert (acceptance.reason, acceptance.line, acceptance.accepted) == (reason, None, False)
    assert acceptance.path[-1] == path


def test_a_resource_name_that_is_no_slurm_name_is_left_out() -> None:
    acceptance = only(CPU, partition("a" * 250, partitionName="x" * 255, nodeSets=["cpu"]))
    assert acceptance.accepted
    assert build.spec_problem(partition("-bad", nodeSets=["cpu"])) == (
        ("spec", "partitionName"),
        '"-bad" is not a Slurm name: letters, digits, dots, dashes and underscores',
    )


def test_names_are_claimed_first_come_first_served() -> None:
    found = acceptances(
        nodeset("a", partition={"enabled": True}),
        nodeset("b", partition={"enabled": True}, template={"spec": {"hostname": "a-"}}),
        partition("a", nodeSets=["a"]),
        partition("old", nodeSets=["a"]),
        claimed=Claimed(partitions=frozenset({"old"})),
    )
    assert [each.reason for each in found] == [build.ACCEPTED, *[build.NAME_TAKEN] * 3]
    assert "claimed by NodeSet 'a'" in found[1].message
    assert "claimed by extraConf" in found[3].message


def test_a_partition_stays_without_a_nodeset_that_is_gone() -> None:
    """One NodeSet of several was deleted, and the whole Partition was drained."""
    acceptance = only(CPU, partition("p", nodeSets=["cpu", "gone"], state="UP"))
    assert acceptance.line == "PartitionName=p Nodes=cpu State=UP"
    assert (acceptance.reason, acceptance.path) == (build.NODESET_NOT_FOUND, ("spec", "nodeSets", 1))
    assert acceptance.message == "there is no NodeSet 'gone' in this cluster; the partition is without it"


def test_a_second_default_stays_without_being_one() -> None:
    found = acceptances(
        nodeset("a", partition={"enabled": True, "config": "Default=YES"}),
        nodeset("b", partition={"enabled": True, "config": "Default=YES State=UP"}),
        partition("c", nodeSets=["a"], default=True),
    )
    assert [each.reason for each in found] == [build.ACCEPTED, build.SECOND_DEFAULT, build.SECOND_DEFAULT]
    assert found[1].line == "PartitionName=b Nodes=b State=UP"
    assert found[2].line == "PartitionName=c Nodes=a State=UP"
    assert all(each.accepted for each in found)


def test_a_default_in_extra_conf_comes_first() -> None:
    acceptance = only(CPU, partition("p", nodeSets=["cpu"], default=True), claimed=Claimed(default="mine"))
    assert (acceptance.reason, acceptance.path) == (build.SECOND_DEFAULT, ("spec", "default"))


def test_nodes_that_only_a_live_update_can_add() -> None:
    claimed = Claimed(nodes=frozenset({"old1", "old2"}), nodesets=frozenset({"vintage"}))
    spec = {"nodeSets": ["cpu"], "nodes": "old[1-2],+vintage,+cloud[1-2],-cpu-0,-cpu-[1-2]"}
    acceptance = only(CPU, partition("p", **spec), claimed=claimed)
    assert acceptance.line == "PartitionName=p Nodes=cpu,old[1-2],vintage State=UP"
    assert acceptance.live_nodes == ("cloud1", "cloud2")
    assert acceptance.removed_nodes == ("cpu-0", "cpu-1", "cpu-2")


@pytest.mark.parametrize(
    ("written", "added", "removed"),
    [
        ("", (), ()),
        ("a,b", ("a", "b"), ()),
        ("a,+a", ("a",), ()),
        ("+n[1-2,4],-m[1-2]", ("n1", "n2", "n4"), ("m1", "m2")),
    ],
)
def test_edits_of_a_host_list(written: str, added: tuple[str, ...], removed: tuple[str, ...]) -> None:
    assert build.split_edits(written) == (added, removed)


@pytest.mark.parametrize(
    ("config", "default", "rest"),
    [
        ("", False, ""),
        ("Default=YES", True, ""),
        ("default=yes MaxTime=1", True, "MaxTime=1"),
        ("Default=NO", False, "Default=NO"),
        ("DefaultTime=YES", False, "DefaultTime=YES"),
        ("words", False, "words"),
    ],
)
def test_options_that_make_the_default(config: str, default: bool, rest: str) -> None:
    assert build.is_default(config) is default
    assert build.without_default(config) == rest


def test_a_partition_that_is_deleted_has_no_line_and_gives_its_name_free() -> None:
    going = partition("old", nodeSets=["cpu"], partitionName="p")
    going = msgspec.structs.replace(
        going, metadata=msgspec.structs.replace(going.metadata, deletion_timestamp="2030-01-01T00:00:00Z")
    )
    first, second = acceptances(CPU, going, partition("new", nodeSets=["cpu"], partitionName="p"))
    assert (first.reason, first.accepted) == ("Deleting", False)
    assert (second.reason, second.accepted) == ("Accepted", True)


@pytest.mark.parametrize(
    ("option", "found", "expected"),
    [
        pytest.param("MaxTime", "02:00:00", {"maxTime": "02:00:00"}, id="time"),
        pytest.param("PriorityTier", "9", {"priorityTier": 9}, id="number"),
        pytest.param("MaxNodes", "UNLIMITED", {"maxNodes": "UNLIMITED"}, id="no limit"),
        pytest.param("Hidden", "YES", {"hidden": True}, id="flag"),
        pytest.param("Default", "NO", {"default": False}, id="default"),
        pytest.param("State", "DRAIN", {"state": "DRAIN"}, id="state"),
        pytest.param("AllowAccounts", "a,b", {"allowAccounts": ["a", "b"]}, id="names"),
        pytest.param("AllowAccounts", "ALL", {"allowAccounts": None}, id="no restriction"),
        pytest.param("DefMemPerCPU", "100", {"defMemPerCPU": 100}, id="memory"),
        pytest.param("AllocNodes", "n0", {}, id="an option without a field"),
        pytest.param("QOS", "123", {"qos": "123"}, id="a name that looks like a number"),
        pytest.param("MaxTime", "", {"maxTime": None}, id="the default of a time"),
        pytest.param("State", "", {"state": "UP"}, id="the default state"),
        pytest.param("Default", "", {"default": False}, id="no default partition"),
        pytest.param("Hidden", "", {"hidden": None}, id="the default of a flag"),
    ],
)
def test_drift_becomes_fields(option: str, found: str, expected: dict[str, object]) -> None:
    assert dict(build.field_of(option, found)) == expected


# What one tenant writes takes neither the memory nor the time of others


def test_the_lists_of_one_partition_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of four thousand patterns within one text could name a hundred thousand hosts: 26 GB in either program."""
    monkeypatch.setattr(hostlist, "expand", lambda *_, **__: pytest.fail("names are made before they are counted"))
    spec = {"nodeSets": ["cpu"], "nodes": ",".join(f"r{rack}n[1-60000]" for rack in range(3))}
    verdict = only(CPU, partition("p", **spec))
    assert (verdict.reason, verdict.path) == (build.INVALID, ("spec", "nodes"))
    assert verdict.message.endswith("column 14: the list has more than 100000 names")


def test_the_lists_of_all_partitions_are_bounded_together() -> None:
    spec = {"nodeSets": ["cpu"], "nodes": "n[1-60000]"}
    found = acceptances(
        CPU, partition("first", **spec), partition("second", **spec), partition("third", nodeSets=["cpu"])
    )
    assert [each.reason for each in found] == [build.ACCEPTED, build.INVALID, build.ACCEPTED]
    assert "more than 100000 hosts together" in found[1].message


@pytest.mark.parametrize("name", ["default", "Default", "DEFAULT"])
def test_the_defaults_of_others_are_no_partition(name: str) -> None:
    """Slurm compares that name without case: its State and MaxTime were those of every later partition."""
    verdict = only(CPU, partition("p", nodeSets=["cpu"], partitionName=name, state="DOWN"))
    assert (verdict.accepted, verdict.reason, verdict.path) == (False, build.INVALID, ("spec", "partitionName"))


def test_a_nodeset_of_that_name_has_no_partition() -> None:
    verdict = only(nodeset("default", partition={"enabled": True, "config": "State=DOWN"}))
    assert (verdict.accepted, verdict.reason) == (False, build.INVALID)


def test_a_cluster_has_so_many_partitions_and_no_more() -> None:
    """Twenty thousand, which fit into extraConf, kept the event loop for a minute at each reconcile."""
    full = Claimed(partitions=frozenset(f"p{number}" for number in range(build.MAX_PARTITIONS)))
    verdict = only(CPU, partition("one-more", nodeSets=["cpu"]), claimed=full)
    assert (verdict.accepted, verdict.reason) == (False, build.INVALID)
    assert "has 2000 partitions already" in verdict.message


def test_a_nodeset_that_is_deleted_has_no_partition() -> None:
    going = nodeset("old", partition={"enabled": True})
    going = msgspec.structs.replace(
        going, metadata=msgspec.structs.replace(going.metadata, deletion_timestamp="2030-01-01T00:00:00Z")
    )
    (only,) = acceptances(going)
    assert (only.reason, only.accepted) == ("Deleting", False)
