"""A server that misbehaves as told: plain sockets, one scripted step per request.

`conftest` hands one to each test. A test writes its script with `answer(...)`; what the client sent is in `seen`.
A request beyond the script is a failure of the test, and is answered with a 500 that says so.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Wire:
    """The connection that a step writes to."""

    def __init__(self, writer: asyncio.StreamWriter, released: asyncio.Event) -> None:
        self._writer = writer
        self._released = released

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def reset(self) -> None:
        raw = self._writer.get_extra_info("socket")
        # Linger 0: the peer gets a RST, not a FIN.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def hang(self) -> None:
        await self._released.wait()


# Returns whether the connection goes on.
Step = Callable[[Wire, Seen], Awaitable[bool]]


@dataclass
class FaultServer:
    """Answers each request with the next step of its script."""

    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    connections: int = 0
    _script: list[Step] = field(default_factory=list)
    _server: asyncio.Server | None = None
    _released: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    async def stop(self) -> None:
        self._released.set()
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def answer(self, *steps: Step) -> FaultServer:
        self._script.extend(steps)
        return self

    @property
    def unused(self) -> int:
        return len(self._script)

    async def requests(self, count: int) -> None:
        """Wait until that many requests have arrived."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.seen) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._one(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        seen = await _read(reader)
        step = self._script.pop(0) if self._script else error(500, "InternalError", "the script is over")
        async with self._arrived:
            self.seen.append(seen)
            self._arrived.notify_all()
        return await step(Wire(writer, self._released), seen)


async def _read(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Seen(method, unquote(parts.path), dict(parse_qsl(parts.query)), headers, body)


def _head(code: int, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {code} x\r\n{lines}\r\n".encode()


def text(
    body: bytes, *, code: int = 200, content_type: str = "application/json", headers: Mapping[str, str] | None = None
) -> Step:
    """A whole answer with any bytes."""

    async def step(wire: Wire, _: Seen) -> bool:
        length = {"Content-Type": content_type, "Content-Length": str(len(body)), **(headers or {})}
        await wire.send(_head(code, length) + body)
        return True

    return step


def json(value: Any, *, code: int = 200, headers: Mapping[str, str] | None = None) -> Step:
    """A whole answer."""
    return text(msgspec.json.encode(value), code=code, headers=headers)


def status(code: int, reason: str, message: str = "", **details: Any) -> dict[str, Any]:
    """A Status body."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message or reason,
        "code": code,
        "details": details,
    }


def error(
    code: int, reason: str, message: str = "", *, headers: Mapping[str, str] | None = None, **details: Any
) -> Step:
    """A failed answer."""
    return json(status(code, reason, message, **details), code=code, headers=headers)


def truncated(body: bytes, *, missing: int = 10) -> Step:
    """Promise more bytes than come, then close."""

    async def step(wire: Wire, _: Seen) -> bool:
        length = {"Content-Type": "application/json", "Content-Length": str(len(body) + missing)}
        await wire.send(_head(200, length) + body)
        return False

    return step


def reset() -> Step:
    """Cut the connection without an answer."""

    async def step(wire: Wire, _: Seen) -> bool:
        wire.reset()
        return False

    return step


def hang() -> Step:
    """Never answer."""

    async def step(wire: Wire, _: Seen) -> bool:
        await wire.hang()
        return False

    return step


def garbage(data: bytes = b"SSH-2.0-nothing here\r\n\r\n") -> Step:
    """Something that is not HTTP."""

    async def step(wire: Wire, _: Seen) -> bool:
        await wire.send(data)
        return False

    return step


def slowly(value: Any, pieces: int) -> Step:
    """A whole answer in many small pieces."""

    async def step(wire: Wire, _: Seen) -> bool:
        body = msgspec.json.encode(value)
        await wire.send(_head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))}))
        size = max(1, len(body) // pieces)
        for start in range(0, len(body), size):
            await wire.send(body[start : start + size])
            await asyncio.sleep(0)
        return True

    return step


def stream(*parts: Any, end: str = "finish", content_type: str = "application/json") -> Step:
    """A chunked answer: dictionaries become lines, bytes go as they are. `end`: finish, reset, hang or close."""

    async def step(wire: Wire, _: Seen) -> bool:
        await wire.send(_head(200, {"Content-Type": content_type, "Transfer-Encoding": "chunked"}))
        for part in parts:
            data = part if isinstance(part, bytes) else msgspec.json.encode(part) + b"\n"
            await wire.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await asyncio.sleep(0)
        match end:
            case "finish":
                await wire.send(b"0\r\n\r\n")
            case "reset":
                wire.reset()
            case "hang":
                await wire.hang()
        return end == "finish"

    return step


def config_map(name: str, version: int, *, namespace: str = "ns", uid: str = "", **data: str) -> dict[str, Any]:
    """A small object."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
        },
        "data": data,
    }


def listing(version: int, *items: dict[str, Any], token: str = "") -> dict[str, Any]:
    """A list, or one page of it."""
    metadata = {"resourceVersion": str(version), **({"continue": token} if token else {})}
    return {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


def event(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    """A watch event."""
    return {"type": kind, "object": value}


def bookmark(version: int) -> dict[str, Any]:
    """A bookmark."""
    return event("BOOKMARK", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}})


@dataclass
class Relay:
    """Passes bytes to and from another server until told to cut every connection."""

    port: int
    url: str = ""
    is_down: bool = False
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> int:
        """Drop every connection; how many there were."""
        cut = len(self._writers)
        for writer in self._writers:
            writer.transport.abort()
        return cut

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        if self.is_down:
            writer.transport.abort()
            return
        out_reader, out_writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers |= {writer, out_writer}
        await asyncio.gather(_pump(reader, out_writer), _pump(out_reader, writer))
        self._writers -= {writer, out_writer}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
