"""Ends an HTTP server so that no connection of it is left open.

In: the runner of an aiohttp application. Out: nothing, when every socket is closed. Called by `health.py` and by
the embedded API server. A TLS connection is closed when the peer has said goodbye too, which an idle client in another
process may do much later, or never: its socket would outlive the event loop.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

GRACE_SECONDS = 0.5
_POLL_SECONDS = 0.01


async def end(runner: web.AppRunner, grace: float = GRACE_SECONDS) -> None:
    """Stop listening, let running answers end, and cut off whoever has not said goodbye after `grace` seconds."""
    server = runner.server
    held = [handler.transport for handler in server.connections if handler.transport] if server is not None else []
    await runner.cleanup()
    for _ in range(max(1, int(grace / _POLL_SECONDS))):
        if not any(map(_is_open, held)):
            break
        await asyncio.sleep(_POLL_SECONDS)
    for transport in filter(_is_open, held):
        transport.abort()
    # A transport lets go of its socket one turn of the loop after it was aborted.
    await asyncio.sleep(0)


def _is_open(transport: asyncio.BaseTransport) -> bool:
    socket = transport.get_extra_info("socket")
    return socket is not None and socket.fileno() >= 0
