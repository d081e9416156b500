"""What a cluster does besides its API server, made small: workloads become ready, pods start and stop, claims bind.

In: the embedded API server. Out: changes of status, some virtual seconds later; a worker pod that becomes ready has a
slurmd that registers, one that stops takes its slurmd along. Daemons have the auth/slurm key that the Secret held when
they started, and hear only those that have the same. A trial pod ends with what its slurmd says of the files that it
was given: `REFUSED_BY_SLURMD` in them is refused. It only looks at what is stored, never at events.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.campaigns.sidecar import Sidecar
from tests.campaigns.slurm_model import SlurmModel

from kube_local.apiserver import ApiServer
from kube_runtime.clock import VirtualClock
from slurm_operator.build import labels, nodeset, worker_trial

WORKER = {"app.kubernetes.io/name": "slurmd"}
KEY_HASH = labels.SLURM_KEY_HASH
TRIAL = {"app.kubernetes.io/name": "slurmd-trial"}
# A value that the linter and slurmctld let pass.
REFUSED_BY_SLURMD = "UnkillableStepTimeout=121"
FATAL = "fatal: UnkillableStepTimeout=121 is not for this slurmd"
START_SECONDS = 2.0
STOP_SECONDS = 1.0
WORKLOAD_SECONDS = 3.0


@dataclass
class Cluster:
    """The toy controllers and kubelets of one API server."""

    server: ApiServer
    slurm: SlurmModel
    clock: VirtualClock
    # A pod that this says no to never becomes ready.
    starts: Callable[[Mapping[str, Any]], bool] = lambda _: True
    # Whether slurmctld runs whatever Kubernetes does.
    slurm_is_elsewhere: bool = False
    creates: dict[tuple[str, str], int] = field(default_factory=dict)
    deletes: dict[tuple[str, str], int] = field(default_factory=dict)
    # What every trial ends with, where it is not what slurmd says.
    trial_line: str = ""
    # The key of slurmctld, and of each slurmd.
    key: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    # Pods to look at, and where the bound ones are.
    _changed: dict[tuple[str, str], None] = field(default_factory=dict)
    _places: dict[tuple[str, str], str] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _of_template: str = ""
    _planned: dict[tuple[str, str], str] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        """Live until `stop`."""
        self.sidecar = Sidecar(self.server, self.slurm, self._ask)
        self.server.plug_in(self.sidecar)
        self.server.store.listen(self._noticed)
        self._tasks = [asyncio.create_task(self._live()), self.server.run_garbage_collector()]
        self._wake.set()

    async def stop(self) -> None:
        """Stop living."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _noticed(self, change: Any) -> None:
        key = (change.row.resource, change.row.name)
        if change.type == "ADDED":
            self.creates[key] = self.creates.get(key, 0) + 1
        elif change.type == "DELETED":
            self.deletes[key] = self.deletes.get(key, 0) + 1
        if change.row.resource == "pods":
            self._changed[change.row.namespace, change.row.name] = None
        self._wake.set()

    async def _live(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for resource in ("statefulsets.apps", "deployments.apps"):
                for row in self.server.store.rows(resource):
                    self._workload(resource, row.load())
            changed, self._changed = self._changed, {}
            for key in changed:
                pod = self.server.store.get("pods", *key)
                if pod is not None:
                    self._pod(pod.load())
            self._config()

    def _later(self, what: str, value: Mapping[str, Any], seconds: float, act: Callable[[], Any]) -> None:
        """Do something once for this version of the object's wishes."""
        meta = value["metadata"]
        key = (what, str(meta["uid"]))
        if self._planned.get(key) == str(meta.get("generation")):
            return
        self._planned[key] = str(meta.get("generation"))
        self.clock.call_later(seconds, lambda: self._tasks.append(asyncio.create_task(act())))

    async def _ask(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        headers = {"content-type": "application/json" if method == "POST" else "application/merge-patch+json"}
        response = await self.server.handle(method, path, query, headers, body)
        return json.loads(response.body or b"null")

    # Workloads

    def _workload(self, resource: str, value: Mapping[str, Any]) -> None:
        async def settle() -> None:
            replicas = value["spec"].get("replicas", 1)
            counts = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
            status = {**dict.fromkeys(counts, replicas), "observedGeneration": value["metadata"]["generation"]}
            if value["metadata"]["name"] == "slurm-controller":
                await self.sidecar.pods_of(value)
                self._slurmctld_starts(value["spec"]["template"]["metadata"]["annotations"])
            await self._patch(resource.partition(".")[0], value, {"status": status}, "/apis/apps/v1", "/status")
            self._wake.set()

        self._later("workload", value, WORKLOAD_SECONDS, settle)

    def _slurmctld_starts(self, annotations: Mapping[str, str]) -> None:
        held = self.server.store.get("secrets", "hpc", "jwt-key")
        if held is not None:
            self.slurm.key = b64decode(held.load()["data"]["jwt.key"])
        if annotations.get(KEY_HASH) == self._of_template:
            return
        self._of_template, self.key = annotations.get(KEY_HASH, ""), self.secret()
        for name in sorted(self.slurm.slurmds):
            if self.keys.get(name) != self.key:
                self.slurm.lose_contact(name)

    def secret(self) -> str:
        """What the Secret with the key holds."""
        row = self.server.store.get("secrets", "hpc", "slurm-key")
        return "" if row is None else json.dumps(row.load().get("data") or {})

    async def _patch(self, plural: str, value: Mapping[str, Any], body: Any, root: str, part: str = "") -> Any:
        meta = value["metadata"]
        path = f"{root}/namespaces/{meta['namespace']}/{plural}/{meta['name']}{part}"
        return await self._ask("PATCH", path, {"metadata": {"uid": meta["uid"]}, **body})

    def _config(self) -> None:
        """slurmctld and slurmrestd run when their workloads are ready; the sidecar brings every new slurm.conf."""
        ready = {
            row.name
            for resource in ("statefulsets.apps", "deployments.apps")
            for row in self.server.store.rows(resource)
            if (row.load().get("status") or {}).get("readyReplicas")
        }
        up = self.slurm_is_elsewhere or {"slurm-controller", "slurm-restapi"} <= ready
        if up != self.slurm.up:
            self.slurm.up = up
            self.slurm.touch("nodes", "jobs")
        if up and not self.slurm_is_elsewhere:
            self.sidecar.look()

    # Pods

    def _pod(self, value: Mapping[str, Any]) -> None:
        meta, status = value["metadata"], value.get("status") or {}
        if meta.get("deletionTimestamp"):
            self._later("stop", {"metadata": {**meta, "generation": 0}}, STOP_SECONDS, lambda: self._stop(value))
        elif not value["spec"].get("nodeName"):
            self._later("bind", value, 0.0, lambda: self._bind(value))
        elif status.get("phase") == "Pending" and self.starts(value):
            self._later("start", {"metadata": {**meta, "generation": 1}}, START_SECONDS, lambda: self._start(value))

    def _node_of(self, value: Mapping[str, Any]) -> str:
        asked = _asked_node(value)
        if asked:
            return asked
        nodes = [row.name for row in self.server.store.rows("nodes")]
        held = {(row.namespace, row.name) for row in self.server.store.rows("pods")}
        self._places = {key: node for key, node in self._places.items() if key in held}
        taken = Counter(self._places.values())
        chosen = min(nodes, key=lambda name: (taken[name], name))
        self._places[value["metadata"]["namespace"], value["metadata"]["name"]] = chosen
        return chosen

    async def _bind(self, value: Mapping[str, Any]) -> None:
        meta = value["metadata"]
        target = {"apiVersion": "v1", "kind": "Node", "name": self._node_of(value)}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
        await self.server.handle("POST", path, {}, {"content-type": "application/json"}, body)

    async def _start(self, value: Mapping[str, Any]) -> None:
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = [{"type": each, "status": "True", "lastTransitionTime": now} for each in ("Initialized", "Ready")]
        row = self.server.store.get("pods", value["metadata"]["namespace"], value["metadata"]["name"])
        if row is None or row.uid != value["metadata"]["uid"]:
            return
        held = row.load()
        if held["metadata"].get("deletionTimestamp"):
            return
        others = [
            each for each in held["status"].get("conditions") or () if each["type"] not in ("Initialized", "Ready")
        ]
        status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [*others, *ready]}
        if TRIAL.items() <= held["metadata"]["labels"].items():
            status = {"phase": "Succeeded", "containerStatuses": [self._tried(held)]}
        await self._patch("pods", value, {"status": status}, "/api/v1", "/status")
        if held["metadata"]["labels"].get("app.kubernetes.io/name") == "slurmd":
            self.keys[held["spec"]["hostname"]] = self.secret()
            self._register(held)

    def _tried(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """How slurmd's container ends that has tried the files of its pod."""
        name = next(each["configMap"]["name"] for each in pod["spec"]["volumes"] if each["name"] == "candidate")
        row = self.server.store.get("configmaps", pod["metadata"]["namespace"], name)
        conf = row.load()["data"]["slurm.conf"] if row is not None else ""
        stage, why = (worker_trial.REFUSED, FATAL) if REFUSED_BY_SLURMD in conf else (worker_trial.ACCEPTED, "")
        line = self.trial_line or f'worker-trial version=1 stage={stage} reason="{why}"'
        ended = {"exitCode": 0, "reason": "Completed", "message": line if row is not None else ""}
        return {
            "name": "slurmd",
            "image": "",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }

    def _register(self, pod: Mapping[str, Any]) -> None:
        """A slurmd tries until slurmctld understands it."""
        name, row = pod["spec"]["hostname"], self.server.store.get("pods", "hpc", pod["metadata"]["name"])
        if row is None or row.uid != pod["metadata"]["uid"]:
            return
        if not self.key or self.keys[name] == self.key:
            self.slurm.register(name, features_of(pod))
        else:
            self.clock.call_later(START_SECONDS, lambda: self._register(pod))

    async def _stop(self, value: Mapping[str, Any]) -> None:
        meta = value["metadata"]
        if meta["labels"].get("app.kubernetes.io/name") == "slurmd" and self.slurm.alive(value["spec"]["hostname"]):
            self.slurm.stop_slurmd(value["spec"]["hostname"], nodeset.TERMINATING)
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        await self._ask("DELETE", path, body)


def features_of(pod: Mapping[str, Any]) -> list[str]:
    args = next(each for each in pod["spec"]["containers"] if each["name"] == "slurmd")["args"]
    words: list[str] = args[args.index("--conf") + 1].strip("'").split()
    return next(word for word in words if word.startswith("Features=")).removeprefix("Features=").split(",")


def _asked_node(pod: Mapping[str, Any]) -> str:
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for each in term.get("matchFields") or ():
            if each["key"] == "metadata.name":
                return str(each["values"][0])
    return ""
