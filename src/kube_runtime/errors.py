"""The error tree: every failure says what happens next.

    OperatorError
    ├── Retryable     try again with backoff; the world may change without the resource changing
    └── Terminal      wait for a new generation of the resource; trying again cannot help

Every leaf declares `reason`: a stable CamelCase word that becomes the reason of a condition and has a section
in docs/reference/conditions.md. The doors add their own leaves (`kube_runtime/client/errors.py`, `slurm/errors.py`).
"""

from __future__ import annotations

from typing import ClassVar


class OperatorError(Exception):
    """Any failure that this program knows by name."""

    reason: ClassVar[str] = "Error"


class Retryable(OperatorError):
    """Try again with backoff."""

    reason: ClassVar[str] = "Retrying"


class Terminal(OperatorError):
    """Wait until the resource changes."""

    reason: ClassVar[str] = "Failed"
