"""Differences between what is wanted and what is there, told by ownership; no server takes part."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime.client.compare import differences


def live(body: dict[str, Any], fields: dict[str, Any], **entry: str) -> dict[str, Any]:
    """A live object that we applied; the server added nothing."""
    managed = {"manager": "us", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields, **entry}
    whole = copy.deepcopy(body)
    whole.setdefault("metadata", {})["managedFields"] = [managed]
    return whole


def found(desired: dict[str, Any], there: dict[str, Any]) -> list[str]:
    whole = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, **desired}
    return [str(difference) for difference in differences(whole, there, "us")]


CANARY = "canary"
SECRETS = st.sampled_from([CANARY, f"{CANARY}\n", f"a\n{CANARY}\nb", "a\nb"])
JSON_OF_SECRETS = st.recursive(
    SECRETS | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=3),
    max_leaves=6,
)
PORT: dict[str, Any] = {"k:" + '{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}
CASES = [
    pytest.param({"data": {"a": "1"}}, {"data": {"a": "1"}}, {"f:data": {"f:a": {}}}, [], id="the same"),
    pytest.param(
        {"data": {"a": "1"}}, {"data": {"a": "1", "b": "2"}}, {"f:data": {"f:a": {}}}, [], id="what others added"
    ),
    pytest.param(
        {"data": {"a": "1"}},
        {"data": {"a": "2"}},
        {"f:data": {"f:a": {}}},
        [".data.a: has another value"],
        id="another value, which is not shown",
    ),
    pytest.param(
        {"data": {"a": "1"}},
        {"data": {"a": "1"}},
        {"f:data": {}},
        [],
        id="an atomic map that is the same",
    ),
    pytest.param(
        {"data": {"a": "1"}},
        {"data": {"a": "1"}},
        {"f:spec": {}},
        [".data: not ours yet", ".spec: no longer wanted"],
        id="not ours",
    ),
    pytest.param(
        {"data": {}},
        {"data": {"b": "2"}},
        {"f:data": {"f:b": {}}},
        [".data.b: no longer wanted"],
        id="an owned field that is not wanted any more",
    ),
    pytest.param({"on": False}, {}, {"f:on": {}}, [], id="a zero that the server leaves out"),
    pytest.param({"on": True}, {}, {"f:on": {}}, [".on: is missing, not True"], id="a value that is missing"),
    pytest.param({"on": 1}, {"on": True}, {"f:on": {}}, [".on: is True, not 1"], id="one is not true"),
    pytest.param(
        {"limits": {"cpu": "1000m", "memory": "1Gi", "x": 1}},
        {"limits": {"cpu": "1", "memory": "1024Mi", "x": "1"}},
        {"f:limits": {"f:cpu": {}, "f:memory": {}, "f:x": {}}},
        [],
        id="quantities in another form",
    ),
    pytest.param(
        {"limits": {"cpu": "1001m"}},
        {"limits": {"cpu": "1"}},
        {"f:limits": {"f:cpu": {}}},
        [".limits.cpu: has another value"],
        id="another quantity",
    ),
    pytest.param(
        {"label": "1.0"}, {"label": "1"}, {"f:label": {}}, [".label: has another value"], id="a text is no quantity"
    ),
    pytest.param(
        {"ports": [{"containerPort": 80}]},
        {"ports": [{"containerPort": 80, "protocol": "TCP"}]},
        {"f:ports": PORT},
        [],
        id="a key with a default may be left out",
    ),
    pytest.param(
        {"ports": []},
        {"ports": [{"containerPort": 80, "protocol": "TCP"}]},
        {"f:ports": PORT},
        ['.ports[{"containerPort":80,"protocol":"TCP"}]: no longer wanted'],
        id="an item that is not wanted any more",
    ),
    pytest.param(
        {"ports": [{"containerPort": 80}]},
        {"ports": []},
        {"f:ports": PORT},
        ['.ports[{"containerPort":80,"protocol":"TCP"}]: missing'],
        id="an item that somebody removed",
    ),
    pytest.param(
        {"ports": [{"containerPort": 80}, {"containerPort": 81}]},
        {"ports": [{"containerPort": 80, "protocol": "TCP"}]},
        {"f:ports": PORT},
        [".ports[1]: not ours yet"],
        id="a new item",
    ),
    pytest.param(
        {"env": [{"name": "a"}, {"name": "b"}]},
        {"env": [{"name": "b"}, {"name": "x"}, {"name": "a"}]},
        {"f:env": {'k:{"name":"a"}': {"f:name": {}}, 'k:{"name":"b"}': {"f:name": {}}}},
        [".env: in another order"],
        id="items in another order",
    ),
    pytest.param(
        {"refs": [{"uid": "1", "name": "n"}]},
        {"refs": [{"uid": "1", "name": "m"}]},
        {"f:refs": {'k:{"uid":"1"}': {}}},
        ['.refs[{"uid":"1"}]: differs in name'],
        id="an item that is owned as a whole",
    ),
    pytest.param(
        {"finalizers": ["a", "b"]},
        {"finalizers": ["c", "b", "a"]},
        {"f:finalizers": {'v:"a"': {}, 'v:"b"': {}}},
        [],
        id="a set in any order, with what others put in",
    ),
    pytest.param(
        {"finalizers": ["a"]},
        {"finalizers": ["b"]},
        {"f:finalizers": {'v:"b"': {}}},
        [".finalizers[a]: not ours yet", ".finalizers[b]: no longer wanted"],
        id="another set",
    ),
    pytest.param({"args": ["a"]}, {"args": ["a", "b"]}, {"f:args": {}}, [".args: has 2 items, not 1"], id="longer"),
    pytest.param(
        {"args": ["a", "b", "c"]},
        {"args": ["a", "x", "y"]},
        {"f:args": {}},
        [".args: differs in items 1, 2"],
        id="items",
    ),
    pytest.param(
        {"map": dict.fromkeys("abcdefg", 1)},
        {"map": {"a": 1}},
        {"f:map": {}},
        [".map: differs in b, c, d, e, f and 1 more"],
        id="keys of an atomic map",
    ),
    pytest.param({"list": [{"a": 1}]}, {"list": [{"a": 1, "d": 2}]}, {"f:list": {}}, [], id="defaults in a list"),
    pytest.param({"a": {}}, {"a": {"b": 1}}, {"f:a": {}}, [], id="an empty map asks for nothing"),
    pytest.param({"a": "x"}, {"a": {"b": 1}}, {"f:a": {}}, [".a: is an object, not a string"], id="another type"),
]


@pytest.mark.parametrize(("desired", "there", "fields", "expected"), CASES)
def test_a_difference_is_told_by_path(
    desired: dict[str, Any], there: dict[str, Any], fields: dict[str, Any], expected: list[str]
) -> None:
    assert found(desired, live(there, fields)) == expected


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        pytest.param("a\nb\nc\n", "a\nx\nc\n", "differs at line 2 (-1 +1 lines)", id="a line is another"),
        pytest.param("a\nb\n", "a\n", "differs at line 2 (-0 +1 lines)", id="a line comes"),
        pytest.param("a\n", "a\nb\nc\n", "differs at line 2 (-2 +0 lines)", id="lines go"),
        pytest.param("a\n", "a", "differs at line 2 (-0 +1 lines)", id="only the end of the last line"),
        pytest.param("a\na\n", "a\n", "differs at line 2 (-0 +1 lines)", id="a line twice"),
        pytest.param("", "a\nb", "differs at line 1 (-2 +1 lines)", id="nothing is left"),
    ],
)
def test_of_a_file_it_is_told_which_lines_differ(wanted: str, there: str, expected: str) -> None:
    """B10: the log said "is a str, not a str"."""
    fields: dict[str, Any] = {"f:data": {"f:slurm.conf": {}}}
    assert found({"data": {"slurm.conf": wanted}}, live({"data": {"slurm.conf": there}}, fields)) == [
        f".data.slurm.conf: {expected}"
    ]


@given(JSON_OF_SECRETS, JSON_OF_SECRETS)
def test_no_value_is_told(wanted: Any, there: Any) -> None:
    """B10: whatever a Secret or a pod's environment holds stays out of the log."""
    told = "".join(found({"data": wanted}, live({"data": there}, {"f:data": {}})))
    assert CANARY not in told


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param({"manager": "them"}, id="another manager"),
        pytest.param({"operation": "Update"}, id="not by apply"),
        pytest.param({"subresource": "status"}, id="another subresource"),
        pytest.param({"apiVersion": "v2"}, id="another version"),
    ],
)
def test_what_we_did_not_apply_is_not_ours(entry: dict[str, str]) -> None:
    there = live({"data": {"a": "1"}}, {"f:data": {"f:a": {}}}, **entry)
    assert found({"data": {"a": "1"}}, there) == ["not applied by us yet"]


def test_an_object_without_managed_fields_is_not_ours() -> None:
    assert found({}, {"metadata": {"managedFields": None}}) == ["not applied by us yet"]


NAMES = st.sampled_from(["a", "b", "limits"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab1", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "limits"]), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.builds(dict),
    lambda inner: st.dictionaries(
        st.sampled_from([".", "f:a", "f:b", "f:limits", 'k:{"a":1}', 'v:"a"', "v:1"]), inner, max_size=3
    ),
    max_leaves=8,
)


@given(JSON, JSON, FIELDS)
def test_no_shape_of_either_side_makes_it_stumble(desired: Any, there: Any, fields: dict[str, Any]) -> None:
    for difference in differences(
        {"apiVersion": "v1", "spec": desired}, live({"spec": there}, {"f:spec": fields}), "us"
    ):
        assert difference.why


def owned_by_one(value: Any) -> dict[str, Any]:
    """The tree of a single applier of untyped content: maps field by field, all else whole."""
    return {f"f:{key}": owned_by_one(item) for key, item in value.items()} if isinstance(value, dict) else {}


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON, max_size=3))
def test_what_was_applied_and_kept_has_no_difference(spec: dict[str, Any]) -> None:
    there = live({"spec": spec}, {"f:spec": owned_by_one(spec)})
    assert differences({"apiVersion": "v1", "spec": spec}, there, "us") == ()
