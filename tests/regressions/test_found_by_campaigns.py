"""Bugs that campaigns found here, each with the point that found it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import small

from slurm_operator.reconcile.nodeset import NodeSets
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


@dataclass
class LateCache:
    """A watch that shows a write of ours only after so many looks."""

    looks: int

    @property
    def unseen_write(self) -> str:
        return "5" if self.looks > 0 else ""

    def has_seen(self, _: str) -> bool:
        self.looks -= 1
        return self.looks <= 0


@pytest.mark.parametrize(
    ("looks", "may_delete"),
    [
        pytest.param(0, True, id="everything is seen"),
        pytest.param(3, False, id="seen after a wait: what Slurm said is old by then"),
        pytest.param(10**6, False, id="not seen at all"),
    ],
)
async def test_nothing_is_deleted_on_an_answer_from_before_a_wait(looks: int, may_delete: bool) -> None:
    """R4/unobserved.S-in/039: a worker went by an answer of ten seconds ago."""
    ticks = count()
    clock: Any = SimpleNamespace(monotonic=lambda: float(next(ticks)), sleep=lambda _: asyncio.sleep(0))
    nothing: Any = None
    late: Any = LateCache(looks)
    nodesets = NodeSets(nothing, nothing, nothing, clock)
    nodesets.written["uid"] = ((late, late.unseen_write),)
    assert await nodesets._has_seen_own_writes("uid") is may_delete


async def test_a_nodeset_that_deletes_waits_for_no_write_of_another() -> None:
    """A neighbour that creates ten thousand workers has always one that the cache does not show yet."""
    nothing: Any = None
    never: Any = LateCache(10**6)
    nodesets = NodeSets(nothing, nothing, nothing, nothing)
    nodesets.written["neighbour"] = ((never, never.unseen_write),)
    assert await nodesets._has_seen_own_writes("uid")


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
