"""Hold a value against a structural schema and say everything that is wrong with it.

In: decoded JSON or YAML and a schema. Out: findings, each with its path; never an exception. Called by
`api/validate.py` for our own kinds and by `api/embedded.py` for the Kubernetes types inside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kube_runtime.text import shown
from slurm_operator.api.bounds import MAX_DEPTH_LEVELS
from slurm_operator.api.patterns import mismatch
from slurm_operator.api.problem import MAX_PROBLEMS, FieldProblem, Path, did_you_mean
from slurm_operator.api.schema import Schema

PRESERVE = "x-kubernetes-preserve-unknown-fields"
UNKNOWN = "unknown field"
INT_OR_STRING = "x-kubernetes-int-or-string"

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_A = {"object": "a mapping", "array": "a list", "integer": "an integer"}
_INTEGERS = {"int32": 2**31, "int64": 2**63}


def structural(
    value: object, schema: Schema, path: Path = (), types: Mapping[str, Schema] | None = None
) -> Iterator[FieldProblem]:
    """Everything in `value` that the schema does not allow; `types` resolves `ref`."""
    if value is None:
        # Kubernetes drops nulls; a required field is then missing, which its parent reports.
        return
    if len(path) > MAX_DEPTH_LEVELS:
        yield FieldProblem(path, f"is nested deeper than {MAX_DEPTH_LEVELS} levels")
        return
    if types and "ref" in schema:
        schema = types[schema["ref"]]
    if schema.get(INT_OR_STRING):
        yield from _int_or_string(value, schema, path)
        return
    expected = schema.get("type")
    if expected and not _is(value, expected):
        yield FieldProblem(path, f"must be {_A.get(expected, f'a {expected}')}, not {shown(value)}")
        return
    if isinstance(value, Mapping):
        yield from _object(value, schema, path, types)
    elif isinstance(value, list | tuple):
        yield from _array(value, schema, path, types)
    else:
        yield from _scalar(value, schema, path)


def _is(value: object, expected: str) -> bool:
    if isinstance(value, bool):
        return expected == "boolean"
    return isinstance(value, _TYPES[expected])


def _int_or_string(value: object, schema: Schema, path: Path) -> Iterator[FieldProblem]:
    if isinstance(value, bool) or not isinstance(value, int | str):
        yield FieldProblem(path, f"must be an integer or a string, not {shown(value)}")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield FieldProblem(path, f"{shown(value)} does not fit into int64")
    elif isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        yield FieldProblem(path, f"is {len(value)} characters long; at most {schema['maxLength']} are allowed")
    elif "pattern" in schema and not _matches(schema["pattern"], str(value)):
        yield FieldProblem(path, f"{shown(value)} {mismatch(schema['pattern'], str(value))}")


def _object(
    value: Mapping[str, Any], schema: Schema, path: Path, types: Mapping[str, Schema] | None
) -> Iterator[FieldProblem]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if value.get(name) is None and "default" not in properties[name]:
            yield FieldProblem((*path, name), "is required")
    if len(value) > schema.get("maxProperties", len(value)):
        yield FieldProblem(path, f"has {len(value)} entries; at most {schema['maxProperties']} are allowed")
        return
    additional, unknown = schema.get("additionalProperties"), 0
    for name, item in value.items():
        if name in properties:
            yield from structural(item, properties[name], (*path, name), types)
        elif isinstance(additional, Mapping):
            yield from structural(item, dict(additional), (*path, str(name)), types)
        elif not _is_open(name, schema, types):
            unknown += 1
            hint = did_you_mean(str(name), properties) if unknown <= MAX_PROBLEMS else ""
            yield FieldProblem((*path, str(name)), f"{UNKNOWN}{hint}")


def _is_open(name: object, schema: Schema, types: Mapping[str, Schema] | None) -> bool:
    """Whether a field may be there though the schema does not name it."""
    # Directives such as $patch belong in overlays, which are recognized by their types.
    return not schema.get("properties") or bool(schema.get(PRESERVE)) or (bool(types) and str(name).startswith("$"))


def known_part(value: Any, schema: Schema, types: Mapping[str, Schema]) -> Any:
    """A value without the fields that `structural` calls unknown."""
    if "ref" in schema:
        schema = types[schema["ref"]]
    if isinstance(value, list | tuple):
        return [known_part(item, schema.get("items", {}), types) for item in value]
    if not isinstance(value, Mapping):
        return value
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    others = dict(additional) if isinstance(additional, Mapping) else {}
    return {
        name: known_part(item, properties.get(name, others), types)
        for name, item in value.items()
        if name in properties or others or _is_open(name, schema, types)
    }


def _array(
    value: list[Any] | tuple[Any, ...], schema: Schema, path: Path, types: Mapping[str, Schema] | None
) -> Iterator[FieldProblem]:
    if len(value) > schema.get("maxItems", len(value)):
        yield FieldProblem(path, f"has {len(value)} items; at most {schema['maxItems']} are allowed")
        return
    for index, item in enumerate(value):
        if item is None:
            yield FieldProblem((*path, index), "must not be null")
        yield from structural(item, schema.get("items", {}), (*path, index), types)
    yield from _duplicates(value, schema, path)


def _duplicates(value: list[Any] | tuple[Any, ...], schema: Schema, path: Path) -> Iterator[FieldProblem]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return
    keys = schema.get("x-kubernetes-list-map-keys", ())
    seen: set[str] = set()
    for index, item in enumerate(value):
        identity = repr([item.get(key) for key in keys]) if kind == "map" and isinstance(item, Mapping) else repr(item)
        if identity in seen:
            yield FieldProblem((*path, index), f"is listed twice: {shown(item)}")
        seen.add(identity)


def _scalar(value: object, schema: Schema, path: Path) -> Iterator[FieldProblem]:
    allowed = schema.get("enum")
    if allowed and value not in allowed:
        hint = did_you_mean(str(value), map(str, allowed))
        yield FieldProblem(path, f"{shown(value)} is not one of {', '.join(filter(None, map(str, allowed)))}{hint}")
    if isinstance(value, str):
        yield from _string(value, schema, path)
    elif isinstance(value, int | float):
        yield from _number(value, schema, path)


def _string(value: str, schema: Schema, path: Path) -> Iterator[FieldProblem]:
    if len(value) < schema.get("minLength", 0):
        yield FieldProblem(path, "must not be empty")
    if len(value) > schema.get("maxLength", len(value)):
        yield FieldProblem(path, f"is {len(value)} characters long; at most {schema['maxLength']} are allowed")
    elif "pattern" in schema and not _matches(schema["pattern"], value):
        yield FieldProblem(path, f"{shown(value)} {mismatch(schema['pattern'], str(value))}")
    if schema.get("format") == "date-time" and not _RFC3339.match(value):
        yield FieldProblem(path, f"{shown(value)} is not a time such as 2026-01-31T22:00:00Z")


def _matches(pattern: str, value: str) -> bool:
    # Kubernetes' `$` is the end of the text; Python's would let a line break pass before it.
    return re.search(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern, value) is not None


_RFC3339 = re.compile(
    r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?"
    r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)\Z",
    re.ASCII,
)


def _number(value: float, schema: Schema, path: Path) -> Iterator[FieldProblem]:
    if value < schema.get("minimum", value):
        yield FieldProblem(path, f"{shown(value)} is too small; the minimum is {schema['minimum']}")
    bound = _INTEGERS.get(str(schema.get("format")))
    if bound is not None and not -bound <= value < bound:
        yield FieldProblem(path, f"{shown(value)} does not fit into {schema['format']}")
    if value > schema.get("maximum", value):
        yield FieldProblem(path, f"{shown(value)} is too large; the maximum is {schema['maximum']}")
