"""Whole worlds, and the planners' small ones."""

from __future__ import annotations

from tests.plan.conftest import cluster
from tests.reconcile.conftest import world

__all__ = ["cluster", "world"]
