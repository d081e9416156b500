"""Hostile values in every field that is read of the recorded answers of both releases: nothing raises, nothing lies."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.slurm.replay import KEY, RECORDED, VERSIONS, load

from slurm_operator.slurm import lenient, policy, shapes, wire
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import (
    SlurmBadAnswer,
    SlurmBudgetExceeded,
    SlurmError,
    SlurmTimeout,
    SlurmUnreachable,
    SlurmWrongCluster,
)
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import LAST_SECOND, UNLIMITED, Absent, Answer, Job, Known, KnownJob, Unknown, view
from slurm_operator.slurm.shapes import Number
from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

RELEASES = sorted(VERSIONS)
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
MARK = "@@hostile@@"
# Where a hostile value has the right type after all, it is Slurm's word.
READABLE = {
    "nodes": ("an empty list",),
    "errors": ("an empty list",),
    "last_update": ("an object of numbers", "an object of absurd numbers"),
}
Reader = Callable[[Reply, str], Answer[Any]]
# Kind, recording, how it is read, its shape, and the fields that make an item unreadable.
KINDS: dict[str, tuple[str, Reader, type[lenient.Item], set[str]]] = {
    "nodes": ("nodes", wire.nodes, shapes.Node, {"name", "state", "alloc_cpus", "alloc_memory"}),
    "jobs": ("jobs", wire.jobs, shapes.Job, {"job_id", "job_state", "nodes"}),
    "partitions": ("partitions", wire.partitions, shapes.Partition, {"name"}),
    "reservations": ("reservations", wire.reservations, shapes.Reservation, {"name", "node_list"}),
}


def recorded(release: str, kind: str) -> dict[str, Any]:
    # 24.11 had no reservation when it was recorded; its shape is the same.
    body: dict[str, Any] = json.loads(load("26.05" if kind == "reservations" else release, kind).body)
    return body


def reply(document: dict[str, Any], hostile: bytes = b"") -> Reply:
    return Reply(200, "application/json", json.dumps(document).encode().replace(b'"%s"' % MARK.encode(), hostile))


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


def _decide(answer: Answer[Any]) -> None:
    """What is done with an answer can do it with any answer."""
    jobs = [each for each in answer.items if isinstance(each, Job)]
    for end in policy.deadlines(policy.jobs_by_node(jobs, {"n0", "n1", "n2"})).values():
        assert end == UNLIMITED or (isinstance(end, int) and 0 <= end <= LAST_SECOND)
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


def test_a_name_that_is_not_utf8_is_read_as_well_as_it_can_be() -> None:
    """T1: one such name stopped every NodeSet of its cluster."""
    document = recorded("26.05", "jobs")
    document["jobs"][0]["name"] = MARK
    answer = wire.jobs(reply(document, b'"a\xff\xfeb"'), "jobs")
    assert (answer.items[0].name, answer.complete) == ("a\ufffd\ufffdb", True)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param(rb'"\ud83d\ude00"', "\U0001f600", id="a whole pair stays"),
        pytest.param(rb'"\ud83d\ude00\ud83d"', "\U0001f600\ufffd", id="half a pair after a whole one"),
        pytest.param(rb'"\\ud800\udc00"', "\\ud800\ufffd", id="an escaped backslash is no escape"),
        pytest.param(b'"NaN, Infinity\x01"', "NaN, Infinity ", id="words in a text stay"),
        pytest.param(rb'"\\\""', '\\"', id="escapes stay"),
    ],
)
def test_only_what_is_wrong_is_mended(written: bytes, read: str) -> None:
    document = recorded("26.05", "jobs")
    document["jobs"][0]["name"] = MARK
    # An odd number elsewhere makes sure that the body is mended at all.
    document["jobs"][0]["qos"] = float("nan")
    answer = wire.jobs(reply(document, written), "jobs")
    assert (answer.items[0].name, answer.complete) == (read, True)


def test_a_broken_character_at_the_border_of_two_pieces_is_mended_too() -> None:
    odd = b"x" * (lenient._CHUNK_BYTES - 1) + "é".encode() + b"\xff"
    assert lenient.as_utf8(odd).decode().endswith("xé\ufffd")
    fine = odd[:-1]
    assert lenient.as_utf8(fine) is fine


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


@pytest.mark.parametrize(
    ("number", "seconds", "limit"),
    [
        (Number(set=True, number=float("inf")), LAST_SECOND, 2**63 - 1),
        (Number(set=True, number=float("nan")), LAST_SECOND, 2**63 - 1),
        (Number(set=True, number=10**300), LAST_SECOND, 2**63 - 1),
        (Number(set=True, number=-7), 0, 0),
        (Number(set=True, number=2.9), 2, 2),
        (Number(set=True, infinite=True, number=5), 0, UNLIMITED),
        (Number(number=5), 0, None),
    ],
    ids=lambda value: str(getattr(value, "number", value))[:12],
)
def test_no_number_of_slurm_can_break_arithmetic(number: Number, seconds: int, limit: object) -> None:
    """T2: arithmetic on foreign numbers."""
    assert (number.seconds(), number.limit()) == (seconds, limit)


@pytest.mark.parametrize(("over", "complete"), [(["COMPLETED"], True), (["RUNNING"], False), ([], False)])
def test_where_a_job_was_matters_only_while_it_is_not_over(over: list[str], complete: bool) -> None:
    document = recorded("26.05", "jobs")
    document["jobs"][0] |= {"job_state": over, "nodes": "n[0"}
    answer = wire.jobs(reply(document), "jobs")
    assert answer.complete is complete
    assert [job.nodes for job in answer.items] == ([HostList()] if complete else [])


def test_two_records_of_one_node_that_differ_make_it_unknown() -> None:
    document = recorded("26.05", "nodes")
    first = document["nodes"][0]
    document["nodes"].append({**first, "state": ["IDLE", "DRAIN"]})
    answer = wire.nodes(reply(document), "nodes")
    assert isinstance(view(first["name"], answer), Unknown)
    document["nodes"][-1] = first
    same = wire.nodes(reply(document), "nodes")
    assert isinstance(view(first["name"], same), Known)
    assert same.complete


# Budgets


def test_forty_jobs_on_a_hundred_thousand_nodes_cost_nothing() -> None:
    """T11: 4.1 s and 282 MiB when the lists were expanded."""
    document = recorded("26.05", "jobs")
    document["jobs"] = [
        {"job_id": number, "job_state": ["RUNNING"], "nodes": "n[0-99999]", "time_limit": {"set": True, "number": 5}}
        for number in range(1, 41)
    ]
    body = reply(document)
    tracemalloc.start()
    began = time.process_time()
    answer = wire.jobs(body, "jobs")
    ends = policy.deadlines(policy.jobs_by_node(answer.items, {f"n{number}" for number in range(100)}))
    seconds = time.process_time() - began
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(answer.items), answer.complete, len(ends)) == (40, True, 100)
    assert most_bytes < 1_000_000
    assert seconds < 1.0


@pytest.mark.parametrize(
    ("budget", "body"),
    [
        pytest.param("host names", {"jobs": [{"job_id": 1, "job_state": [], "nodes": "n[1-99999]"}] * 60}, id="names"),
        pytest.param("items", {"jobs": [0] * (wire.MOST_ITEMS + 1)}, id="items"),
    ],
)
def test_a_response_above_a_budget_is_refused_by_its_name(budget: str, body: dict[str, Any]) -> None:
    document = {**recorded("26.05", "jobs"), **body}
    with pytest.raises(SlurmBudgetExceeded, match=f"budget of [0-9,]+ {budget}: it has ([0-9,]+|more)") as raised:
        wire.jobs(reply(document), "GET jobs")
    assert raised.value.budget == budget


@pytest.mark.parametrize("place", ["in a field of one item", "in a field of the answer", "instead of the answer"])
def test_nesting_without_end_is_refused_by_its_budget(place: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    document = recorded("26.05", "jobs")
    if place == "in a field of one item":
        document["jobs"][0]["comment"] = MARK
    document["last_backfill"] = MARK if place == "in a field of the answer" else 0
    body = reply(document, deep) if place != "instead of the answer" else Reply(200, "application/json", deep)
    with pytest.raises(SlurmBadAnswer, match=r"levels of nesting|unreadable"):
        wire.jobs(body, "GET jobs")


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


class Line:
    """A transport that answers by a function of the path after the version."""

    def __init__(self, answer: Callable[[str], Reply]) -> None:
        self.answer = answer

    async def send(self, sending: Sending, _token: str, /) -> Reply:
        if VERSIONS["26.05"] not in sending.path:
            return load("26.05", "unknown_version")
        return self.answer(sending.path.split(VERSIONS["26.05"])[1])

    async def close(self) -> None:
        pass


def replayed(path: str) -> Reply:
    return load("26.05", "ping" if path.startswith("/ping") else path.strip("/").split("/")[0])


@pytest.mark.parametrize(("kilobytes", "beside"), [(1, False), (400, True)])
async def test_a_large_body_is_decoded_beside_the_event_loop(
    kilobytes: int, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    decode = wire.jobs

    def watched(answer: Reply, call: str) -> Answer[Job]:
        seen.append(threading.current_thread() is not threading.main_thread())
        return decode(answer, call)

    monkeypatch.setattr(wire, "jobs", watched)
    document = recorded("26.05", "jobs")
    document["jobs"][0]["comment"] = "x" * (kilobytes * 1024)
    line = Line(lambda path: reply(document) if path.startswith("/jobs") else replayed(path))
    client = SlurmClient("http://x", TokenSource(lambda: KEY), transport=line)
    assert (await client.all_jobs()).complete
    assert seen == [beside]


# Identity


def of_another(found: Reply, cluster: str) -> Reply:
    document = json.loads(found.body)
    document["meta"]["slurm"]["cluster"] = cluster
    return msgspec.structs.replace(found, body=json.dumps(document).encode())


def calls(client: SlurmClient) -> dict[str, Callable[[], Any]]:
    return {
        "ping": client.ping,
        "nodes": client.all_nodes,
        "jobs": client.all_jobs,
        "partitions": client.all_partitions,
        "reservations": client.all_reservations,
        "diag": client.diag,
        "conf": client.conf,
        "associations": client.associations,
        "qos": client.qos,
        "reconfigured": client.reconfigure,
        "nodes_updated": lambda: client.drain(["n0"], "x"),
        "node_deleted": lambda: client.delete_node("n9"),
        "nodes_update_missing": lambda: client.undrain(["n0"]),
    }


@pytest.mark.parametrize("other", ["elsewhere", "", "\u202e\x1b[31m" * 500])
@pytest.mark.parametrize("call", sorted(calls(SlurmClient("http://x", TokenSource(lambda: KEY)))))
async def test_a_response_of_another_cluster_is_not_believed(call: str, other: str) -> None:
    """T7: whatever it says, also that something does not exist or was done."""
    answering = load("26.05", call)
    line = Line(
        lambda path: replayed(path) if path.startswith("/ping") and call != "ping" else of_another(answering, other)
    )
    client = SlurmClient("http://x", TokenSource(lambda: KEY), transport=line, cluster="test")
    with pytest.raises(SlurmWrongCluster, match="not of cluster 'test'") as raised:
        await calls(client)[call]()
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 600
    assert raised.value.reason == "WrongCluster"


@pytest.mark.parametrize("call", ["node_absent", "job_absent"])
async def test_what_another_cluster_lacks_is_unknown(call: str) -> None:
    """T7: busy workers were taken for unregistered, and deleted."""
    line = Line(
        lambda path: replayed(path) if path.startswith("/ping") else of_another(load("26.05", call), "elsewhere")
    )
    client = SlurmClient("http://x", TokenSource(lambda: KEY), transport=line, cluster="test")
    seen = await (client.node("n0") if call == "node_absent" else client.job(7))
    assert isinstance(seen, Unknown)
    assert "'elsewhere'" in seen.why
    assert "'test'" in seen.why


async def test_a_response_of_its_own_cluster_is_believed() -> None:
    client = SlurmClient("http://x", TokenSource(lambda: KEY), transport=Line(replayed), cluster="test")
    assert (await client.all_nodes()).complete
    (job,) = (await client.all_jobs()).items
    one = Line(lambda path: replayed(path.replace("/job/", "/jobs/")))
    client = SlurmClient("http://x", TokenSource(lambda: KEY), transport=one, cluster="test")
    assert await client.job(job.job_id) == KnownJob(job)


def test_every_recorded_answer_names_its_cluster() -> None:
    """An empty name is refused like a wrong one: no answer of slurmrestd or slurmdbd lacks it."""
    for release in RELEASES:
        for path in sorted(RECORDED.joinpath(release).glob("*.json")):
            kept = json.loads(path.read_text())
            if "json" in kept:
                assert kept["json"]["meta"]["slurm"]["cluster"] == "test", path.name


def test_an_error_number_without_a_sender_is_not_believed() -> None:
    body = b'{"errors":[{"error_number":2017,"error":"Invalid job id specified"}]}'
    with pytest.raises(SlurmUnreachable):
        wire.jobs(Reply(503, "application/json", body), "GET job")
    with pytest.raises(SlurmBadAnswer, match="which Slurm made it"):
        wire.jobs(Reply(200, "application/json", body), "GET job")
