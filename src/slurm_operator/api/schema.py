"""From a Struct to a structural OpenAPI schema.

In: a kind's Struct. Out: the schema that its CRD carries. Called by `api/crd.py`, whose result `api/validate.py` goes
by too. Kubernetes wants schemas without references, every default spelled out and no null types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect

Schema = dict[str, Any]

# A marker that never reaches the CRD: the field is required on the wire although the Struct has a default.
REQUIRED = "x-required"


def struct_schema(struct: type[msgspec.Struct]) -> Schema:
    """The structural schema of a Struct."""
    return _schema(inspect.type_info(struct))


def _schema(info: inspect.Type) -> Schema:
    if isinstance(info, inspect.Metadata):
        return {**_schema(info.type), **(info.extra_json_schema or {})}
    for kind, convert in _CONVERTERS.items():
        if isinstance(info, kind):
            return convert(info)
    raise TypeError(f"no structural schema for {info}")


def _union(info: Any) -> Schema:
    members = [member for member in info.types if not isinstance(member, inspect.NoneType)]
    if len(members) == 1:
        return _schema(members[0])
    # int | str: the int-or-string marker of the annotation says it all.
    return {}


def _integer(info: Any) -> Schema:
    schema: Schema = {"type": "integer"}
    if info.ge is not None:
        schema["minimum"] = info.ge
    if info.le is not None:
        schema["maximum"] = info.le
    return schema


def _string(info: Any) -> Schema:
    schema: Schema = {"type": "string"}
    for attribute, keyword in (
        ("min_length", "minLength"),
        ("max_length", "maxLength"),
        ("pattern", "pattern"),
    ):
        value = getattr(info, attribute)
        if value is not None:
            schema[keyword] = value
    return schema


def _mapping(info: Any) -> Schema:
    if isinstance(info.value_type, inspect.AnyType):
        return {"type": "object"}
    return {"type": "object", "additionalProperties": _schema(info.value_type)}


def _list(info: Any) -> Schema:
    return {"type": "array", "items": _schema(info.item_type)}


def _struct(info: Any) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for field in info.fields:
        schema = _schema(field.type)
        if schema.pop(REQUIRED, False) or field.required:
            required.append(field.encode_name)
        if _has_wire_default(field.default):
            schema["default"] = field.default
        properties[field.encode_name] = schema
    result: Schema = {"type": "object", "properties": dict(sorted(properties.items()))}
    if required:
        result["required"] = sorted(required)
    return result


def _has_wire_default(default: object) -> bool:
    return isinstance(default, bool | int | str)


_CONVERTERS: dict[type[inspect.Type], Callable[[Any], Schema]] = {
    inspect.UnionType: _union,
    inspect.BoolType: lambda _: {"type": "boolean"},
    inspect.IntType: _integer,
    inspect.StrType: _string,
    inspect.DictType: _mapping,
    inspect.VarTupleType: _list,
    inspect.StructType: _struct,
}
