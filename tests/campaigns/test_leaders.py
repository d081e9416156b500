"""R3, R4 and R9, a rotating part of each: late and unobserved events, two leaders, sleep, storms, unreadable objects.

A point that fails is named in the message: `python -m tests.campaigns --point R9/two-leaders.S-in/017-held` plays it
again. The whole runs by `python -m tests.campaigns --campaign R9`, and so do R3 and R4.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable

import pytest
from tests.campaigns import disks, leaders, weather
from tests.campaigns.processes import Process

from kube_runtime import clock
from kube_runtime.client import cache, store
from kube_runtime.loop import leadership

TODAY = dt.datetime.now(dt.UTC).timetuple().tm_yday
# Every case once, a few points of each.
EVERY = {"two-leaders": 60, "two-leaders-late": 60, "suspended": 60, "stuck-watch": 8, "storm": 70, "garbled": 20}
# The same for late and unobserved events.
EVERY |= {"late": 30, "unobserved": 60, "expired": 12}
SHORT = ("S-in", "S-roll")


def some_of(step: int) -> Callable[[str], bool]:
    """The first point, and one of so many others that changes every day."""
    numbers = itertools.count()

    def wants(_: str) -> bool:
        number = next(numbers)
        return number == 0 or (number + TODAY) % step == 0

    return wants


@pytest.mark.parametrize("case", [case for case in leaders.cases("R9") if case.endswith(SHORT)])
def test_leaders_clocks_and_a_server_that_misbehaves_leave_the_same_world(case: str) -> None:
    result = leaders.run(case, some_of(EVERY[case.partition(".")[0]]))
    print(result)
    assert result.outcomes
    assert result.violations == []


@pytest.mark.parametrize("case", [*leaders.cases("R3"), *leaders.cases("R4")])
def test_caches_that_are_late_or_miss_an_event_leave_the_same_world(case: str) -> None:
    result = leaders.run(case, some_of(EVERY[case.partition(".")[0]]))
    print(result)
    assert result.outcomes
    assert result.violations == []


@pytest.mark.parametrize("case", disks.CASES)
def test_full_disks_and_spoilt_files_are_told_and_got_over(case: str) -> None:
    result = leaders.run(case)
    print(result)
    assert len(result.outcomes) == len(disks.CHECKS[case])
    assert result.violations == []


def test_a_point_of_r9_is_played_again_by_its_name() -> None:
    outcome = leaders.replay("R9/two-leaders.S-out/003-held")
    assert outcome.what.startswith("a sleeps 20 s, held: ")
    assert outcome.violations == ()


def test_a_leader_that_does_not_look_at_its_lease_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """T17: with the fence gone, the old leader writes when it wakes."""
    monkeypatch.setattr(leadership.Elector, "check", lambda _: None)
    result = leaders.run("two-leaders.S-out", lambda point: point == "003-held")
    assert any("writes without the lease" in each for each in result.violations)


def test_a_decision_from_before_a_sleep_that_is_carried_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """T17: workers that were idle an hour ago have jobs now."""
    monkeypatch.setattr(clock, "_DEADLINES", _Forgetful())
    at = weather.Suspended._at

    def at_deletes(self: weather.Suspended, process: Process, moment: str, what: str) -> None:
        if what.startswith("DELETE") and "/pods/" in what:
            at(self, process, moment, what)

    monkeypatch.setattr(weather.Suspended, "_at", at_deletes)
    result = leaders.run("suspended.S-in", lambda point: point.endswith("held"))
    assert any(each.partition(": ")[2].startswith("I1") for each in result.violations)


class _Forgetful:
    """A context variable that remembers no deadline."""

    def get(self) -> tuple[()]:
        return ()

    def set(self, _: object) -> None:
        return None

    def reset(self, _: object) -> None:
        return None


def test_a_retry_after_of_centuries_that_is_obeyed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.Pace, "__init__", _endless(cache.Pace.__init__))
    result = leaders.run("storm.S-roll", lambda point: point == "429-huge-watches")
    assert result.violations


def test_a_reconcile_that_deletes_before_its_caches_have_caught_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.Cache, "is_behind", False)
    result = leaders.run("late.S-roll", lambda point: point == "pods-8")
    assert any(each.partition(": ")[2].startswith("I2") for each in result.violations)


def test_a_cache_that_keeps_what_vanished_between_two_lists_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    replace = store.Store.replace
    monkeypatch.setattr(store.Store, "replace", lambda self, items, _: replace(self, items, frozenset(self._objects)))
    result = leaders.run("expired.S-in", lambda point: point == "pods")
    assert any("availableReplicas" in each for each in result.violations)


def _endless(make: object) -> object:
    def init(self: object, *args: object, **kwargs: object) -> None:
        make(self, *args, **{"max_retry_after_seconds": float("inf"), **kwargs})  # type: ignore[operator]

    return init
