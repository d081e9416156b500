"""The DNS server: UDP and TCP on one address, one answer per question, nothing kept.

In: something that answers questions (`records.Records`). Run by the local controllers; pods' resolv.conf names it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from dns.rcode import Rcode

from kube_local.dns.wire import Answer, Malformed, Query, read_query, write_answer, write_failure

log = logging.getLogger(__name__)

# Linux: bind to an address that is not there (yet), so that the bridge may come later, or come again.
_FREEBIND = 15
_IDLE_SECONDS = 10.0
_RETRY_SECONDS = 1.0


class Answers(Protocol):
    """Who knows the names."""

    def answer(self, query: Query) -> Answer:
        """The answer to one question."""
        ...


def respond(answers: Answers, data: bytes, *, datagram: bool) -> bytes:
    """The answer to a message, whatever it is; never an exception."""
    try:
        query = read_query(data)
    except Malformed:
        return write_failure(data, Rcode.FORMERR)
    try:
        return write_answer(query, answers.answer(query), datagram=datagram)
    except Exception:
        log.exception("no answer to the question for %s", query.name)
        return write_answer(query, Answer(Rcode.SERVFAIL))


@dataclass(slots=True)
class _Datagrams(asyncio.DatagramProtocol):
    answers: Answers
    transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        if self.transport is not None:
            self.transport.sendto(respond(self.answers, data, datagram=True), addr)


@dataclass(slots=True)
class DnsServer:
    """Serves one address until it is cancelled."""

    answers: Answers
    address: str
    port: int = 53
    started: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Listen, for ever; a port that somebody holds is tried again."""
        while True:
            try:
                await self._serve()
            except OSError as error:
                log.warning("DNS on %s:%d cannot listen, and tries again: %s", self.address, self.port, error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _serve(self) -> None:
        datagrams, streams = self._sockets()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self.answers), sock=datagrams)
        try:
            server = await asyncio.start_server(self._converse, sock=streams)
            try:
                self.started.set()
                log.info("DNS listens on %s:%d", self.address, self.port)
                await asyncio.get_running_loop().create_future()
            finally:
                # Not waited for: a client that keeps its connection must not keep this process.
                server.close()
        finally:
            self.started.clear()
            transport.close()

    def _sockets(self) -> tuple[socket.socket, socket.socket]:
        """Both or none; port 0 becomes the same free one for both."""
        datagrams = _bound(socket.SOCK_DGRAM, self.address, self.port)
        try:
            self.port = int(datagrams.getsockname()[1])
            streams = _bound(socket.SOCK_STREAM, self.address, self.port)
        except OSError:
            datagrams.close()
            raise
        return datagrams, streams

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            while True:
                async with asyncio.timeout(_IDLE_SECONDS):
                    length = int.from_bytes(await reader.readexactly(2), "big")
                    response = respond(self.answers, await reader.readexactly(length), datagram=False)
                    writer.write(len(response).to_bytes(2, "big") + response)
                    await writer.drain()
        writer.close()


def _bound(kind: int, address: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, kind)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.IPPROTO_IP, _FREEBIND, 1)
        made.bind((address, port))
    except OSError:
        made.close()
        raise
    return made
