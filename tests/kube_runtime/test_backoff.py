"""Waits: they grow, they are jittered, they are bounded, and they never overflow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime.backoff import Backoff, RetryWaits

HALF = Backoff(first=0.05, limit=30.0, jitter=1.0)


@pytest.mark.parametrize(("chance", "expected"), [(0.0, [0.05, 0.1, 0.2]), (0.5, [0.075, 0.15, 0.3])])
def test_waits_double_and_are_jittered(chance: float, expected: list[float]) -> None:
    waits = RetryWaits(HALF, lambda: chance)
    assert [waits.next() for _ in range(3)] == pytest.approx(expected)


def test_success_starts_over() -> None:
    waits = RetryWaits(HALF, lambda: 0.5)
    first = waits.next()
    waits.next()
    waits.reset()
    assert waits.next() == first


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, 0.2, 1.0]))
def test_no_wait_is_longer_than_the_limit(failures: int, chance: float, jitter: float) -> None:
    waits = RetryWaits(Backoff(first=0.05, limit=30.0, jitter=jitter), lambda: chance, failures=failures)
    assert 0.05 <= waits.next() <= 30


@given(failures=st.integers(1, 10_000), draw=st.floats(0, 1, exclude_max=True))
def test_a_wait_is_at_least_exponential_until_it_is_near_the_limit(failures: int, draw: float) -> None:
    delay = Backoff().delay(failures, draw)
    assert min(0.005 * 2.0 ** min(failures - 1, 60), 250.0) <= delay <= 300.0
