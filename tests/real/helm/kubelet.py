"""A kubelet of a real API server that has nothing but the logs of configuration sidecars.

In: what the sidecars printed, by namespace. Out: the port on loopback that a Node's `daemonEndpoints` name.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator

import trustme
from aiohttp import web
from tests.charts.converging import Slurms


@contextlib.asynccontextmanager
async def kubelet(slurms: Slurms) -> AsyncIterator[int]:
    """The port of a kubelet that has nothing but logs of sidecars."""

    async def logs(request: web.Request) -> web.Response:
        return web.Response(text=slurms.printed(request.match_info["namespace"]))

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", logs)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
