"""Is this object what its CRD's schema says? OpenAPI v3 validation with the wording of kube-apiserver.

In: an object, the old one on an update, and the schema of a CRD version. Out: problems, all of them at once. On an
update a value that did not change is not judged again (ratcheting, as Kubernetes does since 1.30). Called by `schema`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from .formats import KNOWN_FORMATS
from .problems import ROOT, FieldProblem, Reason
from .typed_values import ABSENT, equal

Schema = Mapping[str, Any]
_INTEGER_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1), "": (-(2**63), 2**63 - 1)}
_BOUNDS = ("minimum", "maximum", "multipleOf")
_BODY = "in body"


@dataclass(slots=True)
class Result:
    """Problems, and how many checks passed: the latter picks the alternative to explain in anyOf and oneOf."""

    problems: list[FieldProblem] = field(default_factory=list)
    matches: int = 0

    def add(self, problem: FieldProblem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def merge(self, other: Result) -> None:
        for problem in other.problems:
            self.add(problem)
        self.matches += other.matches


def schema_problems(schema: Schema, value: Any, old: Any = ABSENT) -> list[FieldProblem]:
    """Everything that is wrong with a value; `old` is what it was before an update."""
    return _check(schema, value, "", old).problems


def _check(schema: Schema, value: Any, path: str, old: Any = ABSENT) -> Result:
    if is_unchanged(schema, value, old):
        return Result()
    if value is None:
        result = _type(schema, value, path)
        result.merge(_enum(schema, value, path))
        return result
    result = Result(matches=1)
    for check in _CHECKS:
        found = check(schema, value, path, old)
        if found is not None:
            result.merge(found)
            result.matches += 1
    return result


def _at(path: str) -> str:
    return path.removeprefix(".") or ROOT


def _one(path: str, reason: Reason, message: str, bad_value: Any = "") -> Result:
    return Result([FieldProblem(_at(path), reason, message, bad_value)])


# --- types -----------------------------------------------------------------------------------------------------------


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
    """The format of a schema as far as Kubernetes knows it; an unknown one is not checked."""
    form, kinds = str(schema.get("format") or ""), types_of(schema)
    kind = kinds[0] if len(kinds) == 1 else ""
    if kind in ("", "string"):
        return form if form.replace("-", "") in KNOWN_FORMATS else ""
    known = {"integer": ("int32", "int64"), "number": ("float", "double")}
    return form if form in known.get(kind, ()) else ""


def _type(schema: Schema, value: Any, path: str, _old: Any = ABSENT) -> Result:
    allowed, form = types_of(schema), supported_format(schema)
    if not allowed and not form:
        return Result(matches=1)
    if value is None:
        if allowed and not schema.get("nullable"):
            return _wrong_type(path, ",".join(allowed), "null")
        return Result(matches=1)
    found, number_format = type_of(value)
    whole = found == "number" and value == int(value) and "integer" in allowed
    fits = found in allowed or whole or (found == "integer" and "number" in allowed)
    is_text = found in ("string", "array")
    if not is_text and form and not fits and number_format != form:
        return _wrong_type(path, form, number_format)
    if form and is_text and not {"number", "integer"} & set(allowed):
        return Result(matches=1)
    return Result(matches=1) if fits else _wrong_type(path, ",".join(allowed), found)


def _wrong_type(path: str, wanted: str, found: str) -> Result:
    message = f"{path} {_BODY} must be of type {wanted}: {json.dumps(found)}"
    return _one(path, "TypeInvalid", message, found)


# --- alternatives ----------------------------------------------------------------------------------------------------


def _alternatives(schema: Schema, value: Any, path: str, _old: Any) -> Result:
    result = Result(matches=1)
    _any_of(schema.get("anyOf") or (), value, path, result)
    _one_of(schema.get("oneOf") or (), value, path, result)
    _all_of(schema.get("allOf") or (), value, path, result)
    unwanted = schema.get("not")
    if isinstance(unwanted, Mapping) and not _check(unwanted, value, path).problems:
        result.add(_unplaced(f"{json.dumps(path)} must not validate the schema (not)"))
    return result


def _unplaced(message: str) -> FieldProblem:
    return FieldProblem(ROOT, "Invalid", message, "")


def _any_of(schemas: Any, value: Any, path: str, result: Result) -> None:
    if not schemas:
        return
    tried = []
    for schema in schemas:
        tried.append(_check(schema, value, path))
        if not tried[-1].problems:
            result.merge(tried[-1])
            return
    result.add(_unplaced(f"{json.dumps(path)} must validate at least one schema (anyOf)"))
    result.merge(max(tried, key=lambda one: one.matches))


def _one_of(schemas: Any, value: Any, path: str, result: Result) -> None:
    if not schemas:
        return
    tried = [_check(schema, value, path) for schema in schemas]
    valid = [one for one in tried if not one.problems]
    if len(valid) == 1:
        result.merge(valid[0])
        return
    why = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    result.add(_unplaced(f"{json.dumps(path)} must validate one and only one schema (oneOf). {why}"))
    if not valid:
        result.merge(max(tried, key=lambda one: one.matches))


def _all_of(schemas: Any, value: Any, path: str, result: Result) -> None:
    tried = [_check(schema, value, path) for schema in schemas]
    for one in tried:
        result.merge(one)
    valid = sum(not one.problems for one in tried)
    if valid != len(tried):
        more = "" if valid else ". None validated"
        result.add(_unplaced(f"{json.dumps(path)} must validate all the schemas (allOf){more}"))


# --- scalars ---------------------------------------------------------------------------------------------------------


def _string(schema: Schema, value: Any, path: str, _old: Any) -> Result | None:
    if not isinstance(value, str):
        return None
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is not None and len(value) > longest:
        unit = "byte" if longest == 1 else "bytes"
        return _one(path, "TooLong", f"may not be more than {longest} {unit}", "<value omitted>")
    if shortest is not None and len(value) < shortest:
        return _one(path, "Invalid", f"{path} {_BODY} should be at least {shortest} chars long", value)
    if pattern and not _matches(pattern, value):
        return _one(path, "Invalid", f"{path} {_BODY} should match '{pattern}'", value)
    return Result()


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


def _format(schema: Schema, value: Any, path: str, _old: Any) -> Result | None:
    form = supported_format(schema)
    if not isinstance(value, str) or not form or set(types_of(schema)) & {"integer", "number"}:
        return None
    if KNOWN_FORMATS[form.replace("-", "")](value):
        return Result()
    message = f"{path} {_BODY} must be of type {form}: {json.dumps(value, ensure_ascii=False)}"
    return _one(path, "TypeInvalid", message, value)


def _number(schema: Schema, value: Any, path: str, _old: Any) -> Result | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    result = Result(matches=1)
    if not _in_range(schema, value):
        result.add(_unplaced(_range_message(schema, path)))
    if isinstance(value, int):
        # Go cuts the bounds of a whole number down to whole numbers.
        schema = {**schema, **{key: int(schema[key]) for key in _BOUNDS if schema.get(key) is not None}}
    factor = schema.get("multipleOf")
    if factor and (value % factor if isinstance(value, int) else not (value / factor).is_integer()):
        result.add(_number_problem(path, f"a multiple of {_go_number(factor)}", value))
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None:
        exclusive = schema.get("exclusiveMinimum") is True
        if value < least or (exclusive and value == least):
            words = "greater than" if exclusive else "greater than or equal to"
            result.add(_number_problem(path, f"{words} {_go_number(least)}", value))
    if most is not None:
        exclusive = schema.get("exclusiveMaximum") is True
        if value > most or (exclusive and value == most):
            words = "less than" if exclusive else "less than or equal to"
            result.add(_number_problem(path, f"{words} {_go_number(most)}", value))
    return result


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


def _number_problem(path: str, rule: str, value: Any) -> FieldProblem:
    return FieldProblem(_at(path), "Invalid", f"{path} {_BODY} should be {rule}", value)


def _go_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


def _enum(schema: Schema, value: Any, path: str, _old: Any = ABSENT) -> Result:
    allowed = schema.get("enum")
    if not allowed or any(equal(value, one) for one in allowed if one is not None):
        return Result()
    names = (one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in allowed)
    listed = ", ".join(json.dumps(name, ensure_ascii=False) for name in names)
    return _one(path, "NotSupported", f"supported values: {listed}", value)


# --- lists and objects -----------------------------------------------------------------------------------------------


def _list(schema: Schema, value: Any, path: str, old: Any) -> Result | None:
    if not isinstance(value, list):
        return None
    result, size = Result(matches=1), len(value)
    items = schema.get("items")
    if isinstance(items, Mapping):
        find_old = old_items(schema, old)
        for index, item in enumerate(value):
            result.merge(_check(items, item, f"{path}[{index}]", find_old(item)))
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if fewest is not None and size < fewest:
        message = f"{path} {_BODY} should have at least {fewest} items"
        result.add(FieldProblem(_at(path), "Invalid", message, size))
    if most is not None and size > most:
        result.add(_too_many(path, size, most))
    if schema.get("uniqueItems") and _has_twins(value):
        result.add(FieldProblem(_at(path), "Invalid", f"{path} {_BODY} shouldn't contain duplicates", ""))
    return result


def _too_many(path: str, size: int, most: int) -> FieldProblem:
    message = f"must have at most {most} item" + ("" if most == 1 else "s")
    return FieldProblem(_at(path), "TooMany", message, size)


def _has_twins(items: list[Any]) -> bool:
    return any(equal(item, other) for i, item in enumerate(items) for other in items[:i])


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


def _object(schema: Schema, value: Any, path: str, old: Any) -> Result | None:
    if not isinstance(value, dict):
        return None
    result = Result()
    _object_size(schema, len(value), path, result)
    properties = schema.get("properties") or {}
    rest = schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    for key, item in value.items():
        where = f"{path}.{key}" if path or key not in properties else key
        if key in properties:
            result.merge(_check(properties[key], item, where, before.get(key, ABSENT)))
        elif isinstance(rest, Mapping):
            result.merge(_check(rest, item, where, before.get(key, ABSENT)))
        elif rest is False:
            message = f"{path}.{key} {_BODY} is a forbidden property"
            result.add(FieldProblem(_at(path), "Invalid", message, key))
    for key in schema.get("required") or ():
        if key not in value:
            result.add(FieldProblem(_at(f"{path}.{key}"), "Required"))
    return result


def _object_size(schema: Schema, size: int, path: str, result: Result) -> None:
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    if fewest is not None and size < fewest:
        message = f"{path} {_BODY} should have at least {fewest} properties"
        result.add(FieldProblem(_at(path), "Invalid", message, size))
    if most is not None and size > most:
        result.add(_too_many(path, size, most))


_Check = Callable[[Schema, Any, str, Any], Result | None]
_CHECKS: tuple[_Check, ...] = (_type, _alternatives, _string, _format, _number, _list, _enum, _object)


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
