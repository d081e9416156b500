"""Keys that change while jobs run: in which order every daemon gets the new one, and who waits for whom."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import KEYS, NEW_KEY, REF, small

from slurm_operator.build import labels

SSSD = {"sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
STORAGE = {"host": "mariadb", "passwordKeyRef": {"name": "database", "key": "password"}}


async def changed(world: World, name: str = "slurm-key", file: str = "slurm.key") -> None:
    await world.patch("Secret", name, {"data": {file: NEW_KEY}})


def template_hash(world: World, resource: str, name: str, key: str = labels.SLURM_KEY_HASH) -> str:
    return str(world.stored(resource, name)["spec"]["template"]["metadata"]["annotations"].get(key))


def condition(world: World, kind: str, name: str, type_: str) -> Any:
    held = world.custom(kind, name)["status"]["conditions"]
    return next(each for each in held if each["type"] == type_)


async def everything(world: World) -> None:
    await world.create("Accounting", "books", {**KEYS, "storageConfig": STORAGE})
    await small(world, 2)
    await world.patch("Controller", "slurm", {"spec": {"accountingRef": {"name": "books"}}})
    await world.create("LoginSet", "login", {**REF, **SSSD})
    await world.run()


async def test_no_daemon_gets_a_new_key_while_a_job_runs(world: World) -> None:
    await everything(world)
    workloads = {"slurm-controller": "statefulsets.apps", "books-accounting": "statefulsets.apps"}
    workloads |= {"login": "deployments.apps"}
    before = {name: template_hash(world, resource, name) for name, resource in workloads.items()}
    job = world.slurm.submit(60.0)
    pods = {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}
    await changed(world)
    await world.run_for(30.0)
    assert {name: template_hash(world, resource, name) for name, resource in workloads.items()} == before
    assert {name: pod["metadata"]["uid"] for name, pod in world.pods().items()} == pods
    assert world.slurm.jobs[job].state == "RUNNING"
    assert all("DRAIN" in node.flags for node in world.slurm.nodes.values())
    assert "key rotation" in world.slurm.nodes["compute-0"].reason
    for kind, name in (("Controller", "slurm"), ("Accounting", "books"), ("LoginSet", "login")):
        said = condition(world, kind, name, "Progressing")
        assert (said["status"], said["reason"]) == ("True", "KeyRotation")
        assert "1 of 2 workers is free" in said["message"]


async def test_when_the_last_job_is_over_every_daemon_gets_it_and_workers_take_jobs_again(world: World) -> None:
    await everything(world)
    world.slurm.submit(20.0)
    before = template_hash(world, "statefulsets.apps", "slurm-controller")
    pods = {pod["metadata"]["uid"] for pod in world.pods().values()}
    await changed(world)
    await world.run()
    new = template_hash(world, "statefulsets.apps", "slurm-controller")
    assert new != before
    assert template_hash(world, "statefulsets.apps", "books-accounting") == new
    assert template_hash(world, "deployments.apps", "login") == new
    assert template_hash(world, "deployments.apps", "slurm-restapi") == new
    assert not pods & {pod["metadata"]["uid"] for pod in world.pods().values()}
    assert len(world.pods()) == 2
    assert {pod["metadata"]["annotations"][labels.SLURM_KEY_HASH] for pod in world.pods().values()} == {new}
    assert world.slurm.lost == []
    assert all(node.takes_jobs for node in world.slurm.nodes.values())
    assert condition(world, "Controller", "slurm", "Progressing")["status"] == "False"
    assert condition(world, "NodeSet", "compute", "Ready")["status"] == "True"


async def test_workers_of_every_nodeset_are_waited_for(world: World) -> None:
    await small(world, 1)
    await world.create("NodeSet", "gpu", {**REF, "replicas": 1})
    await world.run()
    world.slurm.submit(1.0)
    job = world.slurm.submit(40.0)
    assert world.slurm.jobs[job].nodes == ("gpu-0",)
    before = template_hash(world, "statefulsets.apps", "slurm-controller")
    await changed(world)
    await world.run_for(20.0)
    assert template_hash(world, "statefulsets.apps", "slurm-controller") == before
    await world.run()
    assert template_hash(world, "statefulsets.apps", "slurm-controller") != before
    assert world.slurm.lost == []


async def test_a_key_that_is_taken_back_leaves_everything_as_it_was(world: World) -> None:
    await small(world, 2)
    world.slurm.submit(60.0)
    pods = {pod["metadata"]["uid"] for pod in world.pods().values()}
    old = world.stored("secrets", "slurm-key")["data"]["slurm.key"]
    await changed(world)
    await world.run_for(10.0)
    await world.patch("Secret", "slurm-key", {"data": {"slurm.key": old}})
    await world.run()
    assert {pod["metadata"]["uid"] for pod in world.pods().values()} == pods
    assert all("DRAIN" not in node.flags for node in world.slurm.nodes.values())
    assert world.slurm.lost == []


async def test_a_key_secret_that_is_gone_for_a_moment_restarts_nothing(world: World) -> None:
    await everything(world)
    held = world.stored("secrets", "slurm-key")
    before = template_hash(world, "statefulsets.apps", "slurm-controller")
    jwt = template_hash(world, "statefulsets.apps", "slurm-controller", labels.JWT_KEY_HASH)
    await world.delete("Secret", "slurm-key")
    await world.delete("Secret", "jwt-key")
    await world.run_for(20.0)
    assert template_hash(world, "statefulsets.apps", "slurm-controller") == before
    assert template_hash(world, "statefulsets.apps", "slurm-controller", labels.JWT_KEY_HASH) == jwt
    assert "is missing" in condition(world, "Controller", "slurm", "Progressing")["message"]
    await world.ask("POST", world._path("Secret"), {"metadata": {"name": "slurm-key"}, "data": held["data"]})
    await world.run_for(20.0)
    assert template_hash(world, "statefulsets.apps", "slurm-controller") == before
    assert condition(world, "Controller", "slurm", "Progressing")["reason"] != "KeyRotation"


async def test_without_slurms_word_the_old_key_stays_in_force(world: World) -> None:
    await small(world, 2)
    before = template_hash(world, "statefulsets.apps", "slurm-controller")
    await world.delete("RestApi", "slurm")
    await changed(world)
    await world.run_for(60.0)
    assert template_hash(world, "statefulsets.apps", "slurm-controller") == before
    assert len(world.pods()) == 2


async def test_whoever_gives_up_the_jobs_may_force_the_key(world: World) -> None:
    await small(world, 2)
    world.slurm.submit(600.0)
    before = template_hash(world, "statefulsets.apps", "slurm-controller")
    await changed(world)
    await world.run_for(10.0)
    message = condition(world, "Controller", "slurm", "Progressing")["message"]
    name, _, value = message.rpartition(" ")[2].partition("=")
    await world.patch("Controller", "slurm", {"metadata": {"annotations": {name: "another"}}})
    await world.run_for(5.0)
    assert template_hash(world, "statefulsets.apps", "slurm-controller") == before
    world.judge.expect_loss = True
    await world.patch("Controller", "slurm", {"metadata": {"annotations": {name: value}}})
    await world.run()
    assert template_hash(world, "statefulsets.apps", "slurm-controller") != before
    assert len(world.slurm.lost) == 1
    assert all(node.takes_jobs for node in world.slurm.nodes.values())


async def test_a_new_worker_is_still_made_while_the_key_changes(world: World) -> None:
    await small(world, 2)
    world.slurm.submit(40.0)
    await changed(world)
    await world.run_for(5.0)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 3}})
    await world.run_for(10.0)
    assert len(world.pods()) == 3
    await world.run()
    assert world.slurm.lost == []
    assert len([node for node in world.slurm.nodes.values() if node.takes_jobs]) == 3


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
async def test_a_new_sssd_conf_rolls_workers_that_have_ssh(world: World, busy: bool) -> None:
    await small(world, 2, ssh={"enabled": True, **SSSD})
    if busy:
        world.slurm.submit(20.0)
    before = {pod["metadata"]["uid"] for pod in world.pods().values()}
    await changed(world, "sssd", "sssd.conf")
    await world.run()
    assert not before & {pod["metadata"]["uid"] for pod in world.pods().values()}
    assert world.slurm.lost == []
    assert world.custom("NodeSet", "compute")["status"]["updatedReplicas"] == 2


async def test_a_new_sssd_conf_leaves_workers_without_ssh_alone(world: World) -> None:
    await small(world, 2)
    before = {pod["metadata"]["uid"] for pod in world.pods().values()}
    await changed(world, "sssd", "sssd.conf")
    await world.run()
    assert before == {pod["metadata"]["uid"] for pod in world.pods().values()}


async def test_a_new_jwt_key_is_in_force_after_a_restart_and_nobody_has_to_help(world: World) -> None:
    await small(world, 2)
    await world.create("Token", "ci", {"username": "alice", "jwtKeyRef": KEYS["jwtKeyRef"], "lifetime": "24h"})
    await world.run()
    job, issued = world.slurm.submit(20.0), world.stored("secrets", "ci-jwt-alice")["data"]
    pods = {pod["metadata"]["uid"] for pod in world.pods().values()}
    await changed(world, "jwt-key", "jwt.key")
    await world.run()
    assert world.slurm.key == b64decode(NEW_KEY)
    assert world.stored("secrets", "ci-jwt-alice")["data"] != issued
    assert condition(world, "Token", "ci", "Ready")["status"] == "True"
    assert condition(world, "NodeSet", "compute", "SlurmReachable")["status"] == "True"
    assert {pod["metadata"]["uid"] for pod in world.pods().values()} == pods
    assert world.slurm.jobs[job].state == "COMPLETED"


async def test_both_keys_at_once_come_in_force_together(world: World) -> None:
    await small(world, 2)
    world.slurm.submit(20.0)
    await changed(world)
    await changed(world, "jwt-key", "jwt.key")
    await world.run_for(10.0)
    # slurmctld still goes by the old ones; so does the operator, or it could never learn that the job is over.
    assert condition(world, "NodeSet", "compute", "SlurmReachable")["status"] == "True"
    await world.run()
    assert world.slurm.key == b64decode(NEW_KEY)
    assert world.slurm.lost == []
    assert condition(world, "NodeSet", "compute", "Ready")["status"] == "True"
