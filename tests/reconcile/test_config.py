"""A configuration on its way through the operator, with a small sidecar and a small Slurm, in virtual time."""

from __future__ import annotations

from typing import Any

from tests.campaigns.rig import World
from tests.campaigns.scenarios import small
from tests.campaigns.sidecar import REFUSED


def conditions(world: World) -> dict[str, tuple[str, str]]:
    found = world.custom("Controller", "slurm")["status"]["conditions"]
    return {each["type"]: (each["status"], each["reason"]) for each in found if each["type"].startswith("Config")}


def published(world: World, name: str = "slurm-config") -> str:
    text: str = world.stored("configmaps", name)["data"]["slurm.conf"]
    return text


async def extra(world: World, text: str) -> None:
    await world.patch("Controller", "slurm", {"spec": {"extraConf": text}})


async def test_the_first_configuration_is_in_force_when_slurmctld_has_started(world: World) -> None:
    await small(world, 1)
    assert conditions(world) == {
        "ConfigValid": ("True", "Tried"),
        "ConfigPublished": ("True", "Published"),
        "ConfigApplied": ("True", "InForce"),
    }


async def test_a_change_is_published_after_slurm_has_taken_it(world: World) -> None:
    await small(world, 1)
    await extra(world, "MinJobAge=301\n")
    await world.run()
    assert "MinJobAge=301" in published(world)
    status = world.custom("Controller", "slurm")["status"]["config"]
    assert status["hash"] == world.cluster.sidecar.in_force
    assert "candidate" not in status


async def test_what_slurm_refuses_is_never_published_and_taken_back_without_a_trace(world: World) -> None:
    await small(world, 1)
    before, in_force = published(world), world.cluster.sidecar.in_force
    await extra(world, REFUSED)
    await world.run()
    assert (published(world), world.cluster.sidecar.in_force) == (before, in_force)
    assert conditions(world)["ConfigValid"] == ("False", "SlurmRefused")
    await extra(world, "")
    await world.run()
    assert conditions(world)["ConfigApplied"] == ("True", "InForce")


async def test_what_the_linter_refuses_does_not_even_become_a_candidate(world: World) -> None:
    await small(world, 1)
    before = published(world, "slurm-config-candidate")
    await extra(world, "Bogus=1\n")
    await world.run()
    assert published(world, "slurm-config-candidate") == before
    assert conditions(world)["ConfigValid"] == ("False", "LinterRefused")


async def test_a_last_good_configuration_outlives_a_new_operator_and_new_pods(world: World) -> None:
    await small(world, 1)
    before = published(world)
    await extra(world, REFUSED)
    await world.run()
    await world.stop_operator()
    await world.start_operator()
    await world.delete("Pod", "slurm-controller-0")
    await world.run()
    assert published(world) == before


async def test_pods_of_another_make_read_what_is_published(world: World) -> None:
    await small(world, 1)
    pod: Any = {"metadata": {"annotations": {"slinky.slurm.net/config-protocol": None}}}
    await world.patch("Pod", "slurm-controller-0", pod)
    await extra(world, "MinJobAge=302\n")
    await world.run()
    assert "MinJobAge=302" in published(world)
    assert conditions(world)["ConfigApplied"] == ("Unknown", "NotReported")


async def test_without_the_sidecar_there_is_no_candidate(world: World) -> None:
    await small(world, 1)
    await world.patch("Controller", "slurm", {"spec": {"inplaceReconfigure": False, "extraConf": "MinJobAge=303\n"}})
    await world.run()
    assert "MinJobAge=303" in published(world)
    assert world.stored("configmaps", "slurm-config-candidate") is None


async def test_a_partition_that_goes_while_it_is_still_tried_is_deleted_in_slurm_first(world: World) -> None:
    await small(world, 1)
    await extra(world, "PartitionName=short Nodes=compute\n")
    # The sidecar has taken it, and its word has not been heard.
    await world.run_for(0.2)
    await extra(world, "")
    await world.run()
    assert "short" not in world.slurm.partitions
    assert conditions(world)["ConfigApplied"] == ("True", "InForce")


async def test_a_quiet_world_is_not_written_to(world: World) -> None:
    await small(world, 1)
    before = world.server.store.revision
    await world.run_for(60)
    assert world.server.store.revision == before


async def readings(world: World, seconds: float) -> int:
    """How often the log of a pod is read within so many seconds."""
    before = len(world.cluster.sidecar.readings)
    await world.run_for(seconds)
    return len(world.cluster.sidecar.readings) - before


async def test_no_log_is_read_while_nothing_is_tried(world: World) -> None:
    await small(world, 1)
    assert await readings(world, 60.0) == 0


async def test_a_sidecar_that_stays_silent_is_listened_to_less_and_less(world: World) -> None:
    await small(world, 1)
    world.cluster.sidecar.is_silent = True
    await extra(world, "MinJobAge=304\n")
    assert 20 <= await readings(world, 5.0) <= 36
    assert 40 <= await readings(world, 55.0) <= 62
    assert 50 <= await readings(world, 600.0) <= 62
    world.cluster.sidecar.is_silent = False
    world.cluster.sidecar.look()
    await world.run_for(15.0)
    assert conditions(world)["ConfigApplied"] == ("True", "InForce")


async def test_the_log_of_a_pod_that_does_not_speak_is_never_read(world: World) -> None:
    await small(world, 1)
    pod: Any = {"metadata": {"annotations": {"slinky.slurm.net/config-protocol": None}}}
    await world.patch("Pod", "slurm-controller-0", pod)
    await extra(world, "MinJobAge=305\n")
    assert await readings(world, 30.0) == 0
