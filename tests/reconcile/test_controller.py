"""The life of a Controller and of the kinds whose daemons Kubernetes itself keeps running."""

from __future__ import annotations

from typing import Any

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import KEYS, REF, everything_comes_up, small

CLAIMS = "/api/v1/namespaces/hpc/persistentvolumeclaims"


def condition(world: World, kind: str, name: str, type_: str = "Ready") -> tuple[str, str]:
    found = world.custom(kind, name)["status"]["conditions"]
    return next((each["status"], each["reason"]) for each in found if each["type"] == type_)


def claim(mode: str) -> dict[str, Any]:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": "state"}, "spec": spec}


async def test_every_kind_comes_up_and_says_so(world: World) -> None:
    await everything_comes_up(world)
    resources = [("Controller", "slurm"), ("Accounting", "books"), ("RestApi", "slurm"), ("LoginSet", "login")]
    for kind, name in [*resources, ("NodeSet", "compute")]:
        assert condition(world, kind, name) == ("True", "AllReady"), kind
        assert world.custom(kind, name)["status"]["observedGeneration"] == 1
    assert condition(world, "Token", "ci") == ("True", "Issued")
    assert condition(world, "Partition", "all") == ("True", "Up")


async def test_a_missing_key_is_named_and_no_secret_of_our_own_is(world: World) -> None:
    """It said WaitingForPods, and that slurmctld tried its configuration."""
    said: set[tuple[str, str]] = set()

    def noticed(change: Any) -> None:
        if change.row.resource == "accountings.slinky.slurm.net":
            content = change.row.load()
            said.update((each["type"], each["reason"]) for each in (content.get("status") or {}).get("conditions", ()))

    world.server.store.listen(noticed)
    storage = {"host": "mariadb", "passwordKeyRef": {"name": "database", "key": "password"}}
    await world.create("Accounting", "books", {**KEYS, "storageConfig": storage})
    await world.run()
    assert ("Ready", "AllReady") in said
    assert "ReferenceNotFound" not in {reason for _, reason in said}
    await world.delete("Secret", "slurm-key")
    await world.create("Controller", "slurm", KEYS)
    await world.run()
    assert condition(world, "Controller", "slurm", "Degraded") == ("True", "ReferenceNotFound")
    message = world.conditions("Controller", "slurm")["Degraded"]["message"]
    assert message.startswith("Secret 'slurm-key' does not exist")


async def test_a_child_that_was_changed_or_deleted_is_repaired(world: World) -> None:
    await small(world, 1)
    await world.patch("ConfigMap", "slurm-config", {"data": {"slurm.conf": "# mine"}})
    await world.delete("Service", "slurm-controller")
    await world.run()
    assert "ClusterName=" in world.stored("configmaps", "slurm-config")["data"]["slurm.conf"]
    assert world.stored("services", "slurm-controller") is not None


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("ReadWriteMany", ("True", "AllReady"), id="shared: it comes up"),
        pytest.param("ReadWriteOnce", ("False", "InvalidSpec"), id="of one node: it is refused"),
    ],
)
async def test_backup_controllers_need_a_claim_that_can_be_shared(world: World, mode: str, expected: Any) -> None:
    await world.ask("POST", CLAIMS, claim(mode))
    await world.create(
        "Controller", "slurm", {**KEYS, "ha": {"enabled": True}, "persistence": {"existingClaim": "state"}}
    )
    await world.run()
    assert condition(world, "Controller", "slurm") == expected
    assert (world.stored("statefulsets.apps", "slurm-controller") is not None) is (expected[0] == "True")


async def test_a_claim_that_is_made_anew_is_looked_at_again(world: World) -> None:
    await world.ask("POST", CLAIMS, claim("ReadWriteOnce"))
    await world.create(
        "Controller", "slurm", {**KEYS, "ha": {"enabled": True}, "persistence": {"existingClaim": "state"}}
    )
    await world.run()
    await world.ask("DELETE", f"{CLAIMS}/state")
    await world.run_for(1.0)
    await world.ask("POST", CLAIMS, claim("ReadWriteMany"))
    await world.run()
    assert condition(world, "Controller", "slurm") == ("True", "AllReady")


async def test_a_resource_that_waits_for_its_controller_goes_on_when_it_comes(world: World) -> None:
    await world.create("RestApi", "slurm", REF)
    await world.run()
    assert condition(world, "RestApi", "slurm") == ("Unknown", "ReferenceNotFound")
    await world.create("Controller", "slurm", KEYS)
    await world.run()
    assert condition(world, "RestApi", "slurm") == ("True", "AllReady")
