"""A slurmctld pod is told of every candidate, whatever gets lost on the way: its kubelet alone would take a minute."""

from __future__ import annotations

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import small
from tests.reconcile.test_partition import shape, with_partition

from slurm_operator.build import labels
from slurm_operator.plan.verdict_poll import LIVE_NUDGE_SECONDS, MAX_LIVE_NUDGE_SECONDS

AGE = "MinJobAge=301\n"


async def extra(world: World, text: str) -> None:
    await world.patch("Controller", "slurm", {"spec": {"extraConf": text}})


def in_force(world: World) -> bool:
    found = world.custom("Controller", "slurm")["status"]["conditions"]
    applied = next(each["status"] for each in found if each["type"] == "ConfigApplied")
    said: str = world.custom("Controller", "slurm")["status"]["config"]["hash"]
    return bool(applied == "True" and said == taken(world))


def taken(world: World) -> str:
    return world.cluster.sidecar.in_force


def told(world: World) -> str:
    annotations = world.stored("pods", "slurm-controller-0")["metadata"]["annotations"]
    found: str = annotations.get(labels.CONFIG_CANDIDATE, "")
    return found


async def test_a_pod_is_told_once_where_its_sidecar_answers(world: World) -> None:
    await small(world, 1)
    await extra(world, AGE)
    await world.run_for(3.0)
    assert in_force(world)
    assert told(world) == taken(world)


async def test_a_kubelet_that_looked_too_early_is_told_again_after_a_second(world: World) -> None:
    await small(world, 1)
    before = taken(world)
    world.cluster.sidecar.misses = 1
    await extra(world, AGE)
    await world.run_for(0.9)
    assert taken(world) == before
    await world.run_for(2.5)
    assert taken(world) != before
    assert in_force(world)
    assert told(world) == f"{taken(world)}/2"


async def test_a_sidecar_that_never_speaks_is_not_told_for_ever(world: World) -> None:
    await small(world, 1)
    world.cluster.sidecar.is_silent = True
    await extra(world, AGE)
    await world.run_for(100.0)
    assert told(world).endswith("/5")
    world.arm()
    await world.run_for(600.0)
    assert world.trace == []


@pytest.mark.parametrize("misses", [0, 1], ids=["and its kubelet looks", "and its kubelet looks too early"])
async def test_a_wish_that_is_taken_back_under_way_leaves_no_pod_behind(world: World, misses: int) -> None:
    await small(world, 1)
    before = taken(world)
    await extra(world, AGE)
    # Slurm has read it, and the operator may or may not have heard of that.
    await world.run_for(0.05)
    assert taken(world) != before
    world.cluster.sidecar.misses = misses
    await extra(world, "")
    await world.run_for(8.0)
    assert taken(world) == before
    assert in_force(world)


async def test_while_a_wish_is_taken_back_nobody_says_that_it_is(world: World) -> None:
    await small(world, 1)
    await extra(world, AGE)
    await world.run_for(0.05)
    world.cluster.sidecar.misses = 99
    await extra(world, "")
    await world.run_for(15.0)
    assert taken(world) != world.custom("Controller", "slurm")["status"]["config"]["hash"]
    assert not in_force(world)
    found = world.custom("Controller", "slurm")["status"]["conditions"]
    assert {each["status"] for each in found if each["type"] == "ConfigApplied"} == {"False"}
    world.cluster.sidecar.misses = 0
    await world.run_for(60.0)
    assert in_force(world)


async def test_a_partition_that_changes_live_is_told_to_the_pod_a_moment_later(world: World) -> None:
    await with_partition(world)
    before = told(world)
    await world.patch("Partition", "short", {"spec": {"priorityTier": 7}})
    await world.run_for(LIVE_NUDGE_SECONDS / 2)
    assert (shape(world)["priority"]["tier"], told(world)) == (7, before)
    await world.run_for(3.0)
    assert told(world) == taken(world) != before
    assert in_force(world)


async def test_live_changes_that_never_pause_are_told_to_the_pod_all_the_same(world: World) -> None:
    await with_partition(world)
    before, pause = told(world), 0.7 * LIVE_NUDGE_SECONDS
    for tier in range(round((MAX_LIVE_NUDGE_SECONDS + 0.5) / pause)):
        await world.patch("Partition", "short", {"spec": {"priorityTier": 10 + tier}})
        await world.run_for(pause)
    assert told(world) != before
    await world.run_for(3.0)
    assert told(world) == taken(world)
    assert in_force(world)


async def test_a_live_change_that_is_taken_back_at_once_is_told_to_the_pod(world: World) -> None:
    """Its kubelet may have looked in between, and its last word is on the very files that are wanted again."""
    await with_partition(world)
    told_before, taken_before = told(world), taken(world)
    await world.patch("Partition", "short", {"spec": {"priorityTier": 7}})
    await world.run_for(0.1)
    # By itself; its sidecar takes a moment longer.
    world.cluster.sidecar._mounted = world.cluster.sidecar._files("slurm-config-candidate")
    await world.patch("Partition", "short", {"spec": {"priorityTier": None}})
    await world.run_for(0.1)
    assert (told(world), in_force(world)) == (told_before, False)
    world.cluster.sidecar.look()
    assert taken(world) != taken_before
    await world.run_for(1.0)
    assert told(world) != told_before
    await world.run_for(4.0)
    assert taken(world) == taken_before
    assert in_force(world)


async def test_a_live_change_that_nobody_saw_is_told_once_and_soon_in_force_again(world: World) -> None:
    """Its sidecar has nothing new to say."""
    await with_partition(world)
    nudges, before = list[str](), told(world)
    for tier in (7, None):
        await world.patch("Partition", "short", {"spec": {"priorityTier": tier}})
        await world.run_for(0.1)
    for _ in range(60):
        await world.run_for(0.1)
        if told(world) != before:
            nudges.append(before := told(world))
    assert nudges == [f"{taken(world)}/2"]
    assert in_force(world)
    world.arm()
    await world.run_for(100.0)
    assert [each for each in world.trace if "configs" in each or "pods" in each] == []


async def test_a_candidate_that_somebody_changed_is_told_to_the_pod_when_it_is_put_right(world: World) -> None:
    await with_partition(world)
    before, path = told(world), "/api/v1/namespaces/hpc/configmaps/slurm-config-candidate"
    data = (await world.ask("GET", path))["data"]
    changed = {**data, "slurm.conf": data["slurm.conf"].replace("PartitionName=short", "PartitionName=short MaxTime=7")}
    assert changed != data
    await world.ask("PATCH", path, {"data": changed}, "application/merge-patch+json")
    await world.run_for(2.0)
    assert told(world) != before
    await world.run_for(3.0)
    assert in_force(world)


async def test_what_needs_a_reconfigure_takes_a_live_change_along_in_one_nudge(world: World) -> None:
    """A kubelet is deaf to the second nudge of a second."""
    await with_partition(world)
    nudges, before = list[str](), told(world)
    await world.patch("Partition", "short", {"spec": {"priorityTier": 7}})
    for each in range(20):
        if each == 1:
            await extra(world, AGE)
        await world.run_for(0.1)
        if told(world) != before:
            nudges.append(before := told(world))
    assert nudges == [taken(world)]
    assert in_force(world)
