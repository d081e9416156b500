"""The operator installed on a real cluster by its manifest, and an example cluster of Slurm run by it.

In: a `Cluster`. Out: `Installed`: what to ask of Kubernetes and Slurm. `deploy/install.yaml` is applied as it is; the
Slurm cluster is that of `examples/demo` without accounting and logins, with root file systems that are read-only.
Called by the `installed` fixture and by `bench/config_latency.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from tests.real.kube.cluster import Cluster

from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.objects import PODS
from slurm_operator.reconcile.resources import OURS

ROOT = Path(__file__).resolve().parents[3]
MANIFEST = ROOT / "deploy" / "install.yaml"
DEMO = ROOT / "examples" / "demo"
OPERATOR, SLURM = "slinky", "slurm"
READY_SECONDS = 150.0
RAW = {kind: resource.raw() for kind, resource in OURS.items()}

Object = dict[str, Any]


def example() -> Iterator[Object]:
    """Keys, a Controller, a RestApi and two workers."""
    read_only = {"securityContext": {"readOnlyRootFilesystem": True}}
    for file in ("keys", "controller", "workers"):
        for body in yaml.safe_load_all((DEMO / f"{file}.yaml").read_text()):
            spec = body.get("spec") or {}
            spec.pop("accountingRef", None)
            for daemon in ("slurmctld", "slurmrestd"):
                if daemon in spec:
                    spec[daemon] |= read_only
            if (body["kind"], body["metadata"]["name"]) != ("NodeSet", "debug"):
                yield body


@dataclass(slots=True)
class Installed:
    """A cluster with the operator and Slurm on it."""

    cluster: Cluster
    kube: Client
    http: aiohttp.ClientSession
    took: dict[str, float] = field(default_factory=dict)
    _plurals: dict[str, dict[str, Object]] = field(default_factory=dict)

    async def apply(self, body: Object) -> None:
        """`kubectl apply --server-side` of one object."""
        kind = await self._kind(body["apiVersion"], body["kind"])
        namespace = f"/namespaces/{body['metadata']['namespace']}" if kind["namespaced"] else ""
        path = f"{_prefix(body['apiVersion'])}{namespace}/{kind['name']}/{body['metadata']['name']}"
        headers = {"Content-Type": "application/apply-patch+yaml"}
        params = {"fieldManager": "kubectl", "force": "true"}
        async with self.http.patch(path, params=params, data=yaml.safe_dump(body), headers=headers) as answer:
            if answer.status not in {200, 201}:
                raise RuntimeError(f"{body['kind']} {body['metadata']['name']}: {await answer.text()}")

    async def _kind(self, version: str, kind: str) -> Object:
        """How the server calls a kind; one that was just defined may take a moment."""
        async with asyncio.timeout(10):
            while kind not in self._plurals.get(version, {}):
                async with self.http.get(_prefix(version)) as answer:
                    found = (await answer.json()).get("resources", ())
                self._plurals[version] = {each["kind"]: each for each in found if "/" not in each["name"]}
                await asyncio.sleep(0.05)
        return self._plurals[version][kind]

    async def patch(self, kind: str, name: str, spec: Object) -> None:
        """`kubectl patch --type=merge` of one of our resources."""
        await self.kube.merge_patch(RAW[kind], name, {"spec": spec}, SLURM)

    async def status(self, kind: str, name: str) -> Object:
        """The status of one of our resources."""
        found = await self.kube.get(RAW[kind], name, SLURM)
        status: Object = found.content().get("status") or {}
        return status

    async def condition(self, kind: str, name: str, condition: str) -> tuple[str, str]:
        """Status and message of a condition; empty where it is not there yet."""
        for each in (await self.status(kind, name)).get("conditions", ()):
            if each["type"] == condition:
                return each["status"], each["message"]
        return "", ""

    async def slurm(self, *command: str) -> str:
        """A command in slurmctld's container."""
        ran = await self.kube.run(SLURM, "slurm-controller-0", list(command), container="slurmctld", seconds=60)
        if ran.code:
            raise RuntimeError(f"{' '.join(command)}: {ran.stderr.decode()}")
        return ran.stdout.decode()

    async def all_ready(self) -> bool:
        """Whether every resource says so, and every worker is there."""
        for kind, name in (("Controller", "slurm"), ("RestApi", "slurm")):
            if (await self.condition(kind, name, "Ready"))[0] != "True":
                return False
        if (await self.condition("Controller", "slurm", "ConfigApplied"))[0] != "True":
            return False
        return (await self.status("NodeSet", "compute")).get("readyReplicas") == 2


async def until(good: Callable[[], Awaitable[bool]], what: str, seconds: float = READY_SECONDS) -> float:
    """Seconds until something is so; asked ten times a second."""
    started = time.monotonic()
    while not await good():
        if time.monotonic() - started > seconds:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        await asyncio.sleep(0.1)
    return time.monotonic() - started


async def _pods_ready(kube: Client, namespace: str, count: int) -> bool:
    pods = [pod.content() for pod in (await kube.list(PODS.raw(), namespace)).items]
    ready = [each["status"] for pod in pods for each in _conditions(pod) if each["type"] == "Ready"]
    return ready == ["True"] * count


def _conditions(pod: Object) -> list[Object]:
    found: list[Object] = (pod.get("status") or {}).get("conditions") or []
    return found


def _prefix(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


@asynccontextmanager
async def install(cluster: Cluster) -> AsyncIterator[Installed]:
    """Operator first, as its documentation says; then Slurm. Both are ready when entered."""
    async with cluster.session() as http, Client.to(kubeconfig.find(path=str(cluster.kubeconfig_path))) as kube:
        made = Installed(cluster, kube, http)
        for body in yaml.safe_load_all(MANIFEST.read_text()):
            if body:
                await made.apply(body)
        made.took["operator ready"] = await until(lambda: _pods_ready(kube, OPERATOR, 2), "the operator's pods")
        # Its webhooks answer only once the certificate is published.
        bodies = list(example())
        made.took["admission ready"] = await until(lambda: _accepted(made, bodies), "admission")
        made.took["Slurm ready"] = await until(made.all_ready, "Slurm")
        yield made


async def _accepted(made: Installed, bodies: list[Object]) -> bool:
    try:
        for body in bodies:
            await made.apply(body)
    except RuntimeError as error:
        if "failed calling webhook" in str(error):
            return False
        raise
    return True
