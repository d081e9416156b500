"""The line to slurmrestd: TCP, TLS or a unix socket. In: method, path and body. Out: status, content type and bytes.

No meaning is read here (that is `wire.py`), except that an unbounded answer is cut off, a silent server is not waited
for, and every failure of the line becomes a typed error without headers in it. One `Http` serves one `client.py`.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec

from kube_runtime.fence import last_check
from slurm_operator.slurm import connection
from slurm_operator.slurm.errors import (
    SlurmBadAnswer,
    SlurmBudgetExceeded,
    SlurmRejected,
    SlurmTimeout,
    SlurmUnreachable,
)
from slurm_operator.slurm.wire import Reply

CONNECT_SECONDS = 3.0
# Longer than the time between two polls of one of many clusters.
KEEP_ALIVE_SECONDS = 90.0
# A list of 10,000 nodes has 25.7 MB, one of 10,000 jobs (Slurm's own default limit) 57 MB.
LIST_RESPONSE_BYTES = 64 * 1024 * 1024
# Anything else: one node, the tasks of one array, statistics, a configuration, the answer to a write.
RESPONSE_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request; the token is put in at the last moment and is not part of it.

    `fence` raises when the request may not be sent any more.
    """

    method: str
    path: str
    label: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    # Budgets of the response: from the first byte sent to the last received, and its size.
    seconds: float = 12.0
    max_bytes: int = LIST_RESPONSE_BYTES
    fence: Callable[[], None] | None = None
    # Takes the body of a long response piece by piece; then none of it is in the reply.
    feed: Callable[[bytes], Awaitable[None]] | None = None


class Transport(Protocol):
    """The seam between the client and the line."""

    async def send(self, sending: Sending, token: str) -> Reply:
        """One request, one reply; raises SlurmUnreachable, SlurmTimeout or SlurmBadAnswer."""
        ...

    async def close(self) -> None:
        """Give back connections."""
        ...


class Endpoint(msgspec.Struct, frozen=True):
    """Where slurmrestd listens: a base URL, and a socket path when it is a unix socket."""

    base: str
    socket: str = ""

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """From `http://host:6820`, `https://host:6820` or `unix:///run/slurmrestd.sock`."""
        parts = urlsplit(text)
        if parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc:
            return cls("http://localhost", parts.path)
        clean = not (parts.username or parts.password or parts.query or parts.fragment) and parts.path in {"", "/"}
        if parts.scheme in {"http", "https"} and parts.hostname and clean:
            return cls(f"{parts.scheme}://{parts.netloc}")
        raise SlurmRejected("a slurmrestd address is http://HOST:PORT, https://HOST:PORT or unix:///PATH")


class Http:
    """A transport over aiohttp. It follows no redirect, keeps no cookie and obeys no proxy variable."""

    def __init__(self, endpoint: Endpoint, *, tls: ssl.SSLContext | None = None) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(self, sending: Sending, token: str) -> Reply:
        """One request, one reply."""
        try:
            return await self._exchange(sending, token)
        # The causes are left out: an aiohttp error may carry the request's headers.
        except TimeoutError:
            raise SlurmTimeout(f"no answer within {sending.seconds:g} s", call=sending.label) from None
        except aiohttp.ClientPayloadError as problem:
            raise SlurmBadAnswer(f"the answer was cut off ({_kind(problem)})", call=sending.label) from None
        except (aiohttp.ClientResponseError, aiohttp.InvalidURL) as problem:
            raise SlurmBadAnswer(f"not an HTTP answer ({_kind(problem)})", call=sending.label) from None
        except aiohttp.ClientConnectorError as problem:
            why = problem.os_error.strerror or _kind(problem.os_error)
            raise SlurmUnreachable(f"cannot connect to slurmrestd: {why}", call=sending.label) from None
        except (aiohttp.ClientError, OSError) as problem:
            raise SlurmUnreachable(
                f"the connection to slurmrestd broke ({_kind(problem)})", call=sending.label
            ) from None

    async def _exchange(self, sending: Sending, token: str) -> Reply:
        headers = {"X-SLURM-USER-TOKEN": token, "Accept": "application/json"}
        if sending.body is not None:
            headers["Content-Type"] = "application/json"
        async with self._open_session(sending.label).request(
            sending.method,
            self._endpoint.base + sending.path,
            params=sending.query or None,
            data=sending.body,
            headers=headers,
            allow_redirects=False,
            trace_request_ctx=sending.fence,
            ssl=self._tls if self._tls is not None else True,
            timeout=aiohttp.ClientTimeout(total=sending.seconds, sock_connect=CONNECT_SECONDS),
        ) as response:
            content = await _read(response, sending)
            return Reply(response.status, response.headers.get("Content-Type", ""), content)

    def _open_session(self, label: str) -> aiohttp.ClientSession:
        if self._closed:
            # A reconcile that outlives its client must not open connections that nobody would close.
            raise SlurmUnreachable("the client is closed", call=label)
        if self._session is None or self._session.closed:
            connector: aiohttp.BaseConnector
            if self._endpoint.socket:
                connector = aiohttp.UnixConnector(self._endpoint.socket, limit=16)
            else:
                connector = aiohttp.TCPConnector(limit=16, ttl_dns_cache=10, keepalive_timeout=KEEP_ALIVE_SECONDS)
            connection.use_in(connector)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                trace_configs=[last_check()],
            )
        return self._session

    async def close(self) -> None:
        """Close every connection, for good, and wait until they are."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)


async def _read(response: aiohttp.ClientResponse, sending: Sending) -> bytes:
    if (announced := response.content_length or 0) > sending.max_bytes:
        raise SlurmBudgetExceeded("bytes", f"{announced:,}", sending.max_bytes, call=sending.label)
    feed = sending.feed if response.status == 200 else None
    # Its value is taken over without a copy, which a joined list of parts would be.
    content, size = io.BytesIO(), 0
    async for part in response.content.iter_chunked(_CHUNK_BYTES):
        size += len(part)
        if size > sending.max_bytes:
            raise SlurmBudgetExceeded("bytes", "more", sending.max_bytes, call=sending.label)
        content.write(part)
        if feed is not None and content.tell() >= _CHUNK_BYTES:
            await feed(content.getvalue())
            content = io.BytesIO()
    if feed is not None and size > content.tell():
        await feed(content.getvalue())
        return b""
    return content.getvalue()


def _kind(problem: BaseException) -> str:
    return type(problem).__name__
