"""A large world at rest: two hundred workers, ten minutes, no write and no event."""

from __future__ import annotations

from tests.campaigns.rig import World
from tests.campaigns.scenarios import small

WORKERS = 200


async def test_many_workers_at_rest_cost_no_write_and_no_event(world: World) -> None:
    await small(world, WORKERS)
    assert len(world.pods()) == WORKERS
    assert world.custom("NodeSet", "compute")["status"]["readyReplicas"] == WORKERS
    revision, events = world.server.store.revision, len(world.stored("events.events.k8s.io"))
    world.arm()
    await world.run_for(600.0)
    assert world.trace == []
    assert world.server.store.revision == revision
    assert len(world.stored("events.events.k8s.io")) == events
    # Slurm is looked at all the same, whole once a minute.
    assert 100 <= world.calls.count("GET nodes") <= 130
