"""How often Slurm is asked, and how soon what it says is seen: virtual time, the real operator."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from tests.campaigns.rig import World
from tests.campaigns.scenarios import REF, small


async def many_nodesets(world: World, many: int) -> None:
    """So many NodeSets and four Partitions, at rest."""
    await small(world, 1)
    for number in range(many - 1):
        await world.create("NodeSet", f"set{number}", {**REF, "replicas": 1})
    for number in range(4):
        await world.create("Partition", f"part{number}", {**REF, "nodeSets": ["compute"]})
    await world.run(horizon=10.0)


async def test_twenty_idle_nodesets_ask_as_often_as_one(world: World) -> None:
    await many_nodesets(world, 20)
    world.arm()
    await world.run_for(60.0)
    calls = Counter(world.calls)
    assert calls["GET nodes"] <= 14
    assert calls["GET jobs/state"] <= 14
    assert calls["GET jobs"] == 0
    assert calls["GET partitions"] <= 14
    assert calls.total() <= 60
    assert world.trace == []


async def test_a_quiet_cluster_is_asked_for_all_it_has_every_five_seconds_and_no_more(world: World) -> None:
    await small(world, 1)
    world.arm()
    await world.run_for(60.0)
    calls = Counter(world.calls)
    assert calls["GET ping"] <= 3
    assert calls["GET partitions"] <= 13
    assert calls.total() <= 39


async def test_a_hand_on_the_partition_of_a_nodeset_is_seen_within_six_seconds(world: World) -> None:
    await small(world, 1)
    await world.patch("NodeSet", "compute", {"spec": {"partition": {"enabled": True}}})
    await world.run(horizon=10.0)
    for phase in (0.1, 1.3, 2.6, 3.9, 4.9):
        await world.run_for(phase)
        world.slurm.live_partitions.set({"name": "compute", "grace_time": 7})
        world.slurm.touch("partitions")
        shape = world.slurm.live_partitions.shapes["compute"]
        assert await seconds_until(world, lambda held=shape: held["grace_time"] == 0) <= 6.0


def state_condition(world: World, pod: str) -> list[str]:
    """What the pod's conditions say of its Slurm node."""
    held = world.stored("pods", pod)["status"]["conditions"]
    return [each["type"] for each in held if each["type"].startswith("SlurmNodeState") and each["status"] == "True"]


def is_seen_drained(world: World, nodeset: str) -> bool:
    """Whether both the pod and its NodeSet say so."""
    on_pod = "SlurmNodeStateDrain" in state_condition(world, f"{nodeset}-0")
    return on_pod and world.custom("NodeSet", nodeset)["status"].get("slurmDrain") == 1


def is_seen_back(world: World, nodeset: str) -> bool:
    """Whether neither says so any more."""
    on_pod = "SlurmNodeStateDrain" in state_condition(world, f"{nodeset}-0")
    return not on_pod and world.custom("NodeSet", nodeset)["status"].get("slurmDrain") == 0


async def seconds_until(world: World, holds: Any, limit: float = 20.0) -> float:
    began = world.clock.monotonic()
    while not holds():
        assert world.clock.monotonic() - began < limit
        await world.run_for(0.1)
    return world.clock.monotonic() - began


async def test_a_change_in_slurm_is_seen_within_six_seconds(world: World) -> None:
    await many_nodesets(world, 4)
    for phase in (0.1, 1.3, 2.6, 3.9, 4.9):
        for name in ("compute", "set2"):
            await world.run_for(phase)
            world.slurm.admin_drain(f"{name}-0")
            assert await seconds_until(world, partial(is_seen_drained, world, name)) <= 6.0
            world.slurm.admin_resume(f"{name}-0")
            assert await seconds_until(world, partial(is_seen_back, world, name)) <= 6.0


def is_seen_busy(world: World, pod: str, busy: int) -> bool:
    """Whether both the pod and its NodeSet say so."""
    word = "SlurmNodeStateAllocated" if busy else "SlurmNodeStateIdle"
    status = world.custom("NodeSet", "compute")["status"]
    return word in state_condition(world, pod) and status["slurmAllocated"] == busy


async def test_a_change_during_a_drain_is_seen_within_a_second_and_a_half(world: World) -> None:
    await small(world, 2)
    job = world.slurm.submit(1000.0)
    (busy,) = world.slurm.jobs[job].nodes
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 0}})
    await world.run_for(10.3)
    assert is_seen_busy(world, busy, 1)
    for phase in (0.1, 0.35, 0.6, 0.85):
        await world.run_for(2.0 + phase)
        world.slurm.suspend(job)
        assert await seconds_until(world, lambda: is_seen_busy(world, busy, 0)) <= 1.5
        await world.run_for(2.0 + phase)
        world.slurm.resume_job(job, 1000.0)
        assert await seconds_until(world, lambda: is_seen_busy(world, busy, 1)) <= 1.5
    assert busy in world.pods()
    world.slurm.end(job)
    await world.run()
    assert world.pods() == {}


async def test_a_worker_goes_by_a_word_asked_for_in_that_very_turn(world: World) -> None:
    await many_nodesets(world, 3)
    drained = {"metadata": {"annotations": {"nodeset.slinky.slurm.net/pod-cordon": "true"}}}
    await world.patch("Pod", "set1-0", drained)
    await world.run_for(20.0)
    assert "DRAIN" in world.slurm.nodes["set1-0"].flags
    # The node was drained and idle at the last look, which is some seconds old and another's. Now it has a job.
    await world.run_for(2.0)
    job = world.slurm.submit(1000.0, "set1")
    world.slurm.jobs[job].state, world.slurm.jobs[job].nodes = "RUNNING", ("set1-0",)
    world.slurm.touch("nodes", "jobs")
    await world.patch("NodeSet", "set1", {"spec": {"replicas": 0}})
    await world.run_for(20.0)
    assert "set1-0" in world.pods("set1")


async def test_right_before_a_drain_of_one_node_that_node_alone_is_looked_at(world: World) -> None:
    await small(world, 3)
    world.arm()
    cordon = {"metadata": {"annotations": {"nodeset.slinky.slurm.net/pod-cordon": "true"}}}
    await world.patch("Pod", "compute-1", cordon)
    await world.run_for(10.0)
    assert "DRAIN" in world.slurm.nodes["compute-1"].flags
    before = world.calls[: world.calls.index("POST nodes")]
    assert [call for call in before if call != "GET ping"][-1] == "GET node"
