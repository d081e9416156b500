"""JSON patch and merge patch."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_local.apiserver.patch import PatchFailed, PatchMalformed, json_patch, merge_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": None}, {}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({}, {"a": {"b": None}}, {"a": {}}),
        ({"a": 1}, [1], [1]),
    ],
)
def test_merge_patch(target: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy(target)
    assert merge_patch(target, patch) == result
    assert target == before


@given(JSON, JSON)
def test_a_merge_patch_applied_twice_changes_nothing_more(target: Any, patch: Any) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


OPERATIONS: list[tuple[str, Any, list[dict[str, Any]], Any]] = [
    ("add a key", {"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    ("append", {"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    ("insert", {"a": [1]}, [{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1]}),
    ("remove", {"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    ("replace", {"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
    ("replace the whole", {"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}),
    ("replace what is not there, as Go does", {}, [{"op": "replace", "path": "/a", "value": 1}], {"a": 1}),
    ("move", {"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    ("copy", {"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
    ("escaped key", {"a/b": 1, "m~n": 2}, [{"op": "remove", "path": "/a~1b"}], {"m~n": 2}),
    ("test that holds", {"a": [1]}, [{"op": "test", "path": "/a", "value": [1]}], {"a": [1]}),
    ("test of null on nothing", {}, [{"op": "test", "path": "/a", "value": None}], {}),
]


@pytest.mark.parametrize(("target", "patch", "result"), [o[1:] for o in OPERATIONS], ids=[o[0] for o in OPERATIONS])
def test_json_patch(target: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy(target)
    assert json_patch(target, patch) == result
    assert target == before


FAILURES: list[tuple[str, Any, dict[str, Any]]] = [
    ("test that fails", {"a": 1}, {"op": "test", "path": "/a", "value": 2}),
    ("true is not one", {"a": True}, {"op": "test", "path": "/a", "value": 1}),
    ("remove of nothing", {}, {"op": "remove", "path": "/a"}),
    ("add below nothing", {}, {"op": "add", "path": "/a/b", "value": 1}),
    ("index out of bounds", {"a": []}, {"op": "add", "path": "/a/1", "value": 1}),
    ("index with a leading zero", {"a": [1, 2]}, {"op": "remove", "path": "/a/01"}),
    ("move into itself", {"a": {"b": 1}}, {"op": "move", "from": "/a", "path": "/a/b"}),
    ("unknown operation", {}, {"op": "fly", "path": "/a"}),
    ("no value", {}, {"op": "add", "path": "/a"}),
    ("no path", {}, {"op": "add", "value": 1}),
    ("path without slash", {}, {"op": "add", "path": "a", "value": 1}),
]


@pytest.mark.parametrize(("target", "operation"), [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES])
def test_json_patches_that_do_not_fit(target: Any, operation: Any) -> None:
    with pytest.raises(PatchFailed):
        json_patch(target, [operation])


@pytest.mark.parametrize("patch", [{"op": "add"}, "text", 7, None, ["x"]])
def test_what_is_no_json_patch_is_malformed(patch: Any) -> None:
    with pytest.raises(PatchMalformed):
        json_patch({}, patch)


@given(JSON, JSON)
def test_differences_made_by_another_library_are_applied(left: Any, right: Any) -> None:
    operations = jsonpatch.make_patch({"x": left}, {"x": right}).patch
    assert json_patch({"x": left}, operations) == {"x": right}
