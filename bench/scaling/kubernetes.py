"""The Kubernetes of the benchmark: a control plane that writes down every request, and kubelets that only pretend.

In: a scratch folder. Out: a cluster with an audit log, nodes whose kubelets answer at once and whose logs come from the
stand-in of Slurm, and helpers that ask and wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml
from bench.scaling import objects
from bench.scaling.objects import Json
from tests.real.kube.cluster import Cluster, real_cluster
from tests.real.kube.fake_nodes import FakeNodes, lines_of, node_object

ROOT = Path(__file__).resolve().parents[2]
WAIT_SECONDS = 120.0
REST_SECONDS, REST_SHARE = 15.0, 0.85
PODS_PER_NODE = 250
KUBELET_AGENT, BENCH_AGENT, CLIENT_AGENT = "bench-kubelet", "bench", "bench-client"
JSON_BODY = {"Content-Type": "application/json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
# What nobody counts is not written down: the control plane pays for its audit log too.
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/readyz*", "/livez*"]},
        {
            "level": "None",
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
            "users": ["system:apiserver"],
        },
        {"level": "Metadata"},
    ],
}


@contextlib.asynccontextmanager
async def audited_cluster(folder: Path, *, scheduler: bool) -> AsyncIterator[Cluster]:
    """A control plane that writes down every request."""
    policy = folder / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    flags = (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={folder / 'audit.log'}",
        # Rotated at a hundred megabytes by default: ten thousand workers fill more.
        "--audit-log-maxsize=10000",
        "--audit-log-mode=batch",
        "--audit-log-batch-max-wait=1s",
        "--audit-log-batch-buffer-size=200000",
        "--kubelet-preferred-address-types=InternalIP",
    )
    async with real_cluster(folder, controllers=True, scheduler=scheduler, apiserver_flags=flags) as cluster:
        yield cluster


def session(cluster: Cluster, agent: str) -> aiohttp.ClientSession:
    """A session of the administrator, under a name that the audit log shows."""
    headers = {"Authorization": f"Bearer {cluster.token}", "User-Agent": agent}
    connector = aiohttp.TCPConnector(ssl=cluster.ssl_context(), limit=0)
    return aiohttp.ClientSession(cluster.url, headers=headers, connector=connector)


async def call(
    http: aiohttp.ClientSession, method: str, path: str, body: Any = None, headers: Json = JSON_BODY
) -> Json:
    """One request that must succeed."""
    data = None if body is None else msgspec.json.encode(body)
    async with http.request(method, path, data=data, headers=headers) as answer:
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
        return dict(await answer.json())


async def until(
    http: aiohttp.ClientSession,
    path: str,
    wanted: Callable[[Json], object],
    pause: float = 0.1,
    seconds: float = WAIT_SECONDS,
) -> Json:
    """Ask until the answer is as wanted."""
    async with asyncio.timeout(seconds):
        while True:
            async with http.get(path) as answer:
                if answer.status == 200:
                    body = dict(await answer.json())
                    if wanted(body):
                        return body
            await asyncio.sleep(pause)


async def prepare(http: aiohttp.ClientSession) -> None:
    """Definitions of our kinds."""
    for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
        for definition in yaml.safe_load_all(path.read_text()):
            await call(http, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    await until(http, objects.path_of("default", "nodesets"), lambda _: True)


async def make_namespaces(http: aiohttp.ClientSession, *names: str) -> None:
    """Namespaces with keys, once their service accounts are there."""
    for name in names:
        await call(http, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        keys = {"metadata": {"name": "keys"}, "stringData": {"slurm.key": "k" * 64, "jwt.key": "k" * 32}}
        await call(http, "POST", f"/api/v1/namespaces/{name}/secrets", keys)
    for name in names:
        await until(http, f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda _: True)


async def bind_at_once(http: aiohttp.ClientSession, nodes: int) -> None:
    """From now on workers are bound as they are created."""
    plurals = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
    for plural, body in zip(plurals, objects.binding_policy(nodes), strict=True):
        await call(http, "POST", f"/apis/admissionregistration.k8s.io/v1/{plural}", body)


async def until_rest(seconds: float = REST_SECONDS) -> None:
    """Wait until little runs on the machine, for a while: what went before is not to be paid by what comes next."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while await idle_share() < REST_SHARE:
                pass


async def idle_share(seconds: float = 1.0) -> float:
    """How much of the next second the processors had nothing to do."""
    before = _processor_ticks()
    await asyncio.sleep(seconds)
    after = _processor_ticks()
    spent = [late - early for early, late in zip(before, after, strict=True)]
    return (spent[3] + spent[4]) / max(1, sum(spent))


def _processor_ticks() -> list[int]:
    return [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


# Kubelets


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class Kubelets(FakeNodes):
    """The fake kubelets, reading of most events only whether they matter: there are five for each pod."""

    def __init__(self, http: aiohttp.ClientSession, names: frozenset[str]) -> None:
        super().__init__(http, names)
        self._finishing: set[str] = set()

    async def watch_pods(self, version: str, work: asyncio.TaskGroup) -> None:
        """Handle events until the server ends the stream or reports an error in it."""
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "3600"}
        async with self.http.get("/api/v1/pods", params=query, timeout=aiohttp.ClientTimeout(total=None)) as stream:
            async for line in lines_of(stream.content):
                event = msgspec.json.decode(line, type=_Event)
                if event.type == "ERROR":
                    return
                if event.type != "DELETED" and self._matters(msgspec.json.decode(event.object, type=_Pod)):
                    self.look_at(msgspec.json.decode(event.object), work)

    def _matters(self, pod: _Pod) -> bool:
        if pod.spec.node_name not in self.names:
            return False
        uid = pod.metadata.uid
        if pod.metadata.deletion_timestamp:
            is_first = uid not in self._finishing
            self._finishing.add(uid)
            return is_first
        return pod.status.phase == "Pending" and uid not in self.started


@contextlib.asynccontextmanager
async def kubelets(cluster: Cluster, count: int, log_port: int) -> AsyncIterator[Kubelets]:
    """Nodes `fake-0 …` that run every pod bound to them, for as long as the block lasts."""
    async with session(cluster, KUBELET_AGENT) as http:
        nodes = [node_object(f"fake-{number}", 64, "1024Gi", PODS_PER_NODE) for number in range(count)]
        for node in nodes:
            node["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
            node["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": log_port}}
        pretended = Kubelets(http, frozenset(node["metadata"]["name"] for node in nodes))
        await asyncio.gather(*(pretended.register(node) for node in nodes))
        task = asyncio.create_task(pretended.run())
        try:
            yield pretended
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
