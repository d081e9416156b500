"""The stand-in of slurmrestd: one process that serves the Slurm of every cluster of the benchmark, and counts.

    python -m bench.scaling.slurm_server URL CA FOLDER [--heartbeat SECONDS] [--jobs N] [--slim] [--record-ms MS]

In: the worker pods and configurations of an API server (a watch each), requests on one loopback port for each cluster.
Out: what slurmrestd of Slurm 26.05 answers, the log of each slurmctld's sidecar as its kubelet would hand it out, and
under `/control` the requests so far and the moments at which pods and records came and went. Tokens are not checked.
The token of the API server is read from stdin; a request to `/control/clusters` names ports and clusters.

A peer that finds slurmrestd by its Service is sent here by HTTP_PROXY: the port of the absolute URL says which cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import aiohttp
import msgspec
from aiohttp import web
from bench.scaling.slurm_records import Json, Refused, Slurm, number, recorded
from bench.scaling.slurm_world import World, follow_config_maps, follow_pods
from yarl import URL

VERSIONS = frozenset({"v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"})
UNCHANGEABLE = frozenset({"GET nodes", "GET jobs", "GET partitions", "GET reservations"})
TICK_SECONDS = 0.1


# Answering as slurmrestd

Answer = tuple[int, list[bytes]]


@functools.cache
def _meta(cluster_name: str) -> bytes:
    meta: Json = recorded("ping")["meta"]
    return msgspec.json.encode(meta | {"slurm": meta["slurm"] | {"cluster": cluster_name}})


def enveloped(slurm: Slurm, content: bytes = b"", errors: bytes = b"[]") -> list[bytes]:
    """A body in pieces; `content` are further members, each with its comma."""
    return [b"{", content, b'"meta": ', _meta(slurm.cluster_name), b', "errors": ', errors, b', "warnings": []}']


def listed(slurm: Slurm, what: str, items: bytes, last_update: float) -> list[bytes]:
    """The body of a list, in pieces: the items are not copied."""
    update = msgspec.json.encode(number(last_update))
    first, *rest = enveloped(slurm)
    return [first, b'\n  "%s": [\n    ' % what.encode(), items, b'\n  ],\n  "last_update": ', update, b",\n  ", *rest]


@dataclass(slots=True)
class RestApi:
    """The HTTP side of all clusters."""

    world: World
    ports: Callable[[int], Awaitable[None]]
    record_seconds: float = 0.0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request; its port says which cluster is meant."""
        port, path, query = _target(request)
        if path.startswith("/control/"):
            return await self._control(request, path.removeprefix("/control/"), query)
        slurm = self.world.slurms.get(self.world.ports.get(port, ""))
        _, service, version, *rest = [unquote(part) for part in path.split("/")] + [""] * 3
        if slurm is None or service != "slurm" or version not in VERSIONS:
            self.world.requests[f"{request.method} unknown"] += 1
            return web.Response(status=404, text="Unable to find requested URL endpoint.")
        if self.record_seconds and path.endswith("/nodes") and request.method == "GET":
            # As long as slurmrestd takes to gather and print so many records; nothing is burnt meanwhile.
            since = query.get("update_time")
            unchanged = since is not None and slurm.is_unchanged("nodes", int(since))
            await asyncio.sleep(0 if unchanged else self.record_seconds * len(slurm.nodes))
        status, pieces = self._answer(
            slurm, request.method, [part for part in rest if part], query, await request.read()
        )
        return await self._send(request, status, pieces)

    async def _send(self, request: web.BaseRequest, status: int, pieces: list[bytes]) -> web.StreamResponse:
        size = sum(map(len, pieces))
        self.world.sent_bytes += size
        if size < 65536:
            return web.Response(status=status, body=b"".join(pieces), content_type="application/json" if size else None)
        response = web.StreamResponse(status=status, headers={"Content-Type": "application/json"})
        response.content_length = size
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    def _answer(self, slurm: Slurm, method: str, parts: list[str], query: Mapping[str, str], body: bytes) -> Answer:
        what = "/".join(parts[:2]) if parts[:2] == ["jobs", "state"] else parts[0] if parts else ""
        kind = f"{method} {what}"
        name = parts[-1] if len(parts) > 1 else ""
        since = query.get("update_time")
        if kind in UNCHANGEABLE and since is not None and slurm.is_unchanged(what, int(since)):
            self.world.requests[f"{kind} unchanged"] += 1
            return (200, listed(slurm, "jobs", b"", 0)) if what == "jobs" else (304, [])
        self.world.requests[kind] += 1
        try:
            return self._called(slurm, kind, name, body)
        except Refused as problem:
            error = {"description": "Failure", "error_number": problem.number, "error": str(problem), "source": ""}
            return 422, enveloped(slurm, errors=msgspec.json.encode([error]))

    def _called(self, slurm: Slurm, kind: str, name: str, body: bytes) -> Answer:
        match kind:
            case "GET nodes" | "GET jobs" | "GET partitions" | "GET reservations":
                what = kind.split()[1]
                return 200, listed(slurm, what, slurm.items(what), time.time())
            case "GET node":
                return self._node(slurm, name)
            case "GET job":
                return self._job(slurm, int(name))
            case "GET jobs/state":
                # As wide as slurmrestd prints it; this list has no last_update.
                states = ({"job_id": str(job["job_id"]), "state": job["job_state"]} for job in slurm.jobs)
                found = b",\n    ".join(msgspec.json.format(msgspec.json.encode(each), indent=4) for each in states)
                return 200, enveloped(slurm, b'"jobs": [\n    %s\n  ],\n  ' % found)
            case "GET ping" | "GET diag":
                key = "pings" if kind == "GET ping" else "statistics"
                content = msgspec.json.encode(recorded(kind.split()[1])[key])
                return 200, enveloped(slurm, b'"%s": %s, ' % (key.encode(), content))
            case _:
                return self._written(slurm, kind, name, body)

    def _node(self, slurm: Slurm, name: str) -> Answer:
        node = slurm.nodes.get(name)
        if node is None:
            return 200, enveloped(slurm, errors=msgspec.json.encode(recorded("node_absent")["errors"]))
        return 200, listed(slurm, "nodes", slurm.node_text(node), time.time())

    def _job(self, slurm: Slurm, job_id: int) -> Answer:
        found = [job for job in slurm.jobs if job["job_id"] == job_id]
        if not found:
            errors = msgspec.json.encode(recorded("job_absent")["errors"])
            return 404, enveloped(slurm, b'"jobs": [], ', errors)
        return 200, listed(slurm, "jobs", msgspec.json.encode(found[0]), time.time())

    def _written(self, slurm: Slurm, kind: str, name: str, body: bytes) -> Answer:
        match kind:
            case "POST nodes":
                self.world.changed_records += slurm.update_nodes(msgspec.json.decode(body))
            case "POST node":
                change: Json = msgspec.json.decode(body)
                self.world.changed_records += slurm.update_nodes(change | {"name": [name]})
            case "DELETE node":
                self.world.changed_records += slurm.delete_nodes(name)
            case "POST partitions":
                slurm.set_partitions(msgspec.json.decode(body))
                self.world.announce()
            case "DELETE partition":
                slurm.delete_partition(name)
            case "POST reservation":
                slurm.set_reservation(msgspec.json.decode(body))
            case "DELETE reservation":
                slurm.delete_reservation(name)
            case "GET reconfigure":
                pass
            case _:
                return 404, []
        return 200, enveloped(slurm)

    # What the benchmark asks

    async def _control(self, request: web.BaseRequest, what: str, query: Mapping[str, str]) -> web.Response:
        match what:
            case "clusters":
                for each in msgspec.json.decode(await request.read()):
                    self.world.add(each["namespace"], each["cluster_name"], each["port"])
                    await self.ports(each["port"])
                return web.json_response({})
            case "counters":
                return web.json_response(self.world.counters())
            case "summary":
                return web.json_response(self.world.summary(query["namespace"], float(query.get("since", "0"))))
            case "totals":
                return web.json_response(self.world.totals())
            case "partition":
                minutes, since = int(query["minutes"]), float(query["since"])
                return web.json_response(await self._in_effect(query["namespace"], query["name"], minutes, since))
            case _:
                return web.Response(status=404)

    async def _in_effect(self, namespace: str, name: str, minutes: int, since: float) -> Json:
        """When a partition got that time limit; waits for it."""
        slurm = self.world.slurms[namespace]
        while True:
            for at, changed, limit in reversed(slurm.partition_changes):
                if at >= since and changed == name and limit == minutes:
                    return {"at": at}
            await self.world.repartitioned.wait()


def _target(request: web.BaseRequest) -> tuple[int, str, Mapping[str, str]]:
    """Port, path and query that a request is meant for, also if it is sent to a proxy."""
    if request.raw_path.startswith("http://"):
        url = URL(request.raw_path)
        return url.port or 80, url.raw_path, url.query
    transport = request.transport
    port = transport.get_extra_info("sockname")[1] if transport is not None else 0
    return port, request.rel_url.raw_path, request.rel_url.query


# Answering as kubelet


async def log_of(world: World, request: web.BaseRequest) -> web.StreamResponse:
    """`/containerLogs/NAMESPACE/POD/CONTAINER`: what the sidecar of that cluster has printed so far, or prints."""
    _, kind, namespace, *_ = request.path.split("/") + [""] * 3
    if kind != "containerLogs":
        return web.Response(status=404)
    world.logs_read += 1
    sidecar = world.sidecar(namespace)
    sent = max(0, len(sidecar.lines) - int(request.query.get("tailLines", "1000")))
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    while True:
        changed = sidecar.changed
        for line in sidecar.lines[sent:]:
            await response.write(f"{line}\n".encode())
        sent = len(sidecar.lines)
        if request.query.get("follow") != "true":
            return response
        await changed.wait()


# The process


async def serve(handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], tls: ssl.SSLContext | None) -> Any:
    """A server without routes on a free loopback port; gives the runner and that port."""
    runner = web.ServerRunner(web.Server(handler, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    return runner, runner.addresses[0][1]


async def heartbeats(world: World, seconds: float) -> None:
    """Every slurmd tells its load at once, so often."""
    while seconds:
        await asyncio.sleep(seconds)
        for slurm in world.slurms.values():
            slurm.beat()


async def ticks(world: World) -> None:
    """The time goes on."""
    while True:
        await asyncio.sleep(TICK_SECONDS)
        world.tick()


async def run(options: argparse.Namespace, token: str) -> None:
    """Serve until ended; prints its control port and the port of its kubelet."""
    world = World(is_pretty=not options.slim, job_count=options.jobs)
    folder = Path(options.folder)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "server.crt", folder / "server.key")
    kubelet, kubelet_port = await serve(lambda request: log_of(world, request), tls)

    async def listen(port: int) -> None:
        await web.TCPSite(slurmrestd, "127.0.0.1", port).start()

    slurmrestd, control_port = await serve(RestApi(world, listen, options.record_ms / 1000).handle, None)
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=options.ca), limit=0)
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "bench-stand-in"}
    try:
        async with (
            aiohttp.ClientSession(options.url, headers=headers, connector=connector) as http,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(follow_pods(http, world))
            group.create_task(follow_config_maps(http, world))
            group.create_task(ticks(world))
            group.create_task(heartbeats(world, options.heartbeat))
            print(control_port, kubelet_port, flush=True)
    finally:
        await slurmrestd.cleanup()
        await kubelet.cleanup()


def main() -> None:
    """Read the token and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("ca")
    parser.add_argument("folder")
    parser.add_argument("--heartbeat", type=float, default=100.0)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--slim", action="store_true")
    parser.add_argument("--record-ms", type=float, default=0.0)
    options = parser.parse_args()
    token = sys.stdin.readline().strip()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(options, token))


if __name__ == "__main__":
    main()
