"""The life of a Token: renewed before it ends, and plain about the key that it lacks."""

from __future__ import annotations

from tests.campaigns.rig import World
from tests.campaigns.scenarios import KEYS


async def test_a_token_is_renewed_before_it_ends(world: World) -> None:
    await world.create("Token", "ci", {"username": "alice", "jwtKeyRef": KEYS["jwtKeyRef"], "lifetime": "10m"})
    await world.run_for(10.0)
    first = world.stored("secrets", "ci-jwt-alice")["data"]
    await world.run_for(480.0)
    assert world.stored("secrets", "ci-jwt-alice")["data"] != first
