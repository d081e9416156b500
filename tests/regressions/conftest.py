"""Whole worlds, and the planners' small ones."""

from __future__ import annotations

from tests.plan.conftest import cluster
from tests.reconcile.conftest import old_slurm, world

__all__ = ["cluster", "old_slurm", "world"]
