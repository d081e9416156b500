"""A virtual clock for every test of the loop, and ways to drive it."""

from __future__ import annotations

import pytest

from kube_runtime.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(start=1000.0)
