"""Hostile values in every field that is read of the recorded answers of both releases: nothing raises, nothing lies."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.slurm.recorded_replies import MARK, RELEASES, Line, recorded, replayed, reply
from tests.slurm.replay import KEY, load

from slurm_operator.slurm import lenient, policy, shapes, wire
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import (
    SlurmError,
    SlurmTimeout,
)
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import MAX_EPOCH_SECONDS, UNLIMITED, Absent, Job, SlurmList, view
from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

# What stands in the place of a value, as it would come over the line.
HOSTILE = {
    "invalid UTF-8": b'"\xff\xfe\x80"',
    "a cut-off character": b'"\xf0\x9f\x98"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "half a surrogate pair": rb'"\ud800"',
    "the other half": rb'"x\udc00x"',
    "control characters": rb'"\u0000\u001b[31m\u0007"',
    "raw control characters": b'"a\x1b[2J\x00\nb"',
    "bidi override": '"\u202egnp.exe\u2066"'.encode(),
    "a huge integer": b"9" * 30,
    "an absurd integer": b"9" * 5000,
    "a negative number": b"-5",
    "a fraction": b"1.5",
    "an endless number": b"1e999",
    "a large float": b"1e308",
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "null": b"null",
    "a boolean": b"true",
    "a text": b'"text"',
    "an empty text": b'""',
    "an empty list": b"[]",
    "a list of null": b"[null]",
    "a list of twins": b'["A","A"]',
    "an empty object": b"{}",
    "an object of numbers": b'{"set":true,"infinite":false,"number":1e308}',
    "an object of absurd numbers": b'{"set":true,"number":' + b"9" * 400 + b"}",
    "an object of the wrong types": b'{"set":1,"infinite":"no","number":null}',
    "the same key twice": b'{"set":true,"set":false,"number":1,"number":2}',
    "a list of a hundred levels": b"[" * 100 + b"]" * 100,
    "a megabyte": b'"' + b"x" * 1_000_000 + b'"',
}

# Where a hostile value has the right type after all, it is Slurm's word.
READABLE = {
    "nodes": ("an empty list",),
    "errors": ("an empty list",),
    "last_update": ("an object of numbers", "an object of absurd numbers"),
}

Reader = Callable[[Reply, str], SlurmList[Any]]

# Kind, recording, how it is read, its shape, and the fields that make an item unreadable.
KINDS: dict[str, tuple[str, Reader, type[lenient.Item], set[str]]] = {
    "nodes": ("nodes", wire.nodes, shapes.Node, {"name", "state", "alloc_cpus", "alloc_memory"}),
    "jobs": ("jobs", wire.jobs, shapes.Job, {"job_id", "job_state", "nodes", "partition"}),
    "partitions": ("partitions", wire.partitions, shapes.Partition, {"name"}),
    "reservations": ("reservations", wire.reservations, shapes.Reservation, {"name", "node_list"}),
}


def places(item: dict[str, Any], shape: type[lenient.Item]) -> Iterator[tuple[str, ...]]:
    for each in msgspec.structs.fields(shape):
        yield (each.encode_name,)
        nested = item.get(each.encode_name)
        if isinstance(nested, dict):
            yield from ((each.encode_name, key) for key in nested)


def with_mark(document: dict[str, Any], kind: str, place: tuple[str, ...]) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    target = changed[kind][0]
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = MARK
    return changed


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, HostList):
        yield value.text
    elif isinstance(value, msgspec.Struct):
        for each in value.__struct_fields__:
            yield from texts(getattr(value, each))
    elif isinstance(value, tuple | frozenset | list):
        for each in value:
            yield from texts(each)


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("release", RELEASES)
def test_a_hostile_value_costs_its_own_field_or_its_own_item(release: str, kind: str, hostile: str) -> None:
    """T1, T2: and never an exception that is not ours, nor a list that is incomplete for a name."""
    _, reader, shape, essential = KINDS[kind]
    document = recorded(release, kind)
    before = reader(reply(document), kind)
    assert before.complete
    for place in places(document[kind][0], shape):
        after = reader(reply(with_mark(document, kind, place), HOSTILE[hostile]), kind)
        for text in texts(after.items):
            text.encode()
        if place[0] not in essential:
            assert after.complete, place
            assert len(after.items) == len(before.items), place
        assert after.items[1:] == before.items[1:] or not after.complete, place
        _decide(after)


def _decide(answer: SlurmList[Any]) -> None:
    """What is done with an answer can do it with any answer."""
    jobs = [each for each in answer.items if isinstance(each, Job)]
    for end in policy.deadlines(policy.jobs_by_node(jobs, {"n0", "n1", "n2"})).values():
        assert end == UNLIMITED or (isinstance(end, int) and 0 <= end <= MAX_EPOCH_SECONDS)
    sorted(answer.items, key=lambda item: str(getattr(item, "name", "")))


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("field", ["alloc_cpus", "alloc_memory", "state", "name"])
def test_a_node_is_never_called_idle_by_a_value_that_cannot_be_read(field: str, hostile: str) -> None:
    document = recorded("26.05", "nodes")
    name = document["nodes"][0]["name"]
    document["nodes"][0]["state"] = ["IDLE", "DRAIN"]
    document["nodes"][0][field] = MARK
    seen = view(name, wire.nodes(reply(document, HOSTILE[hostile]), "nodes"))
    # "text" is a name like any other: that a node is missing is confirmed by asking for it.
    assert not isinstance(seen, Absent) or hostile == "a text"
    assert not isinstance(policy.may_remove(seen, ()), policy.Yes) or hostile == "a text"


@pytest.mark.parametrize("hostile", [*HOSTILE, "a malformed host list"])
@pytest.mark.parametrize("field", ["job_id", "job_state", "nodes"])
def test_a_running_job_is_never_lost_to_a_value_that_cannot_be_read(field: str, hostile: str) -> None:
    document = recorded("26.05", "jobs")
    document["jobs"][0][field] = MARK
    answer = wire.jobs(reply(document, HOSTILE.get(hostile, b'"n[0"')), "jobs")
    kept = any(policy.occupies(job, "n0") for job in answer.items)
    # A readable value is Slurm's own word; what it says of the nodes is what counts then.
    assert kept or not answer.complete or field == "nodes"


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("release", RELEASES)
def test_hostile_pings_and_statistics_are_read_or_refused(release: str, hostile: str) -> None:
    for kind, reader in (("ping", wire.pings), ("diag", wire.diag)):
        document = json.loads(load(release, kind).body)
        target = document["pings"][0] if kind == "ping" else document["statistics"]
        for field in list(target):
            kept, target[field] = target[field], MARK
            found = reader(reply(document, HOSTILE[hostile]), kind)
            target[field] = kept
            assert found is not None
            if kind == "diag":
                assert all(0 <= getattr(found, each) <= 2**63 for each in found.__struct_fields__)  # type: ignore[union-attr]


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("field", ["meta", "errors", "warnings", "last_update", "nodes", "last_backfill"])
def test_a_hostile_frame_is_an_error_of_ours_or_an_incomplete_list(field: str, hostile: str) -> None:
    document = recorded("26.05", "nodes")
    document[field] = MARK
    problem, complete = "", False
    try:
        complete = wire.nodes(reply(document, HOSTILE[hostile]), "GET nodes").complete
    except SlurmError as raised:
        problem = str(raised)
    assert problem.isprintable()
    assert len(problem) < 600
    harmless = field in {"warnings", "last_backfill"}
    assert complete == harmless or hostile in READABLE.get(field, ())


async def serving(handler: Callable[[web.Request], Any]) -> TestServer:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    server = TestServer(app)
    await server.start_server()
    return server


async def test_a_response_that_drips_is_bounded_by_all_its_seconds() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for _ in range(200):
            await response.write(b" ")
            await asyncio.sleep(0.02)
        return response

    server = await serving(drip)
    async with SlurmClient(str(server.make_url("")).rstrip("/"), TokenSource(lambda: KEY)) as client:
        with pytest.raises(SlurmTimeout, match=r"within 0\.3 s"):
            await client._transport.send(Sending(method="GET", path="/", label="GET x", seconds=0.3), "t")
    await server.close()


@pytest.mark.parametrize(("kilobytes", "beside"), [(1, False), (400, True)])
async def test_a_large_body_is_decoded_beside_the_event_loop(
    kilobytes: int, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    decode = wire.jobs

    def watched(answer: Reply, call: str) -> SlurmList[Job]:
        seen.append(threading.current_thread() is not threading.main_thread())
        return decode(answer, call)

    monkeypatch.setattr(wire, "jobs", watched)
    document = recorded("26.05", "jobs")
    document["jobs"][0]["comment"] = "x" * (kilobytes * 1024)
    line = Line(lambda path: reply(document) if path.startswith("/jobs") else replayed(path))
    client = SlurmClient("http://x", TokenSource(lambda: KEY), transport=line)
    assert (await client.all_jobs()).complete
    assert seen == [beside]
