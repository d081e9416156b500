"""A whole world for each test: API server, small cluster, small Slurm, the real operator, virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.campaigns.rig import World
from tests.plan.conftest import cluster

__all__ = ["cluster", "old_slurm", "world"]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """An empty cluster with an operator in it; whatever a test does, nothing may be violated."""
    made = World()
    await made.open()
    yield made
    await made.close()
    assert made.judge.violations == []


@pytest.fixture
async def old_slurm() -> AsyncIterator[World]:
    """The same with Slurm 24.11."""
    made = World(release="24.11")
    await made.open()
    yield made
    await made.close()
    assert made.judge.violations == []
