"""What the stand-in of Slurm knows: worker pods and configurations as an API server has them, and the Slurm of each.

In: a watch on the pods and one on the ConfigMaps of all namespaces; one Controller to a namespace. Out: a `World`: node
records that follow the pods, what each slurmctld's sidecar says, and what was asked. Served by `slurm_server.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import aiohttp
import msgspec
from bench.scaling.slurm_records import Json, Slurm
from tests.real.kube.fake_nodes import lines_of

from slurm_operator.build import labels, verdicts
from slurm_operator.build.controller import NOTE
from slurm_operator.plan.config import content_hash

T = TypeVar("T")

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


class Hook(msgspec.Struct, frozen=True):
    exec: dict[str, list[str]] = {}


class Lifecycle(msgspec.Struct, frozen=True, rename="camel"):
    pre_stop: Hook | None = None


class Container(msgspec.Struct, frozen=True):
    name: str = ""
    args: list[str] = []
    lifecycle: Lifecycle | None = None

    @property
    def tells_its_end(self) -> bool:
        """Whether its kubelet, before it ends it, sets its node down."""
        hook = self.lifecycle.pre_stop if self.lifecycle is not None else None
        return hook is not None and any("state=down" in text for text in hook.exec.get("command", ()))


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
    # Whether its node was drained when its end was first heard of; None before that.
    was_drained: bool | None = None


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
        if pod.metadata.deletion_timestamp and seen.was_drained is None:
            self._note_drain(seen)
            if slurm is not None and any(container.tells_its_end for container in pod.spec.containers):
                slurm.stop(seen.hostname)
        if kind == "DELETED":
            self.lose_pod(uid)
        elif pod.is_ready and not seen.ready_at:
            seen.ready_at = time.time()
            alive.add(uid)
            if slurm is not None:
                address, conf = pod.status.pod_ip, pod.conf
                self.later(REGISTER_SECONDS, lambda: self._register(slurm, seen, address, conf))

    def lose_pod(self, uid: str) -> None:
        """A worker pod is gone: its slurmd falls silent a moment later."""
        seen = self.pods[uid]
        alive, slurm = self._alive.setdefault((seen.namespace, seen.hostname), set()), self.slurms.get(seen.namespace)
        alive.discard(uid)
        if seen.gone_at:
            return
        seen.gone_at = time.time()
        self._note_drain(seen)
        if slurm is not None:
            self.later(SILENCE_SECONDS, lambda: None if alive else slurm.lose(seen.hostname))

    def _note_drain(self, seen: SeenPod) -> None:
        """Whether it is drained now that its end is known: a drain that comes after the deletion is none."""
        slurm = self.slurms.get(seen.namespace)
        if slurm is not None and seen.was_drained is None:
            record = slurm.nodes.get(seen.hostname)
            seen.was_drained = record is not None and record.is_drained

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

    def totals(self) -> Json:
        """All clusters together."""
        there = [each for each in self.pods.values() if not each.gone_at]
        nodes = sum(len(slurm.nodes) for slurm in self.slurms.values())
        return {"pods": len(there), "ready": sum(bool(each.ready_at) for each in there), "nodes": nodes}

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
        for uid in world.pods.keys() - there:
            # Gone while nobody watched.
            world.lose_pod(uid)
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
