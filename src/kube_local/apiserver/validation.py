"""Is this object what its CRD's schema says? OpenAPI v3 validation with the wording of kube-apiserver.

In: an object, the old one on an update, and the schema of a CRD version. Out: problems, all of them at once. On an
update a value that did not change is not judged again (ratcheting, as Kubernetes does since 1.30). Called by `schema`.

`CHECKED` are the keywords that definitions here have. Others are not held against an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from .problems import ROOT, FieldProblem
from .typed_values import ABSENT, equal

Schema = Mapping[str, Any]
Problems = Iterator[FieldProblem]
CHECKED = frozenset(
    {
        *("type", "nullable", "format", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern"),
        *("items", "maxItems", "properties", "additionalProperties", "required", "maxProperties", "default"),
        *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
        *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
    }
)
CHECKED_FORMATS = frozenset({"int32", "int64", "date-time"})
_INTEGER_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1), "": (-(2**63), 2**63 - 1)}
_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?")
_BODY = "in body"


def schema_problems(schema: Schema, value: Any, old: Any = ABSENT) -> list[FieldProblem]:
    """Everything that is wrong with a value, once; `old` is what it was before an update."""
    found: list[FieldProblem] = []
    for problem in _check(schema, value, "", old):
        if problem not in found:
            found.append(problem)
    return found


def _check(schema: Schema, value: Any, path: str, old: Any = ABSENT) -> Problems:
    if is_unchanged(schema, value, old):
        return
    for check in (_type, _enum) if value is None else _CHECKS:
        yield from check(schema, value, path, old)


def _at(path: str) -> str:
    return path.removeprefix(".") or ROOT


def types_of(schema: Schema) -> tuple[str, ...]:
    """The JSON types that a schema allows."""
    if schema.get("x-kubernetes-int-or-string") is True:
        return ("integer", "string")
    kind = schema.get("type")
    return (kind,) if kind else ()


def type_of(value: Any) -> tuple[str, str]:
    """The JSON type of a value, and the number format that Go reads it into."""
    if isinstance(value, bool):
        return "boolean", ""
    if isinstance(value, str):
        return "string", ""
    if isinstance(value, int):
        return "integer", "int64"
    if isinstance(value, float):
        return "number", "float64"
    return ("array" if isinstance(value, list) else "object"), ""


def supported_format(schema: Schema) -> str:
    """The format of a schema, where it is checked and fits the type."""
    form, kinds = str(schema.get("format") or ""), types_of(schema)
    if form == "date-time":
        return form if kinds in ((), ("string",)) or len(kinds) > 1 else ""
    return form if form in CHECKED_FORMATS and kinds == ("integer",) else ""


def _type(schema: Schema, value: Any, path: str, _old: Any) -> Problems:
    allowed, form = types_of(schema), supported_format(schema)
    if not allowed and not form:
        return
    if value is None:
        if allowed and not schema.get("nullable"):
            yield _wrong_type(path, ",".join(allowed), "null")
        return
    found, number_format = type_of(value)
    whole = found == "number" and value == int(value) and "integer" in allowed
    fits = found in allowed or whole or (found == "integer" and "number" in allowed)
    is_text = found in ("string", "array")
    if not is_text and form and not fits and number_format != form:
        yield _wrong_type(path, form, number_format)
    elif not fits and not (form and is_text and not {"number", "integer"} & set(allowed)):
        yield _wrong_type(path, ",".join(allowed), found)


def _wrong_type(path: str, wanted: str, found: str) -> FieldProblem:
    message = f"{path} {_BODY} must be of type {wanted}: {json.dumps(found)}"
    return FieldProblem(_at(path), "TypeInvalid", message, found)


# --- scalars ---------------------------------------------------------------------------------------------------------


def _string(schema: Schema, value: Any, path: str, _old: Any) -> Problems:
    if not isinstance(value, str):
        return
    max_length, min_length, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if max_length is not None and len(value) > max_length:
        unit = "byte" if max_length == 1 else "bytes"
        yield FieldProblem(_at(path), "TooLong", f"may not be more than {max_length} {unit}", "<value omitted>")
    elif min_length is not None and len(value) < min_length:
        yield FieldProblem(_at(path), "Invalid", f"{path} {_BODY} should be at least {min_length} chars long", value)
    elif pattern and not _matches(pattern, value):
        yield FieldProblem(_at(path), "Invalid", f"{path} {_BODY} should match '{pattern}'", value)


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        # Go's \z is Python's \Z, and its $ does not match before a final line break.
        return re.compile(re.sub(r"(?<!\\)\$", r"\\Z", pattern.replace(r"\z", r"\Z")) if "$" in pattern else pattern)
    except re.error:
        return None


def _matches(pattern: str, value: str) -> bool:
    compiled = _compiled(pattern)
    # A pattern that only Go understands is not held against the object.
    return compiled is None or compiled.search(value) is not None


def _format(schema: Schema, value: Any, path: str, _old: Any) -> Problems:
    form = supported_format(schema)
    if isinstance(value, str) and form == "date-time" and "integer" not in types_of(schema) and not _is_time(value):
        message = f"{path} {_BODY} must be of type {form}: {json.dumps(value, ensure_ascii=False)}"
        yield FieldProblem(_at(path), "TypeInvalid", message, value)


def _is_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    try:
        return match is not None and bool(datetime.fromisoformat(f"{match[1]}T{match[2]}"))
    except ValueError:
        return False


def _number(schema: Schema, value: Any, path: str, _old: Any) -> Problems:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if not _in_range(schema, value):
        yield FieldProblem(ROOT, "Invalid", _range_message(schema, path), "")
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    if isinstance(value, int):
        # Go cuts the bounds of a whole number down to whole numbers.
        minimum, maximum = (None if bound is None else int(bound) for bound in (minimum, maximum))
    if minimum is not None and value < minimum:
        yield _out_of_bounds(path, f"greater than or equal to {_go_number(minimum)}", value)
    if maximum is not None and value > maximum:
        yield _out_of_bounds(path, f"less than or equal to {_go_number(maximum)}", value)


def _out_of_bounds(path: str, rule: str, value: Any) -> FieldProblem:
    return FieldProblem(_at(path), "Invalid", f"{path} {_BODY} should be {rule}", value)


def _in_range(schema: Schema, value: float) -> bool:
    if schema.get("type") != "integer":
        return True
    if value != int(value):
        return False
    low, high = _INTEGER_RANGES.get(supported_format(schema), (-(2**63), 2**63 - 1))
    return low <= value <= high


def _range_message(schema: Schema, path: str) -> str:
    form = supported_format(schema)
    with_format = f"with format {form}" if form else "(default format)"
    return f"Checked value must be of type integer {with_format} in {path}"


def _go_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


def _enum(schema: Schema, value: Any, path: str, _old: Any) -> Problems:
    allowed = schema.get("enum")
    if not allowed or any(equal(value, one) for one in allowed if one is not None):
        return
    names = (one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in allowed)
    listed = ", ".join(json.dumps(name, ensure_ascii=False) for name in names)
    yield FieldProblem(_at(path), "NotSupported", f"supported values: {listed}", value)


# --- lists and objects -----------------------------------------------------------------------------------------------


def _list(schema: Schema, value: Any, path: str, old: Any) -> Problems:
    if not isinstance(value, list):
        return
    items = schema.get("items")
    if isinstance(items, Mapping):
        find_old = old_items(schema, old)
        for index, item in enumerate(value):
            yield from _check(items, item, f"{path}[{index}]", find_old(item))
    yield from _too_many(schema.get("maxItems"), len(value), path)


def _too_many(maximum: int | None, size: int, path: str) -> Problems:
    if maximum is not None and size > maximum:
        yield FieldProblem(
            _at(path), "TooMany", f"must have at most {maximum} item" + ("" if maximum == 1 else "s"), size
        )


def old_items(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """How to find an item of a list before the update: by its keys, and only in lists that have keys."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if not _is_keyed(schema) or not isinstance(old, list):
        return lambda _item: ABSENT
    known: dict[str, Any] = {}
    for item in old:
        name = _identity(item, keys)
        if name is not None:
            known.setdefault(name, item)
    return lambda item: known.get(_identity(item, keys) or "", ABSENT)


def _is_keyed(schema: Schema) -> bool:
    return schema.get("x-kubernetes-list-type") == "map" and bool(schema.get("x-kubernetes-list-map-keys"))


def _identity(item: Any, keys: Any) -> str | None:
    """The keys of an item as text; None where one is missing or is no plain value."""
    if not isinstance(item, dict):
        return None
    values = [item.get(key) for key in keys]
    if any(value is None or isinstance(value, dict | list) for value in values):
        return None
    return json.dumps(values)


def is_unchanged(schema: Schema, value: Any, old: Any) -> bool:
    """Whether a value is what it was, as far as the two can be compared: not below fields that the schema lacks."""
    if old is ABSENT or type(value) is not type(old):
        return False
    if isinstance(value, list) and value and _is_keyed(schema):
        items, find_old = schema.get("items") or {}, old_items(schema, old)
        return len(value) == len(old) and all(is_unchanged(items, item, find_old(item)) for item in value)
    if isinstance(value, dict):
        return value.keys() == old.keys() and all(
            (below := _entry_schema(schema, key)) is not None and is_unchanged(below, item, old[key])
            for key, item in value.items()
        )
    return equal(value, old)


def _entry_schema(schema: Schema, key: str) -> Schema | None:
    named: Schema | None = (schema.get("properties") or {}).get(key)
    rest = schema.get("additionalProperties")
    return named if named is not None else rest if isinstance(rest, Mapping) else None


def _object(schema: Schema, value: Any, path: str, old: Any) -> Problems:
    if not isinstance(value, dict):
        return
    yield from _too_many(schema.get("maxProperties"), len(value), path)
    properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    for key, item in value.items():
        where = f"{path}.{key}" if path or key not in properties else key
        if key in properties:
            yield from _check(properties[key], item, where, before.get(key, ABSENT))
        elif isinstance(rest, Mapping):
            yield from _check(rest, item, where, before.get(key, ABSENT))
        elif rest is False:
            yield FieldProblem(_at(path), "Invalid", f"{path}.{key} {_BODY} is a forbidden property", key)
    for key in schema.get("required") or ():
        if key not in value:
            yield FieldProblem(_at(f"{path}.{key}"), "Required")


_Check = Callable[[Schema, Any, str, Any], Problems]
_CHECKS: tuple[_Check, ...] = (_type, _string, _format, _number, _list, _enum, _object)


# --- twins in sets and keyed lists -----------------------------------------------------------------------------------


def list_type_problems(schema: Schema, value: Any, path: str = "") -> list[FieldProblem]:
    """Items of a set that are equal, and items of a keyed list with the same keys."""
    found: list[FieldProblem] = []
    if isinstance(value, list):
        found += _twins(schema, value, path)
        items = schema.get("items")
        if isinstance(items, Mapping):
            for index, item in enumerate(value):
                found += list_type_problems(items, item, f"{path}[{index}]")
    elif isinstance(value, dict):
        properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, item in value.items():
            if isinstance(rest, Mapping):
                found += list_type_problems(rest, item, f"{path}[{key}]")
            if key in properties:
                found += list_type_problems(properties[key], item, f"{path}.{key}" if path else key)
    return found


def _twins(schema: Schema, items: list[Any], path: str) -> list[FieldProblem]:
    list_type = schema.get("x-kubernetes-list-type")
    if list_type == "set":
        return [FieldProblem(f"{path}[{i}]", "Duplicate", "", items[i]) for i in _repeated(items)]
    if list_type != "map":
        return []
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            message = "must be an object for an array of list-type map"
            return [FieldProblem(f"{path}[{index}]", "Invalid", message, item)]
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    chosen = [{key: item[key] for key in keys if key in item} if item else {} for item in items]
    return [FieldProblem(f"{path}[{i}]", "Duplicate", "", chosen[i]) for i in _repeated(chosen)]


def _repeated(items: list[Any]) -> list[int]:
    """The second appearance of each item that appears more than once."""
    counts: dict[str, int] = {}
    second: list[int] = []
    for index, item in enumerate(items):
        text = json.dumps(item, sort_keys=True)
        counts[text] = counts.get(text, 0) + 1
        if counts[text] == 2:
            second.append(index)
    return second
