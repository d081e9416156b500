"""What is said of a resource keeps its time for as long as it stays true, whoever looks again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.campaigns.rig import World

CONTROLLER = {"controllerRef": {"name": "slurm"}}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Partition", {**CONTROLLER, "nodeSets": ["ALL", "compute"]}),
        ("Token", {"username": "a b", "jwtKeyRef": {"name": "keys", "key": "jwt"}}),
        ("LoginSet", {**CONTROLLER, "sssdConfRef": {"name": "", "key": ""}}),
    ],
    ids=["Partition", "Token", "LoginSet"],
)
async def test_a_refused_resource_is_not_written_again_by_a_new_operator(
    world: World, kind: str, spec: dict[str, Any]
) -> None:
    await world.create(kind, "refused", spec)
    await world.run()
    before = world.custom(kind, "refused")
    (ready,) = (each for each in before["status"]["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidSpec")
    await world.stop_operator()
    world.clock.advance(60.0)
    await world.start_operator()
    await world.run()
    assert world.custom(kind, "refused") == before
