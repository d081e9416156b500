"""One pod on this machine, from its binding to its end.

In: the pod object at every change (`update`). Out: sandbox, volumes, containers, status, and at last the delete that
finishes a deletion. `agent` makes one worker per pod; a worker that is cancelled leaves the containers running, and the
next one takes them over.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from kube_local.node import fetch, host, network, records, resolver, rotation, volumes
from kube_local.node.container import Container, Tools, end, is_sidecar
from kube_local.node.errors import NodeError
from kube_local.node.network import Addresses
from kube_local.node.paths import Paths, PodPaths
from kube_local.node.records import PodRecord
from kube_local.node.sources import Object, Place
from kube_local.node.status import Facts, Kind, status
from kube_local.node.volumes import Referred
from kube_runtime.backoff import Backoff, RetryWaits
from kube_runtime.client.client import Client
from kube_runtime.client.errors import Conflict, KubeError, NotFound
from kube_runtime.client.objects import PODS, RawObject
from kube_runtime.times import seconds_text

log = logging.getLogger(__name__)

FIELD_MANAGER = "kubelet"
# A kubelet looks at its volumes about once a minute.
REFRESH_SECONDS = (45.0, 60.0)
_TOGETHER_SECONDS = 0.01
_STEPS_SECONDS = 0.2
_BACKOFF = Backoff(first=0.3, limit=10.0, jitter=0.0)
_GONE_GRACE_SECONDS = 1.0
RESOLV_CONF = Path("/etc/resolv.conf")

RecordEvent = Callable[[RawObject, str, str, str, str], None]


@dataclass(frozen=True, slots=True)
class Ground:
    """What all pods of this machine share."""

    client: Client
    paths: Paths
    tools: Tools
    addresses: Addresses
    record_event: RecordEvent
    allocatable: Mapping[str, str]

    @property
    def gateway(self) -> str:
        """The host as pods see it."""
        return self.addresses.network.gateway


@dataclass(slots=True)
class PodWorker:
    """One pod; the `Home` of its containers."""

    ground: Ground
    raw: RawObject
    pod: Object = field(init=False)
    paths: PodPaths = field(init=False)
    tools: Tools = field(init=False)
    record: PodRecord = field(init=False)
    containers: list[Container] = field(init=False)
    touched: asyncio.Event = field(default_factory=asyncio.Event)
    cgroup: str = ""
    _referred: Referred | None = None
    _sandbox: bool = False
    _leaving: asyncio.Event = field(default_factory=asyncio.Event)
    _gone: bool = False
    _left_at: float = 0.0
    _dirty: asyncio.Event = field(default_factory=asyncio.Event)
    _nudged: asyncio.Event = field(default_factory=asyncio.Event)
    _written: dict[str, Any] | None = None
    _version: int = 0
    _event_at: float = 0.0
    _conditions: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        self.pod = self.raw.content()
        uid = self.raw.metadata.uid
        self.paths, self.tools = self.ground.paths.pod(uid), self.ground.tools
        self.cgroup = f"/{self.ground.paths.prefix}/{uid}"
        found = records.load(records.pod_file(self.paths.folder), PodRecord)
        self.record = found or PodRecord(
            uid=uid,
            namespace=self.raw.metadata.namespace,
            name=self.raw.metadata.name,
            node=str(self.pod["spec"].get("nodeName", "")),
            hostname=resolver.hostname(self.pod),
            started_at=seconds_text(time.time()),
        )
        spec = self.pod["spec"]
        self.containers = [
            *(Container(self, one, Kind.SIDECAR if is_sidecar(one) else Kind.INIT) for one in _inits(spec)),
            *(Container(self, one, Kind.MAIN) for one in spec.get("containers") or ()),
        ]
        self._conditions = (self.pod.get("status") or {}).get("conditions") or ()
        self._sandbox = self.record.boot == host.boot_id()
        self.update(self.raw)

    # --- what the agent tells -------------------------------------------------------------------------------------

    def update(self, raw: RawObject | None) -> None:
        """The pod has changed; None when it is gone from the API."""
        if raw is None:
            self._gone = True
            self._leave()
            return
        before, self.raw, self.pod = self.pod, raw, raw.content()
        if _mark(before) != _mark(self.pod):
            self.touched.set()
            self._nudged.set()
        if self._was_overwritten():
            self._written = None
            self._dirty.set()
        if raw.metadata.deletion_timestamp:
            self._leave()

    def _was_overwritten(self) -> bool:
        """Whether somebody changed a condition of ours after we wrote it, as when the node counted as lost."""
        if self._written is None or int(self.raw.metadata.resource_version) <= self._version:
            return False
        ours = {one["type"]: one["status"] for one in self._written["conditions"]}
        live = {one["type"]: one["status"] for one in self.pod.get("status", {}).get("conditions") or ()}
        return any(live.get(kind) != value for kind, value in ours.items())

    def _leave(self) -> None:
        if not self._leaving.is_set():
            self._left_at = time.monotonic()
            self._leaving.set()

    # --- what containers ask (Home) -------------------------------------------------------------------------------

    def place(self) -> Place:
        """What the node gave this pod."""
        return Place(self.record.ip or self.ground.gateway, self.ground.gateway, self.ground.allocatable)

    def hostname(self) -> str:
        """Its host name."""
        return self.record.hostname

    def namespaces(self) -> dict[str, str]:
        """The namespaces of its containers: some shared in the pod, some their own."""
        spec = self.pod["spec"]
        wanted = {"mount": "", "uts": str(self.paths.uts)}
        if not spec.get("hostPID"):
            wanted["pid"] = ""
        if not spec.get("hostIPC"):
            wanted["ipc"] = str(self.paths.ipc)
        if not spec.get("hostNetwork"):
            wanted["network"] = str(self.paths.netns_file)
        if host.is_unified():
            # With cgroup v2 a container would see the whole machine's groups otherwise.
            wanted["cgroup"] = ""
        return wanted

    async def referred(self) -> Referred:
        """What it refers to, read anew; while the API server is away, as it was read last."""
        try:
            self._referred = await fetch.referred(self.ground.client, self.pod)
        except KubeError:
            if self._referred is None:
                raise
        return self._referred

    def changed(self) -> None:
        """Its status may be another now."""
        self._dirty.set()

    def record_event(self, kind: str, reason: str, note: str) -> None:
        """An event about it."""
        self.ground.record_event(self.raw, self.record.node, kind, reason, note)

    # --- its life -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the pod is gone from this machine and from the API."""
        writing = asyncio.create_task(self._keep_status(), name=f"status {self.record.name}")
        living = asyncio.create_task(self._live(), name=f"pod {self.record.name}")
        refreshing = asyncio.create_task(self._keep_volumes(), name=f"volumes {self.record.name}")
        tasks = [living, refreshing]
        try:
            await self._leaving.wait()
            await end(*tasks)
            await self._terminate_until_done()
            await end(writing)
            await self._finish()
        finally:
            containers = [task for one in self.containers if (task := one.task) is not None]
            await end(writing, *tasks, *containers)

    async def _live(self) -> None:
        waits = RetryWaits(_BACKOFF)
        while True:
            try:
                return await self._live_once()
            except asyncio.CancelledError:
                raise
            except Exception:
                # A bug of ours must not leave the pod alone: what is done is recorded, so start over.
                log.exception("pod %s/%s: its worker failed", self.record.namespace, self.record.name)
                self.record_event("Warning", "FailedSync", "the node agent failed on this pod; see its log")
            await asyncio.sleep(waits.next())

    async def _live_once(self) -> None:
        if _is_terminal(self.pod) and records.load(records.pod_file(self.paths.folder), PodRecord) is None:
            return
        await self._set_up_until_done()
        if await self._initialize():
            await self._run_mains()
        await self._stop_sidecars(lambda: time.monotonic() + self._spec_grace())
        self.changed()

    async def _set_up_until_done(self) -> None:
        self.changed()
        waits, last = RetryWaits(_BACKOFF), ""
        while True:
            try:
                async with self.tools.gate:
                    await self._set_up()
                break
            except (NodeError, KubeError, OSError) as error:
                reason = error.reason if isinstance(error, NodeError) else "FailedMount"
                if str(error) != last:
                    self.record_event("Warning", reason, str(error))
                last = str(error)
            self.touched.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(waits.next()):
                    await self.touched.wait()
        self._sandbox = True
        self.changed()

    async def _set_up(self) -> None:
        referred = await self.referred()
        if self.record.boot == host.boot_id():
            await asyncio.to_thread(volumes.prepare, self.pod, self.paths, referred, self.place())
            return
        await self._make_sandbox(referred)
        for one in self.containers:
            if one.kind is Kind.INIT and self.record.boot:
                one.forget()
        self._keep(boot=host.boot_id())

    async def _make_sandbox(self, referred: Referred) -> None:
        net = self.ground.addresses.network
        await network.detach(net, self.paths, self.record.ip)
        if not self.record.ip and not self.pod["spec"].get("hostNetwork"):
            self._keep(ip=self.ground.addresses.take())
        await asyncio.gather(
            network.attach(net, self.paths, self.record.ip, self.record.hostname),
            asyncio.to_thread(self._make_folders, referred),
        )

    def _make_folders(self, referred: Referred) -> None:
        for point in host.mounts_under(self.paths.folder):
            # What is left of an attempt that was cut off; the namespaces are being made right now.
            if point.parent != self.paths.ipc.parent:
                host.unmount(point)
        volumes.prepare(self.pod, self.paths, referred, self.place())
        self.paths.etc.mkdir(parents=True, exist_ok=True)
        of_host = RESOLV_CONF.read_text() if RESOLV_CONF.is_file() else ""
        files = {
            "hosts": resolver.hosts(self.pod, self.record.ip),
            "hostname": f"{self.record.hostname}\n",
            "resolv.conf": resolver.resolv_conf(self.pod, self.ground.gateway, of_host),
        }
        for name, text in files.items():
            (self.paths.etc / name).write_text(text)
            (self.paths.etc / name).chmod(0o644)

    async def _initialize(self) -> bool:
        """Run init containers one after the other; False when one has failed for good."""
        past = any(one.kind is Kind.MAIN and _was_up(one) for one in self.containers)
        for one in self._of(Kind.INIT, Kind.SIDECAR):
            if one.kind is Kind.INIT and (past or one.is_done()):
                one.over = True
            else:
                task = one.begin()
                waiting = asyncio.create_task(one.started.wait())
                await asyncio.wait(
                    {task, waiting} if one.kind is Kind.SIDECAR else {task}, return_when="FIRST_COMPLETED"
                )
                waiting.cancel()
            if one.over and one.record.ended is not None and one.record.ended.exit_code != 0:
                return False
        return True

    async def _run_mains(self) -> None:
        deadline = self.pod["spec"].get("activeDeadlineSeconds")
        running = {one.begin() for one in self._of(Kind.MAIN)}
        if deadline is None:
            await asyncio.wait(running)
            return
        _, left = await asyncio.wait(running, timeout=float(deadline))
        if left:
            self._keep(
                reason="DeadlineExceeded", message="Pod was active on the node longer than the specified deadline"
            )
            until = time.monotonic() + self._spec_grace()
            await asyncio.gather(*(one.stop(lambda: until) for one in self._of(Kind.MAIN)))

    async def _stop_sidecars(self, deadline: Callable[[], float]) -> None:
        for one in reversed(self._of(Kind.SIDECAR)):
            await one.stop(deadline)

    def _of(self, *kinds: Kind) -> list[Container]:
        return [one for one in self.containers if one.kind in kinds]

    # --- its end --------------------------------------------------------------------------------------------------

    def _spec_grace(self) -> float:
        seconds = self.pod["spec"].get("terminationGracePeriodSeconds")
        return 30.0 if seconds is None else float(seconds)

    def _deadline(self) -> float:
        """When the grace of the deletion is over; a force makes it shorter while we wait."""
        if self._gone:
            return self._left_at + _GONE_GRACE_SECONDS
        seconds = self.raw.metadata.deletion_grace_period_seconds
        return self._left_at + (self._spec_grace() if seconds is None else max(float(seconds), _GONE_GRACE_SECONDS))

    async def _terminate_until_done(self) -> None:
        waits = RetryWaits(_BACKOFF)
        while True:
            try:
                return await self._terminate()
            except Exception as error:
                # A command of the machine failed or took too long: nobody else would come back to this pod.
                log.exception("pod %s/%s: it could not be ended", self.record.namespace, self.record.name)
                self.record_event("Warning", "FailedKillPod", str(error))
            await asyncio.sleep(waits.next())

    async def _terminate(self) -> None:
        for one in self.containers:
            if one.record.state == "running":
                one.begin()
        await asyncio.gather(*(one.stop(self._deadline) for one in self._of(Kind.MAIN, Kind.INIT)))
        await self._stop_sidecars(self._deadline)
        await take_down(self.ground, self.record, self.paths)

    async def _finish(self) -> None:
        """Say how it ended and let the object go."""
        waits = RetryWaits(_BACKOFF)
        while not self._gone:
            try:
                with suppress(Conflict):
                    await self._send(self._status())
                await self.ground.client.delete(
                    PODS, self.record.name, self.record.namespace, uid=self.record.uid, grace_seconds=0
                )
                break
            except (NotFound, Conflict):
                break
            except KubeError as error:
                log.warning("pod %s/%s: %s", self.record.namespace, self.record.name, error)
                await asyncio.sleep(waits.next())
        await asyncio.to_thread(host.remove_tree, self.paths.folder)

    # --- status and volumes ---------------------------------------------------------------------------------------

    async def _keep_status(self) -> None:
        waits = RetryWaits(_BACKOFF)
        while True:
            await self._dirty.wait()
            # What happens at once is told at once.
            await asyncio.sleep(_TOGETHER_SECONDS)
            self._dirty.clear()
            wanted = self._status()
            if wanted == self._written or self._gone:
                continue
            if await self._may_wait(wanted):
                continue
            try:
                await self._send(wanted)
                waits.reset()
            except NotFound:
                continue
            except KubeError as error:
                log.warning("status of pod %s/%s: %s", self.record.namespace, self.record.name, error)
                self._dirty.set()
                await asyncio.sleep(waits.next())

    async def _may_wait(self, wanted: dict[str, Any]) -> bool:
        """Whether it is too early to tell: nobody waits for a step on the way, and each write makes a start slower."""
        now = time.monotonic()
        if self._written is None or _news(wanted) != _news(self._written) or 0 < self._event_at <= now:
            self._event_at = 0.0
            return False
        self._event_at = self._event_at or now + _STEPS_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(self._event_at - now):
                await self._dirty.wait()
        self._dirty.set()
        return True

    def _status(self) -> dict[str, Any]:
        views = [one.view() for one in self.containers]
        facts = Facts(
            self.pod, self.record, views, self.ground.gateway, seconds_text(time.time()), sandbox=self._sandbox
        )
        wanted = status(facts, self._conditions)
        self._conditions = wanted["conditions"]
        return wanted

    async def _send(self, wanted: dict[str, Any]) -> None:
        identity = {"name": self.record.name, "namespace": self.record.namespace, "uid": self.record.uid}
        answer = await self.ground.client.apply(
            PODS,
            self.record.name,
            {"metadata": identity, "status": wanted},
            self.record.namespace,
            subresource="status",
            field_manager=FIELD_MANAGER,
        )
        self._written, self._version = wanted, int(answer.metadata.resource_version)

    async def _keep_volumes(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(random.uniform(*REFRESH_SECONDS)):  # noqa: S311 - a pause
                    await self._nudged.wait()
            self._nudged.clear()
            if not self._sandbox:
                continue
            try:
                volumes.refresh(self.pod, self.paths, await self.referred(), self.place())
            except (NodeError, KubeError, OSError) as error:
                self.record_event("Warning", "FailedMount", str(error))

    def rotate_logs(self) -> None:
        """Start fresh log files where the current ones are full."""
        for one in self.containers:
            if one.record.state == "running":
                rotation.rotate(self.paths.log(one.name, one.record.restarts), one.folder)

    def _keep(self, **changes: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **changes)
        records.save(records.pod_file(self.paths.folder), self.record)
        self.changed()


async def take_down(ground: Ground, record: PodRecord, paths: PodPaths) -> None:
    """Take away a pod's containers, mounts and network; its folder stays."""
    runtime = ground.tools.runtime
    left = [path.name for path in ground.paths.runc.glob(f"{record.uid}.*")]
    await asyncio.gather(*(runtime.delete(name) for name in left))
    for point in host.mounts_under(paths.folder):
        host.unmount(point)
    await network.detach(ground.addresses.network, paths, record.ip)
    host.remove_cgroups(f"{ground.paths.prefix}/{record.uid}")
    for exit_file in ground.paths.exits.glob(f"{record.uid}.*"):
        exit_file.unlink(missing_ok=True)
    ground.addresses.give_back(record.ip)


def _inits(spec: Object) -> Sequence[Object]:
    return spec.get("initContainers") or ()


def _mark(pod: Object) -> tuple[Any, ...]:
    """What a person or the operator changes to touch a pod; the status is not part of it."""
    metadata = pod.get("metadata") or {}
    return metadata.get("annotations"), metadata.get("labels"), pod.get("spec")


def _news(status: Mapping[str, Any]) -> tuple[Any, ...]:
    """What somebody waits for in a status; the rest are steps on the way there."""
    containers = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    return (
        status.get("phase"),
        [one["status"] for one in status.get("conditions", ()) if one["type"] != "PodReadyToStartContainers"],
        [(one["name"], one["ready"], one["started"], one["restartCount"], list(one["state"])) for one in containers],
    )


def _is_terminal(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def _was_up(container: Container) -> bool:
    """Whether it has run in this sandbox; a reboot takes the sandbox away, and init containers run again."""
    if container.record.boot != host.boot_id():
        return False
    return container.record.state in {"running", "ended", "creating"} or container.record.restarts > 0
