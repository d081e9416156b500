"""Sends requests: the only module here that knows aiohttp.

In: a `Request`. Out: an `HttpResponse` whose body is read or streamed, or one of `errors.Unreachable`, `TimedOut`,
`BadAnswer`, `LoginFailed`. `client` calls it and decides about retries; campaigns put an in-process server behind the
same protocol.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit
from weakref import WeakSet

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kube_runtime.client.credentials import Credentials, tls_context
from kube_runtime.client.errors import BadAnswer, KubeconfigInvalid, TimedOut, Unreachable, class_for
from kube_runtime.client.kubeconfig import Target
from kube_runtime.client.requests import Request
from kube_runtime.fence import last_check

MAX_BODY_BYTES = 512 * 1024 * 1024
GOODBYE_SECONDS = 1.0
USER_AGENT = "kube-runtime"


class HttpResponse(Protocol):
    """The head of an answer, and ways to its body."""

    @property
    def code(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, in any case of letters."""

    async def read(self) -> bytes:
        """The whole body, up to a limit."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""


class Socket(Protocol):
    """A websocket after its handshake."""

    @property
    def protocol(self) -> str:
        """The subprotocol that the server chose."""

    async def send(self, data: bytes) -> None:
        """Send one binary message."""

    def messages(self) -> AsyncIterator[bytes]:
        """The messages until the peer closes."""


class Transport(Protocol):
    """The one seam between this program and an API server."""

    def open(self, request: Request) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request; leaving the context gives the connection back or drops it."""

    def connect(self, request: Request, protocols: Sequence[str]) -> AbstractAsyncContextManager[Socket]:
        """Open a websocket."""

    def refused(self) -> None:
        """The credentials were refused: get new ones for the next request."""

    async def close(self) -> None:
        """Close every connection."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long, how much and how many at once."""

    connect_seconds: float = 5.0
    request_seconds: float = 30.0
    body_bytes: int = MAX_BODY_BYTES
    # Ordinary requests at once; watches and logs are not counted, or they would starve the rest.
    in_flight: int = 64


@dataclass(slots=True)
class AiohttpResponse:
    """An aiohttp answer, with its errors translated."""

    _response: aiohttp.ClientResponse
    _what: str
    _limit: int

    @property
    def code(self) -> int:
        """The HTTP status."""
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""
        return self._response.headers

    async def read(self) -> bytes:
        """The whole body; a body that never ends is a bad answer, not a dead process."""
        parts, size = [], 0
        async for chunk in self._response.content.iter_any():
            size += len(chunk)
            if size > self._limit:
                raise BadAnswer(f"{self._what}: the answer is larger than {self._limit} bytes")
            parts.append(chunk)
        return b"".join(parts)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        async for chunk in self._response.content.iter_any():
            yield chunk


@dataclass(slots=True)
class HttpSocket:
    """An aiohttp websocket."""

    _socket: aiohttp.ClientWebSocketResponse

    @property
    def protocol(self) -> str:
        """The subprotocol that the server chose."""
        return self._socket.protocol or ""

    async def send(self, data: bytes) -> None:
        """Send one binary message."""
        await self._socket.send_bytes(data)

    async def messages(self) -> AsyncIterator[bytes]:
        """The messages until the peer closes."""
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.BINARY:
                yield message.data
            elif message.type is aiohttp.WSMsgType.TEXT:
                yield message.data.encode()


@dataclass(slots=True)
class HttpTransport:
    """HTTP/1.1 over aiohttp to one target."""

    target: Target
    limits: Limits = field(default_factory=Limits)
    user_agent: str = USER_AGENT
    _session: aiohttp.ClientSession | None = None
    _closed: bool = False
    _gate: asyncio.Semaphore | None = None
    _tls: tuple[tuple[object, ...], ssl.SSLContext] | None = None
    _sockets: WeakSet[socket.socket] = field(default_factory=WeakSet)

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[HttpResponse]:
        """Send a request and translate whatever goes wrong until the context is left."""
        options = await self._options()
        session = self._open_session(request.what)
        with _translated(request.what):
            async with (
                _NO_GATE if request.stream or request.is_urgent else self._ready_gate(),
                session.request(
                    request.method,
                    self._url(request),
                    headers=self._headers(request, options.pop("credentials")),
                    data=request.body or None,
                    timeout=self._timeout(request),
                    allow_redirects=False,
                    trace_request_ctx=request.fence,
                    **options,
                ) as response,
            ):
                yield AiohttpResponse(response, request.what, self.limits.body_bytes)

    @asynccontextmanager
    async def connect(self, request: Request, protocols: Sequence[str]) -> AsyncIterator[Socket]:
        """Open a websocket."""
        options = await self._options()
        session = self._open_session(request.what)
        with _translated(request.what):
            async with session.ws_connect(
                self._url(request),
                protocols=protocols,
                headers=self._headers(request, options.pop("credentials")),
                max_msg_size=0,
                heartbeat=30.0,
                **options,
            ) as websocket:
                yield HttpSocket(websocket)

    def refused(self) -> None:
        """Get new credentials for the next request."""
        self.target.credentials.refused()

    async def close(self) -> None:
        """Close every connection, for good, and let the event loop see them closed."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None
            await _let_go(self._sockets)

    def _open_session(self, what: str) -> aiohttp.ClientSession:
        if self._closed:
            # A task that outlives its client must not open connections that nobody would close.
            raise Unreachable(f"{what}: the client is closed", sent=False)
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, socket_factory=self._socket, ttl_dns_cache=30),
                read_bufsize=256 * 1024,
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[last_check()],
            )
            # aiohttp would silently send a DELETE or PUT twice over a stale connection.
            self._session._retry_connection = False
        return self._session

    def _socket(self, info: Any) -> socket.socket:
        made = _keepalive_socket(info)
        self._sockets.add(made)
        return made

    def _ready_gate(self) -> asyncio.Semaphore:
        if self._gate is None:
            self._gate = asyncio.Semaphore(self.limits.in_flight)
        return self._gate

    def _url(self, request: Request) -> URL:
        base = URL(self.target.server)
        # `encoded`: the path is quoted already, and a quoted slash must stay quoted.
        url = URL.build(
            scheme=base.scheme,
            host=base.host or "",
            port=base.port,
            path=base.raw_path.rstrip("/") + request.path,
            encoded=True,
        )
        return url.with_query(list(request.query)) if request.query else url

    def _headers(self, request: Request, credentials: Credentials) -> CIMultiDict[str]:
        headers = CIMultiDict(self.target.headers)
        headers["User-Agent"] = self.user_agent
        headers["Accept"] = request.accept
        # Within a cluster, unpacking costs more than the wire.
        headers["Accept-Encoding"] = "identity"
        if request.content_type:
            headers["Content-Type"] = request.content_type
        if credentials.authorization:
            headers["Authorization"] = credentials.authorization
        return headers

    def _timeout(self, request: Request) -> aiohttp.ClientTimeout:
        limit = request.seconds if request.seconds is not None else self.limits.request_seconds
        if request.stream:
            return aiohttp.ClientTimeout(sock_connect=self.limits.connect_seconds, sock_read=limit)
        return aiohttp.ClientTimeout(total=limit, sock_connect=self.limits.connect_seconds)

    async def _options(self) -> dict[str, Any]:
        credentials = await self.target.credentials.current()
        options: dict[str, Any] = {"credentials": credentials}
        if urlsplit(self.target.server).scheme == "https":
            options["ssl"] = self._context(credentials)
        if self.target.server_name:
            options["server_hostname"] = self.target.server_name
        if self.target.proxy:
            options["proxy"] = self.target.proxy
        return options

    def _context(self, credentials: Credentials) -> ssl.SSLContext:
        authority = self.target.authority.read() if self.target.authority is not None else b""
        key = (authority, credentials.certificate)
        if self._tls is None or self._tls[0] != key:
            self._tls = (key, tls_context(authority, credentials.certificate, verify=self.target.verify))
        return self._tls[1]


class _NoGate:
    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None


_NO_GATE = _NoGate()


class _translated:  # noqa: N801 - reads as a statement
    """Turn what aiohttp and the system raise into this package's errors."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            return
        translated = translate(error, self._what)
        if translated is not None:
            raise translated from error


def translate(error: BaseException, what: str) -> Exception | None:
    """The error of this package for a foreign one; None for one that is not about the connection."""
    message = f"{what}: {str(error) or type(error).__name__}"
    match error:
        case aiohttp.ConnectionTimeoutError():
            return TimedOut(f"{what}: no connection in time", sent=False)
        case aiohttp.ClientConnectorError():
            return Unreachable(f"{what}: {_unconnected(error)}", sent=False)
        case aiohttp.InvalidURL():
            return KubeconfigInvalid(message)
        case TimeoutError():
            return TimedOut(f"{what}: no answer in time", sent=True)
        case aiohttp.WSServerHandshakeError():
            return class_for(error.status)(f"{what}: {error.status} instead of a websocket")
        case aiohttp.ClientResponseError():
            return BadAnswer(f"{what}: not HTTP: {error.message}")
        case aiohttp.ClientError() | OSError():
            return Unreachable(message, sent=True)
    return None


def _unconnected(error: aiohttp.ClientConnectorError) -> str:
    """Why there is no connection, without the inner life of the library."""
    place = f"{error.host}:{error.port}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        return f"the certificate of {place} is not trusted: {why}"
    why = error.os_error.strerror or str(error.os_error)
    if why.startswith("Connect call failed") and error.os_error.errno:
        why = os.strerror(error.os_error.errno)  # asyncio puts the address, known here, over the system's own words
    return f"cannot connect to {place}: {why}"


async def _let_go(sockets: Collection[socket.socket]) -> None:
    """Wait until every socket is closed, for TLS says goodbye in the background and the event loop may end before."""
    await asyncio.sleep(0)
    until = asyncio.get_running_loop().time() + GOODBYE_SECONDS
    while left := [each for each in sockets if each.fileno() >= 0]:
        if asyncio.get_running_loop().time() >= until:
            for each in left:
                # The transport sees the end of the stream, and waits for nobody's goodbye any more.
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(0.01)
            return
        await asyncio.sleep(0.005)


def _keepalive_socket(info: Any) -> socket.socket:
    """A socket that notices a vanished peer within half a minute, even when nobody sends."""
    family, kind, protocol, _, _ = info
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
