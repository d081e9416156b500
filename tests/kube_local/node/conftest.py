"""A pod, a lookup and a place to put into the pure parts of the node agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kube_local.node.sources import Place
from kube_local.node.volumes import Referred

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def place() -> Place:
    return Place("10.240.0.7", "10.240.0.1", {"cpu": "2", "memory": "4Gi"})


@pytest.fixture
def referred() -> Referred:
    return Referred(
        {"conf": {"a": b"A", "b.txt": b"B", "0bad": b"x"}},
        {"key": {"slurm.key": b"K", "TOKEN": b"T"}},
        {"data": Path("/claims/data")},
    )


@pytest.fixture
def make_pod() -> Callable[..., dict[str, Any]]:
    """A pod with one container `main`, changed as asked."""

    def make(**spec: Any) -> dict[str, Any]:
        metadata = {
            "name": "w-0",
            "namespace": "slurm",
            "uid": "uid-1",
            "labels": {"app": "slurmd"},
            "annotations": {"note": 'say "hi"'},
        }
        containers = [{"name": "main", "image": "x/slurmd:26.05"}]
        return {"metadata": metadata, "spec": {"nodeName": "local-0", "containers": containers, **spec}}

    return make


@pytest.fixture
def golden() -> Path:
    """Where expected bundles are kept."""
    return GOLDEN
