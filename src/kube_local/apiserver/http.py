"""The socket side: HTTPS on loopback, authentication, streams. Everything else is `handlers`.

Who has the token may do everything; nobody else gets past the health and version pages.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from typing import Any

from aiohttp import web

from kube_runtime.key_pair import load_pair
from kube_runtime.loop import closing

from .certificates import Credentials
from .errors import ApiError, no_such_resource, unauthorized
from .handlers import STREAMS, Handlers
from .request import BODY_LIMIT, Request, Response, User, json_response, resolve
from .state import State

_OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
# Room for the server's own 413 answer instead of a bare one.
_READ_LIMIT = BODY_LIMIT + 1024 * 1024


class HttpsFront:
    """One listening socket in front of the handlers."""

    def __init__(self, state: State, handlers: Handlers, credentials: Credentials) -> None:
        self._state = state
        self._handlers = handlers
        self._credentials = credentials
        self._runner: web.AppRunner | None = None
        self._streams: set[asyncio.Task[Any]] = set()
        self.address = ""

    async def start(self, host: str, port: int) -> None:
        """Listens; port 0 takes a free one."""
        app = web.Application(client_max_size=_READ_LIMIT)
        app.router.add_route("*", "/{path:.*}", self._serve)
        # A watcher that went away must not keep its stream.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=2.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=_tls(self._credentials))
        await site.start()
        name = self._runner.addresses[0]
        self.address = f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"

    async def stop(self) -> None:
        """Ends every stream and stops listening."""
        for task in self._streams:
            task.cancel()
        if self._runner:
            await closing.end(self._runner)
            self._runner = None

    async def _serve(self, raw: web.Request) -> web.StreamResponse:
        try:
            user = self._authenticate(raw)
        except ApiError as error:
            return _whole(json_response(error.status(), error.code))
        request = await self._read(raw, user)
        target = resolve(self._state.registry, request.path)
        if target is not None and target.subresource in STREAMS:
            return await self._connect(raw, request)
        response = await self._handlers.handle(request, self.address)
        return _whole(response) if response.stream is None else await self._stream(raw, response)

    async def _read(self, raw: web.Request, user: User) -> Request:
        return Request(
            method=raw.method,
            path=raw.path,
            query=dict(raw.query),
            headers={key.lower(): value for key, value in raw.headers.items()},
            body=await raw.read() or None,
            user=user,
        )

    def _authenticate(self, raw: web.Request) -> User:
        scheme, _, token = raw.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._credentials.token.encode()):
            return User()
        if raw.path.rstrip("/") in _OPEN_PATHS:
            return User("system:anonymous", ("system:unauthenticated",))
        raise unauthorized()

    async def _connect(self, raw: web.Request, request: Request) -> web.StreamResponse:
        target = resolve(self._state.registry, request.path)
        row = target and self._state.store.get(target.kind.resource, target.namespace, target.name)
        if not target or not row or self._state.pods is None:
            failure = no_such_resource() if self._state.pods else _no_agent(target.subresource if target else "exec")
            return _whole(json_response(failure.status(), failure.code))
        return await self._state.pods.connect(raw, row.load(), target.subresource)

    async def _stream(self, raw: web.Request, response: Response) -> web.StreamResponse:
        stream = web.StreamResponse(status=response.status, headers=response.headers)
        await stream.prepare(raw)
        task = asyncio.current_task()
        if task:
            self._streams.add(task)
        try:
            if response.stream is not None:
                async for chunk in response.stream:
                    await stream.write(chunk)
            await stream.write_eof()
        except ConnectionError:
            pass
        finally:
            self._streams.discard(task) if task else None
        return stream


def _no_agent(subresource: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", f"no node agent runs pods on this server, so there is no {subresource}")


def _whole(response: Response) -> web.Response:
    made = web.Response(status=response.status, body=response.body, headers=response.headers)
    for warning in response.warnings:
        made.headers.add("Warning", f'299 - "{_quoted(warning)}"')
    return made


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _tls(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(context, credentials.server_certificate, credentials.server_key)
    return context
