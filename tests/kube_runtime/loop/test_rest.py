"""Looks at what is at rest: rare, and spread over time, however many keys there are."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kube_runtime.loop.rest import MAX_REST_SECONDS, Rests

# What a reconcile asks for whose resource is at rest.
ASKED_SECONDS = 5.0
MINUTES = 60


def with_others(count: int, draw: float = 0.0) -> Rests:
    """So many other keys at rest already."""
    rests = Rests(lambda: draw)
    for number in range(count):
        rests.next_look(number, ASKED_SECONDS)
    return rests


@pytest.mark.parametrize(
    ("others", "draw", "seconds"),
    [
        pytest.param(0, 0.0, 5.0, id="alone, as soon as it asks for"),
        pytest.param(6, 0.5, 5.0, id="with few others too"),
        pytest.param(99, 0.0, 75.0, id="with many others, later"),
        pytest.param(99, 0.5, 52.5, id="and not when they are looked at"),
        pytest.param(99, 0.999_999, 30.0, id="nor much sooner"),
        pytest.param(100_000, 0.0, MAX_REST_SECONDS, id="but never too late"),
        pytest.param(100_000, 0.5, 420.0, id="nor all of them at once"),
    ],
)
def test_the_first_look_at_a_key_at_rest_is_the_later_the_more_others_rest(
    others: int, draw: float, seconds: float
) -> None:
    assert with_others(others, draw).next_look("new", ASKED_SECONDS) == pytest.approx(seconds, abs=0.1)


def test_looks_at_a_key_among_few_become_rarer_up_to_ten_minutes() -> None:
    rests = with_others(3)
    looks = [rests.next_look("one", ASKED_SECONDS) for _ in range(9)]
    assert looks == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, MAX_REST_SECONDS, MAX_REST_SECONDS]


def test_keys_that_changed_rest_no_more_and_count_no_more() -> None:
    rests = with_others(99)
    for number in range(99):
        rests.end(number)
    assert [rests.next_look("one", ASKED_SECONDS) for _ in range(2)] == [5.0, 10.0]
    rests.end("one")
    assert rests.next_look("one", ASKED_SECONDS) == ASKED_SECONDS


@pytest.mark.parametrize("keys", [40, 400, 1200])
def test_so_many_keys_that_come_to_rest_together_are_looked_at_about_twice_a_second(keys: int) -> None:
    rests = Rests(random.Random(0).random)  # noqa: S311 - spread, not secrets
    for key in range(keys):
        rests.next_look(key, ASKED_SECONDS)
    # A node of Kubernetes has changed, say: all are looked at, and all find nothing.
    due = {key: rests.next_look(key, ASKED_SECONDS) for key in range(keys)}
    looks: list[float] = []
    while due[key := min(due, key=due.__getitem__)] < MINUTES * 60.0:
        looks.append(due[key])
        due[key] += rests.next_look(key, ASKED_SECONDS)
    by_minute = Counter(int(each // 60) for each in looks)
    assert max(by_minute.values()) / 60 <= 4.0
    assert len(looks) / (MINUTES * 60) <= 2.5
