"""A cluster at rest is polled, and nothing else happens; what changes in Slurm is seen all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.campaigns.rig import NAMESPACE, World
from tests.campaigns.scenarios import REF, small

from kube_runtime.loop import rest
from slurm_operator.build import labels
from slurm_operator.reconcile.polling import POLL_SECONDS, interval_seconds
from slurm_operator.slurm.errors import SlurmUnreachable
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply


async def at_rest(world: World) -> None:
    await small(world, 2)
    await world.run()
    await world.run_for(600.0)


def count_looks(world: World) -> Counter[str]:
    """By kind, how often a key was taken for a reconcile, from now on."""
    looks: Counter[str] = Counter()
    assert world.operator is not None
    for kind, controller in world.operator.controllers.items():
        controller.queue.on_wait = lambda _, kind=kind: looks.update([kind])
    return looks


async def test_a_world_at_rest_is_polled_and_hardly_reconciled(world: World) -> None:
    await at_rest(world)
    world.arm()
    looks = count_looks(world)
    await world.run_for(600.0)
    assert looks <= Counter({"Controller": 2, "NodeSet": 2, "SlurmPoll": 121})
    assert world.trace == []
    assert Counter(world.calls)["GET nodes"] == pytest.approx(600.0 / POLL_SECONDS, abs=3)


async def test_a_partition_at_rest_is_hardly_reconciled_nor_does_it_wake_its_controller(world: World) -> None:
    await small(world, 2)
    await world.create("Partition", "fast", {**REF, "nodeSets": ["compute"]})
    await world.create("Partition", "held", {**REF, "nodeSets": ["missing"]})
    await world.run_for(1200.0)
    world.arm()
    looks = count_looks(world)
    await world.run_for(1200.0)
    assert looks <= Counter({"Controller": 4, "NodeSet": 4, "Partition": 8, "SlurmPoll": 241})
    assert world.trace == []
    assert world.verdicts("Partition", "fast")["Ready"][0] == "True"


async def test_a_newer_list_in_which_nothing_has_changed_wakes_nobody(world: World) -> None:
    """slurmctld asks every slurmd for its load now and then, and the list of nodes is a new one."""
    await at_rest(world)
    await world.create("Partition", "fast", {**REF, "nodeSets": ["compute"]})
    await world.run_for(600.0)
    looks = count_looks(world)
    for _ in range(10):
        world.slurm.touch("nodes")
        await world.run_for(10.0)
    assert looks["Controller"] + looks["NodeSet"] <= 2


@pytest.mark.parametrize("kind", ["NodeSet", "Controller"])
async def test_after_a_long_rest_a_change_of_a_resource_is_acted_on_at_once(world: World, kind: str) -> None:
    await at_rest(world)
    if kind == "NodeSet":
        await world.patch("NodeSet", "compute", {"spec": {"replicas": 3}})
        await world.run_for(2.0)
        assert sorted(world.pods()) == ["compute-0", "compute-1", "compute-2"]
    else:
        await world.create("Partition", "fast", {**REF, "nodeSets": ["compute"]})
        await world.run_for(2.0)
        assert "fast" in world.slurm.live_partitions.shapes


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("poddisruptionbudgets.policy", "slurm-workers-pdb-slurm"),
        ("services", "slurm-workers-slurm"),
        ("services", "slurm-controller"),
        ("statefulsets.apps", "slurm-controller"),
        ("configmaps", "slurm-config"),
    ],
    ids=str,
)
async def test_after_a_long_rest_an_object_that_somebody_deletes_is_back_at_once(
    world: World, resource: str, name: str
) -> None:
    await at_rest(world)
    plural, _, group = resource.partition(".")
    root = f"/apis/{group}/v1" if group else "/api/v1"
    uid = world.stored(resource, name)["metadata"]["uid"]
    await world.ask("DELETE", f"{root}/namespaces/{NAMESPACE}/{plural}/{name}")
    await world.run_for(3.0)
    assert world.stored(resource, name)["metadata"]["uid"] != uid


async def test_after_a_long_rest_what_changes_in_slurm_is_seen_with_the_next_poll(world: World) -> None:
    await at_rest(world)
    world.slurm.nodes["compute-1"].flags.add("DRAIN")
    world.slurm.nodes["compute-1"].reason = "broken fan"
    world.slurm.touch("nodes")
    await world.run_for(POLL_SECONDS + 2.0)
    held = world.stored("pods", "compute-1")["status"]["conditions"]
    assert ("SlurmNodeStateDrain", "broken fan") in [(each["type"], each.get("message")) for each in held]


async def test_a_change_in_slurm_wakes_a_controller_that_has_partitions_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at_rest(world)
    await world.create("Partition", "fast", {**REF, "nodeSets": ["compute"]})
    await world.run_for(600.0)
    # As with many keys at rest: no look follows from that for minutes.
    monkeypatch.setattr(rest, "SECONDS_PER_KEY", 100.0)
    looks = count_looks(world)
    world.slurm.nodes["compute-1"].flags.add("DRAIN")
    world.slurm.nodes["compute-1"].reason = "broken fan"
    world.slurm.touch("nodes")
    await world.run_for(4 * POLL_SECONDS)
    assert looks["Controller"] == 1


async def test_a_record_that_nobody_has_a_pod_for_wakes_the_nodeset_that_left_it(world: World) -> None:
    await at_rest(world)
    left = replace(world.slurm.nodes["compute-1"], name="compute-7", base="DOWN", flags={"NOT_RESPONDING"})
    world.slurm.nodes["compute-7"] = left
    world.slurm.touch("nodes")
    await world.run_for(POLL_SECONDS + 2.0)
    assert sorted(world.slurm.nodes) == ["compute-0", "compute-1"]


async def test_a_slurm_that_falls_silent_after_a_long_rest_is_reported(world: World) -> None:
    await at_rest(world)
    world.line.hangs = lambda _: True
    await world.run_for(20.0)
    assert world.verdicts("NodeSet", "compute")["Ready"][0] == "Unknown"


async def test_a_controller_that_finds_slurm_back_reports_what_it_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at_rest(world)
    await world.create("Partition", "fast", {**REF, "nodeSets": ["compute"]})
    await world.run_for(600.0)
    before = world.custom("Partition", "fast")["status"]
    # As with many keys at rest: no look follows for minutes.
    monkeypatch.setattr(rest, "SECONDS_PER_KEY", 100.0)
    heard = world.line.on_call

    def refused(sending: Sending, go: Callable[[], Reply]) -> Reply:
        raise SlurmUnreachable("connection refused", call=sending.label)

    for phase in (0.0, 0.3, 0.7, 1.9, 3.1, 4.3):
        world.line.on_call = refused
        await world.run_for(60.0 + phase)
        assert "runningJobs" not in world.custom("Partition", "fast")["status"]
        world.line.on_call = heard
        await world.run_for(3 * POLL_SECONDS)
        after = world.custom("Partition", "fast")["status"]
        assert (after.get("cpus"), after.get("runningJobs")) == (before["cpus"], before["runningJobs"])


async def test_a_slurm_without_a_restapi_is_polled_no_more(world: World) -> None:
    await at_rest(world)
    await world.delete("RestApi", "slurm")
    await world.run_for(30.0)
    world.arm()
    await world.run_for(60.0)
    assert world.calls == []


@pytest.mark.parametrize(("clusters", "seconds"), [(1, 5.0), (20, 5.0), (200, 40.0)])
def test_with_many_clusters_each_is_polled_less_often(clusters: int, seconds: float) -> None:
    assert interval_seconds(clusters) == pytest.approx(seconds)


async def test_after_a_long_rest_a_new_pod_of_slurmrestd_wakes_the_controller_that_counts_it(world: World) -> None:
    await at_rest(world)
    looks = count_looks(world)
    meta = {"name": "slurm-restapi-x", "labels": {labels.NAME: labels.RESTAPI.daemon, labels.INSTANCE: "slurm"}}
    spec = {"containers": [{"name": "slurmrestd", "image": "example.org/slurmrestd"}]}
    await world.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", {"metadata": meta, "spec": spec})
    await world.run_for(3.0)
    assert looks["Controller"] >= 1


async def test_a_nodeset_that_lacks_a_worker_is_not_at_rest(world: World) -> None:
    """Another NodeSet has its host name; nothing would wake this one when that goes."""
    await small(world, 1, template={"spec": {"hostname": "node-"}})
    await world.create("NodeSet", "other", {**REF, "replicas": 1, "template": {"spec": {"hostname": "node-"}}})
    await world.run()
    assert sorted(world.pods("other")) == []
    await world.run_for(1200.0)
    await world.delete("NodeSet", "compute")
    await world.run_for(60.0)
    assert sorted(world.pods("other")) == ["other-0"]
