"""No job is lost in three minutes of scaling, updates, cordons and kills; `make soak` is the long one.

`SOAK_SECONDS` and `SOAK_SEED` choose how long and which; where a cluster cannot run, the run's last lines say so. What
judges a soak is judged first: a job that was lost must be found, and the fault before it named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.real.local.e2e.cluster import CannotRun, LocalCluster
from tests.real.local.soak import Happening, Record, Timeline, losses, soak

SECONDS = float(os.environ.get("SOAK_SECONDS", "180"))
NOW = 1_800_000_000.0
WELL = Record("7", "COMPLETED", 0, "0:0", "1800000000", "1800000060", "compute-1", "s-7")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path / "cluster", "26.05")
    try:
        made.prepare()
    except CannotRun as error:
        pytest.skip(f"NOT TESTED, no soak: {error}")
    try:
        made.up()
        yield made
    finally:
        made.reset()


@pytest.mark.real_slurm
@pytest.mark.timeout(SECONDS + 900)
@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED, no soak: a local cluster needs root")
def test_every_job_completes_exactly_once_whatever_happens_round_it(cluster: LocalCluster) -> None:
    verdict = soak(cluster, SECONDS, int(os.environ.get("SOAK_SEED", "1")))
    print(verdict.as_table(), verdict.as_json(), sep="\n")
    if verdict.lost:
        print(cluster.last_words(400))
    assert not verdict.lost
    assert verdict.jobs > SECONDS, "a soak with so few jobs says little"


@pytest.mark.parametrize(
    ("records", "said"),
    [
        pytest.param([], "accepted, and the accounting does not know it", id="unknown to the accounting"),
        pytest.param([replace(WELL, state="NODE_FAIL")], "NODE_FAIL", id="its node failed"),
        pytest.param([replace(WELL, state="CANCELLED by 0")], "CANCELLED", id="cancelled"),
        pytest.param([replace(WELL, state="RUNNING")], "RUNNING", id="never ended"),
        pytest.param([replace(WELL, restarts=1)], "1 restarts", id="requeued"),
        pytest.param([WELL, replace(WELL, start="1800000030")], "2 records", id="run twice"),
        pytest.param([replace(WELL, exit_code="0:9")], "exit 0:9", id="killed"),
    ],
)
def test_a_lost_job_is_found(records: list[Record], said: str) -> None:
    found = list(losses(records, {"s-7": "7"}, Timeline(NOW)))
    assert found
    assert all(said in one for one in found)


def test_a_job_that_completed_once_is_no_loss() -> None:
    assert not list(losses([WELL], {"s-7": "7"}, Timeline(NOW)))


def test_a_loss_names_the_faults_before_it_and_none_after() -> None:
    end = float(WELL.end)
    timeline = Timeline(NOW, [Happening(end - 5, "operator KILL"), Happening(end + 60, "roll")])
    (said,) = losses([replace(WELL, state="FAILED")], {}, timeline)
    assert "5 s before: operator KILL" in said
    assert "roll" not in said
