"""The life of a Token: renewed before it ends, and plain about the key that it lacks."""

from __future__ import annotations

import pytest
from tests.campaigns.rig import NAMESPACE, World
from tests.campaigns.scenarios import KEYS


async def test_a_token_is_renewed_before_it_ends(world: World) -> None:
    await world.create("Token", "ci", {"username": "alice", "jwtKeyRef": KEYS["jwtKeyRef"], "lifetime": "10m"})
    await world.run_for(10.0)
    first = world.stored("secrets", "ci-jwt-alice")["data"]
    await world.run_for(480.0)
    assert world.stored("secrets", "ci-jwt-alice")["data"] != first


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ({"name": "none", "key": "jwt.key"}, "Secret 'none' is not in this namespace"),
        ({"name": "jwt", "key": "none"}, "Secret 'jwt' has no key 'none'"),
    ],
    ids=["no Secret", "no key in it"],
)
async def test_a_token_says_what_of_its_key_is_missing(world: World, ref: dict[str, str], said: str) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "jwt"}, "stringData": {"jwt.key": "0" * 32}}
    await world.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)
    await world.create("Token", "mine", {"username": "ada", "jwtKeyRef": ref})
    await world.run()
    found = {each["type"]: each for each in world.custom("Token", "mine")["status"]["conditions"]}
    assert (found["Ready"]["reason"], found["Ready"]["message"]) == ("ReferenceNotFound", said)
