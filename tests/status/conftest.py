"""The planners' small worlds serve the reports too."""

from __future__ import annotations

from tests.plan.conftest import cluster, of_type

__all__ = ["cluster", "of_type"]
