"""The client against a server that misbehaves: typed errors, bounded waits, nothing sent twice that must not be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kube_runtime.client import fault_server as say
from tests.kube_runtime.client.fault_server import FaultServer

from kube_runtime.client import errors
from kube_runtime.client.client import Call, Client
from kube_runtime.client.credentials import Bearer, RotatedFile
from kube_runtime.client.decode import Bookmark, Changed, Deleted, UnreadableEvent
from kube_runtime.client.kubeconfig import Target
from kube_runtime.client.objects import CONFIG_MAPS, LEASES
from kube_runtime.client.transport import Limits

ONE = say.config_map("a", 5, key="value")


async def get(client: Client) -> Any:
    return await client.get(CONFIG_MAPS, "a", "ns")


async def apply(client: Client) -> Any:
    return await client.apply(CONFIG_MAPS, "a", {"metadata": {"name": "a"}}, "ns", field_manager="m")


async def create(client: Client) -> Any:
    return await client.create(CONFIG_MAPS, ONE, "ns")


async def merge_patch(client: Client) -> Any:
    return await client.merge_patch(CONFIG_MAPS, "a", {"data": {}}, "ns")


async def delete_by_uid(client: Client) -> Any:
    return await client.delete(CONFIG_MAPS, "a", "ns", uid="u")


async def delete_by_name(client: Client) -> Any:
    return await client.delete(CONFIG_MAPS, "a", "ns")


Verb = Callable[[Client], Awaitable[Any]]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param(say.truncated(b'{"kind":"Conf'), errors.Unreachable, id="truncated body"),
        pytest.param(say.text(b'{"kind":"ConfigMap","metadata":{'), errors.BadAnswer, id="malformed JSON"),
        pytest.param(say.text(b""), errors.BadAnswer, id="empty body"),
        pytest.param(say.text(b"[1]"), errors.BadAnswer, id="JSON that is no object"),
        pytest.param(say.text(b"\xff\xfe{}"), errors.BadAnswer, id="bytes that are no text"),
        pytest.param(say.text(b"<html>", content_type="text/html"), errors.BadAnswer, id="a login page"),
        pytest.param(say.json(say.status(403, "Forbidden")), errors.Forbidden, id="a 200 with an error body"),
        pytest.param(say.json({"kind": "Status", "status": "Success"}), errors.BadAnswer, id="a Status, no object"),
        pytest.param(say.json({**ONE, "data": "x"}), errors.BadAnswer, id="an object of another shape"),
        pytest.param(say.json({}, code=302, headers={"Location": "/x"}), errors.BadAnswer, id="a redirect"),
        pytest.param(say.reset(), errors.Unreachable, id="a reset"),
        pytest.param(say.garbage(), errors.BadAnswer, id="a server that speaks something else"),
        pytest.param(say.error(404, "NotFound"), errors.NotFound, id="404"),
        pytest.param(say.error(403, "Forbidden"), errors.Forbidden, id="403"),
        pytest.param(say.error(503, "ServiceUnavailable"), errors.Unavailable, id="503"),
    ],
)
@pytest.mark.parametrize("verb", [get, create], ids=["get", "create"])
async def test_every_fault_is_a_typed_error(
    client: Client, faults: FaultServer, verb: Verb, step: say.Step, expected: type[errors.KubeError]
) -> None:
    faults.answer(*[step] * client.retries.attempts)
    with pytest.raises(errors.KubeError) as caught:
        await verb(client)
    assert type(caught.value) is expected


@pytest.mark.parametrize(("verb", "sent"), [(get, 4), (apply, 1), (create, 1), (delete_by_uid, 1)])
async def test_a_server_that_hangs_is_left_in_time_and_only_reads_go_on(
    hasty: Client, faults: FaultServer, verb: Verb, sent: int
) -> None:
    faults.answer(*[say.hang()] * 4)
    with pytest.raises(errors.TimedOut) as caught:
        await verb(hasty)
    assert caught.value.sent
    assert len(faults.seen) == sent


async def test_a_connection_refused_is_unreachable_and_not_sent(client: Client, faults: FaultServer) -> None:
    await faults.stop()
    with pytest.raises(errors.Unreachable) as caught:
        await create(client)
    assert caught.value.sent is False


async def test_a_slow_answer_within_the_limit_is_an_answer(client: Client, faults: FaultServer) -> None:
    faults.answer(say.slowly(ONE, 50))
    assert (await get(client)).data == {"key": "value"}


async def test_a_huge_object_is_read(client: Client, faults: FaultServer) -> None:
    faults.answer(say.json(say.config_map("a", 5, big="x" * 4_000_000)))
    assert len((await get(client)).data["big"]) == 4_000_000


async def test_an_answer_without_end_is_cut_off(faults: FaultServer, waits: Any) -> None:
    target = Target(server=faults.url, credentials=Bearer(_Inline()))
    faults.answer(*[say.json(say.config_map("a", 5, big="x" * 5000))] * 4)
    async with Client.to(target, timing=waits.timing, limits=Limits(body_bytes=1000)) as client:
        with pytest.raises(errors.BadAnswer, match="larger than 1000 bytes"):
            await get(client)


class _Inline:
    def read(self) -> bytes:
        return b"token"

    def forget(self) -> None:
        return None


@pytest.mark.parametrize(
    ("verb", "step", "sent"),
    [
        pytest.param(get, say.reset(), 4, id="a read goes on after a reset"),
        pytest.param(get, say.error(429, "TooManyRequests"), 4, id="a read goes on after 429"),
        pytest.param(get, say.error(500, "InternalError"), 4, id="a read goes on after 500"),
        pytest.param(get, say.error(404, "NotFound"), 1, id="a read takes 404 for an answer"),
        pytest.param(apply, say.error(429, "TooManyRequests"), 4, id="an apply goes on after 429"),
        pytest.param(apply, say.error(503, "ServiceUnavailable"), 4, id="an apply goes on after 503"),
        pytest.param(apply, say.reset(), 1, id="an apply that may have arrived is not repeated"),
        pytest.param(apply, say.error(500, "InternalError"), 1, id="an apply that failed inside is not repeated"),
        pytest.param(apply, say.error(409, "Conflict"), 1, id="a conflict is not repeated"),
        pytest.param(delete_by_uid, say.error(429, "TooManyRequests"), 4, id="a delete by uid goes on after 429"),
        pytest.param(delete_by_uid, say.reset(), 1, id="a delete by uid that may have arrived is not repeated"),
        pytest.param(delete_by_name, say.error(429, "TooManyRequests"), 1, id="a delete by name is never repeated"),
        pytest.param(create, say.error(429, "TooManyRequests"), 1, id="a create is never repeated"),
        pytest.param(create, say.reset(), 1, id="a create that may have arrived is not repeated"),
        pytest.param(merge_patch, say.error(503, "ServiceUnavailable"), 1, id="a merge patch is never repeated"),
    ],
)
async def test_only_what_cannot_do_harm_is_sent_again(
    client: Client, faults: FaultServer, verb: Verb, step: say.Step, sent: int
) -> None:
    faults.answer(*[step] * 8)
    with pytest.raises(errors.KubeError):
        await verb(client)
    assert len(faults.seen) == sent


async def test_a_stale_connection_never_sends_a_delete_twice(client: Client, faults: FaultServer) -> None:
    """aiohttp repeats PUT and DELETE by itself when a kept connection turns out dead."""
    faults.answer(say.json(ONE), say.reset(), say.json({"kind": "Status", "status": "Success"}))
    await get(client)
    with pytest.raises(errors.Unreachable):
        await delete_by_name(client)
    assert [seen.method for seen in faults.seen] == ["GET", "DELETE"]


async def test_waits_grow_and_are_bounded(client: Client, faults: FaultServer, waits: Any) -> None:
    faults.answer(*[say.error(503, "ServiceUnavailable")] * 4)
    with pytest.raises(errors.Unavailable):
        await get(client)
    assert waits.slept == pytest.approx([0.075, 0.15, 0.3])


async def test_retry_after_is_honoured(client: Client, faults: FaultServer, waits: Any) -> None:
    faults.answer(say.error(429, "TooManyRequests", headers={"Retry-After": "3"}), say.json(ONE))
    assert (await get(client)).metadata.name == "a"
    assert waits.slept == [3.0]


async def test_a_long_retry_after_is_left_to_the_caller(client: Client, faults: FaultServer, waits: Any) -> None:
    faults.answer(say.error(429, "TooManyRequests", headers={"Retry-After": "3600"}))
    with pytest.raises(errors.TooManyRequests) as caught:
        await get(client)
    assert (caught.value.retry_after, waits.slept) == (3600.0, [])


@pytest.mark.parametrize("verb", [get, create], ids=["get", "create"])
async def test_a_revoked_token_is_read_anew_and_the_request_sent_once_more(
    faults: FaultServer, waits: Any, tmp_path: Path, verb: Verb
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    target = Target(server=faults.url, credentials=Bearer(RotatedFile(token)))

    async def rotate(wire: say.Wire, seen: say.Seen) -> bool:
        token.write_text("new")
        return await say.error(401, "Unauthorized")(wire, seen)

    faults.answer(rotate, say.json(ONE))
    async with Client.to(target, timing=waits.timing) as client:
        await verb(client)
    assert [seen.headers["authorization"] for seen in faults.seen] == ["Bearer old", "Bearer new"]


async def test_a_token_that_stays_refused_is_an_error_after_one_more_try(client: Client, faults: FaultServer) -> None:
    faults.answer(*[say.error(401, "Unauthorized")] * 4)
    with pytest.raises(errors.Unauthorized):
        await get(client)
    assert len(faults.seen) == 2


async def test_a_rotated_token_is_used_without_any_401(faults: FaultServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    faults.answer(say.json(ONE), say.json(ONE))
    async with Client.to(Target(server=faults.url, credentials=Bearer(RotatedFile(token)))) as client:
        await get(client)
        token.write_text("longer")
        await get(client)
    assert [seen.headers["authorization"] for seen in faults.seen] == ["Bearer old", "Bearer longer"]


async def test_a_list_is_read_page_by_page(client: Client, faults: FaultServer) -> None:
    pages = [say.listing(9, say.config_map("a", 1), token="t1"), say.listing(9, say.config_map("b", 2))]
    faults.answer(*map(say.json, pages))
    listing = await client.list(CONFIG_MAPS, "ns", label_selector="x=y", limit=1)
    assert [item.metadata.name for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "9"
    assert [seen.query for seen in faults.seen] == [
        {"labelSelector": "x=y", "limit": "1"},
        {"labelSelector": "x=y", "limit": "1", "continue": "t1"},
    ]


async def test_an_expired_continue_token_starts_the_list_over_in_one_piece(client: Client, faults: FaultServer) -> None:
    faults.answer(
        say.json(say.listing(9, say.config_map("gone", 1), token="t1")),
        say.error(410, "Expired"),
        say.json(say.listing(12, say.config_map("b", 11))),
    )
    listing = await client.list(CONFIG_MAPS, "ns")
    assert [item.metadata.name for item in listing.items] == ["b"]
    assert "limit" not in faults.seen[-1].query


async def test_a_list_that_stays_expired_is_an_error(client: Client, faults: FaultServer) -> None:
    faults.answer(say.error(410, "Expired"), say.error(410, "Expired"))
    with pytest.raises(errors.Expired):
        await client.list(CONFIG_MAPS)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(say.status(403, "Forbidden"), id="a Status"),
        pytest.param({"items": []}, id="no kind"),
        pytest.param({"kind": "ConfigMapList", "items": []}, id="no resourceVersion"),
        pytest.param(say.config_map("a", 1), id="an object"),
    ],
)
async def test_an_empty_answer_is_never_taken_for_an_empty_list(client: Client, faults: FaultServer, body: Any) -> None:
    faults.answer(*[say.json(body)] * 4)
    with pytest.raises((errors.BadAnswer, errors.Forbidden)):
        await client.list(CONFIG_MAPS)


async def test_one_object_that_does_not_fit_leaves_the_others_readable(client: Client, faults: FaultServer) -> None:
    odd = {**say.config_map("odd", 3), "data": ["not", "a", "map"]}
    faults.answer(say.json(say.listing(9, say.config_map("a", 1), odd, {**say.config_map("n", 2), "data": None})))
    listing = await client.list(CONFIG_MAPS)
    assert [item.metadata.name for item in listing.items] == ["a", "n"]
    assert [item.metadata.name for item in listing.unreadable] == ["odd"]
    assert "data" in listing.unreadable[0].why


async def watched(client: Client, **options: Any) -> list[Any]:
    return [event async for event in client.watch(CONFIG_MAPS, "ns", resource_version="9", **options)]


async def test_a_watch_gives_typed_events_and_asks_for_bookmarks(client: Client, faults: FaultServer) -> None:
    a, b = say.config_map("a", 10), say.config_map("b", 11)
    faults.answer(say.stream(say.event("ADDED", a), say.event("DELETED", b), say.bookmark(20)))
    changed, deleted, mark = await watched(client, seconds=60)
    assert isinstance(changed, Changed)
    assert isinstance(deleted, Deleted)
    assert mark == Bookmark("20")
    assert faults.seen[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "9",
        "timeoutSeconds": "60",
    }


async def test_events_may_be_cut_anywhere_and_be_longer_than_any_buffer(client: Client, faults: FaultServer) -> None:
    """aiohttp's readline stops at a limit; a large object is larger."""
    import msgspec

    whole = msgspec.json.encode(say.event("ADDED", say.config_map("a", 10, big="x" * 1_500_000))) + b"\n"
    twice = whole + whole.replace(b'"10"', b'"11"')
    pieces = [twice[start : start + 700_001] for start in range(0, len(twice), 700_001)]
    faults.answer(say.stream(*pieces))
    events = await watched(client)
    assert [event.object.metadata.resource_version for event in events] == ["10", "11"]


@pytest.mark.parametrize(
    ("parts", "end", "expected"),
    [
        pytest.param([say.event("ERROR", say.status(410, "Expired"))], "finish", errors.Expired, id="in-stream 410"),
        pytest.param(
            [say.event("ERROR", say.status(500, "InternalError", "etcdserver: leader changed"))],
            "finish",
            errors.ServerError,
            id="in-stream 500",
        ),
        pytest.param([say.event("ERROR", {"odd": 1})], "finish", errors.ServerError, id="an error without a Status"),
        pytest.param([b'{"type":"ADDED","obj'], "finish", errors.BadAnswer, id="a stream that ends within an event"),
        pytest.param([b"not json\n"], "finish", errors.BadAnswer, id="an event that is not JSON"),
        pytest.param([say.event("RENAMED", ONE)], "finish", errors.BadAnswer, id="an unknown event"),
        pytest.param([say.event("ADDED", {})], "finish", errors.BadAnswer, id="an event without an object"),
        pytest.param([], "reset", errors.Unreachable, id="a reset"),
        pytest.param([], "close", errors.Unreachable, id="a close within the chunks"),
        pytest.param([], "hang", errors.TimedOut, id="silence"),
    ],
)
async def test_a_watch_that_fails_raises_what_happened(
    client: Client, faults: FaultServer, parts: list[Any], end: str, expected: type[errors.KubeError]
) -> None:
    faults.answer(say.stream(say.event("ADDED", say.config_map("a", 10)), *parts, end=end))
    events = client.watch(CONFIG_MAPS, "ns", resource_version="9", silence=0.2)
    assert isinstance(await anext(events), Changed)
    with pytest.raises(expected):
        await anext(events)


async def test_a_line_without_end_is_cut_off(faults: FaultServer) -> None:
    from kube_runtime.client.decode import split_lines

    async def chunks() -> Any:
        while True:
            yield b"x" * 1000

    with pytest.raises(errors.BadAnswer, match="longer than 5000 bytes"):
        async for _ in split_lines(chunks(), "watch", limit=5000):
            pass


async def test_an_event_that_does_not_fit_does_not_end_the_watch(client: Client, faults: FaultServer) -> None:
    """Validating clients raise out of the stream when one object has an unexpected shape."""
    odd = {**say.config_map("odd", 10), "data": 5}
    faults.answer(say.stream(say.event("MODIFIED", odd), say.event("ADDED", say.config_map("b", 11))))
    spoilt, changed = await watched(client)
    assert isinstance(spoilt, UnreadableEvent)
    assert spoilt.object.metadata.name == "odd"
    assert changed.object.metadata.name == "b"


async def test_closing_a_watch_early_drops_its_connection(client: Client, faults: FaultServer) -> None:
    faults.answer(say.stream(say.event("ADDED", say.config_map("a", 10)), end="hang"), say.json(ONE))
    events = client.watch(CONFIG_MAPS, "ns", resource_version="9")
    await anext(events)
    await events.aclose()
    await get(client)
    assert faults.connections == 2


async def test_logs_come_line_by_line(client: Client, faults: FaultServer) -> None:
    faults.answer(say.stream(b"one\ntw", b"o\nlast without end", content_type="text/plain"))
    lines = [line async for line in client.logs("ns", "p", container="c", tail=3)]
    assert lines == ["one", "two", "last without end"]
    assert faults.seen[0].path == "/api/v1/namespaces/ns/pods/p/log"
    assert faults.seen[0].query == {"container": "c", "tailLines": "3"}


async def test_a_log_that_is_followed_may_be_silent_longer_than_any_limit(hasty: Client, faults: FaultServer) -> None:
    silence = asyncio.Event()

    async def silent(wire: say.Wire, seen: say.Seen) -> bool:
        await wire.send(b"HTTP/1.1 200 x\r\nContent-Type: text/plain\r\n\r\none\n")
        await silence.wait()
        await wire.send(b"two\n")
        return False

    faults.answer(silent)
    lines = hasty.logs("ns", "p", follow=True, seconds=0.05)
    assert await anext(lines) == "one"
    more = asyncio.ensure_future(anext(lines))
    # Several times what an ordinary read may wait.
    await asyncio.wait([more], timeout=0.3)
    silence.set()
    assert await more == "two"
    await lines.aclose()


async def test_every_request_is_reported_with_its_code(client: Client, faults: FaultServer) -> None:
    calls: list[Call] = []
    client.report = calls.append
    faults.answer(say.reset(), say.json(ONE))
    await get(client)
    assert [(call.request.what, call.code) for call in calls] == [
        ("get configmaps ns/a", 0),
        ("get configmaps ns/a", 200),
    ]


async def test_ordinary_requests_are_bounded_and_watches_do_not_count(faults: FaultServer) -> None:
    from kube_runtime.client.credentials import Fixed

    faults.answer(say.stream(say.bookmark(1), end="hang"), say.hang(), say.json(ONE))
    limits = Limits(in_flight=1, request_seconds=1.0)
    async with Client.to(Target(server=faults.url, credentials=Fixed()), limits=limits) as client:
        events = client.watch(CONFIG_MAPS, "ns", resource_version="9")
        await anext(events)
        first = asyncio.create_task(client.create(CONFIG_MAPS, ONE, "ns"))
        await faults.requests(2)
        second = asyncio.create_task(get(client))
        with pytest.raises(errors.TimedOut):
            await first
        assert (await second).metadata.name == "a"
        await events.aclose()


async def test_a_lease_waits_behind_no_other_request(faults: FaultServer) -> None:
    """A scale-out of thousands would keep its renewal waiting until it has run out."""
    from kube_runtime.client.credentials import Fixed

    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a", "namespace": "ns"}}
    faults.answer(say.hang(), say.json(lease))
    limits = Limits(in_flight=1, request_seconds=1.0)
    async with Client.to(Target(server=faults.url, credentials=Fixed()), limits=limits) as client:
        first = asyncio.create_task(client.create(CONFIG_MAPS, ONE, "ns"))
        await faults.requests(1)
        assert (await client.get(LEASES, "a", "ns")).metadata.name == "a"
        assert not first.done()
        with pytest.raises(errors.TimedOut):
            await first


class FencedError(Exception):
    """This process may not write any more."""


def falls_at(number: int) -> Callable[[], None]:
    """A fence that lets the first few questions through."""
    asked = iter(range(1, 100))

    def fence() -> None:
        if next(asked) >= number:
            raise FencedError

    return fence


@pytest.mark.parametrize("verb", [apply, delete_by_uid])
async def test_a_write_that_waited_for_a_busy_server_asks_again_whether_it_may_be_sent(
    client: Client, faults: FaultServer, verb: Verb
) -> None:
    """T17: the right to write may end between two attempts."""
    faults.answer(say.error(429, "TooManyRequests", headers={"Retry-After": "1"}), say.json(ONE))
    with pytest.raises(FencedError):
        await verb(client.fenced(falls_at(3)))
    assert len(faults.seen) == 1


async def test_a_write_that_was_late_to_connect_is_not_sent(client: Client, faults: FaultServer) -> None:
    """T17: the last question is asked on the open connection, before the first byte."""
    with pytest.raises(FencedError):
        await create(client.fenced(falls_at(2)))
    assert faults.seen == []


async def test_a_fenced_client_reports_to_whoever_the_client_reports_to_now(
    client: Client, faults: FaultServer
) -> None:
    """A right that a writer lacks is counted, also by a listener that came after the writer was made."""
    fenced, calls = client.fenced(lambda: None), list[Call]()
    client.report = calls.append
    faults.answer(say.json(ONE, code=201))
    await create(fenced)
    assert [(call.request.method, call.code) for call in calls] == [("POST", 201)]


async def test_reads_pass_every_fence(client: Client, faults: FaultServer) -> None:
    faults.answer(say.json(ONE))
    await get(client.fenced(falls_at(1)))
    assert len(faults.seen) == 1
