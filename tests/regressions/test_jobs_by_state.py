"""Workers come and go with either way to Slurm's jobs alone: the list of all, or their states and single records."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import small

from slurm_operator.slurm.errors import SlurmBudgetExceeded, SlurmError, SlurmFailed, SlurmTimeout
from slurm_operator.slurm.job_records import MAX_RECORDS
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply


def refuse(world: World, call: str, failure: SlurmError) -> None:
    """From now on this call fails, and no other."""
    heard = world.line.on_call

    def answer(sending: Sending, go: Callable[[], Reply]) -> Reply:
        if sending.label == call:
            raise failure
        return heard(sending, go)

    world.line.on_call = answer


@pytest.mark.parametrize(
    ("call", "failure"),
    [
        ("GET jobs/state", SlurmFailed("unspecified error", call="GET jobs/state", number=-1)),
        ("GET jobs", SlurmBudgetExceeded("bytes", "more", 64 << 20, call="GET jobs")),
        ("GET jobs", SlurmTimeout("no answer within 30 s", call="GET jobs")),
    ],
    ids=["no states", "a list that is too large", "a list that comes too late"],
)
async def test_idle_workers_go_and_busy_ones_stay(
    world: World, monkeypatch: pytest.MonkeyPatch, call: str, failure: SlurmError
) -> None:
    await small(world, 3)
    world.slurm.submit(10_000.0)
    await world.run()
    (busy,) = (each.nodes for each in world.slurm.jobs.values())
    # Those that come now wait.
    monkeypatch.setattr(world.slurm, "schedule", lambda: None)
    for _ in range(2 * MAX_RECORDS):
        world.slurm.submit(100.0, "elsewhere")
    refuse(world, call, failure)
    await world.run_for(30.0)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    await world.run_for(300.0)
    assert sorted(world.pods()) == sorted(busy)
