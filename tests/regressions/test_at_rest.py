"""What is at rest wakes when it has to, and what was begun is brought to its end."""

from __future__ import annotations

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import NEW_KEY, small

from slurm_operator.build import labels
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

# What is begun


async def with_a_worker_that_never_starts(world: World) -> None:
    """compute-1 is there and Slurm has never heard of it: its image cannot be pulled, say."""
    await small(world, 1)
    world.cluster.starts = lambda pod: pod["metadata"]["name"] == "compute-0"
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 2}})
    await world.run_for(60.0)
    assert sorted(world.pods()) == ["compute-0", "compute-1"]


def say_nothing_of(world: World, node: str, seconds: float) -> None:
    """For a while Slurm does not say whether it has a node of this name."""
    send, until = world.line.send, world.clock.monotonic() + seconds

    async def answer(sending: Sending, token: str) -> Reply:
        if sending.path.endswith(f"/node/{node}") and world.clock.monotonic() < until:
            return Reply(500, "text/plain", b"Unable to contact slurm controller")
        return await send(sending, token)

    world.line.send = answer  # type: ignore[method-assign]  # the model's own seam


@pytest.mark.parametrize("how", ["scale-in", "deletion"])
async def test_a_worker_that_never_started_goes_when_slurm_says_later_that_it_has_no_such_node(
    world: World, how: str
) -> None:
    await with_a_worker_that_never_starts(world)
    say_nothing_of(world, "compute-1", 30.0)
    if how == "scale-in":
        await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    else:
        await world.delete("NodeSet", "compute")
    await world.run_for(20.0)
    assert world.pods()["compute-1"]["metadata"]["annotations"][labels.CONDEMNED] == how
    await world.run_for(60.0)
    assert "compute-1" not in world.pods()


async def test_a_worker_that_never_started_keeps_no_new_key_waiting(world: World) -> None:
    await with_a_worker_that_never_starts(world)
    before = world.stored("statefulsets.apps", "slurm-controller")["spec"]["template"]["metadata"]["annotations"]
    await world.patch("Secret", "slurm-key", {"data": {"slurm.key": NEW_KEY}})
    await world.run_for(120.0)
    after = world.stored("statefulsets.apps", "slurm-controller")["spec"]["template"]["metadata"]["annotations"]
    assert after[labels.SLURM_KEY_HASH] != before[labels.SLURM_KEY_HASH]
