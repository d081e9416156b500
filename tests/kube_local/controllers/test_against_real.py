"""The same manifests on the embedded control plane and on the real one: what comes out must be the same.

Compared are all objects of the namespace after each step, with uids, versions, times, addresses, hashes, nodes and
random endings masked. Skipped, loudly, where the real programs are not built.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kube_local.controllers import objects
from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.errors import AlreadyExists
from kube_runtime.client.objects import NAMESPACES

pytestmark = pytest.mark.real_kube
Json = dict[str, Any]
NAMESPACE = "test"
SEEN = (
    objects.STATEFUL_SETS,
    objects.DEPLOYMENTS,
    objects.REPLICA_SETS,
    objects.REVISIONS,
    objects.PODS,
    objects.SERVICES,
    objects.SLICES,
    objects.CLAIMS,
    objects.BUDGETS,
)
BY_KIND = {one.kind: one for one in (*objects.WRITTEN, objects.REVISIONS)}

STATEFUL = """
apiVersion: v1
kind: Service
metadata: {name: ctl}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: ctl}, ports: [{name: ctl, port: 6817}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ctl, labels: {app: ctl}, annotations: {note: kept}}
spec:
  replicas: 3
  serviceName: ctl
  selector: {matchLabels: {app: ctl}}
  template:
    metadata: {labels: {app: ctl, tier: one}, annotations: {hash: abc}}
    spec:
      terminationGracePeriodSeconds: 5
      containers: [{name: main, image: "image:1", ports: [{name: ctl, containerPort: 6817}]}]
      volumes: [{name: run, emptyDir: {medium: Memory}}]
  volumeClaimTemplates:
  - metadata: {name: state}
    spec: {storageClassName: manual, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: ctl}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: ctl}}}
"""
VOLUMES = "\n---\n".join(
    f"""
apiVersion: v1
kind: PersistentVolume
metadata: {{name: disk-{number}}}
spec:
  storageClassName: manual
  accessModes: [ReadWriteOnce]
  capacity: {{storage: {number + 1}Gi}}
  hostPath: {{path: /tmp/disk-{number}}}
"""
    for number in range(4)
)
DEPLOYED = """
apiVersion: v1
kind: Service
metadata: {name: rest, labels: {app: rest}}
spec: {selector: {app: rest}, ports: [{name: http, port: 6820, targetPort: rest, protocol: TCP}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: rest, labels: {app: rest}, annotations: {note: kept}}
spec:
  replicas: 4
  selector: {matchLabels: {app: rest}}
  template:
    metadata: {labels: {app: rest}}
    spec:
      terminationGracePeriodSeconds: 5
      containers: [{name: main, image: "image:1", ports: [{name: rest, containerPort: 6820}]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: rest}
spec: {minAvailable: 50%, selector: {matchLabels: {app: rest}}}
"""


# --- what may differ ----------------------------------------------------------------------------------------------

DROPPED = frozenset({"uid", "resourceVersion", "managedFields", "selfLink", "clusterIP", "clusterIPs", "nodeName"})
# Written by the real controllers for measuring themselves, or by server defaults of another release.
NOISE = frozenset({"endpoints.kubernetes.io/last-change-trigger-time", "batch.kubernetes.io/job-tracking"})
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")


def mask_names(text: str, hashes: dict[str, str]) -> str:
    for hash_, stands in hashes.items():
        text = re.sub(rf"\b{hash_}-[a-z0-9]{{5}}\b", f"{stands}-<random>", text)
        text = re.sub(rf"\b{hash_}\b", stands, text)
    return ADDRESS.sub("<address>", TIME.sub("<time>", text))


def masked(value: Any, hashes: dict[str, str]) -> Any:
    if isinstance(value, str):
        return mask_names(value, hashes)
    if isinstance(value, list):
        return [masked(one, hashes) for one in value]
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key not in DROPPED | NOISE}
        made = {key: masked(one, hashes) for key, one in sorted(kept.items())}
        return {key: one for key, one in made.items() if one != {} or key not in ("annotations", "labels")}
    return value


def hashes_of(found: dict[str, list[Json]]) -> dict[str, str]:
    """Hashes in the order in which their templates came."""
    sets = sorted(
        found["ReplicaSet"], key=lambda one: int(one["metadata"]["annotations"]["deployment.kubernetes.io/revision"])
    )
    revisions = sorted(found["ControllerRevision"], key=lambda one: int(one["revision"]))
    names = {one["metadata"]["labels"]["pod-template-hash"]: f"<template {n}>" for n, one in enumerate(sets)}
    return names | {
        one["metadata"]["labels"]["controller.kubernetes.io/hash"]: f"<revision {n}>" for n, one in enumerate(revisions)
    }


def shown(kind: str, one: Json, hashes: dict[str, str]) -> Json:
    body: Json = masked(one, hashes)
    if kind == "EndpointSlice":
        # How often they were written depends on who was faster.
        body["metadata"].pop("generation", None)
        body["metadata"]["name"] = re.sub(r"-[a-z0-9]{5}$", "-<random>", body["metadata"]["name"])
        for each in body.get("endpoints") or ():
            each["targetRef"]["name"] = re.sub(r"-[a-z0-9]{5}$", "-<random>", each["targetRef"]["name"])
        (body.get("endpoints") or []).sort(key=repr)
    if kind == "Pod":
        body["status"] = {"phase": body["status"]["phase"]}
    if kind == "ReplicaSet":
        # In how many steps a roll-out goes depends on how fast pods become ready.
        seen = body["status"].get("observedGeneration", 0)
        body["status"]["observedGeneration"] = seen - body["metadata"].pop("generation")
    if kind == "Service":
        body.pop("status", None)
    conditions = (body.get("status") or {}).get("conditions")
    if conditions:
        conditions.sort(key=lambda each: str(each["type"]))
    return body


async def snapshot(client: Client) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for resource in SEEN:
        listing = await client.list(resource.raw(), NAMESPACE)
        found[resource.kind] = [one.content() for one in listing.items]
    hashes = hashes_of(found)
    return {
        kind: sorted(
            (shown(kind, one, hashes) for one in items), key=lambda one: repr(one["metadata"]["name"]) + repr(one)
        )
        for kind, items in found.items()
    }


# --- two control planes -------------------------------------------------------------------------------------------


@pytest.fixture
async def both(cluster: Any, tmp_path: Path, kubelets_for: Any) -> AsyncIterator[tuple[Client, Client]]:
    tools = pytest.importorskip("tests.real.kube.tools")
    if missing := tools.missing_tools():
        pytest.skip(f"REAL CONTROL PLANE NOT COMPARED: {', '.join(missing)} not built (make kube-tools)")
    from tests.real.kube.cluster import real_cluster

    flags = ("--disable-admission-plugins=ServiceAccount",)
    async with AsyncExitStack() as stack:
        real = await stack.enter_async_context(
            real_cluster(tmp_path / "real", controllers=True, scheduler=True, apiserver_flags=flags)
        )
        client = await stack.enter_async_context(Client.to(kubeconfig.load([real.kubeconfig_path])))
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        task = asyncio.create_task(kubelets_for(client))
        yield cluster.client, client
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def apply(client: Client, text: str) -> None:
    for body in yaml.safe_load_all(text):
        resource = BY_KIND[body["kind"]].raw()
        try:
            await client.create(resource, body, NAMESPACE if resource.namespaced else "")
        except AlreadyExists:
            name = body["metadata"]["name"]
            await client.merge_patch(resource, name, body, NAMESPACE if resource.namespaced else "")


async def settled(client: Client, kind: str, name: str, replicas: int) -> None:
    """Wait until a workload is complete and everything around it has come to rest."""

    async def complete() -> bool:
        body = (await client.get(BY_KIND[kind].raw(), name, NAMESPACE)).content()
        said = body.get("status") or {}
        numbers = (said.get(key) or 0 for key in ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"))
        return (
            all(number == replicas for number in numbers)
            and said.get("observedGeneration") == body["metadata"]["generation"]
        )

    async with asyncio.timeout(60):
        calm, last = 0, b""
        while calm < 8:
            await asyncio.sleep(0.25)
            now = msgspec.json.encode(await snapshot(client))
            calm = calm + 1 if now == last and await complete() else 0
            last = now


Step = Callable[[Client], Awaitable[None]]


def _applied(text: str) -> Step:
    return lambda client: apply(client, text)


def _patched(kind: str, name: str, patch: Json) -> Step:
    async def step(client: Client) -> None:
        await client.merge_patch(BY_KIND[kind].raw(), name, patch, NAMESPACE)

    return step


def _image(image: str) -> Json:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


async def test_both_control_planes_make_the_same_of_a_stateful_set(both: tuple[Client, Client]) -> None:
    steps = [
        ("created", _applied(f"{VOLUMES}\n---{STATEFUL}"), 3),
        ("scaled in", _patched("StatefulSet", "ctl", {"spec": {"replicas": 2}}), 2),
        ("new image", _patched("StatefulSet", "ctl", _image("image:2")), 2),
        ("back again", _patched("StatefulSet", "ctl", _image("image:1")), 2),
        ("scaled out", _patched("StatefulSet", "ctl", {"spec": {"replicas": 4}}), 4),
    ]
    await _compare(both, steps, "StatefulSet", "ctl")


async def test_both_control_planes_make_the_same_of_a_deployment(both: tuple[Client, Client]) -> None:
    steps = [
        ("created", _applied(DEPLOYED), 4),
        ("scaled out", _patched("Deployment", "rest", {"spec": {"replicas": 6}}), 6),
        ("new image", _patched("Deployment", "rest", _image("image:2")), 6),
        ("scaled in", _patched("Deployment", "rest", {"spec": {"replicas": 1}}), 1),
        ("back again", _patched("Deployment", "rest", _image("image:1")), 1),
    ]
    await _compare(both, steps, "Deployment", "rest")


async def _compare(both: tuple[Client, Client], steps: list[tuple[str, Step, int]], kind: str, name: str) -> None:
    for described, step, replicas in steps:
        found = []
        for client in both:
            await step(client)
            await settled(client, kind, name, replicas)
            found.append(await snapshot(client))
        assert not list(differences("", *found)), f"after {described}; left: embedded, right: real"


def differences(path: str, left: Any, right: Any) -> Iterator[str]:
    """Where two values part, one line each."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            yield from differences(f"{path}.{key}", left.get(key), right.get(key))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, pair in enumerate(zip(left, right, strict=True)):
            yield from differences(f"{path}[{number}]", *pair)
    elif left != right:
        yield f"{path}: {left!r} != {right!r}"
