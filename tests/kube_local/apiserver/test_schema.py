"""Schemas: what is pruned, defaulted and refused, in the words of kube-apiserver.

Custom resources first (structural schemas and CEL rules), then the built-in kinds.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_local.apiserver import definitions, validation
from kube_local.apiserver.schema import TypeSchema

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}


def crd(**spec: Any) -> TypeSchema:
    """The schema of a custom resource with these fields in its spec; keys that start with x_ belong to the spec."""
    own = {"x-kubernetes-" + key[2:].replace("_", "-"): value for key, value in spec.items() if key.startswith("x_")}
    fields = {key: value for key, value in spec.items() if not key.startswith("x_")}
    root = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields, **own}}}
    return TypeSchema.for_crd({"name": "v1", "schema": {"openAPIV3Schema": root}})


def widget(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def problems(schema: TypeSchema, old: dict[str, Any] | None = None, **spec: Any) -> list[str]:
    return [str(problem) for problem in schema.validate(widget(**spec), None if old is None else widget(**old))]


# --- pruning ---------------------------------------------------------------------------------------------------------

FREE: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PRUNED: list[tuple[str, Schema, Any, Any]] = [
    ("an unknown field goes", {"type": "object", "properties": {"a": TEXT}}, {"a": "1", "b": 2}, {"a": "1"}),
    (
        "also inside of lists",
        {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
        [{"a": "1", "b": 2}],
        [{"a": "1"}],
    ),
    ("entries of a map stay", {"type": "object", "additionalProperties": TEXT}, {"x": "1"}, {"x": "1"}),
    ("a free part keeps everything", FREE, {"x": {"y": [1]}}, {"x": {"y": [1]}}),
    (
        "but not below the fields that it declares",
        {**FREE, "properties": {"known": {"type": "object", "properties": {"a": TEXT}}}},
        {"known": {"a": "1", "b": 2}, "x": 1},
        {"known": {"a": "1"}, "x": 1},
    ),
    ("a null goes where null is not allowed", {"type": "object", "properties": {"a": TEXT}}, {"a": None}, {}),
    (
        "a null stays where it is allowed",
        {"type": "object", "properties": {"a": {**TEXT, "nullable": True}}},
        {"a": None},
        {"a": None},
    ),
]


@pytest.mark.parametrize(("schema", "value", "expected"), [c[1:] for c in PRUNED], ids=[c[0] for c in PRUNED])
def test_what_is_pruned(schema: Schema, value: Any, expected: Any) -> None:
    assert crd(x=schema).prune(widget(x=value))["spec"] == {"x": expected}


def test_unknown_fields_are_named_for_strict_clients() -> None:
    schema = crd(parts={"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}})
    sent = widget(parts=[{"a": "1"}, {"b": 2}], typo=1)
    sent["metadata"]["nmae"] = "w"
    assert schema.unknown_fields(sent) == ["metadata.nmae", "spec.parts[1].b", "spec.typo"]


# --- defaults --------------------------------------------------------------------------------------------------------

DEFAULTED: list[tuple[str, Schema, dict[str, Any], dict[str, Any]]] = [
    ("a field that is not there", {**NUMBER, "default": 3}, {}, {"x": 3}),
    ("a field that is there is kept, also when it is zero", {**NUMBER, "default": 3}, {"x": 0}, {"x": 0}),
    ("a null where null is not allowed", {**NUMBER, "default": 3}, {"x": None}, {"x": 3}),
    ("a null that is allowed is kept", {**NUMBER, "default": 3, "nullable": True}, {"x": None}, {"x": None}),
    (
        "defaults inside of a default",
        {"type": "object", "default": {}, "properties": {"a": {**TEXT, "default": "d"}}},
        {},
        {"x": {"a": "d"}},
    ),
    (
        "no default below what is not there",
        {"type": "object", "properties": {"a": {**TEXT, "default": "d"}}},
        {},
        {},
    ),
    (
        "items and entries",
        {"type": "array", "items": {"type": "object", "properties": {"a": {**TEXT, "default": "d"}}}},
        {"x": [{}]},
        {"x": [{"a": "d"}]},
    ),
]


@pytest.mark.parametrize(("schema", "spec", "expected"), [c[1:] for c in DEFAULTED], ids=[c[0] for c in DEFAULTED])
def test_what_is_defaulted(schema: Schema, spec: dict[str, Any], expected: dict[str, Any]) -> None:
    kind = crd(x=schema)
    assert kind.default(kind.prune(widget(**spec)))["spec"] == expected


def test_a_default_is_not_shared_between_objects() -> None:
    kind = crd(x={"type": "object", "default": {"a": {}}, "x-kubernetes-preserve-unknown-fields": True})
    first = kind.default(widget())
    first["spec"]["x"]["a"]["changed"] = True
    assert kind.default(widget())["spec"]["x"] == {"a": {}}


# --- validation ------------------------------------------------------------------------------------------------------

SET: Schema = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}
KEYED: Schema = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": TEXT, "count": {**NUMBER, "minimum": 1}}},
}
INVALID: list[tuple[str, Schema, Any, list[str]]] = [
    (
        "a word for a number",
        NUMBER,
        "big",
        ['spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"'],
    ),
    ("a whole float is a number", NUMBER, 3.0, []),
    ("a null", NUMBER, None, ['spec.x: Invalid value: "null": spec.x in body must be of type integer: "null"']),
    ("a number or a word", {"x-kubernetes-int-or-string": True}, "50%", []),
    (
        "neither a number nor a word",
        {"x-kubernetes-int-or-string": True},
        True,
        ['spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"'],
    ),
    (
        "a word that is not in the list",
        {**TEXT, "enum": ["a", "b"]},
        "c",
        ['spec.x: Unsupported value: "c": supported values: "a", "b"'],
    ),
    (
        "a word that does not match",
        {**TEXT, "pattern": "^[a-z]+$"},
        "A",
        ["spec.x: Invalid value: \"A\": spec.x in body should match '^[a-z]+$'"],
    ),
    ("a line break before the end does not match $", {**TEXT, "pattern": "^a$"}, "a\n", ["spec.x: Invalid value"]),
    ("a word that is too long", {**TEXT, "maxLength": 2}, "abc", ["spec.x: Too long: may not be more than 2 bytes"]),
    (
        "a word that is too short",
        {**TEXT, "minLength": 1},
        "",
        ['spec.x: Invalid value: "": spec.x in body should be at least 1 chars long'],
    ),
    (
        "a number that is too small",
        {**NUMBER, "minimum": 1},
        0,
        ["spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1"],
    ),
    (
        "a number that does not fit its format",
        {**NUMBER, "format": "int32"},
        2**31,
        ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x'],
    ),
    (
        "a time that is none",
        {**TEXT, "format": "date-time"},
        "noon",
        ['spec.x: Invalid value: "noon": spec.x in body must be of type date-time: "noon"'],
    ),
    ("a time", {**TEXT, "format": "date-time"}, "2026-01-01T00:00:00Z", []),
    ("a format that nobody knows is not checked", {**TEXT, "format": "haiku"}, "x", []),
    ("too many items", {**SET, "maxItems": 1}, ["a", "b"], ["spec.x: Too many: 2: must have at most 1 item"]),
    ("twins in a set", SET, ["a", "b", "a"], ['spec.x[2]: Duplicate value: "a"']),
    ("twins in a keyed list", KEYED, [{"name": "a"}, {"name": "a"}], ['spec.x[1]: Duplicate value: {"name":"a"}']),
    (
        "an item inside of a list",
        KEYED,
        [{"name": "a", "count": 0}],
        ["spec.x[0].count: Invalid value: 0: spec.x[0].count in body should be greater than or equal to 1"],
    ),
    (
        "a field that must be there",
        {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
        {},
        ["spec.x.a: Required value"],
    ),
]


@pytest.mark.parametrize(("schema", "value", "expected"), [c[1:] for c in INVALID], ids=[c[0] for c in INVALID])
def test_what_is_refused(schema: Schema, value: Any, expected: list[str]) -> None:
    found = problems(crd(x=schema), x=value)
    assert len(found) == len(expected)
    assert all(one.startswith(start) for one, start in zip(found, expected, strict=True))


def test_all_problems_are_told_at_once() -> None:
    found = crd(a=NUMBER, b=TEXT).validate(widget(a="x", b=1))
    assert [(problem.path, problem.reason, problem.bad_value) for problem in found] == [
        ("spec.a", "TypeInvalid", "string"),
        ("spec.b", "TypeInvalid", "integer"),
    ]


def test_an_old_sin_is_forgiven_as_long_as_it_is_not_touched() -> None:
    schema = crd(x={**NUMBER, "minimum": 5}, y=TEXT)
    assert problems(schema, {"x": 1}, x=1, y="new") == []
    assert problems(schema, {"x": 1}, x=2) == [
        "spec.x: Invalid value: 2: spec.x in body should be greater than or equal to 5"
    ]


# --- rules in CEL ----------------------------------------------------------------------------------------------------


def rule(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"rule": text, **more}]


RULES: list[tuple[str, TypeSchema, dict[str, Any] | None, dict[str, Any], list[str]]] = [
    (
        "a rule between two fields",
        crd(a=NUMBER, b=NUMBER, x_validations=rule("self.a <= self.b", message="a must not exceed b")),
        None,
        {"a": 2, "b": 1},
        ["spec: Invalid value: a must not exceed b"],
    ),
    ("a rule that holds", crd(a=NUMBER, x_validations=rule("self.a > 0")), None, {"a": 1}, []),
    (
        "a rule without a message shows itself",
        crd(a={**NUMBER, "x-kubernetes-validations": rule("self > 1")}),
        None,
        {"a": 1},
        ["spec.a: Invalid value: 1: failed rule: self > 1"],
    ),
    (
        "a transition rule refuses a change",
        crd(a={**TEXT, "x-kubernetes-validations": rule("self == oldSelf", message="immutable")}),
        {"a": "x"},
        {"a": "y"},
        ['spec.a: Invalid value: "y": immutable'],
    ),
    (
        "a transition rule does not bind a new field",
        crd(a={**TEXT, "x-kubernetes-validations": rule("self == oldSelf")}),
        {},
        {"a": "y"},
        [],
    ),
    (
        "a macro over a list",
        crd(
            a={**SET, "x-kubernetes-validations": rule("self.all(x, x.startsWith('n'))", message="names start with n")}
        ),
        None,
        {"a": ["n1", "m2"]},
        ["spec.a: Invalid value: names start with n"],
    ),
    (
        "a field that is not there",
        crd(a=NUMBER, x_validations=rule("self.a > 0")),
        None,
        {},
        ['spec: Invalid value: "object": no such key: a evaluating rule: self.a > 0'],
    ),
    (
        "a rule on an item of a keyed list",
        crd(
            a={
                **KEYED,
                "items": {
                    **KEYED["items"],
                    "x-kubernetes-validations": rule("self.count >= oldSelf.count", message="grow"),
                },
            }
        ),
        {"a": [{"name": "p", "count": 3}, {"name": "q", "count": 1}]},
        {"a": [{"name": "q", "count": 1}, {"name": "p", "count": 2}]},
        ["spec.a[1]: Invalid value: grow"],
    ),
]


@pytest.mark.parametrize(("schema", "old", "spec", "expected"), [c[1:] for c in RULES], ids=[c[0] for c in RULES])
def test_rules(schema: TypeSchema, old: dict[str, Any] | None, spec: dict[str, Any], expected: list[str]) -> None:
    assert problems(schema, old, **spec) == expected
    assert schema.skipped_rules == {}


def test_rules_are_not_tried_on_an_object_of_wrong_types() -> None:
    schema = crd(a=NUMBER, x_validations=rule("self.a > 0"))
    assert problems(schema, a="x")[-1] == (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )


@pytest.mark.parametrize(
    "text", ["self.?a.orValue(1) > 0", "quantity(self.a).isLessThan(quantity('1Gi'))"], ids=["syntax", "function"]
)
def test_a_rule_that_the_cel_package_does_not_know_is_skipped_and_named(text: str) -> None:
    schema = crd(a=NUMBER, x_validations=rule(text))
    assert problems(schema, a=-1) == []
    assert list(schema.skipped_rules) == [text]


# --- our own definitions ---------------------------------------------------------------------------------------------

OWN = sorted((Path(__file__).parents[3] / "deploy" / "crds").glob("*.yaml"))


def keywords(schema: Schema) -> Iterator[str]:
    """Every keyword in a schema that says something of a value, formats included."""
    yield from schema.keys() - {"description", "format"}
    yield from {schema["format"]} if "format" in schema else ()
    for below in (*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")):
        yield from keywords(below) if isinstance(below, dict) else ()


@pytest.mark.parametrize("path", OWN, ids=[path.stem for path in OWN])
def test_every_keyword_of_our_definitions_is_checked(path: Path) -> None:
    for version in yaml.safe_load(path.read_text())["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        assert {*keywords(schema)} - validation.CHECKED - validation.CHECKED_FORMATS == set()


# --- built-in kinds --------------------------------------------------------------------------------------------------


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


POD = TypeSchema.for_builtin("", "v1", "Pod")
BUILTIN: list[tuple[str, dict[str, Any], list[str]]] = [
    ("a good pod", pod(containers=[{"name": "a", "image": "x"}]), []),
    ("a pod without containers", pod(), ["spec.containers: Required value"]),
    ("a container without a name", pod(containers=[{"image": "x"}]), ["spec.containers[0].name: Required value"]),
    (
        "an unknown policy",
        pod(containers=[{"name": "a"}], restartPolicy="Sometimes"),
        ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"'],
    ),
]


@pytest.mark.parametrize(("obj", "expected"), [c[1:] for c in BUILTIN], ids=[c[0] for c in BUILTIN])
def test_built_in_objects_are_checked_for_fields_and_words(obj: dict[str, Any], expected: list[str]) -> None:
    assert [str(problem) for problem in POD.validate(obj)] == expected


def test_a_built_in_object_that_cannot_be_read_is_told_in_the_words_of_go() -> None:
    wrong = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": "3"}}
    assert TypeSchema.for_builtin("apps", "v1", "Deployment").decode_problem(wrong) == (
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
    )
    assert POD.decode_problem(pod(containers=[{"name": "a"}])) is None


def test_built_in_objects_lose_unknown_fields_and_nulls() -> None:
    sent = pod(containers=[{"name": "a", "typo": 1}], nodeName=None, tolerations=[])
    assert POD.prune(sent)["spec"] == {"containers": [{"name": "a", "resources": {}}]}
    assert POD.unknown_fields(sent) == ["spec.containers[0].typo"]


def test_list_and_map_types_of_built_in_kinds() -> None:
    spec = POD.root.fields["spec"]
    assert spec.fields["containers"].list_keys == ("name",)
    assert spec.fields["containers"].items.fields["ports"].key_defaults == {"protocol": "TCP"}
    assert spec.fields["tolerations"].list_type == "atomic"
    assert POD.root.fields["metadata"].fields["finalizers"].list_type == "set"
    assert spec.fields["nodeSelector"].is_atomic_map


def test_a_kind_without_a_definition_is_free_form() -> None:
    unknown = TypeSchema.for_builtin("example.com", "v9", "Thing")
    assert unknown.prune({"a": {"b": None}}) == {"a": {"b": None}}
    assert unknown.validate({"a": 1}) == []


def test_definitions_hold_what_a_local_cluster_serves() -> None:
    assert definitions.release() == "v1.37.0"
    for group, version, kind in (
        ("", "v1", "Pod"),
        ("apps", "v1", "StatefulSet"),
        ("policy", "v1", "PodDisruptionBudget"),
    ):
        assert definitions.name_of(group, version, kind) in definitions.load()
    assert not any("$defs" in str(one) for one in definitions.load().values())


# --- for all objects -------------------------------------------------------------------------------------------------

_names = st.sampled_from(["spec", "x", "parts", "name", "metadata", "containers", "ports", "labels"])
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=10,
)
_objects = st.dictionaries(_names, _json, max_size=4)
_RICH = crd(
    x={**NUMBER, "format": "int32", "minimum": 1.5, "default": 2},
    parts={**KEYED, "maxItems": 2},
    labels={"type": "object", "additionalProperties": {**TEXT, "format": "date-time"}},
    name={"x-kubernetes-int-or-string": True, "maximum": 3, "pattern": "^n"},
    x_validations=rule("size(self.parts) < 3"),
)


@settings(deadline=None)
@given(obj=_objects)
@pytest.mark.parametrize("schema", [_RICH, POD], ids=["a custom resource", "a pod"])
def test_arbitrary_json_is_pruned_defaulted_and_judged_without_a_crash(schema: TypeSchema, obj: dict[str, Any]) -> None:
    before = copy.deepcopy(obj)
    done = schema.default(schema.prune(obj))
    schema.validate(done, old=obj)
    schema.unknown_fields(obj)
    schema.decode_problem(obj)
    assert schema.prune(done) == done
    assert schema.default(done) == done
    assert obj == before
