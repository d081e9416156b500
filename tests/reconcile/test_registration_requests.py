"""What a request to register again leaves behind in Slurm, whatever Slurm does meanwhile (decision 19)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.campaigns.rig import World
from tests.campaigns.scenarios import small
from tests.reconcile.test_nodeset import MERGE, node_changes, restart

from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

HALF_AN_HOUR_SECONDS = 1800.0
REFUSED_STATE = 2180


async def with_ghost(world: World, workers: int = 1) -> None:
    """A cluster with a long job, whose slurmd was restarted and was asked to register."""
    await small(world, workers)
    world.slurm.submit(7200.0)
    await world.run_for(40.0)
    await restart(world, "compute-0")


async def drains_for_good(world: World, reason: str) -> None:
    """slurmctld drains the node itself, and nobody lifts that."""
    assert "DRAIN" not in world.slurm.nodes["compute-0"].flags
    world.slurm.drain_by_itself("compute-0", reason)
    await world.run_for(60.0)
    node = world.slurm.nodes["compute-0"]
    assert ("DRAIN" in node.flags, node.reason) == (True, reason)


async def test_a_drain_that_slurm_set_itself_after_the_request_is_not_lifted(old_slurm: World) -> None:
    world = old_slurm
    world.slurm.forgets_reasons = False
    await small(world, 1)
    job = world.slurm.submit(7200.0)
    await world.run_for(40.0)
    await restart(world, "compute-0")
    # A job that is alive after all: no other one starts on its node, and the reason of the request stays.
    world.slurm.jobs[job].state, world.slurm.jobs[job].nodes = "RUNNING", ("compute-0",)
    await world.run_for(8.0)
    await drains_for_good(world, "Epilog error")


async def test_a_drain_that_slurm_set_itself_after_an_uncordon_is_not_lifted(old_slurm: World) -> None:
    world = old_slurm
    world.slurm.forgets_reasons = False
    await small(world, 1)
    await world.patch("Pod", "compute-0", {"metadata": {"annotations": {"slinky.slurm.net/pod-cordon": "true"}}})
    await world.run_for(10.0)
    assert "DRAIN" in world.slurm.nodes["compute-0"].flags
    await world.patch("Pod", "compute-0", {"metadata": {"annotations": {"slinky.slurm.net/pod-cordon": None}}})
    await world.run_for(10.0)
    await drains_for_good(world, "Prolog error")


async def test_a_node_whose_registration_is_refused_does_not_stop_the_others(old_slurm: World) -> None:
    world = old_slurm
    await with_ghost(world, 3)
    world.slurm.refuse_registration("compute-0")
    await world.run_for(60.0)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 2}})
    await world.run_for(HALF_AN_HOUR_SECONDS)
    assert sorted(world.pods()) == ["compute-0", "compute-1"]


async def test_a_drain_of_ours_on_a_refused_registration_waits_and_stops_nobody(world: World) -> None:
    await small(world, 3)
    await world.patch("Pod", "compute-0", {"metadata": {"annotations": {"slinky.slurm.net/pod-cordon": "true"}}})
    await world.run_for(10.0)
    world.slurm.refuse_registration("compute-0")
    await world.patch("Pod", "compute-0", {"metadata": {"annotations": {"slinky.slurm.net/pod-cordon": None}}})
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 2}})
    await world.run_for(HALF_AN_HOUR_SECONDS)
    assert sorted(world.pods()) == ["compute-0", "compute-1"]


async def test_an_undrain_that_slurm_refused_is_tried_again_until_it_is_done(world: World) -> None:
    await small(world, 1)
    world.slurm.submit(7200.0)
    await world.run_for(5.0)
    forward, refused = world.line.on_call, list[float]()

    def on_call(sending: Sending, go: Any) -> Reply:
        if sending.label == "POST nodes" and b'"UNDRAIN"' in (sending.body or b"") and len(refused) < 3:
            refused.append(world.clock.monotonic())
            return world.slurm._refused(REFUSED_STATE, "Invalid node state specified")
        return forward(sending, go)

    world.line.on_call = on_call
    await restart(world, "compute-0")
    await world.run_for(HALF_AN_HOUR_SECONDS)
    assert len(refused) == 3
    assert "DRAIN" not in world.slurm.nodes["compute-0"].flags


async def test_a_list_of_jobs_that_fails_now_and_then_makes_no_request_more_frequent(world: World) -> None:
    await small(world, 1)
    world.slurm.submit(7200.0)
    changes = node_changes(world)
    await world.run_for(5.0)
    later = (world.clock.now() + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"containerStatuses": [{"name": "slurmd", "ready": True, "state": {"running": {"startedAt": later}}}]}
    await world.ask("PATCH", "/api/v1/namespaces/hpc/pods/compute-0/status", {"status": status}, MERGE)
    forward, lists = world.line.on_call, [0]

    def on_call(sending: Sending, go: Any) -> Reply:
        is_list = sending.label in ("GET jobs", "GET jobs/state")
        lists[0] += is_list
        if is_list and lists[0] % 6 == 0:
            return world.slurm._refused(9999, "no list of jobs")
        return forward(sending, go)

    world.line.on_call = on_call
    await world.run_for(HALF_AN_HOUR_SECONDS)
    assert [state for state, _ in changes].count("UNDRAIN") <= 14
