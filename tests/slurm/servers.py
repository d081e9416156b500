"""Servers that answer as a test wants: any handler over HTTP, or bytes as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web


async def serve(handle: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.AppRunner:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner


class raw_server:  # noqa: N801 - reads as a statement
    """A server that sends these bytes in pieces to whoever asks, and closes."""

    def __init__(self, sent: bytes, piece: int = 10_000) -> None:
        self._sent = sent
        self._piece = piece

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for start in range(0, len(self._sent), self._piece):
            writer.write(self._sent[start : start + self._piece])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()
