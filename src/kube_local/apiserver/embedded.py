"""Objects inside of custom resources: x-kubernetes-embedded-resource.

In: an object and the schema of its CRD version. Out: problems of the objects that it carries. Called by `schema`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .problems import FieldProblem
from .structural import child_schema, item_schema

_KIND = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def embedded_problems(schema: Mapping[str, Any] | None, value: Any, path: str = "") -> list[FieldProblem]:
    """An embedded object needs an apiVersion and a kind."""
    if schema is None:
        return []
    found: list[FieldProblem] = []
    if isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource") is True:
            found += _object_problems(value, path)
        properties = schema.get("properties") or {}
        for key, item in value.items():
            where = f"{path}.{key}" if path else key
            below = where if key in properties else f"{path}[{key}]"
            found += embedded_problems(child_schema(schema, key), item, below)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += embedded_problems(item_schema(schema), item, f"{path}[{index}]")
    return found


def _object_problems(value: dict[str, Any], path: str) -> list[FieldProblem]:
    found = [FieldProblem(f"{path}.{name}", "Required") for name in ("apiVersion", "kind") if name not in value]
    for name in ("apiVersion", "kind"):
        text = value.get(name, "x")
        if not isinstance(text, str):
            found.append(FieldProblem(f"{path}.{name}", "Invalid", "must be a string", text))
        elif not text:
            found.append(FieldProblem(f"{path}.{name}", "Invalid", "must not be empty", text))
        elif name == "apiVersion" and text.count("/") > 1:
            found.append(FieldProblem(f"{path}.{name}", "Invalid", f"unexpected GroupVersion string: {text}", text))
        elif name == "kind" and not _KIND.fullmatch(text.lower()):
            found.append(FieldProblem(f"{path}.{name}", "Invalid", "may have mixed case, but should be a name", text))
    return found
