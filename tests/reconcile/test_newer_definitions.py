"""What is wrong with a NodeSet, or newer than this operator, takes nothing out of the cluster that it belongs to.

In an upgrade the definitions come before the operator: an API server then fills in fields that it does not know yet.
"""

from __future__ import annotations

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import REF, small

DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}s.slinky.slurm.net"
MERGE = "application/merge-patch+json"


async def define(world: World, kind: str) -> None:
    """A definition of tomorrow, which has a field more, with a default."""
    path = DEFINITION.format(kind.lower())
    found = await world.ask("GET", path)
    version = found["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["brandNew"] = {
        "type": "string",
        "default": "tomorrow",
    }
    await world.ask("PATCH", path, {"spec": {"versions": [version]}}, MERGE)


RESOURCES = (("NodeSet", "compute"), ("Controller", "slurm"), ("RestApi", "slurm"), ("Partition", "all"))


def slurm_conf(world: World) -> str:
    text: str = world.stored("configmaps", "slurm-config")["data"]["slurm.conf"]
    return text


def ready(world: World, kind: str, name: str) -> tuple[str, str]:
    (found,) = (each for each in world.custom(kind, name)["status"]["conditions"] if each["type"] == "Ready")
    return found["status"], found["reason"]


async def cluster(world: World) -> None:
    await small(world, 2)
    await world.create("Partition", "all", {**REF, "nodeSets": ["ALL"]})
    await world.run()


@pytest.mark.parametrize("some", [RESOURCES, RESOURCES[:1], RESOURCES[3:]], ids=["all", "a NodeSet", "a Partition"])
async def test_fields_of_tomorrow_are_passed_over(world: World, some: tuple[tuple[str, str], ...]) -> None:
    await cluster(world)
    before = slurm_conf(world)
    for kind, name in some:
        await define(world, kind)
        await world.patch(kind, name, {"metadata": {"annotations": {"touched": "yes"}}})
        assert world.custom(kind, name)["spec"]["brandNew"] == "tomorrow"
    await world.run()
    assert slurm_conf(world) == before
    assert {(kind, ready(world, kind, name)[0]) for kind, name in RESOURCES} == {
        (kind, "True") for kind, _ in RESOURCES
    }
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 3}})
    await world.run()
    assert len(world.pods()) == 3


async def test_a_nodeset_that_is_wrong_keeps_its_workers_and_its_partition(world: World) -> None:
    await cluster(world)
    before, pods = slurm_conf(world), set(world.pods())
    await world.patch("NodeSet", "compute", {"spec": {"slurmd": {"env": "none"}, "replicas": 1}})
    await world.run()
    assert ready(world, "NodeSet", "compute") == ("False", "InvalidSpec")
    assert (slurm_conf(world), set(world.pods())) == (before, pods)
    await world.stop_operator()
    await world.start_operator()
    await world.run()
    assert (slurm_conf(world), set(world.pods())) == (before, pods)


async def test_a_door_to_slurm_that_is_wrong_is_still_a_door(world: World) -> None:
    await cluster(world)
    await world.patch("RestApi", "slurm", {"spec": {"slurmrestd": {"env": "none"}}})
    await world.run()
    assert ready(world, "RestApi", "slurm") == ("False", "InvalidSpec")
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    await world.run()
    assert len(world.pods()) == 1
