"""The rules that a CRD writes in CEL: x-kubernetes-validations.

In: an object, the old one on an update, and the schema of a CRD version. Out: problems; rules that could not be tried
go into `skipped`. CEL itself comes from the package common-expression-language: where that is missing, or a rule uses
syntax that it does not read, the rule is skipped, and the object may break it unseen. Called by `schema`.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from .cel_functions import FUNCTIONS
from .problems import OMITTED, ROOT, FieldProblem
from .typed_values import ABSENT
from .validation import is_unchanged, old_items

if TYPE_CHECKING:
    import cel

Schema = Mapping[str, Any]
Skipped = dict[str, str]

_ACCESSIBLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_./-]*")
_RESERVED = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNKNOWN_FUNCTION = re.compile(r"Undefined variable or function: '([^']+)'")
_LONGEST_MESSAGE = 5120
_TEXT: Schema = {"type": "string"}
_OBJECT_FIELDS: dict[str, Schema] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}


def is_available() -> bool:
    """Whether CEL can be evaluated here at all."""
    return importlib.util.find_spec("cel") is not None


def contains_rules(schema: Any) -> bool:
    """Whether any part of a schema carries rules: most do not, and then CEL is never imported."""
    if isinstance(schema, Mapping):
        return bool(schema.get("x-kubernetes-validations")) or any(map(contains_rules, schema.values()))
    return isinstance(schema, list) and any(contains_rules(item) for item in schema)


def rule_problems(schema: Schema, value: Any, old: Any, skipped: Skipped) -> list[FieldProblem]:
    """The rules that an object breaks; `old` is ABSENT on create."""
    if not is_available():
        skipped["*"] = "the package common-expression-language is not installed"
        return []
    found: list[FieldProblem] = []
    _walk(_as_object(schema), value, old, "", False, found, skipped)
    return found


def _as_object(schema: Schema) -> Schema:
    return {**schema, "properties": {**(schema.get("properties") or {}), **_OBJECT_FIELDS}}


def _walk(
    schema: Schema,
    value: Any,
    old: Any,
    path: str,
    unchanged: bool,
    found: list[FieldProblem],
    skipped: Skipped,
) -> None:
    """One node and all below it. `unchanged` tells whether the nearest comparable value is what it was."""
    if value is None:
        return
    if old is not ABSENT and old is not None:
        unchanged = is_unchanged(schema, value, old)
    _check_rules(schema, value, old, path, unchanged, found, skipped)
    for part in schema.get("allOf") or ():
        if contains_rules(part):
            _walk({**schema, **part, "allOf": ()}, value, old, path, unchanged, found, skipped)
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, Mapping):
            find_old = old_items(schema, old)
            for index, item in enumerate(value):
                _walk(items, item, find_old(item), f"{path}[{index}]", unchanged, found, skipped)
    elif isinstance(value, dict):
        _walk_map(schema, value, old, path, unchanged, found, skipped)


def _walk_map(
    schema: Schema,
    value: dict[str, Any],
    old: Any,
    path: str,
    unchanged: bool,
    found: list[FieldProblem],
    skipped: Skipped,
) -> None:
    before = old if isinstance(old, dict) else {}
    properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, item in value.items():
        if key in properties:
            where = f"{path}.{key}" if path else key
            _walk(properties[key], item, before.get(key, ABSENT), where, unchanged, found, skipped)
        elif isinstance(rest, Mapping):
            _walk(rest, item, before.get(key, ABSENT), f"{path}[{key}]", unchanged, found, skipped)


# --- one rule --------------------------------------------------------------------------------------------------------


def _check_rules(
    schema: Schema,
    value: Any,
    old: Any,
    path: str,
    unchanged: bool,
    found: list[FieldProblem],
    skipped: Skipped,
) -> None:
    rules = schema.get("x-kubernetes-validations") or ()
    if not rules:
        return
    had_old = old is not ABSENT and old is not None
    self_value = cel_value(schema, value)
    old_value = cel_value(schema, old) if had_old else None
    for rule in rules:
        program = _program(rule.get("rule", ""))
        if isinstance(program, str):
            skipped[rule.get("rule", "")] = program
            continue
        uses_old = "oldSelf" in program.variables()
        if uses_old and not had_old and not rule.get("optionalOldSelf"):
            continue
        variables = {"self": self_value}
        if uses_old:
            variables["oldSelf"] = _optional(had_old, old_value) if rule.get("optionalOldSelf") else old_value
        verdict = _evaluate(rule, program, variables, schema, path)
        if isinstance(verdict, FieldProblem):
            found.append(verdict)
        elif not verdict and (uses_old or not unchanged):
            found.append(_broken(rule, variables, schema, value, path))


def _evaluate(
    rule: Schema, program: cel.Program, variables: dict[str, Any], schema: Schema, path: str
) -> FieldProblem | bool:
    """Whether a rule holds, or why that cannot be said: a field that is not there, an operator that does not fit."""
    try:
        return program.execute(_context(variables)) is True
    except Exception as error:  # CEL reports by many types; all mean that this rule failed
        return FieldProblem(path or ROOT, "Invalid", _failure_text(error, _rule_text(rule)), _type_name(schema))


def _failure_text(error: Exception, rule: str) -> str:
    unknown = _UNKNOWN_FUNCTION.match(str(error))
    if isinstance(error, TypeError) or unknown:
        overload = f"no such overload: {unknown[1]}" if unknown else "no such overload"
        words = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{overload}': {words}: {rule}"
    text = f"no such key: {error.args[0]}" if isinstance(error, KeyError) else str(error)
    return f"{text} evaluating rule: {rule}"


def _broken(rule: Schema, variables: dict[str, Any], schema: Schema, value: Any, path: str) -> FieldProblem:
    detail = _message(rule, variables) or _default_message(rule)
    where = _below(path, rule.get("fieldPath") or "") or ROOT
    shown = OMITTED if schema.get("type") in ("object", "array") else value
    match rule.get("reason"):
        case "FieldValueForbidden":
            return FieldProblem(where, "Forbidden", detail)
        case "FieldValueRequired":
            return FieldProblem(where, "Required", detail)
        case "FieldValueDuplicate":
            return FieldProblem(where, "Duplicate", "", shown)
        case _:
            return FieldProblem(where, "Invalid", detail, shown)


def _below(path: str, field_path: str) -> str:
    """A rule may point at a field below its own: `.spec.size` or `['size']`."""
    text = re.sub(r"\['((?:[^'\\]|\\.)*)'\]", r".\1", field_path)
    return (path + text).removeprefix(".")


def _message(rule: Schema, variables: dict[str, Any]) -> str:
    expression = rule.get("messageExpression")
    if not expression:
        return ""
    program = _program(expression)
    if isinstance(program, str):
        return ""
    try:
        text = program.execute(_context(variables))
    except Exception:  # a message that cannot be made is replaced by the rule's own
        return ""
    text = text.strip() if isinstance(text, str) else ""
    return "" if "\n" in text or len(text) > _LONGEST_MESSAGE else text


def _rule_text(rule: Schema) -> str:
    return str(rule.get("message") or rule.get("rule", "")).strip()


def _default_message(rule: Schema) -> str:
    return _rule_text(rule) if rule.get("message") else f"failed rule: {_rule_text(rule)}"


def _type_name(schema: Schema) -> str:
    return str(schema.get("type") or "")


# --- the CEL package -------------------------------------------------------------------------------------------------


@cache
def _program(expression: str) -> cel.Program | str:
    """A compiled rule, or why it cannot be compiled here."""
    import cel  # noqa: PLC0415 - 6 MB of native code that most runs never need

    try:
        return cel.compile(expression)
    except ValueError as error:
        return str(error)


@cache
def _functions() -> dict[str, Any]:
    import cel  # noqa: PLC0415
    from cel.stdlib import add_stdlib_to_context  # noqa: PLC0415

    context = cel.Context()
    add_stdlib_to_context(context)
    return {**context.functions, **FUNCTIONS}


def _context(variables: dict[str, Any]) -> cel.Context:
    import cel  # noqa: PLC0415

    return cel.Context(variables=variables, functions=_functions())


def _optional(present: bool, value: Any) -> cel.OptionalValue:
    import cel  # noqa: PLC0415

    return cel.OptionalValue.of(value) if present else cel.OptionalValue.none()


# --- values ----------------------------------------------------------------------------------------------------------


def cel_value(schema: Schema | None, value: Any) -> Any:
    """A JSON value as CEL sees it through its schema: only declared fields, under their escaped names."""
    if schema is None or value is None:
        return value
    if isinstance(value, dict):
        return _cel_map(schema, value)
    if isinstance(value, list):
        items = schema.get("items")
        return [cel_value(items if isinstance(items, Mapping) else None, item) for item in value]
    if isinstance(value, str):
        return _cel_text(str(schema.get("format") or ""), value)
    if schema.get("type") == "number" and not isinstance(value, bool):
        return float(value)
    if schema.get("type") == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _cel_map(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    properties, rest = dict(schema.get("properties") or {}), schema.get("additionalProperties")
    if schema.get("x-kubernetes-embedded-resource"):
        properties |= _OBJECT_FIELDS
    if isinstance(rest, Mapping):
        return {key: cel_value(rest, item) for key, item in value.items()}
    if not properties:
        return value
    result: dict[str, Any] = {}
    for key, item in value.items():
        name = escape(key)
        if key in properties and name is not None:
            result[name] = cel_value(properties[key], item)
    return result


def escape(name: str) -> str | None:
    """The name of a field in CEL; None where the field cannot be named."""
    if not _ACCESSIBLE.fullmatch(name):
        return None
    if name in _RESERVED:
        return f"__{name}__"
    for plain, escaped in _ESCAPES:
        name = name.replace(plain, escaped)
    return name


def _cel_text(form: str, value: str) -> Any:
    try:
        if form == "date-time":
            return datetime.fromisoformat(value)
        if form == "date":
            return datetime.fromisoformat(f"{value}T00:00:00+00:00")
    except ValueError:
        return value
    if form == "duration":
        parts = _DURATION.findall(value)
        if parts and "".join(number + unit for number, unit in parts) == value.lstrip("+-"):
            seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
            return timedelta(seconds=-seconds if value.startswith("-") else seconds)
    return value
