"""Bugs that campaigns found here, each with the point that found it."""

from __future__ import annotations

from tests.campaigns.rig import World
from tests.campaigns.scenarios import small

from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply


async def test_one_empty_list_of_jobs_does_not_end_a_partition_that_a_record_names(world: World) -> None:
    """R6/S-del/089-empty-list: the NodeSet was let go, and slurmctld would not have started again."""
    await small(world, 1)
    world.slurm.submit(5.0)
    waits = world.slurm.submit(5.0)
    await world.delete("NodeSet", "compute")
    await world.run_for(30.0)
    assert world.pods() == {}
    assert world.slurm.jobs[waits].state == "PENDING"
    whole = world.slurm._get_job_states

    def empty_once(_: Sending) -> Reply:
        world.slurm._get_job_states = whole  # type: ignore[method-assign]  # one answer only
        return world.slurm._json({"jobs": []})

    world.slurm._get_job_states = empty_once  # type: ignore[method-assign]  # the model's own seam
    await world.run_for(60.0)
    assert "compute" in world.slurm.partitions
    assert world.custom("NodeSet", "compute") is not None


async def test_a_slurm_that_stays_away_does_not_make_a_status_write_at_every_look(world: World) -> None:
    """Found by R1 on a blind world: the breaker's countdown was part of the message."""
    await small(world, 1)
    world.slurm.up = False
    world.cluster._config = lambda: None  # type: ignore[method-assign]  # nobody brings it back
    await world.run_for(60.0)
    world.arm()
    await world.run_for(600.0)
    assert world.trace == []


async def test_a_node_that_is_taken_back_gets_a_state_that_slurm_can_read(world: World) -> None:
    """Found by S-roll: RESUME was sent as a list within a list."""
    await small(world, 1)
    world.slurm.stop_slurmd("compute-0", "slurm-operator: Pod is terminating")
    world.slurm.register("compute-0")
    world.arm()
    await world.run_for(10.0)
    assert any('"state":["RESUME"]' in each for each in world.trace)
