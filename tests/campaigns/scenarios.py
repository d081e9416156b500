"""The lives that campaigns disturb: a cluster comes up, grows, shrinks under load, rolls, goes.

In: a `World`. Out: nothing; a scenario arms the world where its own story begins, and leaves it at rest.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

from tests.campaigns.rig import CANARY, NAMESPACE, World

REF = {"controllerRef": {"name": "slurm"}}
KEYS = {"slurmKeyRef": {"name": "slurm-key", "key": "slurm.key"}, "jwtKeyRef": {"name": "jwt-key", "key": "jwt.key"}}
CLAIMS = [
    {
        "metadata": {"name": "scratch"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
]
NEW_KEY = base64.b64encode(CANARY + b"-new-key-" + b"n" * 40).decode()
NEW_IMAGE = "example.org/slurmd:new"
Scenario = Callable[[World], Awaitable[None]]


def expect(world: World, happened: bool, what: str) -> None:
    """A story that never happens is disturbed by nothing."""
    if not happened:
        world.judge.violation("I11", f"the story did not happen: {what}")


async def small(world: World, replicas: int, **spec: Any) -> None:
    """A cluster with one NodeSet, at rest."""
    await world.create("Controller", "slurm", KEYS)
    await world.create("RestApi", "slurm", REF)
    partition = {"enabled": True, "config": "Default=YES"}
    await world.create("NodeSet", "compute", {**REF, "replicas": replicas, "partition": partition, **spec})
    await world.run()


async def everything_comes_up(world: World) -> None:
    """S-up: every kind, from nothing."""
    storage = {"host": "mariadb", "passwordKeyRef": {"name": "database", "key": "password"}}
    sssd = {"sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    world.arm()
    await world.create("Controller", "slurm", {**KEYS, "accountingRef": {"name": "books"}})
    await world.create("Accounting", "books", {**KEYS, "storageConfig": storage})
    await world.create("RestApi", "slurm", REF)
    await world.create("LoginSet", "login", {**REF, **sssd})
    await world.create("Token", "ci", {"username": "alice", "jwtKeyRef": KEYS["jwtKeyRef"], "lifetime": "24h"})
    await world.create("NodeSet", "compute", {**REF, "replicas": 2, "volumeClaimTemplates": CLAIMS})
    await world.create("Partition", "all", {**REF, "nodeSets": ["compute"]})
    await world.run()


async def workers_are_added(world: World) -> None:
    """S-out: three workers become eight."""
    await small(world, 3)
    world.arm()
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 8}})
    await world.run()
    expect(world, len(world.pods()) == 8, "eight workers")


async def busy_workers_are_taken_away(world: World) -> None:
    """S-in: eight workers become two while six run jobs, one of them suspended for a while."""
    await small(world, 8, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"})
    for number in range(6):
        world.slurm.submit(10.0 + 5 * number)
    world.slurm.suspend(1)
    world.clock.call_later(25.0, lambda: world.slurm.resume_job(1, 10.0))
    world.arm()
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 2}})
    await world.run()
    expect(world, len(world.pods()) == 2, "two workers")


async def the_image_changes(world: World) -> None:
    """S-roll: four workers get another image while two run jobs."""
    await small(world, 4)
    for _ in range(2):
        world.slurm.submit(20.0)
    world.arm()
    await world.patch("NodeSet", "compute", {"spec": {"slurmd": {"image": NEW_IMAGE}}})
    await world.run()
    images = [pod["spec"]["containers"][0]["image"] for pod in world.pods().values()]
    expect(world, images == [NEW_IMAGE] * 4, "four workers with the new image")


async def the_nodeset_is_deleted(world: World) -> None:
    """S-del: a NodeSet goes while a job runs, and stays in slurm.conf until no job record names it."""
    await small(world, 2)
    world.slurm.submit(20.0)
    world.arm()
    await world.delete("NodeSet", "compute")
    await world.run(horizon=400.0)
    expect(world, not world.pods(), "no worker is left")


async def the_controller_is_deleted(world: World) -> None:
    """S-del-controller: the cluster goes, then its workers; nothing hangs."""
    await small(world, 2)
    world.judge.expect_loss = True
    world.arm()
    await world.delete("Controller", "slurm")
    await world.run()
    await world.delete("NodeSet", "compute")
    await world.delete("RestApi", "slurm")
    await world.run()


async def the_namespace_is_deleted(world: World) -> None:
    """S-del-namespace: all at once, in any order."""
    await small(world, 2)
    world.judge.expect_loss = True
    world.arm()
    await world.ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
    await world.run(horizon=400.0)


async def the_configuration_changes(world: World) -> None:
    """S-conf: another slurm.conf, taken back while it is still tried, and then another one that stays; then one that
    slurmd has to try, and that another one overtakes.
    """
    await small(world, 1)
    world.slurm.submit(20.0)
    world.arm()
    await world.patch("Controller", "slurm", {"spec": {"extraConf": "MinJobAge=301\n"}})
    await world.run_for(0.05)
    await world.patch("Controller", "slurm", {"spec": {"extraConf": ""}})
    await world.run_for(10.0)
    await world.patch("Controller", "slurm", {"spec": {"extraConf": "MinJobAge=302\n"}})
    await world.run()
    published = next(each["data"] for each in world.stored("configmaps") if "slurm.conf" in each.get("data", {}))
    expect(world, "MinJobAge=302" in published["slurm.conf"], "the last configuration")
    await world.patch("Controller", "slurm", {"spec": {"extraConf": "UnkillableStepTimeout=200\n"}})
    await world.run_for(1.0)
    await world.patch("Controller", "slurm", {"spec": {"extraConf": "UnkillableStepTimeout=201\n"}})
    await world.run()
    published = next(each["data"] for each in world.stored("configmaps") if "slurm.conf" in each.get("data", {}))
    expect(world, "UnkillableStepTimeout=201" in published["slurm.conf"], "the configuration that slurmd has tried")
    there = [each["metadata"]["name"] for kind in ("pods", "configmaps") for each in world.stored(kind)]
    expect(world, not [name for name in there if "-trial-" in name], "nothing of a trial is left over")


async def the_key_changes(world: World) -> None:
    """S-key: the cluster gets another auth/slurm key while a job runs."""
    await small(world, 2)
    world.slurm.submit(15.0)
    world.arm()
    await world.patch("Secret", "slurm-key", {"data": {"slurm.key": NEW_KEY}})
    await world.run()


SCENARIOS: dict[str, Scenario] = {
    "S-up": everything_comes_up,
    "S-out": workers_are_added,
    "S-in": busy_workers_are_taken_away,
    "S-roll": the_image_changes,
    "S-conf": the_configuration_changes,
    "S-key": the_key_changes,
    "S-del": the_nodeset_is_deleted,
    "S-del-controller": the_controller_is_deleted,
    "S-del-namespace": the_namespace_is_deleted,
}
