"""The Kubernetes of the memory benchmark: an embedded API server, and a kubelet whose workers are nodes of real Slurm.

In: a `RealSlurm`, and which NodeSet has slurmds. Out: `EmbeddedKubernetes`: resources are made and changed as by
kubectl; the workers that the operator makes, in a process of its own, are registered in Slurm and end with their pods;
the sidecar of slurmctld accepts every configuration. Called by `slurmrestd_memory.py`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from bench.real_slurm.slurm import RealSlurm
from bench.scaling.objects import Json
from bench.scaling.slurm_world import CONFIG_MAPS, Sidecar
from tests.campaigns.rig import definitions
from tests.real.kube.cluster import Cluster
from tests.real.kube.fake_nodes import running_status

from kube_local.apiserver import ApiServer
from kube_local.apiserver.store import Change
from slurm_operator.build.nodeset import PRE_STOP

MERGE = "application/merge-patch+json"
NODE = "k0"
LOOK_SECONDS = 0.2
PARTITION_LINE = "PartitionName="


@dataclass
class EmbeddedKubernetes:
    """One API server with one namespace; use as an async context manager."""

    slurm: RealSlurm
    namespace: str
    # The NodeSet whose workers are slurmds; all others are records alone.
    with_slurmds: str
    folder: Path
    server: ApiServer = field(default_factory=ApiServer)
    sidecar: Sidecar = field(default_factory=Sidecar)
    # By pod uid: the node that it is.
    running: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _changed: set[str] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> EmbeddedKubernetes:
        await self.server.start()
        (self.folder / "kubeconfig").write_text(self.server.kubeconfig())
        self.server.plug_in(self)
        for each in definitions():
            await self.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        await self.ask("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
        keys = {"jwt.key": self.slurm.jwt_key, "slurm.key": b"not this one's"}
        data = {name: base64.b64encode(value).decode() for name, value in keys.items()}
        await self.ask("POST", f"{self._core}/secrets", {"metadata": {"name": "keys"}, "data": data})
        self.server.store.listen(self._see)
        self._task = asyncio.create_task(self._live())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self.server.stop()

    @property
    def _core(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    def access(self) -> Cluster:
        """How another process gets here."""
        return Cluster(self.folder, self.server.url, self.server.ca_pem, self.server.token, self.folder / "kubeconfig")

    async def ask(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Json:
        """A request of a user that must succeed."""
        response = await self.server.handle(method, path, {}, {"content-type": content}, body)
        answer = json.loads(response.body or b"null")
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {answer}")
        return dict(answer or {})

    def status(self, path: str) -> Json:
        """The status of a resource of ours."""
        *_, plural, name = path.split("/")
        row = self.server.store.get(f"{plural}.slinky.slurm.net", self.namespace, name)
        return (row.load().get("status") or {}) if row is not None else {}

    # The log of the sidecar

    async def logs(self, pod: Mapping[str, Any], options: Mapping[str, str]) -> AsyncIterator[bytes]:  # noqa: ARG002
        """What the sidecar of slurmctld has printed so far, or prints."""
        sent = max(0, len(self.sidecar.lines) - int(options.get("tailLines", "1000")))
        yield b""
        while True:
            changed, lines = self.sidecar.changed, self.sidecar.lines[sent:]
            for line in lines:
                yield f"{line}\n".encode()
            sent += len(lines)
            if options.get("follow") != "true":
                return
            await changed.wait()

    async def connect(
        self,
        request: web.Request,  # noqa: ARG002
        pod: Mapping[str, Any],  # noqa: ARG002
        subresource: str,
    ) -> web.StreamResponse:
        """There are no containers to run something in."""
        return web.Response(status=503, text=f"no {subresource} here")

    # The kubelet, and what makes the pod of slurmctld

    def _see(self, change: Change) -> None:
        if change.row.namespace != self.namespace:
            return
        if change.row.resource in ("pods", "statefulsets.apps"):
            self._changed.add(f"{change.row.resource}/{change.row.name}")
        elif change.row.resource == "configmaps" and change.row.name in CONFIG_MAPS and change.type != "DELETED":
            text = self.sidecar.take(change.row.name, change.row.load().get("data") or {})
            if text and not self.slurm.has_external:
                self._changed.add(f"conf/{text}")

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            changed, self._changed = self._changed, set()
            try:
                await self._look(changed)
            except Exception as error:
                # A kubelet goes on; the run reports it.
                self.failures.append(f"{type(error).__name__}: {error}")

    async def _look(self, changed: set[str]) -> None:
        new: list[Json] = []
        for key in changed:
            resource, _, name = key.partition("/")
            if resource == "conf":
                await asyncio.to_thread(self._read_partitions, name)
                continue
            row = self.server.store.get(resource, self.namespace, name)
            if row is None:
                continue
            found = row.load()
            if resource == "statefulsets.apps":
                await self._make_controller(found)
            elif found["metadata"].get("deletionTimestamp"):
                await self._end(found)
            elif found["metadata"]["uid"] not in self.running:
                new.append(found)
        if new:
            await self._begin(new)

    async def _begin(self, pods: list[Json]) -> None:
        for pod in pods:
            self.running[pod["metadata"]["uid"]] = pod["spec"].get("hostname") or pod["metadata"]["name"]
        workers = [self.running[pod["metadata"]["uid"]] for pod in pods if _is_worker(pod)]
        with_slurmds = [name for name in workers if self._has_slurmd(name)]
        await asyncio.to_thread(self.slurm.make_records, [name for name in workers if not self._has_slurmd(name)])
        for name in with_slurmds:
            await asyncio.to_thread(self.slurm.start_worker, name)
        for pod in pods:
            await self._run(pod)

    async def _run(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.ask("POST", f"{self._core}/pods/{name}/binding", body)
        status = {"status": running_status(pod, "127.0.0.1")}
        await self.ask("PATCH", f"{self._core}/pods/{name}/status", status, MERGE)

    async def _end(self, pod: Json) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        node = self.running.pop(uid, "")
        if node and _is_worker(pod):
            await asyncio.to_thread(self._end_worker, node)
        # Without force, as a kubelet does; one that is gone already is as good.
        with suppress(RuntimeError):
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            await self.ask("DELETE", f"{self._core}/pods/{name}", body)

    def _end_worker(self, node: str) -> None:
        self.slurm.shell(PRE_STOP.replace("$(hostname)", node), check=False)
        if self._has_slurmd(node):
            self.slurm.kill_node(node)

    def _has_slurmd(self, node: str) -> bool:
        return node.rpartition("-")[0] == self.with_slurmds

    async def _make_controller(self, owner: Json) -> None:
        """The one pod of slurmctld's StatefulSet."""
        meta, template = owner["metadata"], owner["spec"]["template"]
        name = f"{meta['name']}-0"
        if self.server.store.get("pods", self.namespace, name) is not None:
            return
        reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": meta["name"], "uid": meta["uid"]}
        metadata = {**template["metadata"], "name": name, "ownerReferences": [{**reference, "controller": True}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template["spec"], "hostname": name}}
        await self.ask("POST", f"{self._core}/pods", body)

    def _read_partitions(self, text: str) -> None:
        """Where partitions are not changed live: the limits that the file has."""
        known = self.slurm.run("sinfo", "-h", "-o", "%R").split()
        for line in text.splitlines():
            name, *values = line.removeprefix(PARTITION_LINE).split()
            if line.startswith(PARTITION_LINE):
                verb = "update" if name in known else "create"
                self.slurm.run("scontrol", verb, f"partitionname={name}", *values)


def _is_worker(pod: Json) -> bool:
    return bool(pod["metadata"]["labels"].get("app.kubernetes.io/name") == "slurmd")


async def until(what: str, is_so: Callable[[], object], seconds: float) -> float:
    """Wait for something, which is asked beside the event loop; gives how long it took."""
    began = time.monotonic()
    while not await asyncio.to_thread(is_so):
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(LOOK_SECONDS)
    return time.monotonic() - began
