"""Whose answers are believed, and how much of the known may vanish at once (T7, T10, T15)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import KEYS, REF, small

from kube_runtime.clock import VirtualClock
from kube_runtime.loop.queue import Key
from slurm_operator.api.controller import Controller
from slurm_operator.reconcile.clusters import Clusters, expected_name
from slurm_operator.slurm.vanished import DOUBT_SECONDS


def uids(world: World) -> dict[str, str]:
    """The workers as they are: one that was deleted and made anew has its name again."""
    return {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}


async def test_the_answers_of_another_cluster_are_unknown_and_take_no_worker(world: World) -> None:
    """T7: all busy workers were unregistered in the other cluster, and went after 40 s."""
    await small(world, 3)
    world.slurm.submit(10_000.0)
    await world.run_for(10.0)
    before, nodes, jobs = uids(world), dict(world.slurm.nodes), dict(world.slurm.jobs)
    world.slurm.cluster_name, world.slurm.nodes, world.slurm.jobs = "somebody_else", {}, {}
    world.slurm.touch("nodes", "jobs")
    await world.run_for(600.0)
    assert uids(world) == before
    said = world.verdicts("NodeSet", "compute")
    assert said["Ready"] == ("Unknown", "WrongCluster")
    assert said["SlurmReachable"] == ("False", "WrongCluster")
    assert "somebody_else" in str(world.custom("NodeSet", "compute")["status"])
    world.slurm.cluster_name, world.slurm.nodes, world.slurm.jobs = "hpc_slurm", nodes, jobs
    world.slurm.touch("nodes", "jobs")
    await world.run_for(30.0)
    assert world.verdicts("NodeSet", "compute")["Ready"][0] == "True"


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({}, "hpc_slurm"),
        ({"clusterName": "blue"}, "blue"),
        ({"external": True}, ""),
        ({"external": True, "clusterName": "blue"}, "blue"),
    ],
    ids=["computed", "given", "external", "external and given"],
)
def test_the_name_that_answers_must_carry(spec: dict[str, Any], name: str) -> None:
    raw = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "Controller",
        "metadata": {"name": "slurm", "namespace": "hpc"},
        "spec": {**KEYS, **spec},
    }
    assert expected_name(msgspec.convert(raw, Controller)) == name


@pytest.mark.parametrize(
    ("spec", "status", "name"),
    [
        ({"external": True}, {}, ""),
        ({"external": True}, {"clusterName": "blue"}, "blue"),
        ({"external": True, "clusterName": "green"}, {"clusterName": "blue"}, "green"),
        ({}, {"clusterName": "blue"}, "hpc_slurm"),
    ],
    ids=["nobody has answered", "one has answered", "another is asked for", "not external"],
)
def test_what_answered_first_counts_where_nothing_is_written_down(
    spec: dict[str, Any], status: dict[str, Any], name: str
) -> None:
    raw = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "Controller",
        "metadata": {"name": "slurm", "namespace": "hpc"},
        "spec": {**KEYS, **spec},
        "status": status,
    }
    assert Clusters(lambda _: "", VirtualClock()).name_of(msgspec.convert(raw, Controller)) == name


async def test_empty_lists_of_jobs_take_no_worker_from_a_suspended_job(world: World) -> None:
    """T10: two empty lists in a row lost it."""
    await small(world, 2)
    job = world.slurm.submit(10_000.0)
    await world.run_for(5.0)
    world.slurm.jobs[job].state = "SUSPENDED"
    world.slurm.touch("nodes", "jobs")
    await world.run_for(5.0)
    heard = world.line.on_call

    def without_jobs(sending: Any, go: Any) -> Any:
        if sending.label not in ("GET jobs", "GET jobs/state"):
            return heard(sending, go)
        held, world.slurm.jobs = world.slurm.jobs, {}
        try:
            return heard(sending, go)
        finally:
            world.slurm.jobs = held

    world.line.on_call = without_jobs
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 0}})
    await world.run_for(10 * DOUBT_SECONDS)
    assert len(world.pods()) == 1
    assert world.slurm.jobs[job].state == "SUSPENDED"


async def test_workers_that_slurm_lost_in_bulk_are_given_time(world: World) -> None:
    """T7: most workers are never taken for unregistered at once."""
    await small(world, 4)
    before = uids(world)
    world.slurm.nodes.clear()
    world.slurm.touch("nodes")
    await world.run_for(DOUBT_SECONDS - 10)
    assert uids(world) == before
    assert world.verdicts("NodeSet", "compute")["Ready"][0] == "False"
    await world.run()
    assert world.verdicts("NodeSet", "compute")["Ready"][0] == "True"


@pytest.mark.parametrize("how", ["gone", "namesake"])
async def test_nothing_is_remembered_of_a_controller_that_was_deleted(world: World, how: str) -> None:
    """T15: its client stayed for ever, and a namesake inherited it."""
    await small(world, 1)
    assert world.operator is not None
    clusters = world.operator.clusters
    key = Key("hpc", "slurm")
    _, before = clusters._clusters[key]
    await world.delete("NodeSet", "compute")
    await world.run()
    await world.delete("Controller", "slurm")
    await world.run()
    assert key not in clusters._clusters
    if how == "namesake":
        await world.create("Controller", "slurm", KEYS)
        await world.create("NodeSet", "compute", {**REF, "replicas": 1})
        await world.run_for(30.0)
        assert clusters._clusters[key][1] is not before


async def test_what_a_reconcile_learned_goes_with_its_controller(world: World) -> None:
    """B5: what was linted, offered to the sidecars and heard of them stayed under the name of the deleted one."""
    await small(world, 1)
    assert world.operator is not None
    guarded: Any = world.operator.controllers["Controller"]._reconcile
    learned = (guarded.reconcile._memories, guarded.reconcile.outcomes._left)
    uid = world.custom("Controller", "slurm")["metadata"]["uid"]
    assert [list(each) for each in learned] == [[uid], [uid]]
    await world.delete("Controller", "slurm")
    await world.run()
    assert [list(each) for each in learned] == [[], []]
