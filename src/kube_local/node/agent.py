"""The node agent: virtual nodes in the API, and a worker for every pod that is bound to one of them.

In: a client and `NodeSettings`. Out: pods that run. `run` is the whole process; the supervisor starts it again when it
dies, and it then finds its containers by their records. Nothing is stopped when it ends: only a deleted pod is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from kube_local.node import access, host, network, nodes, records
from kube_local.node.bundle import Device, ResolvedImage
from kube_local.node.container import FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, Tools
from kube_local.node.errors import CannotRunPods, NodeError
from kube_local.node.network import Addresses
from kube_local.node.paths import Paths
from kube_local.node.pod import FIELD_MANAGER, Ground, PodWorker, take_down
from kube_local.node.records import PodRecord
from kube_local.node.runtime import Runtime
from kube_runtime.backoff import Backoff
from kube_runtime.client.cache import Cache, Pace
from kube_runtime.client.client import Client
from kube_runtime.client.errors import Conflict, KubeError, NotFound
from kube_runtime.client.events import CORE_EVENTS, Recorder
from kube_runtime.client.lease import format_time
from kube_runtime.client.objects import LEASES, NODES, PODS, RawObject
from kube_runtime.client.write import Writer
from kube_runtime.times import seconds_text

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 10.0
ROTATION_SECONDS = 2.0
STATUS_INTERVAL_SECONDS = 30  # heartbeats
_QUICK = Pace(backoff=Backoff(first=0.025, limit=2.0, jitter=1.0))


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """How one agent runs."""

    data: Path
    images: Callable[[str], ResolvedImage]
    nodes: int = 3
    backoff: tuple[float, float] = (FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)


@dataclass(slots=True)
class Events:
    """Events about pods, written one after the other: pods do not wait for them."""

    client: Client
    _queue: asyncio.Queue[tuple[RawObject, str, str, str, str]] = field(default_factory=lambda: asyncio.Queue(4096))

    def record_event(self, pod: RawObject, node: str, kind: str, reason: str, note: str) -> None:
        """Queue an event."""
        if not self._queue.full():
            self._queue.put_nowait((pod, node, kind, reason, note))

    async def run(self) -> None:
        """Write what is queued."""
        writer = Writer(self.client, (CORE_EVENTS,), field_manager=FIELD_MANAGER)
        recorders: dict[str, Recorder] = {}
        while True:
            pod, node, kind, reason, note = await self._queue.get()
            if node not in recorders:
                recorders[node] = Recorder(writer, instance=node, controller=FIELD_MANAGER, core=True)
            await recorders[node].record(kind, pod, PODS, reason, note, "Running")


@dataclass(slots=True)
class Agent:
    """Everything that runs in one agent."""

    client: Client
    settings: NodeSettings
    ground: Ground
    pods: Cache[RawObject]
    nodes: Cache[RawObject]
    events: Events
    workers: dict[str, PodWorker] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run(self) -> None:
        """Run until cancelled; containers go on without us."""
        async with asyncio.TaskGroup() as group:
            try:
                group.create_task(self.pods.run())
                group.create_task(self.nodes.run())
                group.create_task(self.events.run())
                group.create_task(self._beat())
                await self.pods.wait_synced()
                await self._clear_orphans()
                self.pods.on_change(self._changed)
                await self._rotate()
            finally:
                for task in self._tasks.values():
                    task.cancel()
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    # --- pods -----------------------------------------------------------------------------------------------------

    def _changed(self, old: RawObject | None, new: RawObject | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            worker = self.workers.get(old.metadata.uid)
            if worker is not None:
                worker.update(None)
        if new is not None:
            self._update(new)

    def _update(self, pod: RawObject) -> None:
        worker = self.workers.get(pod.metadata.uid)
        if worker is not None:
            worker.update(pod)
            return
        if pod.content().get("spec", {}).get("nodeName") not in nodes.names(self.settings.nodes):
            return
        try:
            worker = self.workers[pod.metadata.uid] = PodWorker(self.ground, pod)
        except NodeError as error:
            self._refuse(pod, error)
            return
        network.make_room(self.settings.data, len(self.workers))
        task = asyncio.create_task(worker.run(), name=f"worker {pod.metadata.name}")
        self._tasks[pod.metadata.uid] = task
        task.add_done_callback(lambda done: self._ended(pod.metadata.uid, done))

    def _refuse(self, pod: RawObject, error: NodeError) -> None:
        """Names in it cannot be folders: nothing is begun, its owner reads why, and it goes when it is deleted."""
        self.ground.record_event(pod, str(pod.content()["spec"]["nodeName"]), "Warning", error.reason, str(error))
        if pod.metadata.deletion_timestamp and pod.metadata.uid not in self._tasks:
            task = asyncio.create_task(self._let_go(pod), name=f"end of {pod.metadata.name}")
            self._tasks[pod.metadata.uid] = task
            task.add_done_callback(lambda done: self._ended(pod.metadata.uid, done))

    async def _let_go(self, pod: RawObject) -> None:
        meta = pod.metadata
        with suppress(NotFound, Conflict):
            await self.client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        self.workers.pop(uid, None)
        self._tasks.pop(uid, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("the worker of pod %s failed", uid, exc_info=task.exception())

    async def _clear_orphans(self) -> None:
        """Take away pods that went from the API while nobody looked."""
        alive = {pod.metadata.uid for pod in self.pods.items()}
        for paths in [self.ground.paths.pod(entry.name) for entry in os.scandir(self.ground.paths.pods)]:
            uid = paths.folder.name
            if uid in alive:
                continue
            # The record goes early when a folder is removed, and that may have been cut off.
            unknown = PodRecord(uid=uid, namespace="", name="", node="")
            record = records.load(records.pod_file(paths.folder), PodRecord) or unknown
            log.info("pod %s/%s (%s) is gone from the API: taking it down", record.namespace, record.name, uid)
            await take_down(self.ground, record, paths)
            await asyncio.to_thread(host.remove_tree, paths.folder)

    async def _rotate(self) -> None:
        while True:
            await asyncio.sleep(ROTATION_SECONDS)
            for worker in list(self.workers.values()):
                worker.rotate_logs()

    # --- nodes ----------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        count = 0
        while True:
            for name in nodes.names(self.settings.nodes):
                try:
                    await self._beat_once(name, full=count % STATUS_INTERVAL_SECONDS == 0)
                except KubeError as error:
                    log.warning("heartbeat of node %s: %s", name, error)
                    count = -1
            count += 1
            await asyncio.sleep(HEARTBEAT_SECONDS if count else 1.0)

    async def _beat_once(self, name: str, *, full: bool) -> None:
        live = self.nodes.get("", name)
        before: list[dict[str, Any]] = (live.content().get("status") or {}).get("conditions") or [] if live else []
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in before)
        if full or not ready:
            await self.client.apply(NODES, name, nodes.node(name), field_manager=FIELD_MANAGER)
            status = nodes.node_status(
                name, self.ground.gateway, self.ground.allocatable, seconds_text(time.time()), before
            )
            await self.client.apply(NODES, name, status, subresource="status", field_manager=FIELD_MANAGER)
        lease = nodes.lease(name, format_time(datetime.now(UTC)))
        await self.client.apply(LEASES, name, lease, nodes.LEASE_NAMESPACE, field_manager=FIELD_MANAGER)


async def run(client: Client, settings: NodeSettings) -> None:
    """The whole agent, until cancelled."""
    _require_root()
    _watch_children_cheaply()
    paths = Paths.of(settings.data)
    for folder in (paths.pods, paths.runc, paths.exits):
        folder.mkdir(parents=True, exist_ok=True)
        # Secrets lie below them.
        folder.chmod(0o700)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True))
        )
        agent = _assemble(client, settings, paths, session)
        stack.push_async_callback(await access.serve(paths, agent.ground.tools.runtime, agent.workers))
        await agent.run()


def _assemble(client: Client, settings: NodeSettings, paths: Paths, session: aiohttp.ClientSession) -> Agent:
    addresses = Addresses(network.ensure(settings.data))
    addresses.used.update(record.ip for record in records.all_pods(paths.pods) if record.ip)
    tools = Tools(
        runtime=Runtime.find(paths),
        images=settings.images,
        session=session,
        allowed=host.capabilities(),
        devices=tuple(devices()),
        controllers=host.controllers(),
        backoff=settings.backoff,
    )
    events = Events(client)
    ground = Ground(client, paths, tools, addresses, events.record_event, nodes.capacity())
    pods, live_nodes = Cache(client, PODS.raw(), pace=_QUICK), Cache(client, NODES.raw(), pace=_QUICK)
    return Agent(client, settings, ground, pods, live_nodes, events)


def _require_root() -> None:
    if sys.platform != "linux":
        raise CannotRunPods("local mode runs pods in Linux namespaces: it needs Linux")
    if os.geteuid() != 0:
        raise CannotRunPods("local mode makes network namespaces and mounts: run it as root")


def _watch_children_cheaply() -> None:
    """Before Python 3.12, asyncio takes a thread for every child process unless told otherwise."""
    if sys.version_info < (3, 12):
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(asyncio.get_running_loop())
        asyncio.set_child_watcher(watcher)


def devices() -> list[Device]:
    """The device files of this machine, for privileged containers."""
    found = []
    for parent, folders, files in os.walk("/dev"):
        folders[:] = [name for name in folders if name not in {"pts", "shm", "mqueue", "fd"}]
        for name in files:
            path = Path(parent, name)
            info = path.lstat()
            if stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
                kind = "c" if stat.S_ISCHR(info.st_mode) else "b"
                major, minor = os.major(info.st_rdev), os.minor(info.st_rdev)
                found.append(Device(str(path), kind, major, minor, stat.S_IMODE(info.st_mode), info.st_gid))
    return [device for device in found if device.path not in _OWN_DEVICES]


# Every container has these of its own.
_OWN_DEVICES = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "console", "ptmx")}
