"""Every place of our kinds that a user may write, with what the schema says of it.

In: a kind. Out: `Place`s: paths with their schemas, through the parts that the CRD leaves open (containers, pod specs,
service specs, claims) by Kubernetes' own types, and for each the largest value that its schema lets through.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.campaigns.hostile_values import HostileValue, Path

from slurm_operator.api import embedded
from slurm_operator.api.validate import schema_of

# A pod spec is deep; below this nothing of ours is decided.
DEEPEST = 6
MANY_ITEMS = 2000
LONG_TEXT = 60_000
INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Place:
    """A path in a manifest, and its schema."""

    path: Path
    schema: dict[str, Any]


def places(kind: str) -> Iterator[Place]:
    """Every place of a kind's spec."""
    yield from _own(schema_of(kind)["properties"]["spec"], ("spec",))
    for steps, name in embedded.EMBEDDED[kind]:
        index = (0,) if steps == ("volumeClaimTemplates",) else ()
        yield from _typed(embedded.overlay_type(name), ("spec", *steps, *index), 0)


def _own(schema: dict[str, Any], path: Path) -> Iterator[Place]:
    yield Place(path, schema)
    for name, inner in schema.get("properties", {}).items():
        yield from _own(inner, (*path, name))
    if "items" in schema:
        yield from _own(schema["items"], (*path, 0))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _own(schema["additionalProperties"], (*path, "a"))


def _typed(schema: dict[str, Any], path: Path, depth: int) -> Iterator[Place]:
    schema = embedded.types()[schema["ref"]] if "ref" in schema else schema
    if depth:
        yield Place(path, schema)
    if depth >= DEEPEST:
        return
    for name, inner in schema.get("properties", {}).items():
        yield from _typed(inner, (*path, name), depth + 1)
    if "items" in schema:
        yield from _typed(schema["items"], (*path, 0), depth + 1)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _typed(schema["additionalProperties"], (*path, "a"), depth + 1)


def largest(schema: dict[str, Any]) -> Iterator[HostileValue]:
    """The most that a schema lets through."""
    kind = schema.get("type")
    if kind == "integer":
        top = schema.get("maximum", 2**63 - 1 if schema.get("format") == "int64" else INT32)
        yield HostileValue("largest", str(top).encode())
    elif kind == "string" and "enum" not in schema:
        text = "x" * min(schema.get("maxLength", LONG_TEXT), LONG_TEXT)
        yield HostileValue("largest", json.dumps(text).encode())
        yield HostileValue("largest-lines", json.dumps("A=b\n" * (len(text) // 4)).encode())
    elif kind == "array":
        count = min(schema.get("maxItems", MANY_ITEMS), MANY_ITEMS)
        items = [sample(schema.get("items", {}), number) for number in range(count)]
        yield HostileValue("largest", json.dumps(items).encode())
        yield HostileValue("largest-alike", json.dumps(items[:1] * count).encode())
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        held = {f"k{number}": sample(schema["additionalProperties"], number) for number in range(MANY_ITEMS)}
        yield HostileValue("largest", json.dumps(held).encode())


def sample(schema: dict[str, Any], number: int) -> Any:
    """A small value that the schema takes, another one for each number."""
    schema = embedded.types()[schema["ref"]] if "ref" in schema else schema
    if schema.get("enum"):
        return schema["enum"][-1]
    match schema.get("type"):
        case "object":
            wanted = {*schema.get("required", ()), *({"name"} & set(schema.get("properties", {})))}
            return {name: sample(schema["properties"][name], number) for name in sorted(wanted)}
        case "array":
            return []
        case "integer" | "number":
            return number + 1
        case "boolean":
            return True
        case _:
            return f"v{number}"
