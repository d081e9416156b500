"""The rules that a CRD writes in CEL: x-kubernetes-validations.

In: an object, the old one on an update, and the schema of a CRD version. Out: problems; rules that could not be tried
go into `skipped`. CEL itself comes from the package common-expression-language: a rule in syntax that it does not read,
or with a function that Kubernetes adds to CEL, is skipped, and the object may break it unseen. Of a rule's fields,
`rule` and `message` are read: definitions here have no others. Called by `schema`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    walk = _Walk(skipped)
    walk.visit(_as_object(schema), value, old, "", False)
    return walk.found


def _as_object(schema: Schema) -> Schema:
    return {**schema, "properties": {**(schema.get("properties") or {}), **_OBJECT_FIELDS}}


@dataclass(frozen=True, slots=True)
class _Walk:
    """One object beside its schema. `unchanged` tells whether the nearest comparable value is what it was."""

    skipped: Skipped
    found: list[FieldProblem] = field(default_factory=list)

    def visit(self, schema: Schema, value: Any, old: Any, path: str, unchanged: bool) -> None:
        """One node and all below it."""
        if value is None:
            return
        if old is not ABSENT and old is not None:
            unchanged = is_unchanged(schema, value, old)
        self._check_rules(schema, value, old, path, unchanged)
        if isinstance(value, list):
            items = schema.get("items")
            if isinstance(items, Mapping):
                find_old = old_items(schema, old)
                for index, item in enumerate(value):
                    self.visit(items, item, find_old(item), f"{path}[{index}]", unchanged)
        elif isinstance(value, dict):
            self._visit_map(schema, value, old, path, unchanged)

    def _visit_map(self, schema: Schema, value: dict[str, Any], old: Any, path: str, unchanged: bool) -> None:
        before = old if isinstance(old, dict) else {}
        properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, item in value.items():
            if key in properties:
                where = f"{path}.{key}" if path else key
                self.visit(properties[key], item, before.get(key, ABSENT), where, unchanged)
            elif isinstance(rest, Mapping):
                self.visit(rest, item, before.get(key, ABSENT), f"{path}[{key}]", unchanged)

    def _check_rules(self, schema: Schema, value: Any, old: Any, path: str, unchanged: bool) -> None:
        rules = schema.get("x-kubernetes-validations") or ()
        if not rules:
            return
        had_old = old is not ABSENT and old is not None
        self_value = cel_value(schema, value)
        old_value = cel_value(schema, old) if had_old else None
        for rule in rules:
            program = _program(rule.get("rule", ""))
            if isinstance(program, str):
                self.skipped[rule.get("rule", "")] = program
                continue
            uses_old = "oldSelf" in program.variables()
            if uses_old and not had_old:
                continue
            variables = {"self": self_value} | ({"oldSelf": old_value} if uses_old else {})
            verdict = self._evaluate(rule, program, variables, schema, path)
            if isinstance(verdict, FieldProblem):
                self.found.append(verdict)
            elif not verdict and (uses_old or not unchanged):
                shown = OMITTED if schema.get("type") in ("object", "array") else value
                self.found.append(FieldProblem(path or ROOT, "Invalid", _default_message(rule), shown))

    def _evaluate(
        self, rule: Schema, program: cel.Program, variables: dict[str, Any], schema: Schema, path: str
    ) -> FieldProblem | bool:
        """Whether a rule holds, or why that cannot be said: a field that is missing, an operator that does not fit."""
        import cel  # noqa: PLC0415

        try:
            return program.execute(cel.Context(variables=variables)) is True
        except Exception as error:  # CEL reports by many types; all mean that this rule failed
            if _UNKNOWN_FUNCTION.match(str(error)):
                self.skipped[rule.get("rule", "")] = str(error)
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
