"""Whole worlds, and the planners' small ones."""

from __future__ import annotations

from tests.plan.conftest import cluster, of_type
from tests.reconcile.conftest import world

__all__ = ["cluster", "of_type", "world"]
