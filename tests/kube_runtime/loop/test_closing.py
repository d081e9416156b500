"""A server that has ended holds no socket, whatever its clients do."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest
import trustme
from aiohttp import web

from kube_runtime.loop import closing

HELLO = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


def silent_client(port: int, tls: ssl.SSLContext | None) -> socket.socket:
    """Ask once, and neither read nor say goodbye afterwards."""
    plain = socket.create_connection(("127.0.0.1", port))
    made = tls.wrap_socket(plain, server_hostname="localhost") if tls is not None else plain
    made.sendall(HELLO)
    made.recv(4096)
    return made


@pytest.mark.parametrize("secure", [True, False], ids=["TLS", "plain"])
async def test_a_client_that_never_says_goodbye_keeps_no_socket_open(secure: bool) -> None:
    authority = trustme.CA()
    serving, asking = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(serving)
    authority.configure_trust(asking)
    app = web.Application()
    app.router.add_get("/", hello)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving if secure else None).start()
    client = await asyncio.to_thread(silent_client, runner.addresses[0][1], asking if secure else None)
    assert runner.server is not None
    (handler,) = runner.server.connections
    assert handler.transport is not None
    theirs = handler.transport.get_extra_info("socket")

    await closing.end(runner, grace=0.05)
    assert theirs.fileno() == -1
    client.close()


async def test_a_runner_that_never_started_ends_too() -> None:
    await closing.end(web.AppRunner(web.Application()))
