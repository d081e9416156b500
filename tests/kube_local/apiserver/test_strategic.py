"""Strategic merge patch: lists merged by key, directives, and the order that comes out.

The cases are those of the Kubernetes documentation and of kubectl's own patches.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_local.apiserver.schema import TypeSchema
from kube_local.apiserver.strategic import strategic_merge
from kube_runtime.strategic_merge import MergeConflict

POD = TypeSchema.for_builtin("", "v1", "Pod")
DEPLOYMENT = TypeSchema.for_builtin("apps", "v1", "Deployment")

Spec = dict[str, Any]


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


CASES: list[tuple[str, Spec, Spec, Spec]] = [
    ("a plain value is replaced", {"nodeName": "a"}, {"nodeName": "b"}, {"nodeName": "b"}),
    ("null removes", {"nodeName": "a", "hostname": "h"}, {"nodeName": None}, {"hostname": "h"}),
    ("null of what is not there does nothing", {"hostname": "h"}, {"nodeName": None}, {"hostname": "h"}),
    (
        "maps are merged",
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"b": "2"}},
        {"nodeSelector": {"a": "1", "b": "2"}},
    ),
    (
        "an item with the same key is merged",
        {"containers": [{"name": "a", "image": "x", "args": ["1"]}]},
        {"containers": [{"name": "a", "image": "y"}]},
        {"containers": [{"name": "a", "image": "y", "args": ["1"]}]},
    ),
    (
        "a new item comes before those that the patch does not name",
        {"containers": named("a")},
        {"containers": named("b")},
        {"containers": named("b", "a")},
    ),
    (
        "a list without merge strategy is replaced",
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b"}]},
        {"tolerations": [{"key": "b"}]},
    ),
    (
        "nested keyed lists are merged too",
        {"containers": [{"name": "a", "env": [{"name": "E", "value": "1"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "F", "value": "2"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]}]},
    ),
    (
        "$patch: delete removes an item",
        {"containers": named("a", "b")},
        {"containers": [{"name": "a", "$patch": "delete"}]},
        {"containers": named("b")},
    ),
    (
        "$patch: replace replaces the whole list",
        {"containers": named("a", "b")},
        {"containers": [{"name": "c"}, {"$patch": "replace"}]},
        {"containers": named("c")},
    ),
    (
        "$patch: replace replaces a map",
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"b": "2", "$patch": "replace"}},
        {"nodeSelector": {"b": "2"}},
    ),
    (
        "$patch: replace of a map that is not there adds none",
        {},
        {"nodeSelector": {"b": "2", "$patch": "replace"}},
        {},
    ),
    (
        "$patch: delete empties a map",
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"$patch": "delete"}},
        {"nodeSelector": {}},
    ),
    (
        "$retainKeys drops the other source of a volume",
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumes": [{"name": "v", "secret": {"secretName": "s"}, "$retainKeys": ["name", "secret"]}]},
        {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
    ),
    (
        "$setElementOrder orders, with items that the patch only names",
        {"containers": named("a", "b", "c")},
        {"$setElementOrder/containers": named("c", "a")},
        {"containers": named("b", "c", "a")},
    ),
    (
        "$setElementOrder places new items",
        {"containers": named("a", "b")},
        {"$setElementOrder/containers": named("a", "n", "b"), "containers": named("n")},
        {"containers": named("a", "n", "b")},
    ),
    (
        "nulls inside of added values are dropped",
        {},
        {"securityContext": {"runAsUser": None, "runAsGroup": 1}},
        {"securityContext": {"runAsGroup": 1}},
    ),
]


@pytest.mark.parametrize(("live", "patch", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_patching_a_pod_spec(live: Spec, patch: Spec, expected: Spec) -> None:
    assert strategic_merge({"spec": live}, {"spec": patch}, POD) == {"spec": expected}


FINALIZERS: list[tuple[str, list[str], dict[str, Any], list[str]]] = [
    ("a list of words is united", ["x/a", "x/b"], {"finalizers": ["x/c"]}, ["x/c", "x/a", "x/b"]),
    ("a word that is there is not repeated", ["x/a"], {"finalizers": ["x/a"]}, ["x/a"]),
    (
        "$deleteFromPrimitiveList takes words out",
        ["x/a", "x/b"],
        {"$deleteFromPrimitiveList/finalizers": ["x/a"]},
        ["x/b"],
    ),
]


@pytest.mark.parametrize(("live", "patch", "expected"), [c[1:] for c in FINALIZERS], ids=[c[0] for c in FINALIZERS])
def test_patching_a_list_of_words(live: list[str], patch: dict[str, Any], expected: list[str]) -> None:
    merged = strategic_merge({"metadata": {"finalizers": live}}, {"metadata": patch}, POD)
    assert merged == {"metadata": {"finalizers": expected}}


def test_kubectl_set_image_changes_one_container_of_a_template() -> None:
    live = {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}}}}
    patch = {
        "spec": {
            "template": {
                "spec": {
                    "$setElementOrder/containers": named("a", "b"),
                    "containers": [{"name": "b", "image": "2"}],
                }
            }
        }
    }
    merged = strategic_merge(live, patch, DEPLOYMENT)
    assert merged["spec"]["template"]["spec"]["containers"] == [
        {"name": "a", "image": "1"},
        {"name": "b", "image": "2"},
    ]


REFUSED: list[tuple[str, Spec, Spec]] = [
    ("an item without its key", {"containers": named("a")}, {"containers": [{"image": "x"}]}),
    ("an unknown directive", {}, {"$patch": "dance"}),
    ("$retainKeys that is no list", {}, {"$retainKeys": "name"}),
    ("$retainKeys that misses a field of the patch", {}, {"$retainKeys": [], "nodeName": "a"}),
    ("a list inside of a keyed list", {"containers": named("a")}, {"containers": [[]]}),
]


@pytest.mark.parametrize(("live", "patch"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_a_bad_patch_is_refused(live: Spec, patch: Spec) -> None:
    with pytest.raises(MergeConflict):
        strategic_merge({"spec": live}, {"spec": patch}, POD)


def test_a_selector_that_is_declared_so_is_replaced() -> None:
    budget = TypeSchema.for_builtin("policy", "v1", "PodDisruptionBudget")
    live, patch = ({"spec": {"selector": {"matchLabels": {key: "x"}}, "minAvailable": 1}} for key in "ab")
    assert strategic_merge(live, patch, budget) == patch


_names = st.sampled_from(["spec", "metadata", "containers", "env", "name", "labels", "ports", "a", "$patch"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b", "replace", "delete"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=12,
)
_objects = st.dictionaries(_names, _json, max_size=4)


@settings(deadline=None)
@given(live=_objects)
def test_an_empty_patch_changes_nothing(live: dict[str, Any]) -> None:
    assert strategic_merge(live, {}, POD) == live


@settings(deadline=None)
@given(live=_objects, patch=_objects)
def test_arbitrary_json_is_merged_or_refused_in_words(live: dict[str, Any], patch: dict[str, Any]) -> None:
    try:
        merged = strategic_merge(live, patch, POD)
    except MergeConflict:
        return
    assert isinstance(merged, dict)
