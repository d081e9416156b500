"""Label and field selectors."""

from __future__ import annotations

from typing import Any

import pytest

from kube_local.apiserver import selectors
from kube_local.apiserver.errors import ApiError
from kube_local.apiserver.registry import Registry, builtin_kinds
from kube_local.apiserver.store import make_row

REGISTRY = Registry(builtin_kinds())


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in (b)", {}, False),
        ("a notin (b),c=d", {"c": "d"}, True),
        ("a notin (b)", {"a": "b"}, False),
        ("n>5", {"n": "6"}, True),
        ("n<5", {"n": "six"}, False),
        ("x.y/z=1,b", {"x.y/z": "1", "b": "2"}, True),
        ("a=", {"a": ""}, True),
    ],
)
def test_label_selectors(selector: str, labels: dict[str, str], matches: bool) -> None:
    assert selectors.parse_labels(selector).matches(labels) is matches


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("app in red", "unable to parse requirement: found 'red' expected: '('"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b=c", "unable to parse requirement: found '=', expected: ',' or 'end of string'"),
        ("-a=b", "name part must consist of alphanumeric"),
        ("a=b!", "unable to parse requirement: found '!', expected: ',' or 'end of string'"),
        ("a in (b", "unable to parse requirement: found '', expected: ',', or ')'"),
    ],
)
def test_unreadable_label_selectors_are_bad_requests(selector: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        selectors.parse_labels(selector)
    assert (caught.value.code, message in caught.value.message) == (400, True), caught.value.message


POD = {
    "metadata": {"name": "p", "namespace": "ns"},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("metadata.name=p", True),
        ("metadata.namespace!=ns", False),
        ("spec.nodeName=n1,status.phase=Running", True),
        ("spec.nodeName==n2", False),
        ("status.podIP=", True),
        ("spec.hostNetwork=false", True),
    ],
)
def test_field_selectors_of_pods(selector: str, matches: bool) -> None:
    kind = REGISTRY.find("", "v1", "pods")
    assert kind
    assert selectors.parse_fields(selector, kind).matches(make_row("pods", POD, 1)) is matches


def test_events_can_be_selected_by_either_name_of_a_field() -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"name": "p"}, "reportingComponent": "x"}
    for group, text in (("", "involvedObject.name=p"), ("events.k8s.io", "regarding.name=p,reportingController=x")):
        kind = REGISTRY.find(group, "v1", "events")
        assert kind
        assert selectors.parse_fields(text, kind).matches(make_row("events", event, 1))


@pytest.mark.parametrize(
    ("plural", "message"),
    [("pods", "field label not supported: spec.x"), ("configmaps", '"spec.x" is not a known field selector')],
)
def test_unknown_fields_cannot_be_selected(plural: str, message: str) -> None:
    kind = REGISTRY.find("", "v1", plural)
    assert kind
    with pytest.raises(ApiError, match=message):
        selectors.parse_fields("spec.x=1", kind)


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, ""),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "k", "operator": "In", "values": ["y", "x"]}]}, "k in (x,y)"),
        ({"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}, "!k"),
    ],
)
def test_selector_objects_have_a_text_form(selector: Any, text: str) -> None:
    assert selectors.label_selector_text(selector) == text
    parsed, given = selectors.parse_labels(text), selectors.from_object(selector)
    for labels in ({}, {"a": "1", "b": "2"}, {"k": "x"}):
        assert parsed.matches(labels) == given.matches(labels)
