"""How often the sidecars' logs are read, and whose verdict counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_operator.plan.config import Verdict
from slurm_operator.plan.verdict_poll import (
    LIVE_NUDGE_SECONDS,
    LOG_POLL_SECONDS,
    MAX_LIVE_NUDGE_SECONDS,
    SELDOM_POLL_SECONDS,
    SLOW_POLL_SECONDS,
    VerdictPoll,
    poll_of,
)

POLL = VerdictPoll("new", ("pod",), since=100.0)


@pytest.mark.parametrize(
    ("age", "interval", "nudges"),
    [
        pytest.param(0.0, LOG_POLL_SECONDS, 1, id="at first"),
        pytest.param(4.0, LOG_POLL_SECONDS, 2, id="after a second the pod is nudged again"),
        pytest.param(30.0, SLOW_POLL_SECONDS, 4, id="after half a minute"),
        pytest.param(600.0, SELDOM_POLL_SECONDS, 5, id="after ten minutes"),
    ],
)
def test_the_longer_nobody_answers_the_less_is_read(age: float, interval: float, nudges: int) -> None:
    assert (POLL.interval(100.0 + age), POLL.nudges(100.0 + age)) == (interval, nudges)


def test_a_log_is_read_at_once_and_then_when_its_time_has_come() -> None:
    assert POLL.is_due(100.0)
    read = replace(POLL, read_at=100.0)
    assert not read.is_due(100.0 + LOG_POLL_SECONDS / 2)
    assert read.is_due(100.0 + LOG_POLL_SECONDS)


def test_a_log_that_is_followed_is_polled_seldom_and_read_when_a_verdict_was_heard() -> None:
    read = replace(POLL, read_at=100.0, is_followed=True)
    assert read.interval(100.0) == SLOW_POLL_SECONDS
    assert read.interval(700.0) == SELDOM_POLL_SECONDS
    assert not read.is_due(100.0 + LOG_POLL_SECONDS)
    assert not read.is_due(100.0 + LOG_POLL_SECONDS, heard_at=99.0)
    assert read.is_due(100.0 + LOG_POLL_SECONDS, heard_at=100.1)
    assert read.is_due(100.0 + SLOW_POLL_SECONDS)


@pytest.mark.parametrize(
    ("verdict", "decided"),
    [
        pytest.param(None, False, id="none yet"),
        pytest.param(Verdict("old", "applied"), False, id="of another candidate"),
        pytest.param(Verdict("new", "refused"), True, id="of this one"),
    ],
)
def test_a_candidate_is_decided_when_every_sidecar_has_reported_on_it(verdict: Verdict | None, decided: bool) -> None:
    assert replace(POLL, verdicts={"pod": verdict}).is_decided is decided
    assert not replace(POLL, verdicts={"pod": verdict, "standby": None}).is_decided


def test_a_poll_goes_on_for_the_same_candidate_and_knows_when_it_overtook_another() -> None:
    assert poll_of("new", ("pod",), POLL, 105.0) is POLL
    assert not poll_of("new", ("another",), POLL, 105.0).overtook
    assert poll_of("newer", ("pod",), POLL, 105.0).overtook
    assert not poll_of("new", ("pod",), None, 105.0).overtook


def test_a_nudge_that_waits_for_more_waits_no_longer_than_a_second_from_the_first_change() -> None:
    poll = replace(POLL, waits_since=100.0)
    assert poll.nudge_due_in(100.0) == pytest.approx(LIVE_NUDGE_SECONDS)
    for at in (100.2, 100.4, 100.6, 100.8):
        poll = poll_of(str(at), ("pod",), poll, at)
    assert poll.nudge_due_in(100.8) == pytest.approx(MAX_LIVE_NUDGE_SECONDS - 0.8)


def test_after_a_nudge_the_next_change_waits_anew() -> None:
    poll = poll_of("newer", ("pod",), POLL, 105.0)
    assert poll.nudge_due_in(105.0) == pytest.approx(LIVE_NUDGE_SECONDS)
