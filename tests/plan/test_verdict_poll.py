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
    TAKE_UP_SECONDS,
    VerdictPoll,
    poll_of,
    poll_over,
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


# Files that are written once more

AGAIN = Verdict("new", "applied")
OTHER = VerdictPoll("other", ("pod",), since=100.0, verdicts={"pod": AGAIN})


@pytest.mark.parametrize("over", ["ours", "somebody's"])
def test_what_was_said_of_files_before_they_were_written_again_is_no_verdict_on_them(over: str) -> None:
    poll = poll_of("new", ("pod",), OTHER, 105.0) if over == "ours" else poll_over(OTHER, "new", ("pod",), 105.0)
    read = replace(poll, verdicts={"pod": AGAIN})
    assert (read.heard, read.is_decided, read.overtook) == ({"pod": None}, False, True)


def test_what_is_said_of_files_that_were_not_spoken_of_is_their_verdict() -> None:
    there = replace(OTHER, verdicts={"pod": Verdict("other", "refused")})
    for poll in (poll_of("new", ("pod",), there, 105.0), poll_over(there, "new", ("pod",), 105.0)):
        assert replace(poll, verdicts={"pod": AGAIN}).is_decided


@pytest.mark.parametrize(
    ("nudged_at", "verdict", "doubted"),
    [
        pytest.param(None, AGAIN, True, id="the pod is not told yet"),
        pytest.param(105.0, AGAIN, True, id="it was told just now"),
        pytest.param(106.0 - TAKE_UP_SECONDS, AGAIN, False, id="it had time and has nothing to add"),
        pytest.param(105.0, Verdict("other", "applied"), False, id="it has spoken of the other one meanwhile"),
        pytest.param(105.0, None, True, id="its log is not read yet"),
    ],
)
def test_an_old_word_counts_again_once_the_pod_had_time(
    nudged_at: float | None, verdict: Verdict | None, doubted: bool
) -> None:
    poll = replace(poll_of("new", ("pod",), OTHER, 105.0), nudged_at=nudged_at, verdicts={"pod": verdict})
    assert (poll.still_doubted(106.0) == {"pod"}) is doubted


def test_what_is_owed_to_a_pod_is_not_forgotten_for_another_one() -> None:
    owed = replace(poll_of("new", ("pod",), OTHER, 105.0), waits_since=104.0)
    both = poll_of("new", ("pod", "standby"), owed, 106.0)
    assert (both.waits_since, both.doubted, dict(both.verdicts)) == (104.0, frozenset({"pod"}), {})
