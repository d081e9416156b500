"""Waits: they grow, they are jittered, they are bounded, and they never overflow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime.client.timing import Backoff, Timing


@pytest.mark.parametrize(("chance", "expected"), [(0.0, [0.05, 0.1, 0.2]), (0.5, [0.075, 0.15, 0.3])])
def test_waits_double_and_are_jittered(chance: float, expected: list[float]) -> None:
    backoff = Backoff(Timing(random=lambda: chance))
    assert [backoff.next() for _ in range(3)] == pytest.approx(expected)


def test_success_starts_over() -> None:
    backoff = Backoff(Timing(random=lambda: 0.5))
    first = backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.next() == first


@given(st.integers(0, 10**6), st.floats(0, 0.999))
def test_no_wait_is_longer_than_the_longest(failures: int, chance: float) -> None:
    backoff = Backoff(Timing(random=lambda: chance), first=0.1, most=30, failures=failures)
    assert 0.05 <= backoff.next() <= 30
