"""A slurmrestd that means harm, as a process of its own: `python -m tests.campaigns.hostile_slurmrestd HONEST OTHER`.

In: the port of the cluster's honest slurmrestd and that of a neighbour's; on stdin the name of the mode to be in, one
a line. Out: its own port as the first line on stdout; answers that cost whoever asks. In mode `good` it passes on what
the honest one says. It makes its answers piecemeal: it needs no memory, and little time, for what it sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import json
import os
import random
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from slurm_operator.slurm import transport

Json = dict[str, Any]

LISTS = ("nodes", "jobs", "partitions", "reservations")
PIECE_BYTES = 1024 * 1024
# How long everything is hostile, then only lists, and so on: who never answers a ping is never asked for more.
TURN_SECONDS = 6.0
REASONS = {200: "OK", 302: "Found", 307: "Temporary Redirect", 308: "Permanent Redirect", 401: "Unauthorized"}


class Hangup(Exception):
    """The connection is over."""


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def what(self) -> str:
        """The list that is asked for, or nothing; that of states is one of jobs too."""
        path = self.target.partition("?")[0].rstrip("/")
        last = "jobs" if self.is_of_states else path.rpartition("/")[2]
        return last if self.method == "GET" and last in LISTS else ""

    @property
    def is_of_states(self) -> bool:
        """Whether it is the list of the states of jobs."""
        return self.target.partition("?")[0].rstrip("/").endswith("/jobs/state")


@dataclass
class Honest:
    """What the honest one said."""

    status: int
    content_type: str
    body: bytes

    def json(self) -> Json:
        """The body, empty when there is none."""
        return dict(json.loads(self.body)) if self.body else {}


Writer = asyncio.StreamWriter


@dataclass
class Hostile:
    """The server."""

    honest_port: int
    other_port: int
    mode: str = "good"
    draw: random.Random = field(default_factory=lambda: random.Random(12))  # noqa: S311  # not for secrets
    _count: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _session: aiohttp.ClientSession | None = None

    async def run(self) -> None:
        """Serve until stdin ends."""
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as self._session:
            server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
            print(server.sockets[0].getsockname()[1], flush=True)
            lines: asyncio.StreamReader = asyncio.StreamReader()
            loop = asyncio.get_running_loop()
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
            while line := await lines.readline():
                self.mode = line.decode().strip()
                if self.mode not in MODES:
                    raise SystemExit(f"no mode {self.mode!r}")

    async def _connection(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        with contextlib.suppress(Hangup, ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            while asked := await _read(reader):
                await self._answer(asked, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def _answer(self, asked: Asked, writer: Writer) -> None:
        mode = MODES[self.mode]
        if mode is mixed:
            mode = self.draw.choice(SINGLE)
        await mode(self, asked, writer)

    async def honest(self, asked: Asked) -> Honest:
        """What the honest one says to it."""
        assert self._session is not None
        url = f"http://127.0.0.1:{self.honest_port}{asked.target}"
        kept = {name: text for name, text in asked.headers.items() if name in ("x-slurm-user-token", "content-type")}
        async with self._session.request(asked.method, url, headers=kept, data=asked.body or None) as reply:
            return Honest(reply.status, reply.headers.get("Content-Type", ""), await reply.read())

    async def whole(self, asked: Asked) -> Json:
        """The honest list without a condition."""
        return (await self.honest(Asked(asked.method, asked.target.partition("?")[0], asked.headers, b""))).json()

    def is_turn(self, asked: Asked) -> bool:
        """Whether this request is to suffer."""
        return bool(asked.what) or int(time.monotonic() / TURN_SECONDS) % 2 == 0

    def number(self) -> int:
        """Another one each time."""
        return next(self._count)


# Answers


async def send(
    writer: Writer, body: bytes, status: int = 200, content: str = "application/json", *headers: str
) -> None:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'So')}", f"Content-Length: {len(body)}", *headers]
    lines += [f"Content-Type: {content}"] if content else []
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    await writer.drain()


async def stream(writer: Writer, pieces: Iterable[bytes], size: int) -> None:
    """An answer of a size that is said before."""
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode())
    for piece in pieces:
        writer.write(piece)
        await writer.drain()


async def good(server: Hostile, asked: Asked, writer: Writer) -> None:
    """What the honest one says."""
    said = await server.honest(asked)
    await send(writer, said.body, said.status, said.content_type)


async def large(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Lists as large as the client takes, of as many items as fit."""
    if not asked.what:
        return await good(server, asked, writer)
    items = {
        "nodes": b"{},",
        "jobs": b'{"job_id":1,"job_state":["RUNNING"],"nodes":"a"},',
        "partitions": b'{"name":"p"},',
        "reservations": b"0,",
    }
    if asked.is_of_states:
        items["jobs"] = b'{"job_id":"1","state":["RUNNING"]},'
    said = await server.whole(asked)
    said.pop(asked.what, None)
    head = json.dumps(said)[:-1].encode() + f', "{asked.what}": ['.encode()
    tail = items[asked.what][:-1] + b"]}"
    room = transport.LIST_RESPONSE_BYTES - len(head) - len(tail)
    return await stream(
        writer, _filled(head, items[asked.what], room, tail), _size(head, items[asked.what], room, tail)
    )


def _size(head: bytes, item: bytes, room: int, tail: bytes) -> int:
    return len(head) + room // len(item) * len(item) + len(tail)


def _filled(head: bytes, item: bytes, room: int, tail: bytes) -> Iterator[bytes]:
    yield head
    count = room // len(item)
    many = PIECE_BYTES // len(item)
    block = item * many
    for _ in range(count // many):
        yield block
    yield item * (count % many)
    yield tail


async def drip(server: Hostile, asked: Asked, writer: Writer) -> None:
    """A byte a second, after a head that promises more."""
    if not server.is_turn(asked):
        return await good(server, asked, writer)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    while True:
        await writer.drain()
        await asyncio.sleep(1)
        writer.write(b" ")


async def silent(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Takes the request and never answers."""
    if not server.is_turn(asked):
        return await good(server, asked, writer)
    await asyncio.sleep(3600)
    return None


async def slow(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Honest, but late."""
    await asyncio.sleep(2.5)
    await good(server, asked, writer)


async def reset(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Breaks the connection off, now and then in the middle of an answer."""
    if not server.is_turn(asked):
        return await good(server, asked, writer)
    if server.number() % 2:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")
        await writer.drain()
    held: socket.socket = writer.get_extra_info("socket")
    held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    raise Hangup


async def garbage(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Invalid UTF-8, deep nesting, numbers without end, duplicate keys, wrong types."""
    if not asked.what:
        return await good(server, asked, writer)
    said = await server.whole(asked)
    item = {"nodes": {"name": "x", "state": ["IDLE"]}, "jobs": {"job_id": 1, "job_state": ["RUNNING"], "nodes": "x"}}
    state = {"job_id": "1", "state": ["RUNNING"]}
    first = json.dumps(state if asked.is_of_states else item.get(asked.what, {"name": "x"}))[:-1].encode()
    bad = (
        b', "comment": "\xff\xfe\xed\xa0\x80"}',
        b', "comment": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b', "cpus": ' + b"9" * 100_000 + b"}",
        b', "time_limit": {"set": true, "number": 1e308}, "start_time": {"set": true, "number": -1e308}}',
        b', "start_time": {"set": true, "number": 99999999999999999999}, "comment": null}',
        b', "name": "x", "name": "y", "partitions": 7, "features": {"a": []}}',
        b', "comment": "' + b"\\ud800" * 100_000 + b'"}',
    )
    chosen = bad[server.number() % len(bad)]
    said.pop(asked.what, None)
    head = json.dumps(said)[:-1].encode() + f', "{asked.what}": ['.encode()
    return await send(writer, head + first + chosen + b"]}")


async def host_lists(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Forty jobs and reservations on a hundred thousand nodes each, others at every look."""
    if asked.what not in ("jobs", "reservations") or asked.is_of_states:
        return await good(server, asked, writer)
    said, turn = await server.whole(asked), server.number()
    names = f"n[0-{99_999 - turn % 7}]"
    bombs: list[Json] = [
        {"job_id": 10_000 + each, "job_state": ["RUNNING"], "name": f"t{turn}", "nodes": names} for each in range(40)
    ]
    if asked.what == "reservations":
        bombs = [{"name": f"r{each}", "node_list": names} for each in range(40)]
    said[asked.what] = [*said.get(asked.what, ()), *bombs]
    return await send(writer, json.dumps(said).encode())


async def many_jobs(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Ten thousand jobs, each of them changed at every look."""
    if asked.what != "jobs":
        return await good(server, asked, writer)
    said, turn = await server.whole(asked), server.number()
    if asked.is_of_states:
        states: list[Json] = [{"job_id": str(10_000 + each), "state": ["RUNNING"]} for each in range(10_000)]
        return await send(writer, json.dumps(said | {"jobs": [*said.get("jobs", ()), *states]}).encode())
    shape = {"user_name": "u", "account": "a", "partition": "compute", "comment": f"turn {turn}", "nodes": "compute-0"}
    more = [
        shape | {"job_id": 10_000 + each, "job_state": ["RUNNING"], "name": f"job-{each}"} for each in range(10_000)
    ]
    return await send(writer, json.dumps(said | {"jobs": [*said.get("jobs", ()), *more]}).encode())


async def flap(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Full lists and empty ones in turn, each of them new."""
    if not asked.what:
        return await good(server, asked, writer)
    said = await server.whole(asked)
    if server.number() % 2:
        said[asked.what] = []
    said["last_update"] = {"set": True, "infinite": False, "number": int(time.time())}
    return await send(writer, json.dumps(said).encode())


async def impostor(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Another cluster's slurmrestd: other nodes, no jobs, and its own name in every answer."""
    if asked.method != "GET":
        return await good(server, asked, writer)
    said = await server.whole(asked)
    if not said:
        return await good(server, asked, writer)
    said.setdefault("meta", {}).setdefault("slurm", {})["cluster"] = "somebody_else"
    if asked.what:
        node = (said.get("nodes") or [{}])[0] | {"name": "other-0", "hostname": "other-0", "address": "other-0"}
        said[asked.what] = [node] if asked.what == "nodes" else []
        said["last_update"] = {"set": True, "infinite": False, "number": int(time.time())}
    elif "nodes" in said or "/node/" in asked.target:
        said.pop("nodes", None)
        said["errors"] = [{"description": "", "error_number": 0, "error": "No error", "source": ""}]
    return await send(writer, json.dumps(said).encode())


async def dirty(server: Hostile, asked: Asked, writer: Writer) -> None:
    """A thousand more nodes and fifty more partitions; every record is another one at every look."""
    if asked.what not in ("nodes", "partitions"):
        return await good(server, asked, writer)
    said, turn = await server.whole(asked), server.number()
    items: list[Json] = said.get(asked.what) or []
    count = 1000 if asked.what == "nodes" else 50
    shape = items[0] if items else {"name": "x", "state": ["IDLE"]}
    items = [*items, *(shape | {"name": f"more-{each}"} for each in range(count))]
    field_ = "comment" if asked.what == "nodes" else "alternate"
    said[asked.what] = [each | {field_: f"turn-{turn}"} for each in items]
    said["last_update"] = {"set": True, "infinite": False, "number": int(time.time()) + turn}
    return await send(writer, json.dumps(said).encode())


async def errors(server: Hostile, asked: Asked, writer: Writer) -> None:
    """500, 502, 401, 404 and 511 in turn."""
    if not server.is_turn(asked):
        return await good(server, asked, writer)
    status = (500, 502, 401, 404, 511, 503)[server.number() % 6]
    text = json.dumps({"errors": [{"error_number": 1007 + status, "error": "x" * 5000, "description": "y" * 5000}]})
    return await send(writer, text.encode(), status)


async def endless(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Chunks that never end: as fast as they are taken, or a few a second."""
    if not asked.what:
        return await good(server, asked, writer)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    is_slow = bool(server.number() % 2)
    piece = b" " * (1024 if is_slow else 65536)
    while True:
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0.05 if is_slow else 0)


async def headers(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Megabytes of headers: in one line, in many, or one line without end."""
    if not server.is_turn(asked):
        return await good(server, asked, writer)
    way = server.number() % 3
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n")
    if way == 0:
        writer.write(b"X-Long: " + b"a" * (4 * PIECE_BYTES) + b"\r\n")
    elif way == 1:
        for each in range(60_000):
            writer.write(f"X-{each}: {'b' * 50}\r\n".encode())
            await writer.drain()
    else:
        for _ in range(600):
            writer.write(b"c" * 10_000)
            await writer.drain()
            await asyncio.sleep(0.01)
    writer.write(b"\r\n{}")
    return await writer.drain()


async def redirect(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Sends who asks to a neighbour's slurmrestd, or round in circles."""
    if not server.is_turn(asked):
        return await good(server, asked, writer)
    number = server.number()
    place = f"http://127.0.0.1:{server.other_port}{asked.target}" if number % 2 else asked.target
    return await send(writer, b"", (302, 307, 308)[number % 3], "", f"Location: {place}")


BOMB_MEMBER = gzip.compress(b" " * (64 * PIECE_BYTES), 9)


async def bomb(server: Hostile, asked: Asked, writer: Writer) -> None:
    """Compressed answers that nobody asked for: 64 KiB become gigabytes."""
    if not asked.what:
        return await good(server, asked, writer)
    body = BOMB_MEMBER * 64
    return await send(writer, body, 200, "application/json", "Content-Encoding: gzip")


async def mixed(_: Hostile, __: Asked, ___: Writer) -> None:
    """One of all, by lot, at every request."""
    raise AssertionError("another mode is chosen by lot")


Mode = Callable[[Hostile, Asked, Writer], Awaitable[None]]
SINGLE: tuple[Mode, ...] = (
    large,
    drip,
    silent,
    slow,
    reset,
    garbage,
    host_lists,
    many_jobs,
    flap,
    impostor,
    dirty,
    errors,
    endless,
    headers,
    redirect,
    bomb,
)
MODES: dict[str, Mode] = {each.__name__.replace("_", "-"): each for each in (good, *SINGLE, mixed)}


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    found = {name.strip().lower(): text.strip() for name, _, text in pairs}
    body = await reader.readexactly(int(found.get("content-length", "0")))
    return Asked(method, target, found, body)


if __name__ == "__main__":
    # It is to harm by what it says, not by the processor time that it takes from everybody on this machine.
    os.setpriority(os.PRIO_PROCESS, 0, 10)
    asyncio.run(Hostile(int(sys.argv[1]), int(sys.argv[2])).run())
