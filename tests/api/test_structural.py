"""Values held against structural schemas: every finding with its path, never an exception."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_operator.api.bounds import MAX_DEPTH_LEVELS
from slurm_operator.api.problem import format_path
from slurm_operator.api.structural import structural

STRING = {"type": "string"}


def found(value: object, schema: dict[str, Any], types: dict[str, Any] | None = None) -> list[str]:
    """The findings as text."""
    return [f"{format_path(problem.path)}: {problem.message}" for problem in structural(value, schema, (), types)]


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        ("a", {"type": "integer"}, 'must be an integer, not "a"'),
        (True, {"type": "integer"}, "must be an integer, not True"),
        (1.5, {"type": "integer"}, "must be an integer, not 1.5"),
        (1, STRING, "must be a string, not 1"),
        (1, {"type": "boolean"}, "must be a boolean, not 1"),
        ([], {"type": "object"}, "must be a mapping, not []"),
        ({}, {"type": "array"}, "must be a list, not {}"),
        ("1", {"type": "number"}, 'must be a number, not "1"'),
        (True, {"x-kubernetes-int-or-string": True}, "must be an integer or a string, not True"),
        (1.5, {"x-kubernetes-int-or-string": True}, "must be an integer or a string, not 1.5"),
        ("x", {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"}, '"x" does not match ^[0-9]+$'),
        ("DRAN", {"type": "string", "enum": ["UP", "DRAIN"]}, '"DRAN" is not one of UP, DRAIN; did you mean "DRAIN"?'),
        ("", {"type": "string", "minLength": 1}, "must not be empty"),
        ("abc", {"type": "string", "maxLength": 2}, "is 3 characters long; at most 2 are allowed"),
        ("a\n", {"type": "string", "pattern": "^a$"}, '"a\\n" does not match ^a$'),
        ("now", {"type": "string", "format": "date-time"}, '"now" is not a time such as 2026-01-31T22:00:00Z'),
        (0, {"type": "integer", "minimum": 1}, "0 is too small; the minimum is 1"),
        (9, {"type": "integer", "maximum": 8}, "9 is too large; the maximum is 8"),
        (2**31, {"type": "integer", "format": "int32"}, "2147483648 does not fit into int32"),
        (-(2**63) - 1, {"type": "integer", "format": "int64"}, "-9223372036854775809 does not fit into int64"),
    ],
)
def test_a_wrong_scalar_is_explained(value: object, schema: dict[str, Any], message: str) -> None:
    assert found(value, schema) == [f"(root): {message}"]


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (None, STRING),
        ("a", STRING),
        (1, {"type": "number"}),
        (1.5, {"type": "number"}),
        ("25%", {"x-kubernetes-int-or-string": True}),
        (5, {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"}),
        ("xay", {"type": "string", "pattern": "a"}),
        (2**31 - 1, {"type": "integer", "format": "int32"}),
        ("2026-01-31T22:00:00.5+01:00", {"type": "string", "format": "date-time"}),
        ({"a": {"b": 1}}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        ({"anything": 1}, {}),
        (["a", "a"], {"type": "array", "items": STRING}),
    ],
    ids=repr,
)
def test_what_the_schema_allows_passes(value: object, schema: dict[str, Any]) -> None:
    assert found(value, schema) == []


def test_an_unknown_field_is_named_with_its_near_miss() -> None:
    schema = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    assert found({"replica": 1}, schema) == ['replica: unknown field; did you mean "replicas"?']


def test_a_directive_of_an_overlay_is_known_within_overlays_only() -> None:
    schema = {"type": "object", "properties": {"a": STRING}}
    assert found({"$patch": "delete"}, schema) == ['["$patch"]: unknown field']
    assert found({"$patch": "delete"}, {"ref": "A"}, {"A": schema}) == []


def test_a_required_field_is_missing_unless_it_has_a_default() -> None:
    schema = {"type": "object", "required": ["a", "b"], "properties": {"a": STRING, "b": {**STRING, "default": "x"}}}
    assert found({}, schema) == ["a: is required"]
    assert found({"a": None}, schema) == ["a: is required"]


def test_values_of_a_map_are_checked() -> None:
    assert found({"a": 1}, {"type": "object", "additionalProperties": STRING}) == ["a: must be a string, not 1"]


def test_items_of_a_list_are_checked_and_never_null() -> None:
    schema = {"type": "array", "items": STRING}
    assert found(["a", 1, None], schema) == ["[1]: must be a string, not 1", "[2]: must not be null"]


def test_a_set_holds_each_value_once() -> None:
    schema = {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}
    assert found(["a", "b", "a"], schema) == ['[2]: is listed twice: "a"']


def test_a_map_list_holds_each_key_once() -> None:
    item = {"type": "object", "properties": {"type": STRING, "status": STRING}}
    schema = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    twice = [{"type": "Ready", "status": "a"}, {"type": "Ready", "status": "b"}, "junk"]
    assert [line.partition(":")[0] for line in found(twice, schema)] == ["[2]", "[1]"]


def test_types_are_looked_up_by_name() -> None:
    types = {"Port": {"type": "object", "properties": {"name": STRING}}}
    assert found({"name": 1}, {"ref": "Port"}, types) == ["name: must be a string, not 1"]


def test_endless_nesting_is_refused_without_following_it() -> None:
    value: dict[str, Any] = {}
    for _ in range(MAX_DEPTH_LEVELS * 2):
        value = {"a": value}
    schema: dict[str, Any] = {"ref": "Deep"}
    types = {"Deep": {"type": "object", "properties": {"a": {"ref": "Deep"}}}}
    (problem,) = found(value, schema, types)
    assert problem.endswith(f"is nested deeper than {MAX_DEPTH_LEVELS} levels")
