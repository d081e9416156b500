"""What stands between an operator in a process of its own and the rest: a way to the API server that can be cut, and a
small Slurm that answers over HTTP.

In: a cluster, a Slurm model. Out: two addresses on loopback. A watch that is open is not ended by the API server when
the right to it goes; `Gateway.cut` ends it at once, as a time-out would within minutes. Used by the tests of roles and
of upgrades in `tests/real/helm`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from tests.campaigns.slurm_model import SlurmModel
from tests.real.kube.cluster import Cluster

from slurm_operator.slurm.transport import Sending

CORE = "/api/v1/namespaces/slurm"
# Between two hops only.
HOP = {"connection", "transfer-encoding", "content-length", "host", "content-encoding"}


@dataclass(slots=True)
class Gateway:
    """Hands requests on, with the token of whoever asks."""

    upstream: aiohttp.ClientSession
    watches: dict[str, set[asyncio.Task[None]]] = field(default_factory=dict)

    def cut(self, plural: str) -> int:
        """End every open watch of a resource; how many there were."""
        tasks = self.watches.get(plural, set())
        for task in tasks:
            task.cancel()
        return len(tasks)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request, there and back."""
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        limits = aiohttp.ClientTimeout(total=None)
        sending = self.upstream.request(
            request.method, request.rel_url, data=await request.read(), headers=headers, timeout=limits
        )
        async with sending as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            passing = asyncio.create_task(_pass_on(answer, response))
            watching = request.query.get("watch") == "true" and answer.status == 200
            plural = request.path.rpartition("/")[2]
            open_ones = self.watches.setdefault(plural, set()) if watching else set()
            open_ones.add(passing)
            try:
                await asyncio.wait([passing])
            finally:
                passing.cancel()
                open_ones.discard(passing)
            if passing.cancelled() and request.transport is not None:
                request.transport.abort()
            return response


async def _pass_on(answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    with contextlib.suppress(aiohttp.ClientError, ConnectionError):
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()


@contextlib.asynccontextmanager
async def gateway(cluster: Cluster) -> AsyncIterator[tuple[Gateway, str]]:
    """A way to the API server, and its address."""
    connector = aiohttp.TCPConnector(ssl=cluster.ssl_context(), limit=0)
    async with aiohttp.ClientSession(cluster.url, connector=connector, auto_decompress=False) as upstream:
        made = Gateway(upstream)
        async with _listening(made.handle) as address:
            yield made, address


@contextlib.asynccontextmanager
async def slurmrestd(model: SlurmModel) -> AsyncIterator[str]:
    """The address of a slurmrestd that answers for the model."""

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        sending = Sending(
            method=request.method,
            path=request.raw_path.partition("?")[0],
            label=request.path,
            query=tuple(request.query.items()),
            body=body or None,
        )
        reply = model.answer(sending, request.headers.get("X-SLURM-USER-TOKEN", ""))
        return web.Response(status=reply.status, body=reply.body, headers={"Content-Type": reply.content_type})

    async with _listening(handle) as address:
        yield address


async def slurmds(http: aiohttp.ClientSession, model: SlurmModel, config: str) -> None:
    """Every worker that runs has a slurmd, and slurmctld reads what was published."""
    alive: dict[str, str] = {}
    while True:
        async with http.get(f"{CORE}/pods?labelSelector=app.kubernetes.io%2Fname%3Dslurmd") as answer:
            pods = (await answer.json()).get("items", [])
        running = {
            each["spec"]["hostname"]: each["metadata"]["uid"]
            for each in pods
            if each["status"].get("phase") == "Running" and not each["metadata"].get("deletionTimestamp")
        }
        for name in alive.keys() - running.keys():
            model.stop_slurmd(name, "its pod is gone")
        for name, uid in running.items():
            if alive.get(name) != uid:
                # A node has the name of its NodeSet for a feature, which is what its own name starts with.
                model.register(name, [name.rpartition("-")[0]])
        alive = running
        async with http.get(f"{CORE}/configmaps/{config}") as answer:
            if answer.status == 200:
                model.read_config((await answer.json())["data"].get("slurm.conf", ""))
        await asyncio.sleep(0.3)


@contextlib.asynccontextmanager
async def _listening(handle: web.RequestHandler | object) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=1.0)  # type: ignore[arg-type]  # a coroutine function
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
