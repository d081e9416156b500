"""Short ways to write pods, nodes and workloads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kube_local.controllers import objects

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


class Make:
    """Objects out of plain dictionaries, as the API writes them."""

    now = NOW

    def pod(self, name: str = "pod", *, ready: bool = True, going: bool = False, **more: Any) -> objects.Pod:
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        head = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **more.pop("metadata", {})}
        head |= {"deletionTimestamp": "2030-01-01T00:00:00Z"} if going else {}
        status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [condition], **more.pop("status", {})}
        return msgspec.convert({"metadata": head, "spec": more, "status": status}, objects.Pod)

    def node(self, name: str, room: dict[str, str] | None = None, **spec: Any) -> objects.Node:
        labels = {"zone": "a", **spec.pop("labels", {})}
        status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", **(room or {})}}
        status |= {"conditions": spec.pop("conditions", [{"type": "Ready", "status": "True"}])}
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
        return msgspec.convert(body, objects.Node)

    def of(self, kind: Any, **body: Any) -> Any:
        return msgspec.convert(body, kind)


@pytest.fixture
def make() -> Make:
    return Make()
