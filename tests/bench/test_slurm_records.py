"""The stand-in's records behave as slurmctld's do, and are printed no more often than they change."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from bench.scaling.slurm_records import MISSING_NODE, PING_SECONDS, Refused, Slurm

CONF = "-Z --conf-server slurm:6817 --conf Features=compute"


@dataclass
class Clock:
    seconds: float = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def slurm(clock: Clock) -> Slurm:
    """Three workers in a partition over their NodeSet."""
    found = Slurm("scale_slurm", clock)
    found.set_partitions({"partitions": [{"name": "compute", "nodes": {"configured": "compute"}}]})
    for number in range(3):
        found.register(f"compute-{number}", f"10.0.0.{number}", CONF)
    return found


def test_a_slurmd_registers_with_the_features_of_its_options(slurm: Slurm) -> None:
    node = slurm.nodes["compute-1"].shape(())
    assert (node["address"], node["features"], node["active_features"]) == ("10.0.0.1", ["compute"], ["compute"])
    assert node["state"] == ["IDLE", "DYNAMIC_NORM"]


def test_a_record_names_the_partitions_over_its_features(slurm: Slurm) -> None:
    assert msgspec.json.decode(slurm.node_text(slurm.nodes["compute-0"]))["partitions"] == ["compute"]


def test_a_partition_shows_the_nodes_of_its_nodeset(slurm: Slurm) -> None:
    shown = msgspec.json.decode(slurm.items("partitions"))
    assert shown["nodes"]["configured"] == "compute-[0-2]"
    assert shown["nodes"]["total"] == 3


def test_a_slurmd_that_is_gone_leaves_its_record_down_and_silent(slurm: Slurm) -> None:
    slurm.lose("compute-0")
    assert slurm.nodes["compute-0"].shape(())["state"] == ["DOWN", "DYNAMIC_NORM", "NOT_RESPONDING"]


def test_a_node_that_was_only_silent_is_idle_when_its_slurmd_is_back(slurm: Slurm) -> None:
    slurm.lose("compute-0")
    slurm.register("compute-0", "10.0.0.9", CONF)
    node = slurm.nodes["compute-0"]
    assert (node.base, node.reason, node.address) == ("IDLE", "", "10.0.0.9")


def test_a_drain_survives_a_new_slurmd(slurm: Slurm) -> None:
    slurm.update_nodes({"name": ["compute-0"], "state": ["DRAIN"], "reason": "slurm-operator: scale-in"})
    slurm.lose("compute-0")
    slurm.register("compute-0", "10.0.0.9", CONF)
    node = slurm.nodes["compute-0"]
    assert node.is_drained
    assert (node.base, node.reason) == ("DOWN", "slurm-operator: scale-in : Not responding")


def test_a_host_list_is_changed_in_one_call(slurm: Slurm) -> None:
    body = {"name": ["compute-[0-2]"], "state": ["DRAIN"], "reason": "slurm-operator: cordon"}
    assert slurm.update_nodes(body) == 3
    assert slurm.summary()["drained"] == 3


def test_a_node_that_is_put_back_is_silent_until_its_slurmd_has_answered(slurm: Slurm, clock: Clock) -> None:
    slurm.update_nodes({"name": ["compute-0"], "state": ["DRAIN"], "reason": "slurm-operator: cordon"})
    slurm.update_nodes({"name": ["compute-0"], "state": ["UNDRAIN"]})
    assert "NOT_RESPONDING" in slurm.nodes["compute-0"].flags
    clock.seconds += PING_SECONDS
    slurm.tick()
    assert slurm.nodes["compute-0"].flags == {"DYNAMIC_NORM"}


@pytest.mark.parametrize("listed", ["compute-[1-5]", "compute-7"], ids=["some are there", "none is there"])
def test_a_missing_record_is_an_error_and_the_others_go(slurm: Slurm, listed: str) -> None:
    with pytest.raises(Refused) as refused:
        slurm.delete_nodes(listed)
    assert refused.value.number == MISSING_NODE
    assert ("compute-1" in slurm.nodes) == (listed == "compute-7")


def test_nothing_changed_only_after_the_second_of_the_last_change(slurm: Slurm, clock: Clock) -> None:
    now = int(clock())
    assert [slurm.is_unchanged("nodes", since) for since in (now, now + 1)] == [False, True]


def test_a_record_is_printed_again_only_if_it_changed(slurm: Slurm) -> None:
    before = [slurm.node_text(node) for node in slurm.nodes.values()]
    slurm.update_nodes({"name": ["compute-1"], "comment": "pod compute-1"})
    after = [slurm.node_text(node) for node in slurm.nodes.values()]
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]


def test_a_limit_of_a_partition_is_no_change_of_any_node(slurm: Slurm, clock: Clock) -> None:
    before = slurm.items("nodes")
    clock.seconds += 10
    limit = {"set": True, "infinite": False, "number": 60}
    slurm.set_partitions({"partitions": [{"name": "compute", "maximums": {"time": limit}}]})
    assert slurm.items("nodes") is before
    assert slurm.partition_changes[-1] == (clock(), "compute", 60)


def test_a_heartbeat_changes_every_record(slurm: Slurm, clock: Clock) -> None:
    before = slurm.items("nodes")
    clock.seconds += 10
    slurm.beat()
    assert slurm.items("nodes") != before
    assert not slurm.is_unchanged("nodes", int(clock()) - 5)


def test_a_record_has_about_the_size_of_a_real_one(slurm: Slurm) -> None:
    """10,000 nodes of a real slurmrestd were 25.7 MB."""
    slurm.update_nodes({"name": ["compute-0"], "comment": "x" * 150})
    assert 2400 < len(slurm.node_text(slurm.nodes["compute-0"])) < 2800
