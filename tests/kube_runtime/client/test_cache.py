"""The cache under every fault that a watch knows. The defects of other clients are each a test here, by name."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kube_runtime.client import fault_server as say
from tests.kube_runtime.client.fault_server import FaultServer

from kube_runtime.client.cache import Cache
from kube_runtime.client.client import Client
from kube_runtime.client.collector import Collector
from kube_runtime.client.credentials import Bearer, Fixed, RotatedFile
from kube_runtime.client.errors import Expired, Forbidden, NotFound, ServerError, TimedOut, Unauthorized
from kube_runtime.client.kubeconfig import Target
from kube_runtime.client.objects import CONFIG_MAPS, ConfigMap

A1 = say.config_map("a", 1, v="1")

B2 = say.config_map("b", 2, v="1")

FIRST = say.json(say.listing(10, A1, B2))


class Log:
    """What a listener was told: (what, name, version)."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        item = new or old
        assert item is not None
        what = "change" if old and new else "add" if new else "delete"
        self.told.append(f"{what} {item.metadata.name}")


class Running:
    """A cache, its listener, and its task."""

    def __init__(self, cache: Cache[ConfigMap], log: Log) -> None:
        self.cache = cache
        self.log = log
        self.task: asyncio.Task[None] | None = None

    @property
    def names(self) -> list[str]:
        return sorted(item.metadata.name for item in self.cache.items())

    async def until(self, seen: Callable[[], bool]) -> None:
        """Run until something holds; every turn of the event loop is looked at."""
        if self.task is None:
            self.task = asyncio.create_task(self.cache.run())
        async with asyncio.timeout(10):
            while not seen():
                assert not self.task.done(), "the cache died"
                await asyncio.sleep(0.001)


@pytest.fixture
async def running(client: Client, waits: Any) -> AsyncIterator[Running]:
    log = Log()
    cache = Cache(client, CONFIG_MAPS, "ns", timing=waits.timing)
    cache.on_change(log)
    made = Running(cache, log)
    yield made
    if made.task is not None:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)


def forever() -> say.Step:
    return say.stream(end="hang")


async def test_a_list_and_a_watch_make_a_picture(running: Running, faults: FaultServer) -> None:
    faults.answer(
        FIRST,
        say.stream(
            say.event("MODIFIED", say.config_map("a", 11, v="2")),
            say.event("ADDED", say.config_map("c", 12)),
            say.event("DELETED", say.config_map("b", 13)),
            end="hang",
        ),
    )
    await running.until(lambda: running.cache.resource_version == "13")
    assert running.names == ["a", "c"]
    assert running.log.told == ["add a", "add b", "change a", "add c", "delete b"]
    assert running.cache.synced


async def test_pod_deleted_while_the_watch_was_broken_is_seen_as_deleted_after_relist(
    running: Running, faults: FaultServer
) -> None:
    """kopf's index keeps it for ever; no delete is told."""
    faults.answer(
        FIRST,
        say.stream(end="reset"),
        say.json(say.listing(30)),
        say.error(410, "Expired"),
        say.json(say.listing(30, A1)),
        forever(),
    )
    await running.until(lambda: running.names == ["a"])
    assert running.log.told == ["add a", "add b", "delete b"]


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(say.error(410, "Expired", "too old resource version"), id="HTTP 410"),
        pytest.param(say.stream(say.event("ERROR", say.status(410, "Expired"))), id="in-stream 410"),
        pytest.param(say.stream(say.event("ERROR", say.status(410, "Gone"))), id="in-stream 410 by its other name"),
    ],
)
async def test_410_lists_again_and_watches_from_the_new_list(
    running: Running, faults: FaultServer, gone: say.Step
) -> None:
    """Other clients watch on with the same resourceVersion, or with none and no list."""
    faults.answer(FIRST, gone, say.json(say.listing(40, A1)), forever())
    await running.until(lambda: len(faults.seen) == 4)
    assert faults.seen[2].query.get("watch") is None
    assert faults.seen[3].query["resourceVersion"] == "40"
    assert running.cache.relists == 2
    assert running.names == ["a"]


async def test_a_server_that_answers_410_for_ever_is_not_hammered(
    running: Running, faults: FaultServer, waits: Any
) -> None:
    """kr8s sent 354 requests in 2 seconds with the same resourceVersion."""
    for _ in range(12):
        faults.answer(FIRST, say.error(410, "Expired"))
    await running.until(lambda: len(faults.seen) >= 24)
    assert waits.slept[:10] == sorted(waits.slept[:10])
    assert sum(waits.slept[:11]) > 60
    assert max(waits.slept) <= 30


async def test_a_server_that_closes_every_watch_at_once_is_not_hammered(
    running: Running, faults: FaultServer, waits: Any
) -> None:
    faults.answer(FIRST, *[say.stream() for _ in range(10)], forever())
    await running.until(lambda: len(faults.seen) == 12)
    assert waits.slept[-1] > 10


async def test_a_watch_that_the_server_ends_is_resumed_where_it_stood(running: Running, faults: FaultServer) -> None:
    """kr8s' generator ends silently."""
    faults.answer(FIRST, say.stream(say.event("ADDED", say.config_map("c", 15))), forever())
    await running.until(lambda: len(faults.seen) == 3)
    assert faults.seen[2].query["resourceVersion"] == "15"
    assert running.cache.relists == 1


async def test_a_quiet_kind_resumes_from_its_bookmark(running: Running, faults: FaultServer) -> None:
    """Without bookmarks a quiet watch falls out of the server's history."""
    faults.answer(FIRST, say.stream(say.bookmark(500)), forever())
    await running.until(lambda: len(faults.seen) == 3)
    assert faults.seen[1].query["allowWatchBookmarks"] == "true"
    assert faults.seen[2].query["resourceVersion"] == "500"
    assert running.cache.relists == 1


@pytest.mark.parametrize("end", ["reset", "close"])
async def test_a_cut_connection_is_resumed_without_losing_an_event(
    running: Running, faults: FaultServer, end: str
) -> None:
    faults.answer(
        FIRST,
        say.stream(say.event("ADDED", say.config_map("c", 11)), end=end),
        say.json(say.listing(12)),
        say.stream(say.event("ADDED", say.config_map("d", 12)), end="hang"),
    )
    await running.until(lambda: running.names == ["a", "b", "c", "d"])
    assert running.cache.relists == 1


async def test_an_in_stream_500_does_not_end_the_cache(running: Running, faults: FaultServer) -> None:
    """kopf's whole operator ends on `etcdserver: leader changed`."""
    leader_changed = say.event("ERROR", say.status(500, "InternalError", "etcdserver: leader changed"))
    faults.answer(
        FIRST,
        say.stream(leader_changed),
        say.json(say.listing(11)),
        say.stream(say.event("ADDED", say.config_map("c", 11)), end="hang"),
    )
    await running.until(lambda: running.names == ["a", "b", "c"])
    assert running.cache.relists == 1


async def test_an_in_stream_500_is_told_in_last_error_until_the_server_is_well(
    running: Running, faults: FaultServer, waits: Any
) -> None:
    errors: list[Exception | None] = []

    async def note(_: float) -> None:
        errors.append(running.cache.last_error)

    waits.on_sleep = note
    faults.answer(FIRST, say.stream(say.event("ERROR", say.status(500, "InternalError"))), FIRST, forever())
    await running.until(lambda: len(faults.seen) == 4)
    assert isinstance(errors[0], ServerError)


async def test_a_connection_refused_is_waited_for(faults: FaultServer, waits: Any) -> None:
    """In lightkube, connection errors go around the error callback."""
    await faults.stop()
    async with Client.to(Target(server=faults.url, credentials=Fixed()), timing=waits.timing) as client:
        cache = Cache(client, CONFIG_MAPS, timing=waits.timing)
        enough = asyncio.Event()

        async def count(_: float) -> None:
            if len(waits.slept) >= 30:
                enough.set()

        waits.on_sleep = count
        task = asyncio.create_task(cache.run())
        await asyncio.wait_for(enough.wait(), 10)
        assert not task.done()
        assert not cache.synced
        assert cache.age() is None
        task.cancel()


async def test_a_list_cut_between_its_pages_changes_nothing(running: Running, faults: FaultServer) -> None:
    """A half read picture would look like a mass deletion; kopf's initial streaming misses what was not sent."""
    faults.answer(
        FIRST,
        say.error(410, "Expired"),
        say.json(say.listing(40, say.config_map("c", 33), token="t1")),
        *[say.reset() for _ in range(4)],
        say.json(say.listing(41, A1, B2)),
        forever(),
    )
    await running.until(lambda: faults.unused == 0 and running.cache.resource_version == "41")
    assert running.log.told == ["add a", "add b"]


async def test_a_new_uid_under_an_old_name_is_a_delete_and_an_add(running: Running, faults: FaultServer) -> None:
    twin = say.config_map("a", 11, uid="another")
    faults.answer(FIRST, say.stream(say.event("MODIFIED", twin), end="hang"))
    await running.until(lambda: running.cache.resource_version == "11")
    assert running.log.told == ["add a", "add b", "delete a", "add a"]


async def test_a_new_uid_found_by_a_relist_is_a_delete_and_an_add(running: Running, faults: FaultServer) -> None:
    twin = say.config_map("a", 25, uid="another")
    faults.answer(FIRST, say.error(410, "Expired"), say.json(say.listing(30, twin, B2)), forever())
    await running.until(lambda: running.cache.relists == 2)
    assert running.log.told == ["add a", "add b", "delete a", "add a"]


async def test_a_relist_that_finds_nothing_new_tells_nothing(running: Running, faults: FaultServer) -> None:
    faults.answer(FIRST, say.error(410, "Expired"), say.json(say.listing(30, A1, B2)), forever())
    await running.until(lambda: running.cache.relists == 2)
    assert running.log.told == ["add a", "add b"]


async def test_a_server_restored_from_a_backup_is_listed_again(running: Running, faults: FaultServer) -> None:
    """It would answer a watch from the future with silence."""
    older = say.json(say.listing(7, A1))
    faults.answer(FIRST, say.stream(end="reset"), say.json(say.listing(7, A1)), older, forever())
    await running.until(lambda: running.cache.relists == 2)
    assert faults.seen[2].query == {"limit": "1"}
    assert running.names == ["a"]
    assert running.log.told == ["add a", "add b", "delete b"]
    assert running.cache.resource_version == "7"


async def test_a_write_that_a_restored_server_has_lost_is_waited_for_no_more(
    running: Running, faults: FaultServer
) -> None:
    """Its version lies in the server's future, and the cache would be behind it for ever."""
    older = say.json(say.listing(7, A1))
    faults.answer(FIRST, forever(), older, older, forever())
    await running.until(lambda: len(faults.seen) == 2)
    running.cache.expect("12")
    assert running.cache.is_behind
    await running.until(lambda: running.cache.relists == 2 and not running.cache.is_behind)
    assert running.cache.resource_version == "7"


@pytest.mark.parametrize(
    "older",
    [
        pytest.param(say.event("MODIFIED", say.config_map("a", 4)), id="an event"),
        pytest.param(say.event("DELETED", say.config_map("a", 4)), id="a delete"),
        pytest.param(say.bookmark(4), id="a bookmark"),
    ],
)
async def test_an_event_from_the_past_is_not_believed(
    running: Running, faults: FaultServer, older: dict[str, Any]
) -> None:
    faults.answer(FIRST, say.stream(older, end="hang"), say.json(say.listing(12, A1, B2)), forever())
    await running.until(lambda: running.cache.relists == 2)
    assert running.log.told == ["add a", "add b"]


async def test_a_broken_event_is_followed_by_a_list_because_nobody_knows_what_it_said(
    running: Running, faults: FaultServer
) -> None:
    faults.answer(FIRST, say.stream(b'{"type":"DELETED","object":{"metad\n'), say.json(say.listing(12, A1)), forever())
    await running.until(lambda: running.cache.relists == 2)
    assert running.names == ["a"]


async def test_a_silent_server_is_left_after_its_time(client: Client, faults: FaultServer, waits: Any) -> None:
    events = client.watch(CONFIG_MAPS, "ns", resource_version="9", silence=0.1)
    faults.answer(forever())
    with pytest.raises(TimedOut):
        await anext(events)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param(say.error(403, "Forbidden"), Forbidden, id="no right to list it yet"),
        pytest.param(say.error(404, "NotFound"), NotFound, id="no such kind yet"),
    ],
)
async def test_a_kind_that_cannot_be_read_yet_is_tried_again_and_told(
    running: Running, faults: FaultServer, waits: Any, step: say.Step, expected: type[Exception]
) -> None:
    """In cloudcoil, a 403 while roles are rolled out stops an informer for good."""
    errors: list[Exception | None] = []

    async def note(_: float) -> None:
        errors.append(running.cache.last_error)

    waits.on_sleep = note
    faults.answer(step, step, step, FIRST, forever())
    await running.until(lambda: running.cache.synced)
    assert [type(error) for error in errors[:3]] == [expected] * 3
    assert running.cache.last_error is None
    assert running.names == ["a", "b"]


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param([say.error(403, "Forbidden")], id="list"),
        pytest.param([FIRST, say.error(403, "Forbidden")], id="watch"),
    ],
)
async def test_a_right_that_is_taken_away_is_told_until_it_is_back(
    running: Running, faults: FaultServer, refused: list[say.Step]
) -> None:
    """The API server lets an open watch go on, so the first to hear of it is the next one."""
    told: list[str] = []
    running.cache.on_refusal(lambda: told.append(running.cache.refusal))
    faults.answer(FIRST, say.stream(end="abort"), *refused, *refused, FIRST, forever())
    await running.until(lambda: len(told) == 2)
    assert "403" in told[0]
    # The new watch has said nothing yet, and need not.
    assert told[1] == ""
    assert running.cache.synced
    assert running.names == ["a", "b"]


async def test_a_refused_token_is_read_anew(faults: FaultServer, waits: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def revoke(wire: say.Wire, seen: say.Seen) -> bool:
        token.write_text("new")
        return await say.error(401, "Unauthorized")(wire, seen)

    faults.answer(FIRST, revoke, say.stream(say.event("ADDED", say.config_map("c", 11))))
    target = Target(server=faults.url, credentials=Bearer(RotatedFile(token)))
    async with Client.to(target, timing=waits.timing) as client:
        cache = Cache(client, CONFIG_MAPS, timing=waits.timing)
        with pytest.raises(Unauthorized):
            await cache.step()
        await cache.step()
    assert len(cache) == 3
    assert [seen.headers["authorization"] for seen in faults.seen] == ["Bearer old", "Bearer old", "Bearer new"]


async def test_a_long_retry_after_is_waited_for(running: Running, faults: FaultServer, waits: Any) -> None:
    faults.answer(say.error(429, "TooManyRequests", headers={"Retry-After": "120"}), FIRST, forever())
    await running.until(lambda: running.cache.synced)
    assert waits.slept[0] == 120.0


async def test_an_object_that_cannot_be_read_is_named_and_not_absent(running: Running, faults: FaultServer) -> None:
    """What was last read of it stays; one that was never read is known by name alone."""
    odd = {**say.config_map("odd", 3), "data": 5}
    faults.answer(
        say.json(say.listing(10, A1, odd)),
        say.stream(say.event("MODIFIED", {**say.config_map("a", 11), "data": "x"}), end="hang"),
    )
    await running.until(lambda: running.cache.resource_version == "11")
    assert running.names == ["a"]
    assert sorted(running.cache.unreadable) == [("ns", "a"), ("ns", "odd")]
    # Whoever builds on it is woken, and nobody is told that it was deleted.
    assert running.log.told == ["add a", "change a"]


async def test_a_new_list_does_not_take_away_what_it_cannot_read(running: Running, faults: FaultServer) -> None:
    spoilt = {**say.config_map("a", 12), "data": 5}
    faults.answer(FIRST, say.error(410, "Expired"), say.json(say.listing(20, spoilt)), forever())
    await running.until(lambda: running.cache.resource_version == "20")
    assert running.names == ["a"]
    assert list(running.cache.unreadable) == [("ns", "a")]
    assert running.log.told == ["add a", "add b", "delete b"]


async def test_a_successor_that_cannot_be_read_is_not_taken_for_its_predecessor(
    running: Running, faults: FaultServer
) -> None:
    successor = say.config_map("a", 11)
    successor["metadata"]["uid"] = "another"
    faults.answer(FIRST, say.stream(say.event("ADDED", {**successor, "data": 5}), end="hang"))
    await running.until(lambda: running.cache.resource_version == "11")
    assert running.names == ["b"]
    assert list(running.cache.unreadable) == [("ns", "a")]


@pytest.mark.parametrize("text", ["99999999999", "9" * 400])
async def test_an_absurd_retry_after_does_not_end_a_cache(
    running: Running, faults: FaultServer, waits: Any, text: str
) -> None:
    faults.answer(say.error(429, "TooManyRequests", headers={"Retry-After": text}), FIRST, forever())
    await running.until(lambda: running.cache.synced)
    assert waits.slept[0] == 300.0


@pytest.mark.parametrize("text", ["-5", "soon", "Wed, 21 Oct 2037 07:28:00 GMT", "1e309", "٣", "0x10", ""])
async def test_a_retry_after_that_is_no_number_of_seconds_counts_as_none(
    running: Running, faults: FaultServer, waits: Any, text: str
) -> None:
    faults.answer(*[say.error(429, "TooManyRequests", headers={"Retry-After": text})] * 3, FIRST, forever())
    await running.until(lambda: running.cache.synced)
    assert max(waits.slept) < 5.0


async def test_a_resource_version_of_five_thousand_digits_is_one_that_nobody_compares(
    running: Running, faults: FaultServer
) -> None:
    long = {**say.config_map("c", 11)}
    long["metadata"] = {**long["metadata"], "resourceVersion": "9" * 5000}
    faults.answer(FIRST, say.stream(say.event("ADDED", long), end="hang"))
    await running.until(lambda: running.names == ["a", "b", "c"])
    assert running.cache.relists == 1


async def test_an_object_that_can_be_read_again_is_back(running: Running, faults: FaultServer) -> None:
    odd = {**say.config_map("odd", 3), "data": 5}
    events = [
        say.event("MODIFIED", say.config_map("odd", 11)),
        say.event("DELETED", {**say.config_map("odd", 12), "data": 5}),
    ]
    faults.answer(say.json(say.listing(10, odd)), say.stream(*events, end="hang"))
    await running.until(lambda: running.cache.resource_version == "12")
    assert running.log.told == ["add odd", "delete odd"]
    assert running.cache.unreadable == {}


async def test_a_listener_that_fails_harms_nobody(running: Running, faults: FaultServer) -> None:
    def broken(_: ConfigMap | None, __: ConfigMap | None) -> None:
        raise RuntimeError("a bug in a listener")

    late = Log()
    running.cache.on_change(broken)
    running.cache.on_change(late)
    faults.answer(FIRST, forever())
    await running.until(lambda: running.cache.synced)
    assert late.told == ["add a", "add b"]


async def test_a_late_listener_is_told_what_is_there(running: Running, faults: FaultServer) -> None:
    faults.answer(FIRST, forever())
    await running.until(lambda: running.cache.synced)
    late = Log()
    running.cache.on_change(late)
    assert late.told == ["add a", "add b"]


async def test_an_unexpected_failure_inside_starts_over(running: Running, faults: FaultServer) -> None:
    bugs = [ZeroDivisionError()]

    def stumble() -> None:
        if bugs:
            raise bugs.pop()

    running.cache.collector = Collector(disable=stumble, enable=lambda: None, freeze=lambda: None)
    faults.answer(FIRST, forever())
    await running.until(lambda: running.cache.synced)
    assert not bugs
    assert running.names == ["a", "b"]


async def test_selectors_go_with_every_request(client: Client, faults: FaultServer, waits: Any) -> None:
    cache = Cache(
        client, CONFIG_MAPS, "ns", label_selector="app=x", field_selector="metadata.name=a", timing=waits.timing
    )
    faults.answer(FIRST, say.stream())
    await cache.step()
    for seen in faults.seen:
        assert (seen.query["labelSelector"], seen.query["fieldSelector"]) == ("app=x", "metadata.name=a")
        assert seen.path == "/api/v1/namespaces/ns/configmaps"


async def test_indexes_follow_every_change(client: Client, faults: FaultServer, waits: Any) -> None:
    def by_value(item: ConfigMap) -> list[str]:
        return [item.data["v"]]

    cache = Cache(client, CONFIG_MAPS, "ns", indexes={"v": by_value}, timing=waits.timing)
    faults.answer(
        FIRST,
        say.stream(
            say.event("MODIFIED", say.config_map("a", 11, v="2")),
            say.event("DELETED", say.config_map("b", 12, v="1")),
            say.event("ADDED", say.config_map("no-v", 13)),
        ),
    )
    await cache.step()
    assert [item.metadata.name for item in cache.by_index("v", "2")] == ["a"]
    assert cache.by_index("v", "1") == ()
    assert cache.get("ns", "no-v") is not None


async def test_age_counts_from_the_last_proof(client: Client, faults: FaultServer, waits: Any) -> None:
    cache = Cache(client, CONFIG_MAPS, timing=waits.timing)
    assert cache.age() is None
    faults.answer(FIRST, say.stream(say.bookmark(11)))
    await cache.step()
    waits.elapsed += 42
    assert cache.age() == 42


async def test_waiting_for_a_write_ends_when_the_cache_has_seen_it(running: Running, faults: FaultServer) -> None:
    release = asyncio.Event()

    async def later(wire: say.Wire, seen: say.Seen) -> bool:
        await release.wait()
        return await say.stream(say.event("ADDED", say.config_map("c", 15)), end="hang")(wire, seen)

    faults.answer(FIRST, later)
    await running.until(lambda: running.cache.synced)
    waiting = asyncio.create_task(running.cache.wait_for("15"))
    await asyncio.sleep(0)
    assert not waiting.done()
    release.set()
    await asyncio.wait_for(waiting, 5)
    assert running.cache.get("ns", "c") is not None


async def test_watches_last_a_jittered_time(client: Client, faults: FaultServer, waits: Any) -> None:
    faults.answer(FIRST, say.stream())
    await Cache(client, CONFIG_MAPS, timing=waits.timing).step()
    assert faults.seen[1].query["timeoutSeconds"] == "240"


async def test_only_the_first_list_pauses_the_collector(client: Client, faults: FaultServer, waits: Any) -> None:
    calls: list[str] = []
    collector = Collector(disable=lambda: calls.append("off"), enable=lambda: None, freeze=lambda: None)
    cache = Cache(client, CONFIG_MAPS, timing=waits.timing, collector=collector)
    faults.answer(FIRST, say.error(410, "Expired"), FIRST, say.stream())
    with pytest.raises(Expired):
        await cache.step()
    cache._version = ""
    await cache.step()
    assert calls == ["off"]
    assert gc.isenabled()


async def test_a_watch_that_does_not_show_our_own_write_is_begun_anew(running: Running, faults: FaultServer) -> None:
    faults.answer(
        FIRST,
        forever(),
        say.json(say.listing(12, A1)),
        say.stream(say.event("ADDED", say.config_map("c", 12)), end="hang"),
    )
    await running.until(lambda: len(faults.seen) == 2)
    running.cache.expect("12")
    assert running.cache.is_behind
    await running.until(lambda: "c" in running.names and not running.cache.is_behind)
    assert running.cache.relists == 1
    assert running.cache.last_error is None


async def test_a_watch_that_shows_our_write_in_time_goes_on(running: Running, faults: FaultServer) -> None:
    faults.answer(FIRST, say.stream(say.event("ADDED", say.config_map("c", 12)), end="hang"))
    await running.until(lambda: "c" in running.names)
    for version in ("11", "12", "odd", ""):
        running.cache.expect(version)
    assert running.cache._guard is None
    assert len(faults.seen) == 2


async def test_a_cache_that_is_stopped_while_it_waits_for_a_write_stops(running: Running, faults: FaultServer) -> None:
    faults.answer(FIRST, forever())
    await running.until(lambda: len(faults.seen) == 2)
    running.cache.expect("12")
    assert running.task is not None
    running.task.cancel()
    await asyncio.gather(running.task, return_exceptions=True)
    assert running.task.cancelled()
