"""Get and list: forms, pages, versions."""

from __future__ import annotations

from typing import Any

import pytest

MAPS = "/api/v1/namespaces/default/configmaps"
PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


async def fill(api: Any, *names: str) -> None:
    for name in names:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"l": name}}}
        await api.create(MAPS, body)


def names(listed: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_items_of_built_in_lists_do_not_repeat_their_kind(api: Any) -> None:
    await fill(api, "a")
    listed = await api.ok("GET", MAPS)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert set(listed["items"][0]) == {"metadata"}
    assert listed["metadata"] == {"resourceVersion": str(api.server.store.revision)}


async def test_items_of_custom_lists_do(widgets: Any) -> None:
    path = "/apis/example.com/v1/namespaces/default/widgets"
    await widgets.create(
        path, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    )
    assert (await widgets.ok("GET", path))["items"][0]["kind"] == "Widget"
    beta = await widgets.ok("GET", path.replace("/v1/", "/v1beta1/"))
    assert beta["items"][0]["apiVersion"] == "example.com/v1beta1"


async def test_pages_are_cut_out_of_one_snapshot(api: Any) -> None:
    await fill(api, "a", "b", "c", "d", "e")
    first = await api.ok("GET", MAPS, query={"limit": "2"})
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 3)
    await api.ok("DELETE", f"{MAPS}/d")
    await fill(api, "bb")
    second = await api.ok("GET", MAPS, query={"limit": "2", "continue": first["metadata"]["continue"]})
    third = await api.ok("GET", MAPS, query={"limit": "2", "continue": second["metadata"]["continue"]})
    assert names(second) + names(third) == ["c", "d", "e"]
    assert third["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in third["metadata"]


async def test_a_lost_snapshot_offers_to_go_on_with_the_present(api: Any) -> None:
    await fill(api, "a", "b", "c")
    first = await api.ok("GET", MAPS, query={"limit": "1"})
    await fill(api, "bb")
    api.server.store.compact()
    status = await api.fails(410, "GET", MAPS, query={"limit": "9", "continue": first["metadata"]["continue"]})
    assert status["reason"] == "Expired"
    rest = await api.ok("GET", MAPS, query={"continue": status["metadata"]["continue"]})
    assert names(rest) == ["b", "bb", "c"]


async def test_the_past_can_be_asked_for_exactly(api: Any) -> None:
    await fill(api, "a")
    version = str(api.server.store.revision)
    await fill(api, "b")
    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert names(await api.ok("GET", MAPS, query=exact)) == ["a"]
    not_older = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
    assert names(await api.ok("GET", MAPS, query=not_older)) == ["a", "b"]


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ({"resourceVersion": "x"}, 400, "invalid resource version"),
        ({"resourceVersion": "99999"}, 504, "Too large resource version: 99999"),
        ({"resourceVersionMatch": "Exact"}, 422, "forbidden unless resourceVersion is provided"),
        ({"resourceVersionMatch": "Never", "resourceVersion": "1"}, 422, "Unsupported value"),
        ({"limit": "many"}, 400, "invalid syntax"),
        ({"continue": "nonsense"}, 400, "continue key is not valid"),
        ({"labelSelector": "=x"}, 400, "expected: !, identifier"),
        ({"fieldSelector": "spec.x=1"}, 400, "is not a known field selector"),
    ],
    ids=str,
)
async def test_bad_list_options(api: Any, query: dict[str, str], code: int, text: str) -> None:
    assert text in (await api.fails(code, "GET", MAPS, query=query))["message"]


async def test_metadata_alone_can_be_asked_for(api: Any) -> None:
    assert (await api.ok("GET", MAPS, accept=PARTIAL))["items"] is None
    await fill(api, "a")
    listed = await api.ok("GET", MAPS, accept=PARTIAL)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"][0]["kind"] == "PartialObjectMetadata"


async def test_what_cannot_be_served_is_406(api: Any) -> None:
    status = await api.fails(406, "GET", MAPS, accept="application/cbor")
    assert status["reason"] == "NotAcceptable"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces/default/nonsense", 404),
        ("GET", "/apis/nobody.example.com/v1/things", 404),
        ("GET", "/nonsense", 404),
        ("POST", "/version", 404),
        ("PUT", MAPS, 405),
        ("POST", "/api/v1/configmaps", 405),
        ("GET", f"{MAPS}/a/scale", 404),
        ("POST", f"{MAPS}/a", 405),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
    ],
    ids=str,
)
async def test_paths_and_verbs_that_are_not_served(api: Any, method: str, path: str, code: int) -> None:
    assert (await api.send(method, path)).status == code


async def test_a_failure_of_the_server_itself_is_a_status_too(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.server.store, "rows", None)
    status = await api.fails(500, "GET", MAPS)
    assert (status["reason"], status["kind"]) == ("InternalError", "Status")
