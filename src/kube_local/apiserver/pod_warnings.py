"""What a pod may say but hardly means: told to the client beside the answer. Pure; called by `writes`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TEMPLATES = {
    "pods": "spec",
    "deployments.apps": "spec.template.spec",
    "replicasets.apps": "spec.template.spec",
    "statefulsets.apps": "spec.template.spec",
}


def pod_warnings(resource: str, obj: Mapping[str, Any]) -> list[str]:
    """Warnings about the pod, or the template, in an object."""
    path = _TEMPLATES.get(resource)
    if path is None:
        return []
    spec: Any = obj
    for part in path.split("."):
        spec = spec.get(part) if isinstance(spec, Mapping) else None
    containers = spec.get("containers") or () if isinstance(spec, Mapping) else ()
    return [*_ports(path, containers), *_variables(path, containers)]


def _ports(path: str, containers: Any) -> Iterator[str]:
    seen: dict[tuple[Any, Any], str] = {}
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            where = f"{path}.containers[{index}].ports[{number}]"
            first = seen.setdefault((port.get("containerPort"), port.get("protocol", "TCP")), where)
            if first != where:
                yield f"{where}: duplicate port definition with {first}"


def _variables(path: str, containers: Any) -> Iterator[str]:
    for index, container in enumerate(containers):
        seen: dict[Any, str] = {}
        for number, variable in enumerate(container.get("env") or ()):
            where = f"{path}.containers[{index}].env[{number}]"
            name = variable.get("name")
            if name in seen:
                yield f'{where}: hides previous definition of "{name}", which may be dropped when using apply'
            seen.setdefault(name, where)
