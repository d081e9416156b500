"""Server-side apply: what is merged, what is taken away, who owns it after, and what is refused.

The cases are those of the Kubernetes documentation on server-side apply; field paths are written as in messages.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_local.apiserver.apply import (
    ApplyConflict,
    ApplyInvalid,
    ManagedFieldsInPatch,
    apply_patch,
    track_update,
)
from kube_local.apiserver.field_sets import FieldSet, path_text
from kube_local.apiserver.schema import TypeSchema
from kube_local.apiserver.typed_values import equal

NOW, LATER, LATEST = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z", "2026-01-01T00:00:09Z"
DEPLOYMENT = TypeSchema.for_builtin("apps", "v1", "Deployment")
CONFIG_MAP = TypeSchema.for_builtin("", "v1", "ConfigMap")
SERVICE = TypeSchema.for_builtin("", "v1", "Service")
WIDGET = TypeSchema.for_crd(
    {
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": {
                        "type": "object",
                        "properties": {
                            "size": {"type": "integer"},
                            "name": {"type": "string"},
                            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                            "whole": {
                                "type": "object",
                                "x-kubernetes-map-type": "atomic",
                                "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                            },
                            "words": {"type": "array", "items": {"type": "string"}},
                            "tags": {
                                "type": "array",
                                "items": {"type": "string"},
                                "x-kubernetes-list-type": "set",
                            },
                            "parts": {
                                "type": "array",
                                "x-kubernetes-list-type": "map",
                                "x-kubernetes-list-map-keys": ["name"],
                                "items": {
                                    "type": "object",
                                    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                                },
                            },
                            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    },
                    "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                },
            }
        }
    }
)


def widget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "d"},
        "spec": spec,
    }


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "d"}, "data": data}


def apply(live: dict[str, Any] | None, applied: dict[str, Any], manager: str = "me", **more: Any) -> dict[str, Any]:
    schema = more.pop("schema", WIDGET)
    return apply_patch(live, applied, manager, more.pop("force", False), schema, more.pop("now", NOW), **more)


def owned(obj: dict[str, Any], manager: str, operation: str = "Apply", subresource: str = "") -> list[str]:
    """The paths that a manager owns; an empty list where it has no entry."""
    for entry in obj["metadata"].get("managedFields", []):
        if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (manager, operation, subresource):
            return sorted(path_text(path) for path in FieldSet.from_fields_v1(entry["fieldsV1"]).paths())
    return []


# --- creating --------------------------------------------------------------------------------------------------------


def test_applying_to_nothing_creates_the_object_and_owns_exactly_what_was_applied() -> None:
    created = apply(None, widget(size=1, tags=["a"], parts=[{"name": "p", "count": 2}]))
    assert created["spec"] == {"size": 1, "tags": ["a"], "parts": [{"name": "p", "count": 2}]}
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "example.com/v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:spec": {
                    "f:parts": {'k:{"name":"p"}': {".": {}, "f:count": {}, "f:name": {}}},
                    "f:size": {},
                    "f:tags": {'v:"a"': {}},
                }
            },
        }
    ]


def test_defaults_set_by_the_server_are_owned_by_nobody() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}},
    }
    created = apply(None, service, schema=SERVICE)
    assert created["spec"]["type"] == "ClusterIP"
    assert created["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert owned(created, "me") == [
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.ports[port=80,protocol="TCP"].port',
        ".spec.selector",
    ]


def test_identity_and_server_fields_of_metadata_are_never_owned() -> None:
    obj = widget(size=1)
    obj["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": NOW}
    obj["metadata"] |= {"labels": {"a": "b"}, "finalizers": ["x/y"]}
    created = track_update(None, obj, "me", WIDGET, NOW)
    assert owned(created, "me", "Update") == [
        ".metadata.finalizers",
        '.metadata.finalizers[="x/y"]',
        ".metadata.labels",
        ".metadata.labels.a",
        ".spec",
        ".spec.size",
    ]


# --- merging ---------------------------------------------------------------------------------------------------------

MERGES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("a granular map is merged", {"labels": {"a": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}),
    ("an atomic map is replaced", {"whole": {"x": 1}}, {"whole": {"y": 2}}, {"whole": {"y": 2}}),
    ("an atomic list is replaced", {"words": ["a", "b"]}, {"words": ["c"]}, {"words": ["c"]}),
    ("a set is united", {"tags": ["a", "b"]}, {"tags": ["c", "a"]}, {"tags": ["c", "a", "b"]}),
    (
        "a keyed list is merged item by item",
        {"parts": [{"name": "p", "count": 1}, {"name": "q"}]},
        {"parts": [{"name": "q", "count": 3}]},
        {"parts": [{"name": "p", "count": 1}, {"name": "q", "count": 3}]},
    ),
    (
        "a schemaless part is merged as a map, its lists replaced",
        {"free": {"m": {"a": 1}, "l": [1, 2]}},
        {"free": {"m": {"b": 2}, "l": [3]}},
        {"free": {"m": {"a": 1, "b": 2}, "l": [3]}},
    ),
    ("an explicit null is left for validation to refuse", {"size": 1}, {"size": None}, {"size": None}),
]


@pytest.mark.parametrize(("live", "applied", "expected"), [case[1:] for case in MERGES], ids=[c[0] for c in MERGES])
def test_what_is_merged(live: dict[str, Any], applied: dict[str, Any], expected: dict[str, Any]) -> None:
    before = track_update(None, widget(**live), "other", WIDGET, NOW)
    assert apply(before, widget(**applied), force=True)["spec"] == expected


def test_a_map_that_loses_all_its_entries_to_an_empty_one_becomes_null() -> None:
    live = apply(None, widget(size=1, labels={"a": "b"}))
    assert apply(live, widget(size=1, labels={}), now=LATER)["spec"] == {"size": 1, "labels": None}


def test_nulls_in_built_in_objects_are_absent() -> None:
    applied = apply(None, {**config_map(a="1"), "immutable": None, "binaryData": None}, schema=CONFIG_MAP)
    assert applied["data"] == {"a": "1"}
    assert not {"immutable", "binaryData"} & applied.keys()


def test_the_status_of_a_custom_resource_belongs_to_its_status_door() -> None:
    schema = TypeSchema.for_crd(
        {
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            "subresources": {"status": {}},
        }
    )
    both = {**widget(size=1), "status": {"phase": "Ready"}}
    both["metadata"]["labels"] = {"a": "b"}
    assert owned(apply(None, both, schema=schema), "me") == [".metadata.labels.a", ".spec", ".spec.size"]
    through_status = apply(None, both, schema=schema, subresource="status")
    assert owned(through_status, "me", subresource="status") == [".status", ".status.phase"]


def test_a_port_without_protocol_is_the_tcp_port() -> None:
    live = apply(
        None, {**_service(), "spec": {"ports": [{"port": 80, "protocol": "TCP", "name": "a"}]}}, schema=SERVICE
    )
    merged = apply(live, {**_service(), "spec": {"ports": [{"port": 80, "name": "a"}]}}, "other", schema=SERVICE)
    assert [port["port"] for port in merged["spec"]["ports"]] == [80]


def _service() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}


# --- conflicts -------------------------------------------------------------------------------------------------------


def test_changing_a_field_of_another_applier_is_a_conflict() -> None:
    live = apply(None, widget(size=1, name="x"), "first")
    with pytest.raises(ApplyConflict) as caught:
        apply(live, widget(size=2, name="y"), "second")
    assert caught.value.conflicts == [('"first"', ".spec.name"), ('"first"', ".spec.size")]
    assert str(caught.value) == ('Apply failed with 2 conflicts: conflicts with "first":\n- .spec.name\n- .spec.size')


def test_changing_a_field_of_an_updater_names_it_with_its_version() -> None:
    live = track_update(None, widget(size=1), "kubectl-edit", WIDGET, NOW)
    with pytest.raises(ApplyConflict) as caught:
        apply(live, widget(size=2))
    assert str(caught.value) == (
        'Apply failed with 1 conflict: conflict with "kubectl-edit" using example.com/v1: .spec.size'
    )


def test_the_status_door_is_another_owner() -> None:
    live = apply(None, widget(size=1))
    with_status = {**live, "status": {"phase": "Ready"}}
    live = track_update(live, with_status, "me", WIDGET, LATER, "status")
    assert owned(live, "me", "Update", "status") == [".status", ".status.phase"]
    assert owned(live, "me") == [".spec.size"]


def test_force_takes_the_field_over() -> None:
    live = apply(None, widget(size=1, name="x"), "first")
    live = apply(live, widget(size=2), "second", force=True, now=LATER)
    assert live["spec"] == {"size": 2, "name": "x"}
    assert owned(live, "first") == [".spec.name"]
    assert owned(live, "second") == [".spec.size"]


def test_applying_the_same_value_shares_the_field() -> None:
    live = apply(apply(None, widget(size=1), "first"), widget(size=1), "second")
    assert owned(live, "first") == owned(live, "second") == [".spec.size"]


def test_an_update_takes_what_it_changes_without_asking() -> None:
    live = apply(None, widget(size=1, name="x"), "first")
    changed = copy.deepcopy(live)
    changed["spec"]["size"] = 5
    live = track_update(live, changed, "second", WIDGET, LATER)
    assert owned(live, "first") == [".spec.name"]
    assert owned(live, "second", "Update") == [".spec.size"]


# --- leaving fields out ----------------------------------------------------------------------------------------------

REMOVALS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("a field that is left out goes", {"size": 1, "name": "x"}, {"size": 1}, {"size": 1}),
    ("an entry of a map", {"labels": {"a": "1", "b": "2"}}, {"labels": {"a": "1"}}, {"labels": {"a": "1"}}),
    ("an item of a set", {"tags": ["a", "b"]}, {"tags": ["b"]}, {"tags": ["b"]}),
    (
        "an item of a keyed list",
        {"parts": [{"name": "p"}, {"name": "q"}]},
        {"parts": [{"name": "q"}]},
        {"parts": [{"name": "q"}]},
    ),
    ("the last item takes the list with it", {"size": 1, "tags": ["a"]}, {"size": 1}, {"size": 1}),
]


@pytest.mark.parametrize(("first", "second", "expected"), [c[1:] for c in REMOVALS], ids=[c[0] for c in REMOVALS])
def test_what_an_applier_no_longer_applies_is_removed(
    first: dict[str, Any], second: dict[str, Any], expected: dict[str, Any]
) -> None:
    live = apply(apply(None, widget(**first)), widget(**second), now=LATER)
    assert live["spec"] == expected


def test_what_another_one_also_owns_stays() -> None:
    live = apply(apply(None, widget(size=1, name="x")), widget(name="x"), "other")
    live = apply(live, widget(size=1), now=LATER)
    assert live["spec"] == {"size": 1, "name": "x"}
    assert owned(live, "me") == [".spec.size"]


def test_what_an_updater_set_since_stays() -> None:
    live = apply(None, widget(size=1))
    changed = copy.deepcopy(live)
    changed["spec"]["name"] = "set by hand"
    live = track_update(live, changed, "kubectl-edit", WIDGET, LATER)
    assert apply(live, widget(), now=LATEST)["spec"] == {"name": "set by hand"}


def test_an_applier_that_applies_nothing_owns_nothing() -> None:
    live = apply(apply(None, widget(size=1)), {**widget(), "spec": {}}, now=LATER)
    assert owned(live, "me") == [".spec"]


# --- time and order --------------------------------------------------------------------------------------------------


def test_applying_again_changes_nothing_not_even_the_time() -> None:
    live = apply(None, widget(size=1, tags=["a"]))
    assert apply(live, widget(size=1, tags=["a"]), now=LATER) == live


def test_appliers_come_first_then_the_oldest() -> None:
    live = track_update(None, widget(size=1), "z-updater", WIDGET, NOW)
    live = apply(live, widget(name="x"), "b", now=LATEST)
    live = apply(live, widget(tags=["t"]), "a", now=LATER)
    listed = [(entry["manager"], entry["operation"]) for entry in live["metadata"]["managedFields"]]
    assert listed == [("a", "Apply"), ("b", "Apply"), ("z-updater", "Update")]


# --- managedFields that clients touch --------------------------------------------------------------------------------


@pytest.mark.parametrize("reset", [[], [{}]], ids=["an empty list", "a list with one empty entry"])
def test_managed_fields_can_be_reset(reset: list[Any]) -> None:
    live = apply(None, widget(size=1))
    live["metadata"]["uid"] = "u"
    sent = copy.deepcopy(live)
    sent["metadata"]["managedFields"] = reset
    assert "managedFields" not in track_update(live, sent, "kubectl", WIDGET, LATER)["metadata"]


def test_a_client_that_knows_no_managed_fields_does_not_lose_them() -> None:
    live = apply(None, widget(size=1))
    sent = copy.deepcopy(live)
    del sent["metadata"]["managedFields"]
    sent["spec"]["name"] = "x"
    updated = track_update(live, sent, "old-client", WIDGET, LATER)
    assert owned(updated, "me") == [".spec.size"]
    assert owned(updated, "old-client", "Update") == [".spec.name"]


def test_the_first_apply_to_an_untracked_object_gives_its_past_a_name() -> None:
    untracked = widget(size=1)
    untracked["metadata"]["uid"] = "u"
    live = apply(untracked, widget(name="x"))
    assert owned(live, "before-first-apply", "Update") == [".spec", ".spec.size"]


def test_applied_managed_fields_are_refused() -> None:
    applied = widget(size=1)
    applied["metadata"]["managedFields"] = []
    with pytest.raises(ManagedFieldsInPatch, match="must be nil"):
        apply(None, applied)


def test_malformed_managed_fields_of_the_live_object_are_an_error_not_a_crash() -> None:
    live = widget(size=1)
    live["metadata"]["managedFields"] = [{"manager": "x", "operation": "Dance", "apiVersion": "v1"}]
    with pytest.raises(ApplyInvalid, match="operation must be"):
        apply(live, widget(size=1))
    assert "managedFields" in track_update(None, live, "me", WIDGET, NOW)["metadata"]


# --- what cannot be applied ------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "a field that the kind does not have",
        {"bogus": 1},
        ".spec.bogus: field not declared in schema",
    ),
    (
        "two items with one key",
        {"parts": [{"name": "p"}, {"name": "p"}]},
        '.spec.parts: duplicate entries for key [name="p"]',
    ),
    (
        "an item without its key",
        {"parts": [{"count": 1}]},
        (
            '.spec.parts: element 0: associative list with keys has an element that omits all key fields ["name"] '
            "(and doesn't have default values for any key fields)"
        ),
    ),
    (
        "a word where a number belongs",
        {"size": "big"},
        ".spec.size: expected numeric (int or float), got string",
    ),
]


@pytest.mark.parametrize(("spec", "message"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_is_not_of_the_kind_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ApplyInvalid) as caught:
        apply(None, widget(**spec))
    start = "failed to create typed patch object (d/w; example.com/v1, Kind=Widget): "
    assert str(caught.value) == start + message


# --- kubectl ---------------------------------------------------------------------------------------------------------


def test_kubectl_takes_over_what_its_client_side_apply_had_set() -> None:
    live = config_map(a="1")
    live["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": (
            '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}'
        )
    }
    live = track_update(None, live, "kubectl-client-side-apply", CONFIG_MAP, NOW)
    taken = apply(live, config_map(a="2"), "kubectl", schema=CONFIG_MAP, now=LATER)
    assert taken["data"] == {"a": "2"}
    assert '"a":"2"' in taken["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    with pytest.raises(ApplyConflict):
        apply(live, config_map(a="2"), "someone-else", schema=CONFIG_MAP)


# --- for all objects -------------------------------------------------------------------------------------------------

_text = st.sampled_from(["a", "b", "c", "<&>"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-2, 2) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)
_specs = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 3),
        "name": _text,
        "labels": st.dictionaries(_text, _text, max_size=3),
        "whole": st.fixed_dictionaries({}, optional={"x": st.integers(0, 2), "y": st.integers(0, 2)}),
        "words": st.lists(_text, max_size=3),
        "tags": st.lists(_text, max_size=3, unique=True),
        "parts": st.lists(
            st.fixed_dictionaries({"name": _text}, optional={"count": st.integers(0, 2)}),
            max_size=3,
            unique_by=lambda part: part["name"],
        ),
        "free": st.dictionaries(_text, st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2), max_size=2),
    },
)


@settings(deadline=None)
@given(live=_specs, spec=_specs)
def test_applying_twice_is_applying_once(live: dict[str, Any], spec: dict[str, Any]) -> None:
    before = track_update(None, widget(**live), "other", WIDGET, NOW)
    once = apply(before, widget(**spec), force=True, now=LATER)
    assert apply(once, widget(**spec), now=LATEST) == once


def _has_no_empty_part(spec: dict[str, Any]) -> bool:
    """An empty list or map has no owner of its own, so it may go with what others had put into it."""
    return bool(spec) and all(value not in ({}, []) for value in spec.values())


@settings(deadline=None)
@given(mine=_specs, theirs=_specs.filter(_has_no_empty_part))
def test_taking_back_what_was_applied_leaves_what_the_other_applied(
    mine: dict[str, Any], theirs: dict[str, Any]
) -> None:
    before = apply(None, widget(**theirs), "other")
    try:
        both = apply(before, widget(**mine), now=LATER)
    except ApplyConflict:
        return
    alone = apply(both, {key: value for key, value in widget().items() if key != "spec"}, now=LATEST)
    for key, value in before["spec"].items():
        _assert_within(value, alone["spec"][key])
    assert owned(alone, "me") == []
    assert owned(alone, "other") == owned(before, "other")


def _assert_within(wanted: Any, found: Any) -> None:
    """Order in a set may differ after a round trip; nothing may be lost or left over."""
    if isinstance(wanted, list):
        assert sorted(map(repr, wanted)) == sorted(map(repr, found))
    else:
        assert equal(wanted, found)


@settings(deadline=None)
@given(live=st.none() | _json, sent=_json)
def test_arbitrary_json_is_merged_or_refused_in_words(live: Any, sent: Any) -> None:
    start = None if live is None else {**widget(), "spec": live}
    try:
        applied = apply(start, {**widget(), "spec": sent}, force=True)
    except ApplyInvalid:
        return
    assert apply(applied, {**widget(), "spec": sent}, now=LATER) == applied


@settings(deadline=None)
@given(live=st.none() | _json, sent=_json)
def test_any_update_can_be_tracked(live: Any, sent: Any) -> None:
    start = None if live is None else {**widget(), "spec": live}
    tracked = track_update(start, {**widget(), "spec": sent}, "me", WIDGET, NOW)
    assert equal(tracked["spec"], sent)


@settings(deadline=None)
@given(value=_json)
def test_schemaless_objects_take_anything(value: Any) -> None:
    free = TypeSchema.for_crd({})
    applied = apply(None, {**widget(), "spec": {"x": value}}, schema=free)
    assert equal(applied["spec"], {"x": value})
