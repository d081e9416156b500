"""Many small Slurm clusters under one operator, in real time: API server, toy kubelet, one slurmrestd for each.

In: how many clusters. Out: a `World` on loopback that a real operator process can run against: a kubeconfig, and a
RestApi port for each cluster. The last cluster's RestApi points at another process (`hostile_slurmrestd.py`), which
may pass on what the honest one says. Used by `neighbours.py`.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from tests.campaigns.rig import GROUP, definitions
from tests.campaigns.sidecar import Sidecar
from tests.campaigns.slurm_model import SlurmModel, is_write, recorded

from kube_local.apiserver import ApiServer
from kube_local.apiserver.store import Change
from kube_runtime.clock import SystemClock
from kube_runtime.loop import closing
from slurm_operator.build import labels, nodeset
from slurm_operator.plan.token import read
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

Json = dict[str, Any]

REF = {"controllerRef": {"name": "slurm"}}
KEYS = {"slurmKeyRef": {"name": "slurm-key", "key": "slurm.key"}, "jwtKeyRef": {"name": "jwt-key", "key": "jwt.key"}}
# Busy all the time, and the one that is scaled and rolled.
BUSY, MOVING = "compute", "batch"
BUSY_WORKERS, MOVING_WORKERS = 3, 1
WORKERS = {BUSY: BUSY_WORKERS, MOVING: MOVING_WORKERS}
PARTITION = "shared"
START_SECONDS = 0.2
STOP_SECONDS = 0.1
WORKLOAD_SECONDS = 0.2
NODES = 8
WORKLOADS = {"statefulsets.apps": "statefulsets", "deployments.apps": "deployments"}
# Changes of these say nothing about the state that is waited for.
NOISE = frozenset({"events", "events.events.k8s.io", "leases.coordination.k8s.io"})
# The NodeSet's definition under another group: costs the API server the same, and the operator does not watch it.
DECOY_GROUP = "example.org"


class NamedSlurm(SlurmModel):
    """A Slurm that says its cluster's name in every answer, as slurmrestd does."""

    cluster_name = ""

    def _json(self, content: dict[str, Any], status: int = 200) -> Reply:
        found = super()._json(content, status)
        body = json.loads(found.body)
        body["meta"]["slurm"]["cluster"] = self.cluster_name
        return Reply(found.status, found.content_type, json.dumps(body).encode())


@dataclass
class FakeCluster:
    """One namespace with a Slurm in it."""

    namespace: str
    slurm: NamedSlurm
    sidecar: Sidecar
    # Where its own slurmrestd listens, and where the RestApi says that it does.
    port: int = 0
    served_port: int = 0
    # When the operator last made a pod here or wrote to this Slurm, and how often this Slurm was asked.
    effects: list[float] = field(default_factory=list)
    requests: int = 0
    # Requests with a token that another cluster's key signed.
    foreign_tokens: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def effect(self) -> None:
        """The operator did something here."""
        self.effects.append(time.monotonic())

    async def serve(self, raw: web.Request) -> web.Response:
        """One request to this cluster's slurmrestd."""
        sending = Sending(
            method=raw.method,
            path=raw.rel_url.raw_path,
            label=raw.path,
            query=tuple(raw.query.items()),
            body=await raw.read() or None,
        )
        if not self.slurm.up:
            return web.Response(status=503)
        token = raw.headers.get("X-SLURM-USER-TOKEN", "")
        self.requests += 1
        self.foreign_tokens += read(token, self.slurm.key) is None
        reply = self.slurm.answer(sending, token)
        if is_write(sending):
            self.effect()
        self.changed.set()
        return web.Response(
            status=reply.status, body=reply.body, headers={"Content-Type": reply.content_type or "text/plain"}
        )

    @property
    def lost(self) -> list[int]:
        """Jobs that died with their worker, or are no longer as the script left them."""
        gone = [number for number in self.running if self.slurm.jobs.get(number) is None]
        ended = [number for number in self.running if number not in gone and not self.slurm.jobs[number].holds]
        return sorted({*self.slurm.lost, *gone, *ended})

    running: set[int] = field(default_factory=set)

    def start_jobs(self) -> None:
        """One job on each busy worker; those that ran before are over."""
        for number in sorted(self.running):
            self.slurm.end(number)
        self.running.clear()
        first = max(self.slurm.jobs, default=0) + 1
        for number, name in enumerate(sorted(each for each in self.slurm.nodes if each.startswith(BUSY)), first):
            self.slurm.occupy(number, name)
            self.running.add(number)


@dataclass
class Logs:
    """What the API server asks the node agent: the sidecars' logs, by namespace."""

    sidecars: Mapping[str, Sidecar]

    def logs(self, pod: Mapping[str, Any], options: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The log of one pod."""
        return self.sidecars[pod["metadata"]["namespace"]].logs(pod, options)

    async def connect(self, *_: Any) -> Any:
        """Nobody runs commands in these pods."""
        raise NotImplementedError


@dataclass
class World:
    """Everything but the operator."""

    clusters: dict[str, FakeCluster] = field(default_factory=dict)
    server: ApiServer = field(default_factory=ApiServer)
    problems: list[str] = field(default_factory=list)
    changed_at: float = 0.0
    _planned: set[tuple[str, str, str]] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _runners: list[web.AppRunner] = field(default_factory=list)
    _foreign: dict[tuple[str, str, str], bytes] = field(default_factory=dict)

    # Beginning and end

    async def open(self, count: int) -> None:
        """Definitions, nodes, and for each cluster its namespace, keys, slurmrestd and foreign objects."""
        await self.server.start()
        for each in (*definitions(), decoy()):
            await self.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        for number in range(NODES):
            await self.ask("POST", "/api/v1/nodes", {"metadata": {"name": f"k{number}"}})
        for number in range(count):
            await self._open_cluster(f"n{number:02}")
        self.server.plug_in(Logs({name: each.sidecar for name, each in self.clusters.items()}))
        self.server.store.listen(self._noticed)
        for cluster in self.clusters.values():
            await self._place_foreign(cluster.namespace)

    async def _open_cluster(self, namespace: str) -> None:
        slurm = NamedSlurm(SystemClock(), f"{namespace}-".encode() * 12)
        slurm.cluster_name = f"{namespace}_slurm"
        cluster = FakeCluster(namespace, slurm, Sidecar(self.server, slurm, self.ask, namespace))
        cluster.port = cluster.served_port = await self._listen(cluster)
        self.clusters[namespace] = cluster
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for name, key, data in (
            ("slurm-key", "slurm.key", b"s" * 48),
            ("jwt-key", "jwt.key", slurm.key),
        ):
            body = {"metadata": {"name": name}, "data": {key: base64.b64encode(data).decode()}}
            await self.ask("POST", f"/api/v1/namespaces/{namespace}/secrets", body)

    async def _listen(self, cluster: FakeCluster) -> int:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", cluster.serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._runners.append(runner)
        return int(runner.addresses[0][1])

    async def populate(self) -> None:
        """The custom resources of every cluster."""
        for namespace, cluster in self.clusters.items():
            await self.create(namespace, "Controller", "slurm", {**KEYS, "persistence": {"enabled": False}})
            await self.create(namespace, "RestApi", "slurm", {**REF, "service": {"port": cluster.served_port}})
            for name, replicas in WORKERS.items():
                spec = {**REF, "replicas": replicas, "oversubscribeNode": True, "partition": {"enabled": True}}
                await self.create(namespace, "NodeSet", name, spec)
            await self.create(namespace, "Partition", PARTITION, {**REF, "nodeSets": [BUSY], "maxTime": "60"})

    async def close(self) -> None:
        """The end of the world."""
        for task in [*self._tasks]:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for runner in self._runners:
            await closing.end(runner)
        await self.server.stop()

    # The users

    async def ask(self, method: str, path: str, body: Any = None, content: str = "", **query: str) -> Any:
        """A request that must succeed."""
        kinds = {"PATCH": "application/merge-patch+json"}
        headers = {"content-type": content or kinds.get(method, "application/json")}
        response = await self.server.handle(method, path, query, headers, body)
        answer = json.loads(response.body or b"null")
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {str(answer)[:500]}")
        return answer

    async def create(self, namespace: str, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        """`kubectl create`."""
        body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
        await self.ask("POST", _custom(namespace, kind), body)

    async def patch(self, namespace: str, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        """`kubectl patch --type=merge` of a spec."""
        await self.ask("PATCH", f"{_custom(namespace, kind)}/{name}", {"spec": dict(spec)})

    # What is there

    def custom(self, namespace: str, kind: str, name: str) -> Json:
        """One of our resources."""
        row = self.server.store.get(f"{kind.lower()}s.slinky.slurm.net", namespace, name)
        return row.load() if row is not None else {}

    def workers(self, namespace: str, name: str) -> list[Json]:
        """The pods of a NodeSet, also those that are going."""
        rows = self.server.store.rows("pods", namespace)
        found = (row.load() for row in rows if row.labels.get(labels.INSTANCE) == name)
        return [pod for pod in found if pod["metadata"].get("ownerReferences")]

    def touched(self) -> list[str]:
        """Foreign objects that are not, to the byte, what they were."""
        rows = {key: self.server.store.get(*key) for key in self._foreign}
        return sorted("/".join(key) for key, row in rows.items() if row is None or row.raw != self._foreign[key])

    async def _place_foreign(self, namespace: str) -> None:
        """Objects of other people, whose names and labels look like the operator's."""
        core = f"/api/v1/namespaces/{namespace}"
        for name in ("slurm-config-old", "slurm-candidate", f"{BUSY}-ssh"):
            await self.ask("POST", f"{core}/configmaps", {"metadata": {"name": name}, "data": {"slurm.conf": "mine"}})
        for name in ("slurm-keys", "slurm-restapi", "jwt-key-old"):
            await self.ask("POST", f"{core}/secrets", {"metadata": {"name": name}, "data": {"jwt.key": "bWluZQ=="}})
        near = {labels.NAME: "slurmd", labels.INSTANCE: f"{MOVING}s"}
        for name, marks in ((f"{BUSY}-99", {}), (f"{MOVING}-x", near), ("slurm-controller-9", {})):
            spec = {"subdomain": "slurm-workers", "hostname": name, "containers": [{"name": "main", "image": "mine"}]}
            await self.ask("POST", f"{core}/pods", {"metadata": {"name": name, "labels": marks}, "spec": spec})
        for resource in ("configmaps", "secrets", "pods"):
            for row in self.server.store.rows(resource, namespace):
                self._foreign[resource, namespace, row.name] = row.raw

    # The toy kubelet and controllers

    def _noticed(self, change: Change) -> None:
        row = change.row
        if row.resource in NOISE:
            return
        self.changed_at = time.monotonic()
        cluster = self.clusters.get(row.namespace)
        if cluster is None:
            return
        if row.resource == "pods" and change.type == "ADDED":
            cluster.effect()
        if change.type != "DELETED" and (row.resource == "pods" or row.resource in WORKLOADS):
            self._task(self._look(cluster, row.resource, row.name))
        elif row.resource == "configmaps":
            self._task(self._read_config(cluster))
        cluster.changed.set()

    def _task(self, work: Awaitable[None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:
                self.problems.append(f"{type(error).__name__}: {error}")

        task = asyncio.ensure_future(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self, cluster: FakeCluster, resource: str, name: str) -> None:
        row = self.server.store.get(resource, cluster.namespace, name)
        if row is None:
            return
        found = row.load()
        if resource in WORKLOADS:
            await self._workload(cluster, WORKLOADS[resource], found)
        elif found["metadata"].get("ownerReferences"):
            await self._pod(cluster, found)

    def _is_new(self, what: str, value: Json) -> bool:
        """Whether this was not begun for this version of the object's wishes."""
        meta = value["metadata"]
        key = (what, meta["uid"], str(meta.get("generation", "")) if what == "workload" else "")
        is_new = key not in self._planned
        self._planned.add(key)
        return is_new

    async def _workload(self, cluster: FakeCluster, plural: str, value: Json) -> None:
        if not self._is_new("workload", value):
            return
        await asyncio.sleep(WORKLOAD_SECONDS)
        counts = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
        status: Json = dict.fromkeys(counts, value["spec"].get("replicas", 1))
        status["observedGeneration"] = value["metadata"]["generation"]
        if value["metadata"]["name"] == "slurm-controller":
            await cluster.sidecar.pods_of(value)
        path = f"/apis/apps/v1/namespaces/{cluster.namespace}/{plural}/{value['metadata']['name']}"
        await self.ask("PATCH", f"{path}/status", {"status": status})
        await self._read_config(cluster)

    async def _read_config(self, cluster: FakeCluster) -> None:
        """slurmctld and slurmrestd run when their workloads are ready; the sidecar brings every new slurm.conf."""
        rows = [row for resource in WORKLOADS for row in self.server.store.rows(resource, cluster.namespace)]
        ready = {row.name for row in rows if (row.load().get("status") or {}).get("readyReplicas")}
        cluster.slurm.up = {"slurm-controller", "slurm-restapi"} <= ready
        if cluster.slurm.up:
            cluster.sidecar.look()

    async def _pod(self, cluster: FakeCluster, pod: Json) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            if self._is_new("stop", pod):
                await asyncio.sleep(STOP_SECONDS)
                await self._stop(cluster, pod)
        elif not pod["spec"].get("nodeName"):
            if self._is_new("bind", pod):
                await self._bind(pod)
        elif pod.get("status", {}).get("phase") == "Pending":
            if self._is_new("start", pod):
                await asyncio.sleep(START_SECONDS)
                await self._start(cluster, pod)
        elif pod["metadata"]["labels"].get(labels.NAME) == labels.CONTROLLER.daemon:
            # A nudge: its kubelet looks at the ConfigMaps again.
            await self._read_config(cluster)

    async def _bind(self, pod: Json) -> None:
        meta = pod["metadata"]
        target = {"apiVersion": "v1", "kind": "Node", "name": f"k{zlib.crc32(meta['name'].encode()) % NODES}"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
        await self.ask("POST", f"{_pod_path(pod)}/binding", body)

    async def _start(self, cluster: FakeCluster, pod: Json) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = [{"type": each, "status": "True", "lastTransitionTime": now} for each in ("Initialized", "Ready")]
        row = self.server.store.get("pods", cluster.namespace, pod["metadata"]["name"])
        held: Json = row.load() if row is not None else {"metadata": {"uid": ""}}
        if held["metadata"]["uid"] != pod["metadata"]["uid"] or held["metadata"].get("deletionTimestamp"):
            return
        names = ("Initialized", "Ready")
        others = [each for each in held["status"].get("conditions") or () if each["type"] not in names]
        status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [*others, *ready]}
        if held["metadata"]["labels"].get(labels.NAME) == labels.WORKER.daemon:
            cluster.slurm.register(held["spec"]["hostname"], _features(held))
        await self.ask("PATCH", f"{_pod_path(pod)}/status", {"status": status})

    async def _stop(self, cluster: FakeCluster, pod: Json) -> None:
        host = pod["spec"].get("hostname", "")
        is_worker = pod["metadata"]["labels"].get(labels.NAME) == labels.WORKER.daemon
        if is_worker and cluster.slurm.alive(host):
            cluster.slurm.stop_slurmd(host, nodeset.TERMINATING)
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self.ask("DELETE", _pod_path(pod), body)


async def until(holds: Callable[[], bool], changed: asyncio.Event, seconds: float) -> bool:
    """Whether something became true in time; it is looked at when something has changed."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                changed.clear()
                if holds():
                    return True
                await changed.wait()
    except TimeoutError:
        return False


def decoy() -> Json:
    """A definition that the operator does not know."""
    found = next(each for each in definitions() if each["spec"]["names"]["kind"] == "NodeSet")
    made = copy.deepcopy(found)
    made["metadata"]["name"] = f"{made['spec']['names']['plural']}.{DECOY_GROUP}"
    made["spec"]["group"] = DECOY_GROUP
    return made


def meta(release: str = "26.05") -> Json:
    """What every answer of slurmrestd says of itself."""
    return copy.deepcopy(recorded(release, "ping")["meta"])


def _custom(namespace: str, kind: str) -> str:
    return f"/apis/{GROUP}/namespaces/{namespace}/{kind.lower()}s"


def _pod_path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _features(pod: Json) -> list[str]:
    args = next(each for each in pod["spec"]["containers"] if each["name"] == "slurmd")["args"]
    words: list[str] = args[args.index("--conf") + 1].strip("'").split()
    return next(word for word in words if word.startswith("Features=")).removeprefix("Features=").split(",")
