"""CustomResourceDefinitions: what is refused, what changes with an update, what scale must be able to read."""

from __future__ import annotations

from typing import Any

import pytest

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SCHEMA = {"openAPIV3Schema": {"type": "object"}}


def definition(**spec: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": SCHEMA}
    given = {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"kind": "Gadget", "plural": "gadgets"},
        "versions": [version],
        **spec,
    }
    metadata = {"name": "gadgets.example.com"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": given,
    }


def version(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "served": True, "storage": False, "schema": SCHEMA, **more}


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("another name", {"group": "other.com"}, 'must be spec.names.plural+"."+spec.group'),
    ("no storage version", {"versions": [version("v1")]}, "exactly one version marked as storage version"),
    ("an unknown scope", {"scope": "Galaxy"}, 'supported values: "Cluster", "Namespaced"'),
    ("no schema", {"versions": [version("v1", storage=True, schema=None)]}, "schemas are required"),
]


@pytest.mark.parametrize(("spec", "text"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
async def test_definitions_that_cannot_be_served(api: Any, spec: dict[str, Any], text: str) -> None:
    status = await api.fails(422, "POST", CRDS, definition(**spec))
    assert text in status["message"]


async def test_an_accepted_definition_is_established_and_served_at_once(api: Any) -> None:
    made = await api.create(CRDS, definition())
    conditions = {one["type"]: one["status"] for one in made["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["spec"]["names"]["listKind"] == "GadgetList"
    body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    await api.create("/apis/example.com/v1/gadgets", body)
    assert (await api.ok("GET", "/apis/example.com/v1/gadgets"))["kind"] == "GadgetList"


async def test_a_version_that_is_no_longer_served_is_gone(widgets: Any) -> None:
    path = f"{CRDS}/widgets.example.com"
    changed = await widgets.ok("GET", path)
    changed["spec"]["versions"][1]["served"] = False
    await widgets.ok("PUT", path, changed)
    assert (await widgets.send("GET", "/apis/example.com/v1beta1/widgets")).status == 404
    assert (await widgets.send("GET", "/apis/example.com/v1/widgets")).status == 200


async def test_scale_must_be_able_to_read_replicas(widgets: Any) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"replicas": "two"}}
    status = await widgets.fails(422, "POST", WIDGETS, body)
    text = ".spec.replicas accessor error: two is of the type string, expected int64"
    assert text in status["message"]
    await widgets.create(WIDGETS, {**body, "spec": {"replicas": 1}})
    patch = {"status": {"replicas": -1, "selector": 5}}
    status = await widgets.fails(
        422, "PATCH", f"{WIDGETS}/w/status", patch, content_type="application/merge-patch+json"
    )
    causes = {one["field"]: one["message"] for one in status["details"]["causes"]}
    assert causes[".status.replicas"] == "Invalid value: -1: should be a non-negative integer"
    assert "is of the type int64, expected string" in causes[".status.selector"]


async def test_a_wrong_kind_is_named(widgets: Any) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Wrong", "metadata": {"name": "w"}}
    status = await widgets.fails(422, "POST", WIDGETS, body)
    assert status["message"] == 'Wrong.example.com "w" is invalid: kind: Invalid value: "Wrong": must be Widget'
