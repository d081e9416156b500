"""What clients learn about the server: groups, resources, versions, OpenAPI, reviews."""

from __future__ import annotations

from typing import Any

import pytest


async def test_plain_discovery_names_groups_and_resources(widgets: Any) -> None:
    assert (await widgets.ok("GET", "/api"))["versions"] == ["v1"]
    groups = {one["name"]: one for one in (await widgets.ok("GET", "/apis"))["groups"]}
    assert groups["example.com"]["preferredVersion"] == {"groupVersion": "example.com/v1", "version": "v1"}
    assert (await widgets.ok("GET", "/apis/apps"))["kind"] == "APIGroup"
    listed = await widgets.ok("GET", "/apis/example.com/v1")
    entries = {one["name"]: one for one in listed["resources"]}
    assert set(entries) == {"widgets", "widgets/status", "widgets/scale"}
    assert entries["widgets"]["shortNames"] == ["wd"]
    assert (entries["widgets/scale"]["group"], entries["widgets/scale"]["kind"]) == ("autoscaling", "Scale")


async def test_a_taken_away_definition_is_gone_from_discovery(widgets: Any) -> None:
    await widgets.ok("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")
    widgets.server.collect_garbage()
    assert (await widgets.send("GET", "/apis/example.com/v1")).status == 404


async def test_the_version_is_that_of_the_definitions(api: Any) -> None:
    version = await api.ok("GET", "/version")
    assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor']}.")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(api: Any, path: str) -> None:
    assert (await api.send("GET", path)).body == b"ok"


async def test_openapi_documents_resolve_all_their_references(widgets: Any) -> None:
    index = await widgets.ok("GET", "/openapi/v3")
    for key in ("api/v1", "apis/apps/v1", "apis/example.com/v1"):
        document = await widgets.ok("GET", index["paths"][key]["serverRelativeURL"].partition("?")[0])
        schemas = document["components"]["schemas"]
        missing = {name for name in references(document) if name not in schemas}
        assert missing == set(), key


def references(node: Any) -> set[str]:
    if isinstance(node, list):
        return {name for item in node for name in references(item)}
    if not isinstance(node, dict):
        return set()
    found = {name for item in node.values() for name in references(item)}
    return found | ({node["$ref"].rpartition("/")[2]} if isinstance(node.get("$ref"), str) else set())


async def test_openapi_says_that_fields_are_validated(widgets: Any) -> None:
    document = await widgets.ok("GET", "/openapi/v3/apis/example.com/v1")
    patch = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Widget"
    assert "fieldValidation" in {one["name"] for one in patch["parameters"]}
    assert "com.example.v1.Widget" in document["components"]["schemas"]


async def test_the_hash_of_a_document_changes_with_its_schema(widgets: Any) -> None:
    before = (await widgets.ok("GET", "/openapi/v3"))["paths"]["apis/example.com/v1"]
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
    definition = await widgets.ok("GET", path)
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["color"] = {"type": "string"}
    await widgets.ok("PUT", path, definition)
    assert (await widgets.ok("GET", "/openapi/v3"))["paths"]["apis/example.com/v1"] != before
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": "red"}}
    made = await widgets.create("/apis/example.com/v1/namespaces/default/widgets", body)
    assert made["spec"]["color"] == "red"


async def test_openapi_v2_is_there_and_says_nothing(api: Any) -> None:
    assert (await api.send("GET", "/openapi/v2")).body.startswith(b"\x0a\x032.0")


REVIEWS: list[tuple[str, str, dict[str, Any], str, Any]] = [
    ("may I", "authorization", {"kind": "SelfSubjectAccessReview"}, "allowed", True),
    ("may they", "authorization", {"kind": "SubjectAccessReview"}, "allowed", True),
    ("what may I", "authorization", {"kind": "SelfSubjectRulesReview"}, "incomplete", False),
    ("a wrong token", "authentication", {"kind": "TokenReview", "spec": {"token": "x"}}, "authenticated", False),
]


@pytest.mark.parametrize(("group", "body", "key", "value"), [r[1:] for r in REVIEWS], ids=[r[0] for r in REVIEWS])
async def test_reviews_are_answered(api: Any, group: str, body: dict[str, Any], key: str, value: Any) -> None:
    path = f"/apis/{group}.k8s.io/v1/{body['kind'].lower()}s"
    given = {"apiVersion": f"{group}.k8s.io/v1", "spec": {}, **body}
    assert (await api.ok("POST", path, given))["status"][key] == value
