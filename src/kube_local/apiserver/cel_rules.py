"""The rules that a CRD writes in CEL: x-kubernetes-validations.

In: an object, the old one on an update, and the schema of a CRD version. Out: problems; rules that could not be tried
go into `skipped`. CEL itself comes from the package common-expression-language: a rule in syntax that it does not read,
or with a function that Kubernetes adds to CEL, is skipped, and the object may break it unseen. Of a rule's fields,
`rule` and `message` are read: definitions here have no others. Called by `schema`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from .problems import OMITTED, ROOT, FieldProblem
from .typed_values import ABSENT
from .validation import is_unchanged, old_items

if TYPE_CHECKING:
    import cel

Schema = Mapping[str, Any]
Skipped = dict[str, str]

_UNKNOWN_FUNCTION = re.compile(r"Undefined variable or function: '([^']+)'")
_TEXT: Schema = {"type": "string"}
_OBJECT_FIELDS: dict[str, Schema] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}


def contains_rules(schema: Any) -> bool:
    """Whether any part of a schema carries rules: most do not, and then CEL is never imported."""
    if isinstance(schema, Mapping):
        return bool(schema.get("x-kubernetes-validations")) or any(map(contains_rules, schema.values()))
    return isinstance(schema, list) and any(contains_rules(item) for item in schema)


def rule_problems(schema: Schema, value: Any, old: Any, skipped: Skipped) -> list[FieldProblem]:
    """The rules that an object breaks; `old` is ABSENT on create."""
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
        if uses_old and not had_old:
            continue
        variables = {"self": self_value} | ({"oldSelf": old_value} if uses_old else {})
        verdict = _evaluate(rule, program, variables, schema, path, skipped)
        if isinstance(verdict, FieldProblem):
            found.append(verdict)
        elif not verdict and (uses_old or not unchanged):
            shown = OMITTED if schema.get("type") in ("object", "array") else value
            found.append(FieldProblem(path or ROOT, "Invalid", _default_message(rule), shown))


def _evaluate(
    rule: Schema, program: cel.Program, variables: dict[str, Any], schema: Schema, path: str, skipped: Skipped
) -> FieldProblem | bool:
    """Whether a rule holds, or why that cannot be said: a field that is not there, an operator that does not fit."""
    import cel  # noqa: PLC0415

    try:
        return program.execute(cel.Context(variables=variables)) is True
    except Exception as error:  # CEL reports by many types; all mean that this rule failed
        if _UNKNOWN_FUNCTION.match(str(error)):
            skipped[rule.get("rule", "")] = str(error)
            return True
        return FieldProblem(path or ROOT, "Invalid", _failure_text(error, _rule_text(rule)), _type_name(schema))


def _failure_text(error: Exception, rule: str) -> str:
    if isinstance(error, TypeError):
        text = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'no such overload': {text}: {rule}"
    text = f"no such key: {error.args[0]}" if isinstance(error, KeyError) else str(error)
    return f"{text} evaluating rule: {rule}"


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


# --- values ----------------------------------------------------------------------------------------------------------


def cel_value(schema: Schema | None, value: Any) -> Any:
    """A JSON value as CEL sees it through its schema: only declared fields."""
    if schema is None or value is None:
        return value
    if isinstance(value, dict):
        return _cel_map(schema, value)
    if isinstance(value, list):
        items = schema.get("items")
        return [cel_value(items if isinstance(items, Mapping) else None, item) for item in value]
    if schema.get("type") == "number" and not isinstance(value, bool):
        return float(value)
    if schema.get("type") == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _cel_map(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    if isinstance(rest, Mapping):
        return {key: cel_value(rest, item) for key, item in value.items()}
    if not properties:
        return value
    return {key: cel_value(properties[key], item) for key, item in value.items() if key in properties}
