"""A small cluster for each test of a planner."""

from __future__ import annotations

import pytest
from tests.plan.small_cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """A maker of small worlds."""
    return Cluster()
