"""Port-forwarding: SPDY streams within a websocket, each pair of them one connection to a port of the pod.

In: a websocket and the pod's network namespace. Out: bytes both ways. `access` calls it. A connection comes as two
streams with the same request id: `error`, on which we say what went wrong, and `data`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import WSMsgType, web

from kube_local.node import spdy

PROTOCOLS = ("SPDY/3.1+portforward.k8s.io",)
_CLONE_NEWNET = 0x40000000
_CHUNK_BYTES = 32 * 1024
_CONNECT_SECONDS = 10.0
_libc = ctypes.CDLL(None, use_errno=True)


def connect_within(netns: Path, address: str, port: int) -> socket.socket:
    """A connection made within a network namespace; runs in a thread of its own, which comes back to ours."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    theirs = os.open(netns, os.O_RDONLY)
    try:
        if _libc.setns(theirs, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "cannot enter the pod's network")
        try:
            return socket.create_connection((address, port), _CONNECT_SECONDS)
        finally:
            _libc.setns(own, _CLONE_NEWNET)
    finally:
        os.close(own)
        os.close(theirs)


@dataclass(slots=True)
class _Link:
    error: int
    data: int
    writer: asyncio.StreamWriter | None = None
    waiting: list[spdy.Data] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Forward:
    """One client's connection with all its streams."""

    peer: web.WebSocketResponse
    netns: Path | None
    address: str
    codec: spdy.Codec = field(default_factory=spdy.Codec)
    _errors: dict[str, int] = field(default_factory=dict)
    _links: dict[int, _Link] = field(default_factory=dict)

    async def run(self) -> None:
        """Until the client goes away."""
        try:
            async for message in self.peer:
                if message.type is WSMsgType.BINARY:
                    for frame in self.codec.feed(message.data):
                        await self._take(frame)
        except spdy.BadFrame as error:
            await self.peer.close(code=1002, message=str(error).encode()[:100])
        finally:
            for link in list(self._links.values()):
                self._drop(link)

    async def _send(self, data: bytes) -> None:
        if not self.peer.closed:
            with suppress(ConnectionError):
                await self.peer.send_bytes(data)

    async def _take(self, frame: spdy.Frame) -> None:
        match frame:
            case spdy.Opened(stream, headers, _):
                await self._opened(stream, {key.lower(): value for key, value in headers.items()})
            case spdy.Data(stream):
                link = self._links.get(stream)
                if link is not None:
                    await self._to_pod(link, frame)
            case spdy.Reset(stream):
                link = self._links.get(stream)
                if link is not None:
                    self._drop(link)
            case spdy.Pinged(number):
                await self._send(spdy.ping(number))
            case spdy.Leaving():
                pass

    async def _opened(self, stream: int, headers: dict[str, str]) -> None:
        await self._send(self.codec.reply(stream))
        request = headers.get("requestid", headers.get("port", ""))
        if headers.get("streamtype") == "error":
            self._errors[request] = stream
            return
        link = _Link(self._errors.pop(request, 0), stream)
        self._links[stream] = link
        port = headers.get("port", "")
        link.task = asyncio.create_task(self._serve(link, int(port) if port.isdecimal() else 0))

    async def _serve(self, link: _Link, port: int) -> None:
        try:
            reader, link.writer = await self._connect(port)
        except OSError as error:
            text = f"error forwarding port {port} to the pod: {error}"
            await self._send(spdy.data(link.error, text.encode(), ended=True))
            await self._send(spdy.reset(link.data))
            self._links.pop(link.data, None)
            return
        for frame in link.waiting:
            await self._to_pod(link, frame)
        with suppress(ConnectionError):
            while data := await reader.read(_CHUNK_BYTES):
                await self._send(spdy.data(link.data, data))
        await self._send(spdy.data(link.data, b"", ended=True))
        await self._send(spdy.data(link.error, b"", ended=True))
        self._links.pop(link.data, None)
        link.writer.close()

    async def _connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.netns is None:
            return await asyncio.open_connection("127.0.0.1", port)
        try:
            made = await asyncio.to_thread(connect_within, self.netns, "127.0.0.1", port)
        except ConnectionRefusedError:
            # A daemon may listen on the pod's address alone.
            made = await asyncio.to_thread(connect_within, self.netns, self.address, port)
        return await asyncio.open_connection(sock=made)

    async def _to_pod(self, link: _Link, frame: spdy.Data) -> None:
        if link.writer is None:
            link.waiting.append(frame)
            return
        with suppress(ConnectionError):
            if frame.data:
                link.writer.write(frame.data)
                await link.writer.drain()
            if frame.ended and link.writer.can_write_eof():
                link.writer.write_eof()

    def _drop(self, link: _Link) -> None:
        self._links.pop(link.data, None)
        if link.task is not None:
            link.task.cancel()
        if link.writer is not None:
            link.writer.close()
