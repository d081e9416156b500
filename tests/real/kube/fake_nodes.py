"""Nodes without kubelets, enough for pods to run on a real control plane in name only.

In: a cluster and how many nodes. Out: Node objects that stay Ready, bound pods that turn Running and
Ready with an address, deletions that finish. Callers: scale tests, client tests and benchmarks that want
pods but no containers. Same idea as KWOK.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec
from tests.real.kube.cluster import Cluster

Json = dict[str, Any]
STATUS_PATCH = {"Content-Type": "application/strategic-merge-patch+json"}
WATCH_SECONDS = 300
IN_FLIGHT = 32


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_object(name: str, cpus: int, memory: str, pods: int) -> Json:
    """A Ready node; without the taints that a missing heartbeat would bring."""
    room = {"cpu": str(cpus), "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi"}
    ready = {"type": "Ready", "status": "True", "reason": "FakeKubelet", "message": "there is no kubelet"}
    stamp = {"lastHeartbeatTime": now(), "lastTransitionTime": now()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [ready | stamp],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "operatingSystem": "linux", "architecture": "amd64"},
        },
    }


def container_status(container: Json, *, init: bool) -> Json:
    """What a kubelet says of a container that runs, or of an init container that is done."""
    sidecar = container.get("restartPolicy") == "Always"
    done = init and not sidecar
    state: Json = {"running": {"startedAt": now()}}
    if done:
        state = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now()}}
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": container["image"],
        "ready": True,
        "started": not done,
        "restartCount": 0,
        "state": state,
    }


def running_status(pod: Json, address: str) -> Json:
    """The status of a pod whose containers all run and are ready."""
    spec = pod["spec"]
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": "10.255.255.254",
        "startTime": now(),
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now()} for kind in kinds],
        "containerStatuses": [container_status(each, init=False) for each in spec["containers"]],
        "initContainerStatuses": [container_status(each, init=True) for each in spec.get("initContainers", ())],
    }


def pod_addresses() -> Iterator[str]:
    """Addresses of 10.0.0.0/8 that no service range here uses."""
    for number in itertools.count(1):
        yield f"10.{128 + (number >> 16) % 64}.{(number >> 8) & 255}.{number & 255}"


@dataclass(slots=True)
class FakeNodes:
    """The pretended kubelets of all fake nodes: one watch, one bounded pool of writes."""

    http: aiohttp.ClientSession
    names: frozenset[str]
    addresses: Iterator[str] = field(default_factory=pod_addresses)
    started: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(IN_FLIGHT))

    async def run(self) -> None:
        """List, then watch, for ever; a lost watch starts over with a list."""
        async with asyncio.TaskGroup() as work:
            while True:
                version = await self.list_pods(work)
                with contextlib.suppress(aiohttp.ClientError):
                    await self.watch_pods(version, work)

    async def list_pods(self, work: asyncio.TaskGroup) -> str:
        """Look at every pod once; gives the version to watch from."""
        async with self.http.get("/api/v1/pods") as answer:
            listing = msgspec.json.decode(await answer.read())
        for pod in listing["items"]:
            self.look_at(pod, work)
        return str(listing["metadata"]["resourceVersion"])

    async def watch_pods(self, version: str, work: asyncio.TaskGroup) -> None:
        """Handle events until the server ends the stream or reports an error in it."""
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
        limits = aiohttp.ClientTimeout(total=None)
        async with self.http.get("/api/v1/pods", params=query, timeout=limits) as stream:
            async for line in lines_of(stream.content):
                event = msgspec.json.decode(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] != "DELETED":
                    self.look_at(event["object"], work)

    def look_at(self, pod: Json, work: asyncio.TaskGroup) -> None:
        """Start or finish a pod that is bound to one of our nodes."""
        if pod["spec"].get("nodeName") not in self.names:
            return
        uid = pod["metadata"]["uid"]
        if pod["metadata"].get("deletionTimestamp"):
            work.create_task(self.finish(pod))
        elif uid not in self.started and pod["status"].get("phase") == "Pending":
            self.started.add(uid)
            work.create_task(self.start(pod))

    async def start(self, pod: Json) -> None:
        """Write the status that a kubelet would write once all containers run."""
        body = msgspec.json.encode({"status": running_status(pod, next(self.addresses))})
        await self.write("PATCH", f"{path_of(pod)}/status", body, STATUS_PATCH)

    async def finish(self, pod: Json) -> None:
        """Confirm a deletion, of this very pod only."""
        self.started.discard(pod["metadata"]["uid"])
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        headers = {"Content-Type": "application/json"}
        await self.write("DELETE", path_of(pod), msgspec.json.encode(options), headers)

    async def register(self, node: Json) -> None:
        """Create a node, then its status, as a kubelet does."""
        headers = {"Content-Type": "application/json"}
        await self.write("POST", "/api/v1/nodes", msgspec.json.encode(node), headers)
        patch = msgspec.json.encode({"status": node["status"]})
        await self.write("PATCH", f"/api/v1/nodes/{node['metadata']['name']}/status", patch, STATUS_PATCH)

    async def write(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        """One write; a pod that is gone or replaced is no failure."""
        async with self.slots, self.http.request(method, path, data=body, headers=headers) as answer:
            if answer.status >= 400 and answer.status not in {404, 409}:
                self.failures.append(f"{method} {path}: {answer.status} {await answer.text()}")


def path_of(pod: Json) -> str:
    """The URL path of a pod."""
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


async def lines_of(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines of a stream, however long (readline of aiohttp is bounded)."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line


@contextlib.asynccontextmanager
async def fake_nodes(
    cluster: Cluster, count: int, *, cpus: int = 64, memory: str = "256Gi", pods: int = 250
) -> AsyncIterator[FakeNodes]:
    """Nodes `fake-0 …` that run every pod bound to them, for as long as the block lasts."""
    async with cluster.session() as http:
        nodes = [node_object(f"fake-{number}", cpus, memory, pods) for number in range(count)]
        kubelets = FakeNodes(http, frozenset(node["metadata"]["name"] for node in nodes))
        await asyncio.gather(*(kubelets.register(node) for node in nodes))
        task = asyncio.create_task(kubelets.run())
        try:
            yield kubelets
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
