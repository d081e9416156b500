"""Watches: what watchers see, when, and how a watch ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

MAPS = "/api/v1/namespaces/default/configmaps"
BOOKMARK = "k8s.io/initial-events-end"


def config(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


async def events(stream: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    async for chunk in stream:
        for line in chunk.splitlines():
            yield msgspec.json.decode(line)


async def opened(api: Any, path: str = MAPS, **query: str) -> AsyncIterator[dict[str, Any]]:
    response = await api.send("GET", path, query={"watch": "true", **query})
    assert response.status == 200, response.body
    return events(response.stream)


async def taken(stream: AsyncIterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(10):
        return [await anext(stream) for _ in range(count)]


def told(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in found]


async def test_a_watch_without_a_version_begins_with_what_is_there(api: Any) -> None:
    await api.create(MAPS, config("a"))
    stream = await opened(api)
    await api.create(MAPS, config("b"))
    await api.ok("DELETE", f"{MAPS}/a")
    assert told(await taken(stream, 3)) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


async def test_a_watch_goes_on_after_the_version_that_the_client_saw(api: Any) -> None:
    await api.create(MAPS, config("a"))
    version = (await api.ok("GET", MAPS))["metadata"]["resourceVersion"]
    await api.merge(f"{MAPS}/a", {"data": {"x": "1"}})
    await api.create("/api/v1/namespaces/kube-system/configmaps", config("elsewhere"))
    await api.create(MAPS, config("b"))
    stream = await opened(api, resourceVersion=version)
    found = await taken(stream, 2)
    assert told(found) == [("MODIFIED", "a"), ("ADDED", "b")]
    assert int(found[0]["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_entering_and_leaving_a_selection_are_added_and_deleted(api: Any) -> None:
    stream = await opened(api, labelSelector="l=in")
    await api.create(MAPS, config("a", l="out"))
    await api.merge(f"{MAPS}/a", {"metadata": {"labels": {"l": "in"}}})
    await api.merge(f"{MAPS}/a", {"data": {"x": "1"}})
    await api.merge(f"{MAPS}/a", {"metadata": {"labels": {"l": "out"}}})
    await api.ok("DELETE", f"{MAPS}/a")
    await api.create(MAPS, config("b", l="in"))
    found = await taken(stream, 4)
    assert told(found) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    assert found[2]["object"]["metadata"]["labels"] == {"l": "in"}


async def test_one_object_can_be_watched_by_name(api: Any) -> None:
    await api.create(MAPS, config("a"))
    await api.create(MAPS, config("b"))
    stream = await opened(api, f"{MAPS}/b")
    assert told(await taken(stream, 1)) == [("ADDED", "b")]


async def test_initial_events_end_with_a_bookmark(api: Any) -> None:
    await api.create(MAPS, config("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    stream = await opened(api, **query)
    found = await taken(stream, 2)
    assert [event["type"] for event in found] == ["ADDED", "BOOKMARK"]
    metadata = found[1]["object"]["metadata"]
    assert metadata["annotations"] == {BOOKMARK: "true"}
    assert metadata["resourceVersion"] == str(api.server.store.revision)


async def test_initial_events_need_their_match(api: Any) -> None:
    status = await api.fails(422, "GET", MAPS, query={"watch": "1", "sendInitialEvents": "true"})
    assert "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan" in status["message"]


async def test_a_lost_log_is_an_expired_watch(api: Any) -> None:
    await api.create(MAPS, config("a"))
    version = str(api.server.store.revision)
    await api.create(MAPS, config("b"))
    api.server.store.compact()
    stream = await opened(api, resourceVersion=version)
    (event,) = [event async for event in stream]
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {version} (")


async def test_a_version_from_the_future_is_refused(api: Any) -> None:
    query = {"watch": "true", "resourceVersion": "999999"}
    status = await api.fails(504, "GET", MAPS, query=query)
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_a_watch_ends_when_its_time_is_up(api: Any, in_virtual_time: Any) -> None:
    async def watch() -> None:
        stream = await opened(api, timeoutSeconds="90")
        started = asyncio.get_running_loop().time()
        assert [event async for event in stream] == []
        assert asyncio.get_running_loop().time() - started >= 90

    in_virtual_time(watch())


def test_a_quiet_watch_gets_bookmarks_of_the_newest_version(api: Any, in_virtual_time: Any) -> None:
    async def watch() -> None:
        stream = await opened(api, timeoutSeconds="150", allowWatchBookmarks="true")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        await api.create("/api/v1/namespaces/default/secrets", secret)
        found = [event async for event in stream]
        assert {event["type"] for event in found} == {"BOOKMARK"}
        assert found[-1]["object"]["metadata"]["resourceVersion"] == str(api.server.store.revision)
        assert len(found) >= 2

    in_virtual_time(watch())


async def test_a_watch_can_be_a_table(api: Any) -> None:
    await api.create(MAPS, config("a"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    response = await api.send("GET", MAPS, query={"watch": "true"}, accept=accept)
    await api.create(MAPS, config("b"))
    first, second = await taken(events(response.stream), 2)
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "b"


async def test_events_have_two_faces_and_one_storage(api: Any) -> None:
    stream = await opened(api, "/api/v1/namespaces/default/events")
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": "2024-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "hello",
        "reason": "Because",
        "action": "Do",
        "type": "Normal",
        "reportingController": "x",
        "reportingInstance": "y",
    }
    await api.create("/apis/events.k8s.io/v1/namespaces/default/events", body)
    (event,) = await taken(stream, 1)
    assert event["object"]["apiVersion"] == "v1"
    assert (event["object"]["message"], event["object"]["involvedObject"]["name"]) == ("hello", "p")
    listed = await api.ok("GET", "/apis/events.k8s.io/v1/events")
    assert (listed["items"][0]["note"], listed["items"][0]["regarding"]["name"]) == ("hello", "p")


async def test_bookmarks_never_step_over_a_change(api: Any, server: Any) -> None:
    server.state.bookmark_seconds = 0.001
    stream = await opened(api, allowWatchBookmarks="true")
    names = [f"m{number}" for number in range(200)]

    async def write() -> None:
        for name in names:
            await api.create(MAPS, config(name))
            await asyncio.sleep(0.001)

    writing = asyncio.create_task(write())
    seen: list[str] = []
    async with asyncio.timeout(60):
        async for event in stream:
            if event["type"] == "ADDED":
                seen.append(event["object"]["metadata"]["name"])
            elif writing.done() and int(event["object"]["metadata"]["resourceVersion"]) >= server.store.revision:
                break
    await writing
    assert seen == names
