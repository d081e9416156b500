"""A status is written at most once a second, or after a quarter if it ends a wait, and the last word is never lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from kube_runtime.loop.queue import Key
from slurm_operator.reconcile.status_pace import StatusPace, ends_a_wait

KEY = Key("ns", "compute")


@dataclass(slots=True)
class Clock:
    """Time that stands still, and whom somebody wanted to see again."""

    now: float = 100.0
    asked: list[tuple[str, Key, float]] = field(default_factory=list)

    def pace(self) -> StatusPace:
        return StatusPace(lambda: self.now, lambda *wish: self.asked.append(wish))


def test_the_first_status_is_never_early() -> None:
    clock = Clock()
    assert not clock.pace().is_early("NodeSet", KEY)
    assert clock.asked == []


def test_a_second_status_waits_and_its_resource_is_called_when_it_may_be_written() -> None:
    clock = Clock()
    pace = clock.pace()
    pace.written("NodeSet", KEY)
    clock.now += 0.25
    assert pace.is_early("NodeSet", KEY)
    assert clock.asked == [("NodeSet", KEY, 0.75)]
    clock.now += 0.75
    assert not pace.is_early("NodeSet", KEY)


def test_a_status_that_came_too_early_is_due_once_it_may_be_written_and_until_then() -> None:
    clock = Clock()
    pace = clock.pace()
    pace.written("NodeSet", KEY)
    assert not pace.is_due("NodeSet", KEY)
    clock.now += 0.25
    pace.is_early("NodeSet", KEY)
    assert not pace.is_due("NodeSet", KEY)
    assert not pace.is_due("NodeSet", KEY, within_seconds=0.5)
    assert pace.is_due("NodeSet", KEY, within_seconds=0.75)
    clock.now += 0.75
    assert pace.is_due("NodeSet", KEY)
    pace.is_early("NodeSet", KEY)
    assert not pace.is_due("NodeSet", KEY)


def test_objects_do_not_wait_for_each_other() -> None:
    clock = Clock()
    pace = clock.pace()
    pace.written("NodeSet", KEY)
    assert not pace.is_early("LoginSet", KEY)
    assert not pace.is_early("NodeSet", Key("ns", "gpu"))


def test_objects_that_were_written_long_ago_are_forgotten() -> None:
    clock = Clock()
    pace = clock.pace()
    for number in range(100):
        pace.written("NodeSet", Key("ns", str(number)))
        clock.now += 30.0
    assert len(pace._written) <= 2


def test_a_cache_that_has_not_seen_our_status_is_known_to_be_behind() -> None:
    clock = Clock()
    pace = clock.pace()
    key = Key("ns", "w")
    pace.written("NodeSet", key, "7")
    assert pace.is_overtaken("NodeSet", key, "7")
    assert not pace.is_overtaken("NodeSet", key, "8")
    assert not pace.is_overtaken("NodeSet", Key("ns", "other"), "7")


def test_what_ends_a_wait_comes_a_quarter_of_a_second_after_the_last_status() -> None:
    clock = Clock()
    pace = clock.pace()
    pace.written("NodeSet", KEY)
    assert pace.is_early("NodeSet", KEY, lambda: True)
    assert clock.asked == [("NodeSet", KEY, 0.25)]
    clock.now += 0.25
    assert pace.is_early("NodeSet", KEY, lambda: False)
    assert not pace.is_early("NodeSet", KEY, lambda: True)


def condition(type_: str, status: str, generation: int = 1) -> dict[str, Any]:
    return {"type": type_, "status": status, "observedGeneration": generation}


@pytest.mark.parametrize(
    ("before", "now", "ends"),
    [
        pytest.param([condition("Ready", "False")], [condition("Ready", "True")], True, id="a condition turns True"),
        pytest.param([condition("Ready", "True")], [condition("Ready", "False")], False, id="a condition turns False"),
        pytest.param([condition("Ready", "True")], [condition("Ready", "True", 2)], True, id="of another generation"),
        pytest.param([], [condition("Progressing", "True")], False, id="work begins"),
        pytest.param([], [condition("Degraded", "True")], False, id="something breaks"),
        pytest.param("nonsense", [condition("Ready", "False")], False, id="what stands there cannot be read"),
    ],
)
def test_a_condition_that_turns_true_ends_a_wait(before: Any, now: Any, ends: bool) -> None:
    live = {"spec": {"replicas": 4}, "status": {"conditions": before, "readyReplicas": 3}}
    assert ends_a_wait({"status": {"conditions": now, "readyReplicas": 3}}, live) is ends


@pytest.mark.parametrize(("before", "now", "ends"), [(3, 4, True), (4, 4, False), (2, 3, False), (5, 4, True)])
def test_as_many_ready_as_are_wanted_end_a_wait(before: int, now: int, ends: bool) -> None:
    live = {"spec": {"replicas": 4}, "status": {"readyReplicas": before}}
    assert ends_a_wait({"status": {"readyReplicas": now}}, live) is ends


def test_a_resource_without_a_status_is_waited_for() -> None:
    assert ends_a_wait({"status": {"conditions": [condition("Ready", "True")]}}, {})
