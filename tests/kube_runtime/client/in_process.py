"""The embedded API server behind the client's transport, without a socket: for campaigns in virtual time.

    client = Client(InProcess(server))

`refuse` is asked before each request and may raise; that is where a campaign puts its faults.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kube_runtime.client.errors import Unreachable
from kube_runtime.client.requests import Request
from kube_runtime.client.transport import HttpResponse, Socket


@dataclass(frozen=True, slots=True)
class InProcessResponse:
    """An answer of the embedded server."""

    response: Any

    @property
    def code(self) -> int:
        """The HTTP status."""
        code: int = self.response.status
        return code

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""
        headers: Mapping[str, str] = self.response.headers
        return headers

    async def read(self) -> bytes:
        """The whole body."""
        body: bytes = self.response.body
        return body

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        async for chunk in self.response.stream:
            yield chunk


def _never(_: Request) -> None:
    return None


@dataclass(slots=True)
class InProcess:
    """Calls the server's `handle`."""

    server: Any
    refuse: Callable[[Request], None] = _never

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[HttpResponse]:
        """Hand over a request."""
        self.refuse(request)
        headers = {"Accept": request.accept, "Content-Type": request.content_type}
        response = await self.server.handle(
            request.method, request.path, dict(request.query), headers, request.body or None
        )
        try:
            yield InProcessResponse(response)
        finally:
            if response.stream is not None and hasattr(response.stream, "aclose"):
                await response.stream.aclose()

    def connect(self, request: Request, protocols: Sequence[str]) -> AbstractAsyncContextManager[Socket]:
        """There are no pods to speak to."""
        raise Unreachable(f"{request.what}: no websockets within one process ({', '.join(protocols)})", sent=False)

    def refused(self) -> None:
        """There are no credentials."""

    async def close(self) -> None:
        """There are no connections."""
