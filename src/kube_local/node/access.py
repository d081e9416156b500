"""The agent's own door: logs, exec and port-forward of its pods, on a unix socket in the data folder.

In: requests of `proxy`, which runs in the API server. Out: streams. Whoever may open the socket may do everything, so
only root may. Paths: /{log,exec,portforward,running}/<pod uid>/<container>?<the query of the API request>.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime

from aiohttp import web

from kube_local.node import channels, forward, logs
from kube_local.node.channels import Wanted
from kube_local.node.container import Container
from kube_local.node.paths import Paths
from kube_local.node.pod import PodWorker
from kube_local.node.runtime import Runtime, new_pid_file

Close = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Access:
    """What the socket serves."""

    runtime: Runtime
    workers: Mapping[str, PodWorker]

    def routes(self) -> list[web.RouteDef]:
        """Every page."""
        return [
            web.get("/log/{uid}/{container}", self.log),
            web.get("/exec/{uid}/{container}", self.exec),
            web.get("/portforward/{uid}/{container}", self.port_forward),
            web.get("/running/{uid}/{container}", self.running),
        ]

    async def log(self, request: web.Request) -> web.StreamResponse:
        """What a container printed."""
        worker, container = self._find(request)
        previous = request.query.get("previous", "") in {"true", "1"}
        number = container.record.restarts - (1 if previous else 0)
        file = worker.paths.log(container.name, number)
        if number < 0 or not (previous or file.exists()):
            raise _refused(_no_log(container, worker, previous=previous))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)

        def is_over() -> bool:
            return container.over or container.record.restarts != number or container.record.state == "ended"

        options = logs.Options.of(request.query, datetime.now(UTC))
        async with aclosing(logs.read(file, options, is_over)) as pieces:
            async for piece in pieces:
                await response.write(piece)
        await response.write_eof()
        return response

    async def exec(self, request: web.Request) -> web.StreamResponse:
        """A command in a container."""
        _, container = self._running(request)
        wanted = _wanted(request)
        command = request.query.getall("command", [])
        if not command:
            raise _refused("you must specify at least one command for the container")
        pid_file = new_pid_file(container.folder)
        argv = self.runtime.exec_command(container.record.container_id, command, terminal=wanted.tty, pid_file=pid_file)
        peer = web.WebSocketResponse(protocols=channels.PROTOCOLS, max_msg_size=0)
        await peer.prepare(request)
        await channels.execute(peer, argv, wanted, pid_file)
        return peer

    async def port_forward(self, request: web.Request) -> web.StreamResponse:
        """Connections to ports of a pod."""
        worker, _ = self._running(request)
        peer = web.WebSocketResponse(protocols=forward.PROTOCOLS, max_msg_size=0)
        await peer.prepare(request)
        netns = None if worker.pod["spec"].get("hostNetwork") else worker.paths.netns_file
        await forward.Forward(peer, netns, worker.place().ip).run()
        return peer

    async def running(self, request: web.Request) -> web.StreamResponse:
        """Whether a container could be connected to; the refusal says why not."""
        self._running(request)
        return web.Response()

    def _find(self, request: web.Request) -> tuple[PodWorker, Container]:
        worker = self.workers.get(request.match_info["uid"])
        name = request.match_info["container"]
        container = next((one for one in worker.containers if one.name == name), None) if worker else None
        if worker is None or container is None:
            raise web.HTTPNotFound(text=f"no pod with a container {name} runs on this machine under that uid")
        return worker, container

    def _running(self, request: web.Request) -> tuple[PodWorker, Container]:
        worker, container = self._find(request)
        if container.record.state != "running":
            raise _refused(f'container not found ("{container.name}"): it is not running')
        return worker, container


def _wanted(request: web.Request) -> Wanted:
    on = {name: request.query.get(name, "") in {"true", "1"} for name in ("stdin", "stdout", "stderr", "tty")}
    return Wanted(**on)


def _no_log(container: Container, worker: PodWorker, *, previous: bool) -> str:
    name, pod = container.name, worker.record.name
    if previous:
        return f'previous terminated container "{name}" in pod "{pod}" not found'
    return f'container "{name}" in pod "{pod}" is waiting to start: {container.record.reason or "ContainerCreating"}'


def _refused(text: str) -> web.HTTPBadRequest:
    return web.HTTPBadRequest(text=text)


async def serve(paths: Paths, runtime: Runtime, workers: Mapping[str, PodWorker]) -> Close:
    """Listen on the socket; answers what closes it again."""
    app = web.Application()
    app.add_routes(Access(runtime, workers).routes())
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    paths.socket.unlink(missing_ok=True)
    site = web.UnixSite(runner, str(paths.socket))
    await site.start()
    await asyncio.to_thread(paths.socket.chmod, 0o600)
    return runner.cleanup
