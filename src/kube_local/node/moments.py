"""Moments as Kubernetes writes them: whole seconds, UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> str:
    """This second."""
    return stamp(time.time())


def stamp(moment: float) -> str:
    """A moment of the wall clock as text."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch(text: str) -> float:
    """Text as a moment of the wall clock; 0 when there is none."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def between(first: str, last: str) -> float:
    """Seconds from one to the other; 0 when one is missing."""
    return epoch(last) - epoch(first) if first and last else 0.0
