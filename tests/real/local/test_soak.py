"""No job is lost in three minutes of scaling, updates, cordons and kills; `make soak` is the long one.

Hostile jobs of an ordinary user are among them. `SOAK_SECONDS`, `SOAK_SEED` and `SOAK_SLURM` choose how long, which and
on what; where a cluster cannot run, the run's last lines say so. What judges a soak is judged first: a job that was
lost must be found, and the fault before it named; so must a change that never came, and an error of the operator's own.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from tests.real.hostile_jobs import GROUPS, HostileJob, command
from tests.real.local.e2e.cluster import CannotRun, LocalCluster
from tests.real.local.soak import Happening, Record, Timeline, Verdict, accounting, losses, soak
from tests.real.local.soak_effects import (
    CONFIGURE,
    GROW,
    ROLL,
    SHRINK,
    Change,
    Ledger,
    Seen,
    internal_errors,
    templates,
    unexpected_errors,
)
from tests.real.local.soak_hostile import MOST, ROOT, HostileFeeder, Submission, judge

SECONDS = float(os.environ.get("SOAK_SECONDS", "180"))
NOW = 1_800_000_000.0
WELL = Record("7", "COMPLETED", 0, "0:0", "1800000000", "1800000060", "compute-1", "s-7")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path / "cluster", os.environ.get("SOAK_SLURM", "26.05"))
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
    verdict = soak(cluster, SECONDS, int(os.environ.get("SOAK_SEED", "1")), hostile=True)
    print(verdict.as_table(), verdict.as_json(), sep="\n")
    if verdict.wrong:
        print(cluster.last_words(400))
    assert not verdict.wrong
    assert verdict.jobs > SECONDS, "a soak with so few jobs says little"
    assert verdict.hostile is not None
    assert verdict.hostile.submitted.total() > SECONDS / 10, "so few hostile jobs say little"


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


class Answering:
    """A cluster whose login pod says what it is told to say, and keeps what it was asked."""

    def __init__(self, said: str) -> None:
        self.said, self.asked = said, list[str]()

    def as_alice(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.attempt(command)

    def attempt(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        self.asked.append(stdin or arguments[-1])
        return subprocess.CompletedProcess(arguments, 0, self.said, "")


def hostile_job(label: str) -> HostileJob:
    return next(job for group in GROUPS.values() for job in group if job.label == label)


def test_names_of_hostile_jobs_are_not_taken_for_ours() -> None:
    well = "7|COMPLETED|0|0:0|1|2|compute-1|s-7"
    hostile = ["8|PENDING|0|0:0|1|2|x|one", "two|s-9", "9|COMPLETED|0|0:0|1|2|x|a|s-9", "10|RUNNING|0|0:0|1|2|x|\ufffd"]
    found = accounting(cast("LocalCluster", Answering("\n".join([well, *hostile]))))
    assert [record.name for record in found] == ["s-7"]


@pytest.mark.parametrize(
    ("kind", "target", "before", "after"),
    [
        (GROW, 5, Seen(workers=4), Seen(workers=5)),
        (SHRINK, 2, Seen(workers=3), Seen(workers=2)),
        (ROLL, 3, Seen(newest_template=2), Seen(newest_template=3)),
        (CONFIGURE, 302, Seen(min_job_age=301), Seen(min_job_age=302)),
    ],
    ids=["scale out", "scale in", "roll", "configuration"],
)
def test_a_change_is_in_effect_once_it_is_seen_and_late_when_it_never_is(
    kind: str, target: int, before: Seen, after: Seen
) -> None:
    ledger = Ledger()
    ledger.add(Change(kind, target, NOW, 100))
    for seen in (before, Seen()):
        ledger.look(seen, NOW + 50)
        assert ledger.open()
    ledger.look(after, NOW + 60)
    assert not ledger.open()
    assert not ledger.late
    never = Ledger()
    never.add(Change(kind, target, NOW, 100))
    never.look(before, NOW + 101)
    never.look(before, NOW + 150)
    assert len(never.late) == 1
    assert kind in never.late[0]


def test_a_change_that_comes_too_late_is_late() -> None:
    ledger = Ledger()
    ledger.add(Change(GROW, 5, NOW, 100))
    ledger.look(Seen(workers=5), NOW + 101)
    assert ledger.late


def test_another_size_overtakes_a_size_and_nothing_else() -> None:
    ledger = Ledger()
    for change in (Change(SHRINK, 2, NOW, 100), Change(ROLL, 1, NOW, 100), Change(GROW, 6, NOW, 100)):
        ledger.add(change)
    assert [change.kind for change in ledger.open()] == [ROLL, GROW]


def test_an_error_of_the_operators_own_is_found() -> None:
    conditions = [{"type": "Ready", "status": "True", "reason": "AllReady"}]
    well = {"kind": "NodeSet", "metadata": {"name": "a"}, "status": {"conditions": conditions}}
    ill = {**well, "status": {"conditions": [{"type": "Degraded", "status": "True", "reason": "InternalError"}]}}
    assert internal_errors([well]) == []
    assert internal_errors([well, ill]) == ["NodeSet a: Degraded InternalError"]
    line = '{"level":"error","message":"unexpected invalid start byte: can\'t decode byte 0xff; again in 0.1 s"}'
    quiet = '{"level":"warning","message":"unexpected end; again in 1 s"}\n{"level":"error","message":"cannot connect"}'
    assert list(unexpected_errors(f"{quiet}\n{line}\n{line}").values()) == [2]


def test_pods_tell_their_template() -> None:
    assert templates([{"metadata": {"labels": {"rolled": "number-12"}}}, {"metadata": {}}]) == [12, 0]


@pytest.mark.parametrize(
    ("label", "states", "is_lost"),
    [
        ("limit-longest", ["COMPLETED"], False),
        ("limit-longest", ["CANCELLED"], True),
        ("limit-longest", ["REQUEUED", "COMPLETED"], True),
        ("limit-longest", [], True),
        ("array-runs", ["COMPLETED", "COMPLETED", "NODE_FAIL"], True),
        ("name-invalid-utf8", ["CANCELLED"], False),
        ("name-invalid-utf8", ["PENDING"], True),
        ("name-invalid-utf8", [], True),
        ("state-requeue-held", ["REQUEUED", "CANCELLED"], False),
    ],
)
def test_a_hostile_job_that_did_not_come_to_its_end_is_found(label: str, states: list[str], is_lost: bool) -> None:
    verdict = judge([Submission(hostile_job(label), "7", NOW)], {}, {"7": states})
    assert bool(verdict.lost) is is_lost


def test_the_same_seed_is_the_same_mix_and_every_kind_comes_once() -> None:
    every = {job.label for group in GROUPS.values() for job in group}
    mixes = []
    for seed in (1, 1, 2):
        feeder = HostileFeeder(cast("LocalCluster", Answering("")), seed, "true", threading.Event())
        mixes.append([feeder._next().label for _ in every])
    assert mixes[0] == mixes[1] != mixes[2]
    assert mixes[0][0] == ROOT
    assert set(mixes[0]) == every


def test_hostile_jobs_are_bounded_and_the_one_that_others_wait_for_stays() -> None:
    login = Answering("")
    feeder = HostileFeeder(cast("LocalCluster", login), 1, "true", threading.Event())
    for number in range(200):
        login.said = f"{ROOT if number == 0 else 'name-bidi'} {number}\nname-control refused\nodd\n"
        feeder.feed()
    assert sum(not one.cancelled for one in feeder.submissions) <= MOST
    assert not feeder.submissions[0].cancelled
    assert feeder.refused["name-control"] == 200


def test_every_hostile_command_is_plain_ascii() -> None:
    for group in GROUPS.values():
        for job in group:
            assert command(job, "true", "1").isascii()


def test_a_soak_with_anything_wrong_has_failed() -> None:
    verdict = Verdict(1, "26.05", 1, 1, 1, Counter(), Counter(), [])
    assert not verdict.wrong
    assert replace(verdict, late=["roll to 1"]).wrong
    assert replace(verdict, lost=["job 7"]).wrong
    assert replace(verdict, unexpected=Counter({"unexpected x": 3})).wrong
    assert replace(verdict, hostile=judge([Submission(hostile_job("limit-zero"), "7", NOW)], {}, {})).wrong
