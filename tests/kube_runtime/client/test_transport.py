"""The seam: client, cache and writer run on any transport, with no socket in sight; and what a close leaves of one."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading

import pytest
import trustme
from tests.kube_runtime.client.conftest import embedded_server
from tests.kube_runtime.client.fault_server import FaultServer
from tests.kube_runtime.client.in_process import InProcess

from kube_runtime.client import transport
from kube_runtime.client.cache import Cache
from kube_runtime.client.client import Client
from kube_runtime.client.credentials import Fixed, Inline
from kube_runtime.client.errors import NotFound, TimedOut, Unreachable
from kube_runtime.client.kubeconfig import Target
from kube_runtime.client.objects import CONFIG_MAPS
from kube_runtime.client.requests import Request
from kube_runtime.client.transport import HttpTransport
from kube_runtime.client.write import Effect, Writer

BODY = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default"},
    "data": {"v": "1"},
}


async def test_cache_and_writer_run_in_one_process_without_a_socket() -> None:
    async with Client(InProcess(embedded_server())) as client:
        cache = Cache(client, CONFIG_MAPS.raw(), "default")
        task = asyncio.create_task(cache.run())
        async with asyncio.timeout(10):
            await cache.wait_synced()
            writer = Writer(client)
            made = await writer.apply(BODY, cache.get("default", "a"))
            await cache.wait_for(made.object.metadata.resource_version)
        again = await writer.apply(BODY, cache.get("default", "a"))
        assert (made.effect, again.effect) == (Effect.CREATED, Effect.UNCHANGED)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_answer_lost_after_the_write_is_found_done_the_next_time() -> None:
    """The write that timed out after it was applied: no twin, no second write."""
    server = embedded_server()
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.what)

    async with Client(InProcess(server, note)) as client:

        async def after(_: object, __: object) -> None:
            raise TimedOut("the answer was lost", sent=True)

        with pytest.raises(TimedOut):
            await Writer(client, after=after).apply(BODY)
        again = await Writer(client).apply(BODY)
    assert again.effect is Effect.UNCHANGED
    assert asked == ["get configmaps default/a", "apply configmaps default/a", "get configmaps default/a"]


async def test_a_closed_client_opens_no_connection_again(faults: FaultServer, client: Client) -> None:
    await client.close()
    with pytest.raises(Unreachable, match="the client is closed"):
        await client.get(CONFIG_MAPS, "a", "default")
    assert faults.seen == []


class Deaf:
    """A TLS server in a thread: it answers one request, then neither reads nor says goodbye."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(tls,))
        self.port = self._listener.getsockname()[1]

    def __enter__(self) -> Deaf:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._listener.close()

    def _serve(self, tls: ssl.SSLContext) -> None:
        plain, _ = self._listener.accept()
        with tls.wrap_socket(plain, server_side=True) as peer:
            peer.recv(4096)
            peer.sendall(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self._done.wait(30)


async def test_a_server_that_never_says_goodbye_leaves_no_socket_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "GOODBYE_SECONDS", 0.05)
    authority = trustme.CA()
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(serving)
    with Deaf(serving) as server:
        trusted = Inline(authority.cert_pem.bytes())
        line = HttpTransport(Target(f"https://localhost:{server.port}", Fixed(""), authority=trusted))
        client = Client(line)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, "a", "default")
        sockets = list(line._sockets)
        assert [each.fileno() >= 0 for each in sockets] == [True]
        await client.close()
        assert [each.fileno() for each in sockets] == [-1]
