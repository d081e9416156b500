"""A template that reaches out of its pod is refused by the operator itself, whoever let it in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.campaigns import rig
from tests.campaigns.go_operator import GoOperator, InWorld, written_by_go
from tests.campaigns.rig import SETTINGS, World
from tests.campaigns.scenarios import KEYS, REF

from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.validate import decode
from slurm_operator.build.revision import controller_revision, hash_of

OUT = {"spec": {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}}
SSSD = {"sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}


def named(world: World, resource: str) -> set[str]:
    return {each["metadata"]["name"] for each in world.stored(resource)}


@pytest.mark.parametrize(
    ("kind", "spec", "made"),
    [
        ("Controller", KEYS, "statefulsets.apps"),
        ("NodeSet", {**REF, "replicas": 2}, "pods"),
        ("LoginSet", {**REF, **SSSD}, "deployments.apps"),
        ("RestApi", REF, "deployments.apps"),
    ],
    ids=["Controller", "NodeSet", "LoginSet", "RestApi"],
)
async def test_without_a_webhook_nothing_is_made_of_it(
    world: World, kind: str, spec: dict[str, Any], made: str
) -> None:
    if kind != "Controller":
        await world.create("Controller", "slurm", KEYS)
        await world.run()
    before = named(world, made)
    await world.create(kind, "reaching", {**spec, "template": OUT})
    await world.run()
    said = {each["type"]: each for each in world.custom(kind, "reaching")["status"]["conditions"]}
    assert (said["Ready"]["status"], said["Ready"]["reason"]) == ("False", "InvalidSpec")
    assert "hostPath" in said["Ready"]["message"]
    assert named(world, made) == before
    await world.patch(kind, "reaching", {"spec": {"template": None}})
    await world.run()
    assert named(world, made) > before


async def test_what_workers_were_made_by_goes_on(world: World) -> None:
    """C1: a NodeSet that the Go operator ran, or that ran when more was allowed, is scaled as before."""
    await world.create("Controller", "slurm", KEYS)
    made = await world.create("NodeSet", "compute", {**REF, "replicas": 1, "template": OUT})
    await world.run()
    assert world.pods() == {}
    owner = {"apiVersion": made["apiVersion"], "kind": "NodeSet", "name": "compute", "uid": made["metadata"]["uid"]}
    cr = decode(world.custom("NodeSet", "compute"), served=True).resource
    assert isinstance(cr, NodeSet)
    kept = controller_revision(cr, 1, hash_of(cr))
    kept["metadata"]["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    await world.ask("POST", f"/apis/apps/v1/namespaces/{cr.namespace}/controllerrevisions", kept)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 2}})
    await world.run()
    assert len(world.pods()) == 2
    await world.patch("NodeSet", "compute", {"spec": {"template": {"spec": {"hostPID": True}}}})
    await world.run()
    said = {each["type"]: each for each in world.custom("NodeSet", "compute")["status"]["conditions"]}
    assert said["Ready"]["reason"] == "InvalidSpec"
    assert len(world.pods()) == 2


@pytest.fixture
def allowing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Awaitable[None]]:
    """Starts the operator again, with these features allowed."""

    async def restart(world: World, *features: str) -> None:
        monkeypatch.setattr(rig, "SETTINGS", replace(SETTINGS, allowed_pod_features=frozenset(features)))
        await world.stop_operator()
        await world.start_operator()

    return restart


@pytest.mark.parametrize(
    ("kind", "spec", "name"),
    [
        ("LoginSet", {**REF, **SSSD, "replicas": 1}, "reaching"),
        ("RestApi", {**REF, "replicas": 1}, "reaching-restapi"),
    ],
    ids=["LoginSet", "RestApi"],
)
async def test_what_ran_when_more_was_allowed_goes_on_and_nothing_else(
    world: World, allowing: Callable[..., Awaitable[None]], kind: str, spec: dict[str, Any], name: str
) -> None:
    """A LoginSet with a hostPath could not even be scaled after the flag was gone."""
    await allowing(world, "hostPath")
    await world.create("Controller", "slurm", KEYS)
    await world.create(kind, "reaching", {**spec, "template": OUT})
    await world.run()
    await allowing(world)
    await world.patch(kind, "reaching", {"spec": {"replicas": 2}})
    await world.run()
    assert world.stored("deployments.apps", name)["spec"]["replicas"] == 2
    await world.patch(kind, "reaching", {"spec": {"template": {"spec": {"hostname": "mine"}}}})
    await world.run()
    assert world.verdicts(kind, "reaching")["Ready"] == ("False", "InvalidSpec")
    assert "hostname" not in world.stored("deployments.apps", name)["spec"]["template"]["spec"]


async def test_privileged_workers_of_the_go_operator_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their image is not among those that are trusted here; their ControllerRevision has no note of their rights."""
    monkeypatch.setattr(rig, "SETTINGS", replace(SETTINGS, worker_images=("registry.example.com/",)))
    await world.stop_operator()
    await GoOperator(InWorld(world)).leave_a_cluster(*written_by_go())
    before = {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}
    await world.start_operator()
    await world.run()
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 3}})
    await world.run()
    assert world.verdicts("NodeSet", "compute")["Ready"][0] == "True"
    assert before.items() <= {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}.items()
    assert len(world.pods()) == 3


REACHING: dict[str, Any] = {
    "slurmd": {
        "image": "ghcr.io/slinkyproject/slurmd:26.05-ubuntu26.04",
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "volumeMounts": [{"name": "infiniband", "mountPath": "/dev/infiniband"}],
    },
    "template": {
        "spec": {
            "serviceAccountName": "dcgm",
            "volumes": [{"name": "infiniband", "hostPath": {"path": "/dev/infiniband"}}],
        }
    },
}


async def test_a_cluster_of_the_go_operator_with_pod_features_is_taken_over_scaled_and_rolled(world: World) -> None:
    """C1: its NodeSet became InvalidSpec at the first change of its template; nothing said which features it has."""
    await world.stop_operator()
    await GoOperator(InWorld(world), nodeset=REACHING).leave_a_cluster(*written_by_go(REACHING))
    before = uids(world)
    await world.start_operator()
    await world.run()
    assert uids(world) == before, "no pod is restarted"
    kept = world.conditions("NodeSet", "compute")["PodFeaturesKept"]
    assert (kept["status"], kept["reason"]) == ("True", "HadBefore")
    assert "--allow-pod-features=capabilities,hostPath,privileged,serviceAccount" in kept["message"]

    await world.patch("NodeSet", "compute", {"spec": {"replicas": 3}})
    await world.run()
    assert before.items() < uids(world).items()
    assert world.pods()["compute-2"]["spec"]["serviceAccountName"] == "dcgm"

    newer = "ghcr.io/slinkyproject/slurmd:26.05.1-ubuntu26.04"
    await world.patch("NodeSet", "compute", {"spec": {"slurmd": {"image": newer}}})
    await world.run()
    assert not set(before.values()) & set(uids(world).values()), "every worker is replaced"
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods().values()} == {newer}
    assert world.verdicts("NodeSet", "compute")["Ready"][0] == "True"
    assert "PodFeaturesKept" in world.conditions("NodeSet", "compute")

    await world.patch("NodeSet", "compute", {"spec": {"template": {"spec": {"hostPID": True}}}})
    await world.run()
    assert world.verdicts("NodeSet", "compute")["Ready"] == ("False", "InvalidSpec")


def uids(world: World) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}
