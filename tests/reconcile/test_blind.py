"""While Slurm cannot be asked: conditions say Unknown and why, workers still come, none goes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.campaigns.faults import FAULTS
from tests.campaigns.rig import World
from tests.campaigns.scenarios import REF, small

from slurm_operator.slurm.transport import Sending

BLINDING = ["no-route", "unauthorized", "not-found", "failed", "timeout", "errors-in-200", "truncated"]


@pytest.mark.parametrize("fault", BLINDING)
async def test_blind_is_unknown_until_slurm_is_heard_again(world: World, fault: str) -> None:
    await small(world, 2)
    await world.create("Partition", "all", {**REF, "nodeSets": ["compute"]})
    await world.run(horizon=10.0)
    assert world.verdicts("Partition", "all")["Ready"][0] == "True"
    heard = world.line.on_call

    def deaf(sending: Any, go: Any) -> Any:
        return FAULTS[fault].act(world, sending, go)

    world.line.on_call = deaf
    # Polls are five seconds apart, and a list that is unchanged has no body that could be wrong.
    await world.run_for(30.0)
    told = world.verdicts("NodeSet", "compute")
    assert told["Ready"] == ("Unknown", "SlurmUnreachable")
    assert told["SlurmReachable"][0] == "False"
    assert world.verdicts("Partition", "all")["Ready"][0] == "Unknown"
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 3}})
    await world.run_for(20.0)
    assert len(world.pods()) == 3
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    await world.run_for(120.0)
    assert len(world.pods()) == 3
    assert world.verdicts("NodeSet", "compute")["Ready"][0] == "Unknown"
    world.line.on_call = heard
    await world.run()
    assert list(world.pods()) == ["compute-0"]
    assert world.verdicts("NodeSet", "compute")["Ready"] == ("True", "AllReady")
    assert world.verdicts("Partition", "all")["Ready"][0] == "True"


@pytest.mark.parametrize("fault", ["failed", "timeout", "truncated"])
async def test_without_the_list_of_jobs_workers_are_ready_and_none_goes(world: World, fault: str) -> None:
    await small(world, 2)
    heard = world.line.on_call

    def half_deaf(sending: Sending, go: Any) -> Any:
        is_of_jobs = sending.label in ("GET jobs", "GET jobs/state")
        return FAULTS[fault].act(world, sending, go) if is_of_jobs else heard(sending, go)

    world.line.on_call = half_deaf
    await world.run_for(20.0)
    told = world.verdicts("NodeSet", "compute")
    assert told["Ready"] == ("True", "AllReady")
    assert told["SlurmReachable"] == ("False", "JobsUnknown")
    assert told["Degraded"] == ("True", "JobsUnknown")
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    await world.run_for(120.0)
    assert len(world.pods()) == 2
    assert world.verdicts("NodeSet", "compute")["Ready"][0] == "False"
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 3}})
    await world.run_for(20.0)
    assert len(world.pods()) == 3
    world.line.on_call = heard
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    await world.run()
    assert list(world.pods()) == ["compute-0"]
    told = world.verdicts("NodeSet", "compute")
    assert (told["SlurmReachable"][0], told["Degraded"][0]) == ("True", "False")
