"""A relay in front of slurmrestd that counts: bytes pass as they come, only heads of requests and replies are read.

In: the unix socket of a slurmrestd, connections on a loopback port. Out: requests and bytes by method and kind of path;
who wants to know each exchange is told when its reply begins. Called by `slurmrestd_memory.py` and by `scale.py` with
`--slurm real`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

CHUNK_BYTES = 262_144
HEAD_END = b"\r\n\r\n"
# slurmrestd answers "no change" with 304, but with a list without items where jobs are asked for.
EMPTY_LIST_BYTES = 4096
UNCHANGED = " unchanged"


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a request or a reply."""

    first: str
    length: int

    @classmethod
    def parse(cls, text: bytes) -> Head:
        """From all before the empty line."""
        first, *lines = text.decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return cls(first, int(fields.get("content-length", "0")))


@dataclass(slots=True)
class Exchange:
    """One request and how it was answered."""

    method: str
    target: str
    began: float
    body: bytes = b""
    status: int = 0
    answered: float = 0.0

    @property
    def parts(self) -> list[str]:
        """The path after the version, in parts."""
        path = self.target.partition("?")[0]
        return [unquote(part) for part in path.split("/")[3:] if part]

    @property
    def kind(self) -> str:
        """Method and kind of path, without names of objects."""
        parts = self.parts
        depth = 2 if parts[:2] == ["jobs", "state"] else 1
        return f"{self.method} {'/'.join(parts[:depth])}"


def reply_kind(exchange: Exchange, reply: Head) -> str:
    """The kind of an exchange, and whether nothing had changed."""
    is_empty = exchange.kind == "GET jobs" and "update_time=" in exchange.target and reply.length < EMPTY_LIST_BYTES
    return exchange.kind + (UNCHANGED if exchange.status == 304 or is_empty else "")


class RequestReader:
    """Finds the requests in what a client sends on one connection."""

    def __init__(self, began: Callable[[], float] = time.time) -> None:
        self._now = began
        self._buffer = b""
        self._open: Exchange | None = None
        self._missing = 0

    def feed(self, data: bytes) -> list[Exchange]:
        """Every request that is complete now."""
        self._buffer += data
        found = []
        while (exchange := self._next()) is not None:
            found.append(exchange)
        return found

    def _next(self) -> Exchange | None:
        if self._open is None:
            head, end, rest = self._buffer.partition(HEAD_END)
            if not end:
                return None
            parsed = Head.parse(head)
            method, target, *_ = [*parsed.first.split(" "), ""]
            self._open, self._missing, self._buffer = Exchange(method, target, self._now()), parsed.length, rest
        if len(self._buffer) < self._missing:
            return None
        exchange, self._open = self._open, None
        exchange.body, self._buffer = self._buffer[: self._missing], self._buffer[self._missing :]
        return exchange


@dataclass(slots=True)
class Relay:
    """The relay, and what it counted."""

    socket: Path
    told: Callable[[Exchange], None] = lambda _: None
    requests: Counter[str] = field(default_factory=Counter)
    sent_bytes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self, port: int = 0) -> int:
        """Listen on loopback; gives the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, limit=CHUNK_BYTES)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more, and end what is open."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            back_reader, back_writer = await asyncio.open_unix_connection(str(self.socket), limit=CHUNK_BYTES)
            pending: list[Exchange] = []
            up = asyncio.create_task(self._up(reader, back_writer, pending))
            try:
                await self._down(back_reader, writer, pending)
            finally:
                up.cancel()
                back_writer.close()

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pending: list[Exchange]) -> None:
        requests = RequestReader()
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                pending.extend(requests.feed(data))
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pending: list[Exchange]) -> None:
        kind, head = "unknown", b""
        while data := await reader.read(CHUNK_BYTES):
            if pending:
                head += data
                text, end, _ = head.partition(HEAD_END)
                if end:
                    kind, head = self._answered(pending.pop(0), Head.parse(text)), b""
            self.sent_bytes[kind] += len(data)
            writer.write(data)
            await writer.drain()

    def _answered(self, exchange: Exchange, reply: Head) -> str:
        """A reply begins; gives the kind that its bytes count for."""
        exchange.status, exchange.answered = int([*reply.first.split(" "), "0", "0"][1]), time.time()
        kind = reply_kind(exchange, reply)
        self.requests[kind] += 1
        self.seconds[kind] += exchange.answered - exchange.began
        if exchange.status >= 400:
            self.refused[f"{kind} {exchange.status}"] += 1
        self.told(exchange)
        return kind
