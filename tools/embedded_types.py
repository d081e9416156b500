"""Write src/slurm_operator/api/embedded.json: Kubernetes' types below the ones that our kinds embed.

In: the OpenAPI definitions that the development package `kubernetes-validate` ships. Out: a compact table of
types, fields, enumerations and required fields, without prose. Run by `make golden`; a test fails when it is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate

RELEASE = "1.37.0"
PREFIX = "io.k8s.api."
ROOTS = (
    "io.k8s.api.core.v1.Container",
    "io.k8s.api.core.v1.PodSpec",
    "io.k8s.api.core.v1.ServiceSpec",
    "io.k8s.api.core.v1.PersistentVolumeClaim",
)
TARGET = Path(__file__).parents[1] / "src/slurm_operator/api/embedded.json"
KEPT = ("type", "enum", "required", "format", "x-kubernetes-int-or-string")


def definitions() -> dict[str, Any]:
    """The OpenAPI definitions of the release."""
    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"v{RELEASE}-local"
    loaded: dict[str, Any] = json.loads((folder / "_definitions.json").read_text())
    return dict(loaded["$defs"])


def short(name: str) -> str:
    """The name of a type without its package path."""
    return name.rsplit(".", 1)[-1]


def compact(schema: dict[str, Any], seen: list[str]) -> dict[str, Any]:
    """A schema without prose; the types that it refers to are added to `seen`."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        seen.append(name)
        return {"ref": short(name)}
    result = {key: schema[key] for key in KEPT if key in schema}
    if isinstance(result.get("type"), list):
        result["type"] = next(kind for kind in result["type"] if kind != "null")
    if "items" in schema:
        result["items"] = compact(schema["items"], seen)
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = compact(schema["additionalProperties"], seen)
    if "properties" in schema:
        result["properties"] = {name: compact(field, seen) for name, field in sorted(schema["properties"].items())}
    return result


def table() -> dict[str, Any]:
    """Every type below the roots."""
    source = definitions()
    result: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if short(name) not in result:
            result[short(name)] = compact(source[name], waiting)
    return dict(sorted(result.items()))


def text() -> str:
    """The file's content."""
    return json.dumps(table(), separators=(",", ":"), sort_keys=True) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
    sys.stdout.write(f"wrote {TARGET.name}: {TARGET.stat().st_size} bytes\n")
