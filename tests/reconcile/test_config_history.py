"""Configurations that were in force are kept, and a world in which none changed is left alone."""

from __future__ import annotations

from typing import Any

from tests.campaigns.rig import NAMESPACE, World
from tests.campaigns.scenarios import REF, small
from tests.campaigns.sidecar import REFUSED

from slurm_operator.plan.config_history import KEPT_AFTER_SECONDS, MAX_REVISIONS, Revision, read


def history(world: World) -> list[Revision]:
    """What is kept, the newest last."""
    rows = world.server.store.rows("controllerrevisions.apps", NAMESPACE)
    found = [row.load() for row in rows if "-config-" in row.name]
    return sorted((read(each) for each in found), key=lambda each: each.number)


async def extra(world: World, text: str) -> None:
    await world.patch("Controller", "slurm", {"spec": {"extraConf": text}})


async def test_each_configuration_in_force_is_kept_with_what_it_was_made_from(world: World) -> None:
    await small(world, 1)
    await extra(world, "MinJobAge=301\n")
    await world.run()
    await world.create("Partition", "short", {**REF, "nodeSets": ["compute"], "maxTime": "1:00:00"})
    await world.run()
    first, second, third = history(world)
    assert [each.number for each in (first, second, third)] == [1, 2, 3]
    assert first.change == "the first revision that was kept"
    assert second.change == "Controller/slurm: extraConf (+1 -0 lines)"
    assert third.change == "Partition/short is new (+1 -0 lines)"
    assert third.hash == world.custom("Controller", "slurm")["status"]["config"]["hash"]
    assert "MinJobAge=301" in second.files["slurm.conf"]
    assert second.inputs["Controller/slurm"] == {"extraConf": "MinJobAge=301\n"}
    assert third.inputs["Partition/short"]["maxTime"] == "1:00:00"


async def test_what_is_refused_is_not_kept(world: World) -> None:
    await small(world, 1)
    await extra(world, REFUSED)
    await world.run()
    assert len(history(world)) == 1


async def test_of_a_burst_only_the_last_is_kept(world: World) -> None:
    await small(world, 1)
    for number in range(5):
        await extra(world, f"MinJobAge={400 + number}\n")
        await world.run_for(0.3 * KEPT_AFTER_SECONDS)
    await world.run()
    assert [each.inputs["Controller/slurm"] for each in history(world)] == [{}, {"extraConf": "MinJobAge=404\n"}]


async def test_the_same_configuration_once_more_is_a_new_revision(world: World) -> None:
    await small(world, 1)
    for text in ("MinJobAge=301\n", ""):
        await extra(world, text)
        await world.run()
    hashes = [each.hash for each in history(world)]
    assert len(hashes) == 3
    assert hashes[0] == hashes[2] != hashes[1]


async def test_the_oldest_go_and_numbers_are_never_used_twice(world: World) -> None:
    await small(world, 1)
    for number in range(MAX_REVISIONS + 2):
        await extra(world, f"MinJobAge={400 + number}\n")
        await world.run()
    assert [each.number for each in history(world)] == list(range(4, MAX_REVISIONS + 4))


async def test_a_quiet_world_and_a_new_operator_keep_nothing_more(world: World) -> None:
    await small(world, 1)
    before = world.server.store.revision
    await world.run_for(60)
    assert world.server.store.revision == before
    await world.stop_operator()
    await world.start_operator()
    await world.run()
    assert len(history(world)) == 1


async def test_nothing_that_is_kept_holds_a_secret(world: World) -> None:
    await small(world, 1)
    await extra(world, "MinJobAge=301\n")
    await world.run()
    rows: list[Any] = [row.load() for row in world.server.store.rows("controllerrevisions.apps", NAMESPACE)]
    assert "canary" not in str(rows)
