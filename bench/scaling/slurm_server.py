"""The stand-in of slurmrestd: one process that serves the Slurm of every cluster of the benchmark, and counts.

    python -m bench.scaling.slurm_server URL CA FOLDER [--heartbeat SECONDS] [--jobs N] [--slim]

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
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import aiohttp
import msgspec
from aiohttp import web
from bench.scaling.slurm_records import Json, Refused, Slurm, number, recorded
from tests.real.kube.fake_nodes import lines_of
from yarl import URL

from slurm_operator.build import labels, verdicts
from slurm_operator.build.controller import NOTE
from slurm_operator.plan.config import content_hash

T = TypeVar("T")

VERSIONS = frozenset({"v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"})
UNCHANGEABLE = frozenset({"GET nodes", "GET jobs", "GET partitions", "GET reservations"})
TICK_SECONDS = 0.1
# From a Ready pod to its node's record, and from a pod that is gone to a node that does not respond.
REGISTER_SECONDS = 0.2
SILENCE_SECONDS = 0.2
WATCH_SECONDS = 3600
CONFIG_MAPS = ("slurm-config-candidate", "slurm-config")


# What is read of Kubernetes' objects


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}


class Container(msgspec.Struct, frozen=True):
    name: str = ""
    args: list[str] = []


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    hostname: str = ""
    containers: list[Container] = []


class Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class Status(msgspec.Struct, frozen=True, rename="camel"):
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: list[Condition] = []


class Pod(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: Spec = Spec()
    status: Status = Status()

    @property
    def is_ready(self) -> bool:
        """Whether its slurmd runs."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)

    @property
    def conf(self) -> str:
        """All that its containers are started with; the options of the node are in it."""
        return " ".join(text for container in self.spec.containers for text in container.args).replace("'", "")


class ConfigMap(msgspec.Struct, frozen=True):
    metadata: Metadata
    data: dict[str, str] | None = None


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class PodList(msgspec.Struct, frozen=True):
    metadata: ListMetadata
    items: list[Pod]


class ConfigMapList(msgspec.Struct, frozen=True):
    metadata: ListMetadata
    items: list[ConfigMap]


class PodEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


# What is known


@dataclass(slots=True)
class SeenPod:
    """A worker pod: when it was first seen, when it was Ready, when it was gone (0: not yet)."""

    namespace: str
    hostname: str
    seen_at: float
    ready_at: float = 0.0
    gone_at: float = 0.0
    # Whether its node was drained when it was gone.
    was_drained: bool = False


@dataclass(slots=True)
class Sidecar:
    """The sidecar of a cluster's slurmctld: takes every configuration that it is given."""

    files: dict[str, dict[str, str]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    hash: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, name: str, files: dict[str, str]) -> str | None:
        """A ConfigMap as it is now; gives slurm.conf when there is a new one to read."""
        self.files[name] = {key: text for key, text in files.items() if key != NOTE}
        chosen = next((self.files[each] for each in CONFIG_MAPS if self.files.get(each)), {})
        hash_ = content_hash(chosen) if chosen else ""
        if not chosen or hash_ == self.hash:
            return None
        self.hash = hash_
        values = {"hash": hash_, "stage": verdicts.APPLIED, "ms": "1", "at": str(int(time.time())), "reason": ""}
        self.lines.append(verdicts.FORMAT % tuple(values.get(each.name, "0") for each in verdicts.FIELDS))
        self.changed.set()
        self.changed = asyncio.Event()
        return chosen.get("slurm.conf", "")


@dataclass(slots=True)
class World:
    """Everything that the stand-in knows, by namespace: one cluster in each."""

    is_pretty: bool
    job_count: int
    slurms: dict[str, Slurm] = field(default_factory=dict)
    sidecars: dict[str, Sidecar] = field(default_factory=dict)
    ports: dict[int, str] = field(default_factory=dict)
    pods: dict[str, SeenPod] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    # Node records that writes have changed or deleted: one write may be for many.
    changed_records: int = 0
    logs_read: int = 0
    repartitioned: asyncio.Event = field(default_factory=asyncio.Event)
    # By namespace and host name: the pods whose slurmd runs.
    _alive: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    _due: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def add(self, namespace: str, cluster_name: str, port: int) -> None:
        """A cluster whose slurmrestd is asked on that port."""
        slurm = self.slurms[namespace] = Slurm(cluster_name, time.time, is_pretty=self.is_pretty)
        slurm.submit(self.job_count)
        self.ports[port] = namespace
        for text in [self.sidecar(namespace).files.get(name, {}).get("slurm.conf") for name in CONFIG_MAPS]:
            if text:
                slurm.read_conf(text)
                break

    def sidecar(self, namespace: str) -> Sidecar:
        """The sidecar of a namespace's slurmctld."""
        return self.sidecars.setdefault(namespace, Sidecar())

    def see_pod(self, kind: str, pod: Pod) -> None:
        """A worker pod as it is now."""
        uid, namespace = pod.metadata.uid, pod.metadata.namespace
        seen = self.pods.get(uid)
        if seen is None:
            hostname = pod.spec.hostname or pod.metadata.name
            seen = self.pods[uid] = SeenPod(namespace, hostname, time.time())
        slurm = self.slurms.get(namespace)
        alive = self._alive.setdefault((namespace, seen.hostname), set())
        if kind == "DELETED":
            seen.gone_at = time.time()
            alive.discard(uid)
            if slurm is not None:
                record = slurm.nodes.get(seen.hostname)
                seen.was_drained = record is not None and record.is_drained
                self.later(SILENCE_SECONDS, lambda: None if alive else slurm.lose(seen.hostname))
        elif pod.is_ready and not seen.ready_at:
            seen.ready_at = time.time()
            alive.add(uid)
            if slurm is not None:
                address, conf = pod.status.pod_ip, pod.conf
                self.later(REGISTER_SECONDS, lambda: self._register(slurm, seen, address, conf))

    def _register(self, slurm: Slurm, seen: SeenPod, address: str, conf: str) -> None:
        if not seen.gone_at:
            slurm.register(seen.hostname, address, conf)

    def see_config_map(self, found: ConfigMap) -> None:
        """A configuration as it is now."""
        namespace = found.metadata.namespace
        text = self.sidecar(namespace).take(found.metadata.name, found.data or {})
        if text and namespace in self.slurms:
            self.slurms[namespace].read_conf(text)
            self.announce()

    def announce(self) -> None:
        """Whoever waits for a partition looks again."""
        self.repartitioned.set()
        self.repartitioned = asyncio.Event()

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something at the first tick after that time."""
        self._due.append((time.time() + seconds, what))

    def tick(self) -> None:
        """What has come due."""
        now = time.time()
        due = [what for at, what in self._due if at <= now]
        if due:
            self._due = [each for each in self._due if each[0] > now]
        for what in due:
            what()
        for slurm in self.slurms.values():
            slurm.tick()

    def counters(self) -> Json:
        """The requests so far, by method and kind of path."""
        writes = sum(count for name, count in self.requests.items() if not name.startswith("GET"))
        writes += self.requests["GET reconfigure"]
        return {
            "requests": dict(sorted(self.requests.items())),
            "total": sum(self.requests.values()),
            "writes": writes,
            "changed_records": self.changed_records,
            "sent_bytes": self.sent_bytes,
            "logs_read": self.logs_read,
        }

    def summary(self, namespace: str, since: float) -> Json:
        """A cluster in numbers; pods that came after `since` are counted beside all that are there."""
        pods = [each for each in self.pods.values() if each.namespace == namespace]
        there = [each for each in pods if not each.gone_at]
        gone = [each for each in pods if each.gone_at >= since and each.gone_at]
        new = [each for each in there if each.seen_at >= since]
        slurm = self.slurms.get(namespace)
        return {
            "pods": len(there),
            "ready": sum(bool(each.ready_at) for each in there),
            "new": len(new),
            "new_ready": sum(bool(each.ready_at) for each in new),
            "last_ready_at": max((each.ready_at for each in new), default=0.0),
            "last_seen_at": max((each.seen_at for each in new), default=0.0),
            "gone": len(gone),
            "gone_undrained": sum(not each.was_drained for each in gone),
            "last_gone_at": max((each.gone_at for each in gone), default=0.0),
            **(slurm.summary() if slurm is not None else {}),
        }


# Following Kubernetes


async def follow(
    http: aiohttp.ClientSession,
    path: str,
    selector: dict[str, str],
    many: type[T],
    see: Callable[[str, msgspec.Raw], None],
    listed: Callable[[T], str],
) -> None:
    """List, then watch, for ever; a lost watch starts over with a list."""
    while True:
        async with http.get(path, params=selector) as answer:
            version = listed(msgspec.json.decode(await answer.read(), type=many))
        query = {**selector, "watch": "1", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
        limits = aiohttp.ClientTimeout(total=None)
        with contextlib.suppress(aiohttp.ClientError):
            async with http.get(path, params=query, timeout=limits) as stream:
                async for line in lines_of(stream.content):
                    event = msgspec.json.decode(line, type=PodEvent)
                    if event.type == "ERROR":
                        break
                    see(event.type, event.object)


async def follow_pods(http: aiohttp.ClientSession, world: World) -> None:
    """Worker pods of all namespaces."""

    def listed(found: PodList) -> str:
        there = {pod.metadata.uid for pod in found.items}
        for uid, seen in world.pods.items():
            # Gone while nobody watched.
            seen.gone_at = seen.gone_at or (0.0 if uid in there else time.time())
        for pod in found.items:
            world.see_pod("ADDED", pod)
        return found.metadata.resource_version

    def see(kind: str, raw: msgspec.Raw) -> None:
        world.see_pod(kind, msgspec.json.decode(raw, type=Pod))

    selector = {"labelSelector": f"{labels.NAME}={labels.WORKER.daemon}"}
    await follow(http, "/api/v1/pods", selector, PodList, see, listed)


async def follow_config_maps(http: aiohttp.ClientSession, world: World) -> None:
    """The configurations of all Controllers."""

    def listed(found: ConfigMapList) -> str:
        for each in found.items:
            if each.metadata.name in CONFIG_MAPS:
                world.see_config_map(each)
        return found.metadata.resource_version

    def see(kind: str, raw: msgspec.Raw) -> None:
        found = msgspec.json.decode(raw, type=ConfigMap)
        if found.metadata.name in CONFIG_MAPS and kind != "DELETED":
            world.see_config_map(found)

    await follow(http, "/api/v1/configmaps", {}, ConfigMapList, see, listed)


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
                found = b",".join(
                    msgspec.json.encode({"job_id": str(job["job_id"]), "state": job["job_state"]}) for job in slurm.jobs
                )
                return 200, listed(slurm, "jobs", found, time.time())
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

    slurmrestd, control_port = await serve(RestApi(world, listen).handle, None)
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
    options = parser.parse_args()
    token = sys.stdin.readline().strip()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(options, token))


if __name__ == "__main__":
    main()
