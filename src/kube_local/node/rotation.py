"""Keeps logs small: at most the current file and one before it, ten megabytes each.

Called by `pod` every few seconds for every running container.
"""

from __future__ import annotations

from pathlib import Path

from kube_local.node import runtime


def rotate(log: Path, bundle: Path, limit: int = runtime.LOG_BYTES) -> bool:
    """Put a full log aside and let the monitor go on in a fresh one."""
    try:
        if log.stat().st_size < limit:
            return False
    except OSError:
        return False
    log.rename(log.with_suffix(".log.1"))
    runtime.reopen_logs(bundle)
    return True
