"""A cluster that the Go operator ran is taken over without one restart; from then on it is a cluster like any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.campaigns.go_operator import MAIN, RELEASED, GoOperator, InWorld, written_by_go
from tests.campaigns.rig import World
from tests.campaigns.scenarios import NEW_KEY

from slurm_operator.build import labels

WORKLOADS = ("statefulsets.apps", "deployments.apps")


def in_other_bytes() -> tuple[dict[str, Any], str]:
    """The same in the bytes, and so with the hash, of a release that nobody here has seen."""
    data, _ = written_by_go()
    return {"spec": {**data["spec"], "partition": None, "extraConf": "", "taints": []}}, "zzz4567"


@pytest.fixture
async def left(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """What the Go operator left, and nobody in charge."""
    release, sidecar, (data, hash_) = request.param
    world = World()
    await world.open()
    await world.stop_operator()
    await GoOperator(InWorld(world), release, sidecar=sidecar).leave_a_cluster(data, hash_)
    yield world
    await world.close()
    assert world.judge.violations == []


EVERY = pytest.mark.parametrize(
    "left",
    [
        (MAIN, False, written_by_go()),
        (MAIN, True, written_by_go()),
        (RELEASED, False, written_by_go()),
        (MAIN, False, in_other_bytes()),
    ],
    ids=["main", "main with sidecar", "release 1.2", "a hash that cannot be reproduced"],
    indirect=True,
)
ONE = pytest.mark.parametrize("left", [(MAIN, False, written_by_go())], ids=["main"], indirect=True)


def running(world: World) -> dict[str, Any]:
    """Everything whose change would restart something."""
    found = {name: (pod["metadata"]["uid"], pod["spec"]) for name, pod in world.pods().items()}
    for resource in WORKLOADS:
        for each in world.stored(resource):
            found[f"{resource}/{each['metadata']['name']}"] = (each["metadata"]["uid"], each["spec"]["template"])
    return found


def identities(world: World, *resources: str) -> dict[str, str]:
    return {
        f"{resource}/{each['metadata']['name']}": each["metadata"]["uid"]
        for resource in resources
        for each in world.stored(resource)
    }


@EVERY
async def test_nothing_is_restarted_and_nothing_is_lost(left: World) -> None:
    kinds = ("secrets", "persistentvolumeclaims", "services", "configmaps", "poddisruptionbudgets.policy")
    before, there = running(left), identities(left, *kinds)
    job = left.slurm.submit(30.0)
    await left.start_operator()
    await left.run()
    assert running(left) == before
    assert there.items() <= identities(left, *kinds).items()
    # What slurmd tries a configuration in comes and goes.
    assert [key for key in left.cluster.deletes if "-trial-" not in key[1]] == []
    assert left.slurm.jobs[job].state == "COMPLETED"
    assert len(left.stored("controllerrevisions.apps")) == 1


@EVERY
async def test_every_kind_is_ready_afterwards(left: World) -> None:
    await left.start_operator()
    await left.run()
    for kind, name in (
        ("Controller", "slurm"),
        ("Accounting", "books"),
        ("RestApi", "slurm"),
        ("LoginSet", "login"),
        ("NodeSet", "compute"),
        ("Token", "ci"),
    ):
        said = {each["type"]: each for each in left.custom(kind, name)["status"]["conditions"]}
        assert (kind, said["Ready"]["status"]) == (kind, "True"), said
    assert left.custom("NodeSet", "compute")["status"]["updatedReplicas"] == 2


@EVERY
async def test_the_world_is_quiet_after_that(left: World) -> None:
    await left.start_operator()
    await left.run()
    left.arm()
    await left.stop_operator()
    await left.start_operator()
    await left.run_for(120.0)
    assert left.trace == []


@ONE
async def test_the_budget_protects_every_busy_worker_and_has_one_limit(left: World) -> None:
    await left.start_operator()
    await left.run()
    (budget,) = left.stored("poddisruptionbudgets.policy")
    assert "maxUnavailable" not in budget["spec"]
    assert budget["spec"]["minAvailable"] == 2**31 - 1


@ONE
async def test_the_controllers_service_no_longer_waits_for_a_label(left: World) -> None:
    await left.start_operator()
    await left.run()
    assert left.stored("services", "slurm-controller")["spec"]["selector"] == {
        "app.kubernetes.io/name": "slurmctld",
        "app.kubernetes.io/instance": "slurm",
    }


@ONE
async def test_a_token_that_is_due_is_renewed_and_belongs_to_its_resource(left: World) -> None:
    before = left.stored("secrets", "ci-jwt-alice")
    await left.start_operator()
    await left.run()
    now = left.stored("secrets", "ci-jwt-alice")
    assert now["data"] != before["data"]
    assert [(owner["kind"], owner["name"]) for owner in now["metadata"]["ownerReferences"]] == [("Token", "ci")]


@ONE
async def test_host_keys_stay(left: World) -> None:
    before = left.stored("secrets", "login-ssh-host-keys")["data"]
    await left.start_operator()
    await left.run()
    assert left.stored("secrets", "login-ssh-host-keys")["data"] == before


@ONE
async def test_the_first_change_of_a_resource_makes_its_workload_ours(left: World) -> None:
    await left.start_operator()
    await left.run()
    before = running(left)
    await left.patch("RestApi", "slurm", {"spec": {"slurmrestd": {"image": "example.org/slurmrestd:new"}}})
    await left.run()
    after = running(left)
    assert {name for name in after if after[name] != before[name]} == {"deployments.apps/slurm-restapi"}
    made = left.stored("deployments.apps", "slurm-restapi")
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == "example.org/slurmrestd:new"
    assert labels.TAKEN_OVER not in made["metadata"].get("annotations", {})


@EVERY
async def test_a_template_of_ours_keeps_nothing_of_the_template_before(left: World) -> None:
    """A kube-apiserver refuses a volume with two sources, so that nothing of such a cluster could be changed."""
    await left.start_operator()
    await left.run()
    changed = {
        "Controller": ("slurm", "slurmctld", "statefulsets.apps", "slurm-controller"),
        "Accounting": ("books", "slurmdbd", "statefulsets.apps", "books-accounting"),
        "RestApi": ("slurm", "slurmrestd", "deployments.apps", "slurm-restapi"),
        "LoginSet": ("login", "login", "deployments.apps", "login"),
    }
    for kind, (name, daemon, _, _) in changed.items():
        await left.patch(kind, name, {"spec": {daemon: {"env": [{"name": "NEW", "value": kind}]}}})
    await left.run()
    for kind, (name, _, resource, workload) in changed.items():
        assert left.verdicts(kind, name)["Ready"][0] == "True"
        made = left.stored(resource, workload)
        for volume in made["spec"]["template"]["spec"]["volumes"]:
            assert len(volume.keys() - {"name"}) == 1, volume
        entries = [each for each in made["metadata"]["managedFields"] if "subresource" not in each]
        owners = {each["manager"] for each in entries if "f:template" in each["fieldsV1"].get("f:spec", {})}
        assert owners == {"slurm-operator"}


@ONE
async def test_replicas_follow_without_a_new_template(left: World) -> None:
    await left.start_operator()
    await left.run()
    before = running(left)
    await left.patch("LoginSet", "login", {"spec": {"replicas": 3}})
    await left.run()
    assert left.stored("deployments.apps", "login")["spec"]["replicas"] == 3
    assert running(left) == before


@ONE
async def test_pods_without_a_sidecar_are_restarted_for_a_new_configuration(left: World) -> None:
    await left.start_operator()
    await left.run()
    before = running(left)
    await left.patch("Controller", "slurm", {"spec": {"extraConf": "MaxJobCount=77"}})
    await left.run()
    after = running(left)
    assert {name for name in after if after[name] != before[name]} == {"statefulsets.apps/slurm-controller"}


@ONE
async def test_another_image_rolls_the_workers_that_were_taken_over(left: World) -> None:
    await left.start_operator()
    await left.run()
    before = {pod["metadata"]["uid"] for pod in left.pods().values()}
    await left.patch("NodeSet", "compute", {"spec": {"slurmd": {"image": "example.org/slurmd:new"}}})
    await left.run()
    assert not before & {pod["metadata"]["uid"] for pod in left.pods().values()}
    assert left.slurm.lost == []


@ONE
async def test_a_new_key_reaches_a_cluster_that_was_taken_over_in_the_safe_order(left: World) -> None:
    await left.start_operator()
    await left.run()
    left.slurm.submit(20.0)
    before = running(left)
    await left.patch("Secret", "slurm-key", {"data": {"slurm.key": NEW_KEY}})
    await left.run_for(10.0)
    after = running(left)
    # slurmrestd gets along with either key.
    assert {name for name in after if after[name] != before[name]} <= {"deployments.apps/slurm-restapi"}
    await left.run()
    after = running(left)
    assert {name for name in after if after[name] == before[name]} == set()
    assert left.slurm.lost == []
