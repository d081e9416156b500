"""R10 in small: a few clusters under a real operator, one of them hostile; and the judge of the whole campaign.

Times and memory are judged by `python -m tests.campaigns --campaign R10` on a machine that does nothing else.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.campaigns import hostile_slurmrestd, neighbours
from tests.campaigns.neighbour_actions import Sample
from tests.campaigns.neighbour_report import Phase, compare, judge, over_bars, percentile
from tests.campaigns.neighbour_world import BUSY, WORKERS

# The most tempting one: lists that are empty at every other look, while two busy workers are no longer wanted.
SAMPLE = neighbours.Hostility("flap", slurm="flap", seconds=1.0)


def test_a_hostile_cluster_costs_no_job_and_no_foreign_object_and_its_neighbours_go_on(tmp_path: Path) -> None:
    """Three clusters, the last of them hostile; everything that its neighbours want is done."""

    async def life() -> None:
        async with neighbours.campaign(3, tmp_path) as made:
            phase = await made.phase(SAMPLE)
            assert phase.violations == ()
            assert {sample.action for sample in phase.samples} == {"roll", "out", "partition", "in"}
            assert sum(phase.reconciles.values()) > 0
            # Whoever had a job has it still, the hostile cluster's workers too.
            for cluster in made.world.clusters.values():
                assert len(cluster.running) == WORKERS[BUSY]
                assert not cluster.lost

    asyncio.run(life())


def phase_of(
    seconds: float = 1.0, reaction: float = 0.1, memory: float = 100.0, violations: tuple[str, ...] = ()
) -> Phase:
    samples = tuple(
        Sample(f"n{number:02}", action, reaction, seconds * factor, is_reached=True)
        for number in range(10)
        for action, factor in (("out", 1.0), ("roll", 3.0))
    )
    return Phase("any", samples, memory, 1.0, 0.1, violations=violations)


@pytest.mark.parametrize(
    ("hostile", "said"),
    [
        pytest.param(phase_of(), [], id="as good as without it"),
        pytest.param(phase_of(seconds=1.29, memory=149.0), [], id="just below the bars"),
        pytest.param(phase_of(seconds=1.4), ["the median action", "the 95th percentile of actions"], id="slower"),
        pytest.param(phase_of(reaction=0.5), ["the median reaction", "the 95th percentile of reactions"], id="later"),
        pytest.param(phase_of(memory=151.0), ["memory"], id="larger"),
        pytest.param(phase_of(violations=("n03 lost job 4",)), ["n03 lost job 4"], id="a job is lost"),
    ],
)
def test_the_judge_sees_each_bar(hostile: Phase, said: list[str]) -> None:
    missed = judge("any", [(phase_of(), hostile)]).missed
    assert len(missed) == len(said)
    assert all(line.startswith(words) for line, words in zip(missed, said, strict=True))


def test_one_busy_round_of_three_does_not_decide() -> None:
    rounds = [(phase_of(), phase_of()), (phase_of(), phase_of(seconds=9.0)), (phase_of(), phase_of())]
    assert judge("any", rounds).missed == ()


def test_what_was_not_measured_passes_no_bar() -> None:
    nothing = Phase("any", (), 0.0, 0.0, 0.0)
    assert len(over_bars(compare(nothing, nothing))) == 5


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(each) for each in range(1, 101)], 0.95) == 95.0


def test_every_way_to_be_hostile_is_a_mode_of_the_campaign() -> None:
    ways = {each.slurm for each in neighbours.MODES.values()} - {"good"}
    assert ways == set(hostile_slurmrestd.MODES) - {"good"}
    # A hostile user is compared with one that writes as much to the API server.
    assert all(each.control.is_decoy == bool(each.tenant) for each in neighbours.MODES.values())
