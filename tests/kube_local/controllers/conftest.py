"""A control plane in one process: the embedded API server, the controllers, and kubelets that only pretend."""

from __future__ import annotations

import asyncio
import builtins
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kube_runtime.client.in_process import InProcess
from tests.local.virtual_time import VirtualLoop

from kube_local.apiserver import ApiServer
from kube_local.controllers import objects
from kube_local.controllers.run import ControlPlane, assemble
from kube_local.controllers.settings import Settings
from kube_runtime.client.client import Client
from kube_runtime.client.errors import Conflict, NotFound
from kube_runtime.client.objects import LEASES, NAMESPACES, PODS, RawObject, Resource
from kube_runtime.clock import SystemClock

Json = dict[str, Any]
NAMESPACE = "test"
PATIENCE = 20.0
KINDS = {one.kind: one for one in (*objects.WRITTEN, objects.REVISIONS)}


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_body(name: str, **changes: Any) -> Json:
    """A Ready node with room for a hundred pods."""
    room = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": stamp(), "lastTransitionTime": stamp()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **changes.pop("labels", {})}},
        "spec": changes.pop("spec", {}),
        "status": {"allocatable": {**room, **changes.pop("room", {})}, "capacity": room, "conditions": [ready]},
    }


@dataclass
class Kubelets:
    """Marks bound pods Running and Ready, finishes deletions; pods in `broken` never become ready."""

    client: Client
    broken: Callable[[Json], bool] = lambda _: False
    addresses: Any = field(default_factory=lambda: (f"10.240.{n >> 8}.{n & 255}" for n in itertools.count(2)))
    started: set[str] = field(default_factory=set)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(16))

    async def run(self) -> None:
        resource = PODS.raw()
        listing = await self.client.list(resource)
        async with asyncio.TaskGroup() as work:
            for pod in listing.items:
                work.create_task(self.look(pod.content()))
            version = listing.resource_version
            async for event in self.client.watch(resource, resource_version=version, seconds=3600):
                item = getattr(event, "object", None)
                if type(event).__name__ == "Changed" and item is not None:
                    work.create_task(self.look(item.content()))

    async def look(self, pod: Json) -> None:
        async with self.slots:
            await self.act(pod)

    async def act(self, pod: Json) -> None:
        with suppress(NotFound, Conflict):
            if not pod["spec"].get("nodeName"):
                return
            if pod["metadata"].get("deletionTimestamp"):
                head = pod["metadata"]
                await self.client.delete(PODS, head["name"], head["namespace"], uid=head["uid"], grace_seconds=0)
            elif pod["metadata"]["uid"] not in self.started:
                self.started.add(pod["metadata"]["uid"])
                await self.start(pod)

    async def start(self, pod: Json) -> None:
        address, ready = next(self.addresses), "False" if self.broken(pod) else "True"
        kinds = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
        conditions = [{"type": kind, "status": is_, "lastTransitionTime": stamp()} for kind, is_ in kinds.items()]
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}
        head = pod["metadata"]
        await self.client.merge_patch(PODS, head["name"], {"status": status}, head["namespace"], subresource="status")


@dataclass
class Cluster:
    """What a test uses: apply, read, change, and wait for the world to come round."""

    client: Client
    server: ApiServer
    plane: ControlPlane
    kubelets: Kubelets
    volumes: Path

    async def apply(self, text: str) -> None:
        """Create every object of some YAML."""
        for body in yaml.safe_load_all(text):
            await self.create(body)

    async def create(self, body: Json) -> Json:
        resource = KINDS[body["kind"]].raw()
        namespace = body["metadata"].setdefault("namespace", NAMESPACE) if resource.namespaced else ""
        return (await self.client.create(resource, body, namespace)).content()

    async def add_nodes(self, *names: str, **changes: Any) -> None:
        for name in names:
            await self.create(node_body(name, **dict(changes)))

    async def get(self, kind: str, name: str) -> Json | None:
        resource = KINDS[kind].raw()
        try:
            return (await self.client.get(resource, name, NAMESPACE if resource.namespaced else "")).content()
        except NotFound:
            return None

    async def there(self, kind: str, name: str) -> Json:
        found = await self.get(kind, name)
        assert found is not None, f"no {kind} {name}"
        return found

    async def list(self, kind: str, labels: str = "") -> list[Json]:
        resource: Resource[RawObject] = KINDS[kind].raw()
        listing = await self.client.list(resource, NAMESPACE if resource.namespaced else "", label_selector=labels)
        return sorted((one.content() for one in listing.items), key=lambda one: str(one["metadata"]["name"]))

    async def names(self, kind: str, labels: str = "") -> builtins.list[str]:
        return [one["metadata"]["name"] for one in await self.list(kind, labels)]

    async def patch(self, kind: str, name: str, patch: Json, subresource: str = "") -> Json:
        resource = KINDS[kind].raw()
        namespace = NAMESPACE if resource.namespaced else ""
        return (await self.client.merge_patch(resource, name, patch, namespace, subresource=subresource)).content()

    async def delete(self, kind: str, name: str, **options: Any) -> None:
        resource = KINDS[kind]
        await self.client.delete(resource, name, NAMESPACE if resource.namespaced else "", **options)

    async def until(self, what: Callable[[], Awaitable[Any]], patience: float = PATIENCE) -> Any:
        """Ask after every change of the world until the answer is true; the answer."""
        async with asyncio.timeout(patience):
            while True:
                version = self.server.store.revision
                found = await what()
                if found:
                    return found
                while self.server.store.revision == version:  # noqa: ASYNC110  # the store has no event to wait for
                    await asyncio.sleep(0.005)

    async def status(self, kind: str, name: str, **wanted: Any) -> Json:
        """Wait until a status says this."""

        async def says() -> Json | None:
            found = await self.get(kind, name)
            said = (found or {}).get("status") or {}
            return said if all(said.get(key) == value for key, value in wanted.items()) else None

        try:
            found: Json = await self.until(says)
        except TimeoutError:
            last = (await self.get(kind, name) or {}).get("status")
            pytest.fail(f"{kind} {name} never said {wanted}, but {last}")
        return found

    async def quiet(self) -> None:
        """Wait until no controller has anything to do."""
        async with asyncio.timeout(PATIENCE):
            calm = 0
            while calm < 5:
                await asyncio.sleep(0.01)
                controllers = self.plane.controllers.values()
                busy = any(one.queue.waiting or one.running for one in controllers) or self.plane.world.news.qsize()
                calm = 0 if busy else calm + 1


class LoopClock(SystemClock):
    """The time of the event loop, which may be virtual."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


@asynccontextmanager
async def running(server: ApiServer, folder: Path, **settings: Any) -> AsyncIterator[Cluster]:
    """Controllers and kubelets on a server, until the block ends."""
    client, clock = Client(InProcess(server)), LoopClock()
    plane = assemble(client, Settings(volumes=folder, **settings), clock)
    kubelets, stop = Kubelets(client), asyncio.Event()
    tasks = [asyncio.create_task(plane.run(stop, clock)), asyncio.create_task(kubelets.run())]
    try:
        yield Cluster(client, server, plane, kubelets, folder)
    finally:
        stop.set()
        await tasks[0]
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with fresh_server() as made:
        yield made


@asynccontextmanager
async def fresh_server() -> AsyncIterator[ApiServer]:
    """An API server in memory that collects garbage and has a namespace."""
    server = ApiServer()
    collector = server.run_garbage_collector()
    await Client(InProcess(server)).create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    yield server
    collector.cancel()
    await asyncio.gather(collector, return_exceptions=True)
    server.store.close()


@pytest.fixture
async def cluster(server: ApiServer, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Two nodes and everything that a control plane does."""
    async with running(server, tmp_path / "volumes") as made:
        await made.add_nodes("node-0", "node-1")
        yield made


@pytest.fixture
def running_on() -> Any:
    """For tests that start controllers themselves, or twice."""
    return running


@pytest.fixture
def in_virtual_time(tmp_path: Path) -> Callable[[Callable[[Cluster], Awaitable[None]]], None]:
    """Runs a test with a cluster of two nodes to its end, in virtual time."""

    async def with_cluster(test: Callable[[Cluster], Awaitable[None]]) -> None:
        async with fresh_server() as server, running(server, tmp_path) as made:
            await made.add_nodes("node-0", "node-1")
            await test(made)

    def run(test: Callable[[Cluster], Awaitable[None]]) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(with_cluster(test))

    return run


@pytest.fixture
def heartbeat() -> Callable[[Cluster, str], Awaitable[None]]:
    """Renews the Lease of a node."""

    async def beat(cluster: Cluster, name: str) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40}
        spec["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
        try:
            await cluster.client.create(LEASES, body, "kube-node-lease")
        except Conflict:
            await cluster.client.merge_patch(LEASES, name, {"spec": spec}, "kube-node-lease")

    return beat


@pytest.fixture
def kubelets_for() -> Callable[[Client], Awaitable[None]]:
    """Two nodes and their pretended kubelets on any API server, until cancelled."""

    async def run(client: Client) -> None:
        for name in ("node-0", "node-1"):
            body = node_body(name)
            await client.create(objects.NODES.raw(), body)
            await client.merge_patch(objects.NODES.raw(), name, {"status": body["status"]}, subresource="status")
        await Kubelets(client).run()

    return run


@pytest.fixture
def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])
