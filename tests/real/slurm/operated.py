"""The operator on a real Slurm without Kubernetes: an embedded API server, and a kubelet whose pods are slurmds.

In: a bare cluster of `cluster.py`. Out: `Operated`: resources are made and changed as by kubectl, and every worker that
the operator makes is a slurmd of that cluster; one that it deletes ends. Real time; called by `test_operated.py`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.campaigns.rig import GROUP, definitions
from tests.kube_runtime.client.in_process import InProcess
from tests.real.slurm.cluster import Cluster

from kube_local.apiserver import ApiServer
from kube_runtime.client.client import Client
from kube_runtime.clock import Clock, SystemClock
from slurm_operator.build.nodeset import PRE_STOP
from slurm_operator.metrics import OperatorMetrics
from slurm_operator.reconcile.clusters import SlurmTarget
from slurm_operator.reconcile.operator import Outside, assemble
from slurm_operator.settings import Settings
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.token import TokenSource

NAMESPACE = "hpc"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
OURS = f"/apis/{GROUP}/namespaces/{NAMESPACE}"
FIRST_PORT = 17100
LOOK_SECONDS = 0.05
MERGE = "application/merge-patch+json"
PATIENCE = 90.0
KEYS = {"slurmKeyRef": {"name": "keys", "key": "slurm.key"}, "jwtKeyRef": {"name": "keys", "key": "jwt.key"}}
REF = {"controllerRef": {"name": "slurm"}}


@dataclass
class Operated:
    """A Slurm that is operated; use as an async context manager."""

    slurm: Cluster
    server: ApiServer = field(default_factory=ApiServer)
    # By pod uid: the node whose slurmd it is.
    running: dict[str, str] = field(default_factory=dict)
    _tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    async def __aenter__(self) -> Operated:
        for each in definitions():
            await self.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await self.ask("POST", "/api/v1/nodes", {"metadata": {"name": "k0"}})
        keys = {"jwt.key": self.slurm.jwt_key, "slurm.key": b"not this one's"}
        data = {name: base64.b64encode(value).decode() for name, value in keys.items()}
        await self.ask("POST", f"{CORE}/secrets", {"metadata": {"name": "keys"}, "data": data})
        self._tasks = [self.server.run_garbage_collector(), asyncio.create_task(self._live())]
        self.start_operator()
        await self.create("Controller", "slurm", {**KEYS, "clusterName": "test"})
        await self.create("RestApi", "slurm", REF)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in reversed(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for node in self.running.values():
            await asyncio.to_thread(self.slurm.kill_node, node)
        self.server.store.close()

    def start_operator(self) -> None:
        """The operator as it runs in a cluster, but for its way to slurmrestd."""

        def connect(target: SlurmTarget, token: TokenSource, clock: Clock) -> SlurmClient:
            address = f"unix://{self.slurm.socket}"
            return SlurmClient(address, token, cluster=target.cluster_name, monotonic=clock.monotonic)

        settings = Settings(leader_elect=False, worker_images=("example.org/",))
        operator = assemble(
            Client(InProcess(self.server)), settings, SystemClock(), OperatorMetrics(), Outside(connect=connect)
        )
        self._tasks.append(asyncio.create_task(operator.run()))

    async def ask(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
        """A request of a user."""
        response = await self.server.handle(method, path, {}, {"content-type": content}, body)
        answer = json.loads(response.body or b"null")
        assert response.status < 400, f"{method} {path}: {answer}"
        return answer

    async def create(self, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        """`kubectl create`."""
        body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
        await self.ask("POST", f"{OURS}/{kind.lower()}s", body)

    async def scale(self, name: str, replicas: int) -> None:
        """`kubectl scale nodeset`."""
        patch = {"spec": {"replicas": replicas}}
        await self.ask("PATCH", f"{OURS}/nodesets/{name}", patch, MERGE)

    async def delete(self, kind: str, name: str) -> None:
        """`kubectl delete`."""
        await self.ask("DELETE", f"{OURS}/{kind.lower()}s/{name}")

    def nodeset(self, name: str) -> Any:
        """A NodeSet's status."""
        row = self.server.store.get("nodesets.slinky.slurm.net", NAMESPACE, name)
        return (row.load().get("status") or {}) if row is not None else {}

    def condition(self, name: str, type_: str) -> tuple[str, str]:
        """Status and reason of a NodeSet's condition."""
        found = self.nodeset(name).get("conditions") or ()
        return next(((each["status"], each["reason"]) for each in found if each["type"] == type_), ("", ""))

    def is_reserved(self, name: str, replicas: int) -> bool:
        """Whether so many workers are ready, and registered in Slurm."""
        status = self.nodeset(name)
        ready = self.condition(name, "Ready") == ("True", "AllReady")
        return ready and status["readyReplicas"] == status["replicas"] == replicas

    def pod(self, name: str) -> Any:
        """A pod, or None."""
        row = self.server.store.get("pods", NAMESPACE, name)
        return None if row is None else row.load()

    def states(self, pod: str) -> set[str]:
        """What a pod's conditions say of its Slurm node."""
        found = (self.pod(pod) or {}).get("status", {}).get("conditions") or ()
        return {each["type"].removeprefix("SlurmNodeState") for each in found if each["status"] == "True"}

    async def until(self, what: str, is_so: Callable[[], object], seconds: float = PATIENCE) -> float:
        """Wait for something; the time that it took."""
        began = time.monotonic()
        while not is_so():
            assert time.monotonic() - began < seconds, f"not within {seconds:g} s: {what}"
            await asyncio.sleep(LOOK_SECONDS)
        return time.monotonic() - began

    # The kubelet

    async def _live(self) -> None:
        while True:
            for row in self.server.store.rows("pods", NAMESPACE):
                pod = row.load()
                if pod["metadata"]["labels"].get("app.kubernetes.io/name") == "slurmd":
                    await self._look_after(pod)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look_after(self, pod: Mapping[str, Any]) -> None:
        meta, path = pod["metadata"], f"{CORE}/pods/{pod['metadata']['name']}"
        if meta.get("deletionTimestamp"):
            if meta["uid"] in self.running:
                await asyncio.to_thread(self._end, self.running.pop(meta["uid"]))
            await self.ask("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}})
        elif meta["uid"] not in self.running:
            self.running[meta["uid"]] = node = pod["spec"]["hostname"]
            await self._bind(meta["name"])
            await asyncio.to_thread(self.slurm.start_node, node, FIRST_PORT + int(node.rpartition("-")[2]))
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            ready = [{"type": each, "status": "True", "lastTransitionTime": now} for each in ("Initialized", "Ready")]
            status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": ready}
            await self.ask("PATCH", f"{path}/status", {"status": status}, MERGE)
            await self.tell_start(meta["name"])

    def _end(self, node: str) -> None:
        """As a kubelet does: first what the pod wants to run before its end."""
        hook = PRE_STOP.replace("$(hostname)", node)
        self.slurm.shell(hook, check=False)
        self.slurm.kill_node(node)

    async def tell_start(self, pod: str) -> None:
        """A worker's container has started now."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        containers = [{"name": "slurmd", "ready": True, "state": {"running": {"startedAt": now}}}]
        await self.ask("PATCH", f"{CORE}/pods/{pod}/status", {"status": {"containerStatuses": containers}}, MERGE)

    async def _bind(self, name: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": "k0"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.ask("POST", f"{CORE}/pods/{name}/binding", body)
