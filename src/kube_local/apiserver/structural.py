"""What the API server does to an object before it judges it: drop unknown fields and stray nulls, fill in defaults.

In: an object and the schema of its CRD version (or the types of a built-in kind). Out: a new object; the given one is
never changed. Called by `schema`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from .type_tree import TypeNode

Schema = Mapping[str, Any]
OBJECT_FIELDS = ("apiVersion", "kind", "metadata")


# --- custom resources: structural schemas ----------------------------------------------------------------------------


def additional(schema: Schema | None) -> tuple[bool, Schema | None]:
    """Whether entries beside the named fields are allowed, and their schema where one is given."""
    value = schema.get("additionalProperties") if schema is not None else None
    if isinstance(value, Mapping):
        return True, value
    return bool(value), None


def child_schema(schema: Schema | None, key: str) -> Schema | None:
    """The schema of one field: its own, or that of all additional ones."""
    if schema is None:
        return None
    named: Schema | None = (schema.get("properties") or {}).get(key)
    return named if named is not None else additional(schema)[1]


def item_schema(schema: Schema | None) -> Schema | None:
    items = schema.get("items") if schema is not None else None
    return items if isinstance(items, Mapping) else None


def prune(value: Any, schema: Schema | None, *, is_object: bool = False) -> Any:
    """Without the fields that the schema does not name."""
    preserve = schema is not None and schema.get("x-kubernetes-preserve-unknown-fields") is True
    if isinstance(value, dict):
        return _prune_map(value, schema, is_object, preserve)
    if isinstance(value, list):
        if preserve:
            # Items are only looked into for the types that they declare, never pruned themselves.
            return [_keep(item, item_schema(schema)) for item in value]
        return [prune(item, item_schema(schema)) for item in value]
    return value


def _prune_map(value: dict[str, Any], schema: Schema | None, is_object: bool, preserve: bool) -> dict[str, Any]:
    properties = (schema.get("properties") if schema is not None else None) or {}
    allowed, rest = additional(schema)
    result: dict[str, Any] = {}
    for key, item in value.items():
        if is_object and key in OBJECT_FIELDS:
            result[key] = item
        elif key in properties:
            result[key] = prune(item, properties[key])
        elif allowed:
            result[key] = prune(item, rest)
        elif preserve:
            result[key] = item
    return result


def _keep(value: Any, schema: Schema | None) -> Any:
    if schema is None:
        return value
    return prune(value, {**schema, "x-kubernetes-preserve-unknown-fields": True})


def unknown_fields(value: Any, schema: Schema | None, *, is_object: bool = False, path: str = "") -> list[str]:
    """The paths that `prune` takes away."""
    preserve = schema is not None and schema.get("x-kubernetes-preserve-unknown-fields") is True
    if isinstance(value, list):
        items = item_schema(schema)
        below = _keeping(items) if preserve else items
        return [name for i, item in enumerate(value) for name in unknown_fields(item, below, path=f"{path}[{i}]")]
    if not isinstance(value, dict) or (preserve and schema is None):
        return []
    kept = _prune_map(value, schema, is_object, preserve)
    found: list[str] = []
    for key, item in value.items():
        where = f"{path}.{key}" if path else key
        if key not in kept:
            found.append(where)
        elif not (is_object and key in OBJECT_FIELDS):
            child = child_schema(schema, key)
            if child is not None or not preserve:
                found += unknown_fields(item, child, path=where)
    return found


def _keeping(schema: Schema | None) -> Schema:
    return {**(schema or {}), "x-kubernetes-preserve-unknown-fields": True}


def drop_stray_nulls(value: Any, schema: Schema | None) -> Any:
    """Without nulls where null is not allowed and no default will replace it."""
    if isinstance(value, dict):
        return {
            key: drop_stray_nulls(item, child)
            for key, item in value.items()
            if not _is_stray(item, child := child_schema(schema, key))
        }
    if isinstance(value, list):
        return [drop_stray_nulls(item, item_schema(schema)) for item in value]
    return value


def _is_stray(value: Any, schema: Schema | None) -> bool:
    if value is not None or schema is None:
        return False
    return not schema.get("nullable") and schema.get("default") is None


def default(value: Any, schema: Schema | None) -> Any:
    """With the defaults of the schema, also inside of defaults."""
    if schema is None:
        return value
    if isinstance(value, dict):
        return _default_map(value, schema)
    if isinstance(value, list):
        items = item_schema(schema)
        return [default(_or_default(item, items), items) for item in value]
    return value


def _default_map(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    result = dict(value)
    properties = schema.get("properties") or {}
    for key, child in properties.items():
        if key not in result and child.get("default") is not None:
            result[key] = copy.deepcopy(child["default"])
    for key, item in result.items():
        child = child_schema(schema, key)
        result[key] = default(_or_default(item, child), child)
    return result


def _or_default(value: Any, schema: Schema | None) -> Any:
    if value is None and schema is not None and not schema.get("nullable"):
        return copy.deepcopy(schema.get("default"))
    return value


# --- built-in kinds --------------------------------------------------------------------------------------------------


def decode(node: TypeNode, value: Any) -> Any:
    """A value as it comes back when it was read into a Go type: known fields that are set, and zero values."""
    if isinstance(value, dict) and node.is_map:
        if node.is_atomic_map and not node.fields and node.element is node.tree.untyped:
            return value
        return _decode_map(node, value)
    if isinstance(value, list) and node.is_list:
        return [decode(node.items, item) for item in value]
    return value


def _decode_map(node: TypeNode, value: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in value.items():
        entry = node.entry(key)
        if entry is None or (node.element is node.tree.deduced and node.fields and key not in node.fields):
            continue
        if item is None:
            if key not in node.fields and entry.scalar == "string":
                result[key] = ""
            elif entry is node.tree.deduced or entry is node.tree.untyped:
                result[key] = None
            continue
        decoded = decode(entry, item) if entry is not node.tree.deduced else item
        if not _is_left_out(node, key, entry, decoded):
            result[key] = decoded
    for key, zero in node.always_written.items():
        if key not in result or _is_empty_collection(node.fields[key], result[key]):
            result[key] = decode(node.fields[key], {}) if zero == {} else zero
    return result


def _is_left_out(node: TypeNode, key: str, entry: TypeNode, value: Any) -> bool:
    if key in node.left_out_when_zero:
        return value in ("", 0)
    if key not in node.fields or key in node.always_written:
        return False
    return _is_empty_collection(entry, value)


def _is_empty_collection(node: TypeNode, value: Any) -> bool:
    """Go leaves out empty lists and empty maps; an empty struct stays."""
    if value == []:
        return True
    return value == {} and not node.fields and isinstance(node.raw.get("additionalProperties"), Mapping)


def unknown_fields_of(node: TypeNode, value: Any, path: str = "") -> list[str]:
    """The paths of a built-in object that its kind does not have."""
    if isinstance(value, list) and node.is_list:
        return [name for i, item in enumerate(value) for name in unknown_fields_of(node.items, item, f"{path}[{i}]")]
    if not isinstance(value, dict) or not node.is_map:
        return []
    found: list[str] = []
    for key, item in value.items():
        where = f"{path}.{key}" if path else key
        entry = node.entry(key)
        if entry is None:
            found.append(where)
        elif entry is not node.tree.deduced:
            found += unknown_fields_of(entry, item, where)
    return found
