"""The API server's end of `access`: logs and upgraded connections are handed to the node agent's socket.

    server.plug_in(NodePodAccess(data))

The agent may be down or restarting: the client then gets a sentence, and the API server goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import WSMsgType, web
from yarl import URL

from kube_local.apiserver import errors
from kube_local.node import channels, forward
from kube_local.node.paths import Paths

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_CONNECT_SECONDS = 5.0


class NodePodAccess:
    """Implements `PodAccess` of the embedded API server."""

    def __init__(self, data: Path) -> None:
        self._socket = str(Paths.of(data).socket)

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(self._socket),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            read_bufsize=256 * 1024,
        )

    async def logs(self, pod: Mapping[str, Any], options: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The log of one container, as it comes."""
        url = _url("log", pod, options.get("container") or default_container(pod), list(options.items()))
        opened = False
        try:
            async with self._session() as session, session.get(url) as answer:
                if answer.status != 200:
                    raise errors.bad_request(await answer.text())
                opened = True
                # There is a log, even if it stays silent for long.
                yield b""
                async for chunk in answer.content.iter_any():
                    yield chunk
        except aiohttp.ClientConnectionError as error:
            if not opened:
                raise errors.ApiError(503, "ServiceUnavailable", _silent(error)) from error
            yield f"{_silent(error)}\n".encode()

    async def connect(self, request: web.Request, pod: Mapping[str, Any], subresource: str) -> web.StreamResponse:
        """exec or portforward: a websocket on either side, messages handed over as they are."""
        container = request.query.get("container") or default_container(pod)
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return await self._refuse_spdy(pod, container, subresource)
        url = _url(subresource, pod, container, list(request.query.items()))
        known = forward.PROTOCOLS if subresource == "portforward" else channels.PROTOCOLS
        offered = [protocol.strip() for protocol in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        chosen = next((protocol for protocol in known if protocol in offered), None)
        if chosen is None:
            return _refused(
                400, "BadRequest", f"none of the protocols {offered} is spoken here: {', '.join(known)} are"
            )
        async with self._session() as session:
            try:
                agent = await session.ws_connect(url, protocols=(chosen,), max_msg_size=0, autoping=True)
            except aiohttp.WSServerHandshakeError as error:
                return await self._why(session, pod, container, error)
            except aiohttp.ClientError as error:
                return _refused(503, "ServiceUnavailable", _silent(error))
            client = web.WebSocketResponse(protocols=(chosen,), max_msg_size=0)
            await client.prepare(request)
            await _join(client, agent)
            return client

    async def _why(
        self,
        session: aiohttp.ClientSession,
        pod: Mapping[str, Any],
        container: str,
        error: aiohttp.WSServerHandshakeError,
    ) -> web.StreamResponse:
        """A refused handshake has no body."""
        why = await _not_running(session, pod, container)
        return _refused(error.status, "NotFound" if error.status == 404 else "BadRequest", why or error.message)

    async def _refuse_spdy(self, pod: Mapping[str, Any], container: str, subresource: str) -> web.StreamResponse:
        """kubectl tries SPDY when its websocket was refused, and shows the second answer alone."""
        try:
            async with self._session() as session:
                why = await _not_running(session, pod, container)
        except aiohttp.ClientError as error:
            return _refused(503, "ServiceUnavailable", _silent(error))
        advice = f"{subresource} is served over websockets: use kubectl 1.31 or newer, or another client"
        return _refused(400, "BadRequest", why or advice)


async def _not_running(session: aiohttp.ClientSession, pod: Mapping[str, Any], container: str) -> str:
    """Why a container cannot be connected to; nothing when it can."""
    async with session.get(_url("running", pod, container, [])) as answer:
        return "" if answer.status == 200 else await answer.text()


def _silent(error: aiohttp.ClientError) -> str:
    return f"the node agent does not answer ({error}): is it running?"


async def _join(client: web.WebSocketResponse, agent: aiohttp.ClientWebSocketResponse) -> None:
    """Copy both ways until either side ends."""

    async def upwards() -> None:
        async for message in client:
            if message.type is WSMsgType.BINARY:
                await agent.send_bytes(message.data)

    async def downwards() -> None:
        async for message in agent:
            if message.type is WSMsgType.BINARY:
                await client.send_bytes(message.data)

    ways = [asyncio.create_task(upwards()), asyncio.create_task(downwards())]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in ways:
            task.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        await agent.close()
        await client.close()


def default_container(pod: Mapping[str, Any]) -> str:
    """The container that a pod names as its default, or its first one."""
    names = [str(one["name"]) for one in pod["spec"].get("containers") or ()]
    wanted = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    return wanted if wanted in names else names[0]


def _url(what: str, pod: Mapping[str, Any], container: str, query: list[tuple[str, str]]) -> URL:
    kept = [(key, value) for key, value in query if key != "container"]
    return URL("http://node").joinpath(what, pod["metadata"]["uid"], container).with_query(kept)


def _refused(code: int, reason: str, message: str) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return web.json_response(body, status=code)
