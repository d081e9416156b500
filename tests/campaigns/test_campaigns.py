"""Every write of every scenario crash-tested; lost answers and Slurm's faults, a rotating part of them.

A point that fails is named in the message: `python -m tests.campaigns --point R2/S-in/017` plays it again.
"""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest
from tests.campaigns import campaign
from tests.campaigns.rig import World
from tests.campaigns.scenarios import SCENARIOS

TODAY = dt.datetime.now(dt.UTC).timetuple().tm_yday
# Enough of each to see every kind of write; the whole runs by `python -m tests.campaigns`.
SAMPLES = {"R5": 5, "R6": 60}


def _passes(result: campaign.Result) -> None:
    print(result)
    assert result.outcomes or not result.violations
    assert result.violations == []


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_crash_after_any_write_leaves_the_same_world(scenario: str) -> None:
    result = campaign.run("R2", scenario)
    _passes(result)
    # Every write of the undisturbed life has been the last one of some operator.
    assert len(result.outcomes) == writes_of(scenario)


def writes_of(scenario: str) -> int:
    world = World()
    asyncio.run(campaign.live(scenario, world))
    return len(world.trace)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", SAMPLES)
def test_lost_answers_and_faults_of_slurm_leave_the_same_world(name: str, scenario: str) -> None:
    _passes(campaign.run(name, scenario, campaign.sampled(SAMPLES[name], TODAY)))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_quiet_world_sees_no_write_and_no_event(scenario: str) -> None:
    async def life() -> None:
        world = World()
        try:
            await world.open()
            await SCENARIOS[scenario](world)
            for _ in range(2):
                world.arm()
                await world.run_for(300.0)
                assert world.trace == []
                # A new operator finds nothing to do either.
                await world.stop_operator()
                await world.start_operator()
            assert world.judge.violations == []
        finally:
            await world.close()

    asyncio.run(life())


def test_a_point_is_played_again_by_its_name() -> None:
    outcome = campaign.replay("R2/S-out/002")
    assert outcome.what.startswith("crash after ")
    assert outcome.violations == ()
