"""The planners' small worlds serve the reports too."""

from __future__ import annotations

from tests.plan.conftest import cluster

__all__ = ["cluster"]
