"""The relay passes bytes on as they are, and knows what was asked and answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from bench.real_slurm.relay import Exchange, Head, Relay, RequestReader, reply_kind

POST = b'POST /slurm/v0.0.45/nodes/ HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n{"a":1}'
GET = b"GET /slurm/v0.0.45/nodes?update_time=5 HTTP/1.1\r\nHost: x\r\n\r\n"


def exchange(method: str, target: str, status: int = 200) -> Exchange:
    return Exchange(method, target, 0.0, status=status)


@pytest.mark.parametrize("size", [1, 7, 10_000], ids=["byte by byte", "in pieces", "at once"])
def test_requests_are_found_however_they_arrive(size: int) -> None:
    reader, data, found = RequestReader(), POST + GET + POST, []
    for start in range(0, len(data), size):
        found += reader.feed(data[start : start + size])
    assert [(each.kind, each.body) for each in found] == [
        ("POST nodes", b'{"a":1}'),
        ("GET nodes", b""),
        ("POST nodes", b'{"a":1}'),
    ]


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("/slurm/v0.0.45/node/compute-0", "GET node"),
        ("/slurm/v0.0.45/jobs/state/?flags=x", "GET jobs/state"),
        ("/slurm/v0.0.45/job/17", "GET job"),
        ("/slurm/v0.0.42/nodes/", "GET nodes"),
    ],
)
def test_a_kind_has_no_name_of_an_object(target: str, kind: str) -> None:
    assert exchange("GET", target).kind == kind


def test_an_answer_without_news_is_of_a_kind_of_its_own() -> None:
    since = "/slurm/v0.0.45/jobs/?update_time=5"
    assert reply_kind(exchange("GET", "/slurm/v0.0.45/nodes/", 304), Head("", 0)) == "GET nodes unchanged"
    assert reply_kind(exchange("GET", since), Head("", 900)) == "GET jobs unchanged"
    assert reply_kind(exchange("GET", since), Head("", 90_000)) == "GET jobs"
    assert reply_kind(exchange("GET", "/slurm/v0.0.45/jobs/"), Head("", 900)) == "GET jobs"


def test_a_name_in_a_path_is_decoded() -> None:
    assert exchange("DELETE", "/slurm/v0.0.45/node/c-%5B0-3%5D").parts == ["node", "c-[0-3]"]


async def test_bytes_pass_and_are_counted(tmp_path: Path) -> None:
    ended = asyncio.Event()
    path, answer = tmp_path / "rest.sock", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

    async def slurmrestd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            writer.write(answer)
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_unix_server(slurmrestd, str(path))
    told: list[Exchange] = []
    relay = Relay(path, told.append)
    reader, writer = await asyncio.open_connection("127.0.0.1", await relay.start())
    for request in (GET, POST):
        writer.write(request)
        assert await reader.readexactly(len(answer)) == answer
    writer.close()
    await writer.wait_closed()
    await relay.stop()
    server.close()
    await ended.wait()
    assert relay.requests == {"GET nodes": 1, "POST nodes": 1}
    assert relay.sent_bytes == {"GET nodes": len(answer), "POST nodes": len(answer)}
    assert [(each.status, each.body) for each in told] == [(200, b""), (200, b'{"a":1}')]
