"""The life of a Partition under a whole operator: live where Slurm can, waited for when it goes, drift."""

from __future__ import annotations

from typing import Any

import pytest
from tests.campaigns.rig import NAMESPACE, World
from tests.campaigns.scenarios import KEYS, REF, small

from kube_runtime.loop.queue import Key
from slurm_operator.reconcile.partition import OUTCOME_SECONDS, PartitionOutcomes
from slurm_operator.slurm.errors import SlurmUnreachable
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

SHORT = {**REF, "nodeSets": ["compute"], "maxTime": "01:00:00"}


def condition(world: World, type_: str, name: str = "short") -> tuple[str, str]:
    found = world.custom("Partition", name)["status"]["conditions"]
    return next((each["status"], each["reason"]) for each in found if each["type"] == type_)


def shape(world: World, name: str = "short") -> dict[str, Any]:
    return world.slurm.live_partitions.shapes[name]


def conf(world: World) -> str:
    return str(world.stored("configmaps", "slurm-config")["data"]["slurm.conf"])


async def with_partition(world: World, **spec: Any) -> None:
    await small(world, 2)
    if world.release == "24.11":
        image = {"slurmctld": {"image": "example.com/slurmctld:24.11-ubuntu24.04"}}
        await world.patch("Controller", "slurm", {"spec": image})
        await world.run()
    await world.create("Partition", "short", {**SHORT, **spec})
    await world.run()


async def test_a_partition_is_made_live_and_written_down(world: World) -> None:
    await with_partition(world)
    assert shape(world)["maximums"]["time"]["number"] == 60
    assert "PartitionName=short Nodes=compute" in conf(world)
    assert condition(world, "Applied") == ("True", "InSlurm")
    assert condition(world, "InSync") == ("True", "InSync")
    assert world.custom("Partition", "short")["status"]["lastApply"]["way"] == "Live"


async def test_a_change_is_live_before_it_is_in_the_file(world: World) -> None:
    await with_partition(world)
    await world.patch("Partition", "short", {"spec": {"state": "DRAIN", "maxTime": "02:00:00"}})
    await world.run()
    assert shape(world)["partition"]["state"] == ["DRAIN"]
    assert shape(world)["maximums"]["time"]["number"] == 120
    assert "State=DRAIN MaxTime=02:00:00" in conf(world)
    assert condition(world, "Ready") == ("False", "NotUp")


async def test_before_live_partitions_the_file_makes_the_change(old_slurm: World) -> None:
    await with_partition(old_slurm)
    assert condition(old_slurm, "Applied") == ("True", "InSlurm")
    assert old_slurm.custom("Partition", "short")["status"]["lastApply"]["way"] == "Reconfigure"


async def test_what_somebody_changes_in_slurm_is_reverted(world: World) -> None:
    await with_partition(world)
    world.slurm.live_partitions.set({"name": "short", "partition": {"state": ["DOWN"]}})
    world.slurm.touch("partitions")
    await world.run_for(12.0)
    assert shape(world)["partition"]["state"] == ["UP"]
    assert condition(world, "InSync") == ("True", "InSync")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param("Report", ("False", "Drifted"), id="reported"),
        pytest.param("Keep", ("True", "DriftKept"), id="kept"),
    ],
)
async def test_drift_is_left_where_the_owner_says_so(world: World, policy: str, expected: tuple[str, str]) -> None:
    await with_partition(world, driftPolicy=policy)
    world.slurm.live_partitions.set({"name": "short", "grace_time": 7})
    world.slurm.touch("partitions")
    await world.run_for(12.0)
    assert shape(world)["grace_time"] == 7
    assert condition(world, "InSync") == expected
    rows = world.custom("Partition", "short")["status"]["drift"]
    assert [(row["field"], row["wanted"], row["found"]) for row in rows] == [("GraceTime", "0", "7")]


async def test_whoever_insists_wins_and_is_named(world: World) -> None:
    await with_partition(world)
    for _ in range(8):
        world.slurm.live_partitions.set({"name": "short", "grace_time": 7})
        world.slurm.touch("partitions")
        await world.run_for(12.0)
    assert shape(world)["grace_time"] == 7
    assert condition(world, "InSync") == ("False", "DriftComesBack")
    await world.patch("Partition", "short", {"spec": {"graceTime": 3}})
    await world.run()
    assert shape(world)["grace_time"] == 3


async def test_deletion_waits_for_jobs_and_names_them(world: World) -> None:
    await with_partition(world)
    job = world.slurm.submit(100.0, "short")
    await world.delete("Partition", "short")
    await world.run_for(20.0)
    assert condition(world, "Ready") == ("False", "WaitingForJobs")
    assert str(job) in world.custom("Partition", "short")["status"]["conditions"][0]["message"]
    assert shape(world)["partition"]["state"] == ["DRAIN"]
    assert "PartitionName=short" in conf(world)
    await world.run_for(120.0)
    assert world.custom("Partition", "short") is None
    assert "short" not in world.slurm.partitions
    assert "PartitionName=short" not in conf(world)
    assert world.slurm.jobs[job].state == "COMPLETED"


async def test_before_live_partitions_deletion_waits_for_the_records_too(old_slurm: World) -> None:
    await with_partition(old_slurm)
    old_slurm.slurm.submit(10.0, "short")
    await old_slurm.delete("Partition", "short")
    await old_slurm.run_for(60.0)
    assert condition(old_slurm, "Ready") == ("False", "WaitingForJobs")
    await old_slurm.run_for(400.0)
    assert old_slurm.custom("Partition", "short") is None
    assert "short" not in old_slurm.slurm.partitions


async def test_a_forced_deletion_lets_the_object_go_and_keeps_the_jobs(world: World) -> None:
    await with_partition(world)
    job = world.slurm.submit(100.0, "short")
    forced = {"partition.slinky.slurm.net/force-delete": "true"}
    await world.patch("Partition", "short", {"metadata": {"annotations": forced}})
    await world.delete("Partition", "short")
    await world.run_for(20.0)
    assert world.custom("Partition", "short") is None
    assert "short" in world.slurm.partitions
    await world.run_for(120.0)
    assert world.slurm.jobs[job].state == "COMPLETED"
    assert "short" not in world.slurm.partitions


async def test_deletion_does_not_hang_when_the_cluster_has_gone(world: World) -> None:
    await with_partition(world)
    await world.delete("RestApi", "slurm")
    await world.delete("Partition", "short")
    await world.run_for(20.0)
    assert condition(world, "Ready") == ("Unknown", "SlurmUnreachable")
    await world.delete("Controller", "slurm")
    await world.run_for(20.0)
    assert world.custom("Partition", "short") is None


def drain_by_hand(world: World, name: str = "short") -> None:
    """What `scontrol update partitionname=short state=drain` does."""
    world.slurm.live_partitions.set({"name": name, "partition": {"state": ["DRAIN"]}})
    world.slurm.touch("partitions")


@pytest.mark.parametrize("policy", ["Report", "Keep"])
async def test_a_hand_that_is_faster_than_the_file_is_left_alone_too(world: World, policy: str) -> None:
    await small(world, 2)
    # Its line is live at once, and in the file only when the sidecar has spoken.
    world.cluster.sidecar.is_silent = True
    await world.create("Partition", "short", {**SHORT, "driftPolicy": policy})
    await world.run_for(0.4)
    assert "short" in world.slurm.live_partitions.shapes
    assert "PartitionName=short" not in conf(world)
    drain_by_hand(world)
    await world.run_for(20.0)
    world.cluster.sidecar.is_silent = False
    world.cluster.sidecar.look()
    await world.run_for(20.0)
    assert "PartitionName=short" in conf(world)
    assert shape(world)["partition"]["state"] == ["DRAIN"]
    assert condition(world, "Applied") == ("True", "ChangedSince")


def deaf(sending: Sending, _: Any) -> Reply:
    """A slurmrestd that has gone."""
    raise SlurmUnreachable("cannot connect to slurmrestd: Connection refused", call=sending.label)


async def test_a_change_that_is_in_the_file_before_slurm_could_be_told_is_no_drift(world: World) -> None:
    await with_partition(world, driftPolicy="Report")
    heard = world.line.on_call
    world.line.on_call = deaf
    await world.run_for(10.0)
    await world.patch("Partition", "short", {"spec": {"maxTime": "02:00:00"}})
    await world.create("Partition", "late", {**SHORT, "driftPolicy": "Report"})
    await world.run_for(20.0)
    assert "MaxTime=02:00:00" in conf(world)
    assert shape(world)["maximums"]["time"]["number"] == 60
    world.line.on_call = heard
    await world.run()
    assert shape(world)["maximums"]["time"]["number"] == 120
    assert "late" in world.slurm.live_partitions.shapes
    assert condition(world, "InSync") == condition(world, "InSync", "late") == ("True", "InSync")


async def test_an_edit_is_in_force_at_once_and_reported_within_half_a_second(world: World) -> None:
    await with_partition(world)
    await world.run_for(3.0)
    await world.patch("Partition", "short", {"spec": {"maxTime": "02:00:00"}})
    await world.run_for(0.05)
    assert shape(world)["maximums"]["time"]["number"] == 120
    await world.run_for(0.45)
    found = world.custom("Partition", "short")
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert condition(world, "Applied") == ("True", "InSlurm")
    assert found["status"]["lastApply"]["milliseconds"] < 500


async def test_a_new_operator_learns_of_partitions_without_a_write(world: World) -> None:
    await with_partition(world)
    await world.run_for(10.0)
    await world.stop_operator()
    world.arm()
    await world.start_operator()
    await world.run_for(30.0)
    assert world.trace == []


async def test_while_its_controller_is_not_reconciled_a_partition_says_that_it_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await small(world, 1)
    with monkeypatch.context() as changed:
        changed.setattr(PartitionOutcomes, "put", lambda *_: None)
        await world.create("Partition", "short", SHORT)
        await world.run_for(1.0)
        assert world.custom("Partition", "short").get("status") is None
        await world.run_for(4.0)
        assert condition(world, "Ready") == ("Unknown", "WaitingForController")
    await world.run_for(10.0)
    assert condition(world, "Ready") == ("True", "Up")


async def test_a_partition_at_rest_says_it_when_its_controller_is_woken_and_comes_to_no_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_partition(world)
    await world.run_for(3600.0)
    assert condition(world, "Ready") == ("True", "Up")
    monkeypatch.setattr(PartitionOutcomes, "put", lambda *_: None)
    assert world.operator is not None
    world.operator.controllers["Controller"].add(Key(NAMESPACE, "slurm"))
    await world.run_for(OUTCOME_SECONDS - 10.0)
    assert condition(world, "Ready") == ("True", "Up")
    await world.run_for(30.0)
    assert condition(world, "Ready") == ("Unknown", "WaitingForController")


async def test_a_partition_of_an_external_controller_says_that_it_is_not_changed_from_here(world: World) -> None:
    outside = {"external": True, "externalConfig": {"host": "slurmctld.example.org", "port": 6817}}
    await world.create("Controller", "slurm", {**KEYS, **outside})
    await world.create("Partition", "short", SHORT)
    await world.run_for(10.0)
    assert condition(world, "Ready") == ("False", "External")
    await world.delete("Partition", "short")
    await world.run_for(5.0)
    assert world.custom("Partition", "short") is None
