"""The whole: names resolve, a killed control plane goes on where it was, a big burst is worked off."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kube_runtime.client.in_process import InProcess

from kube_local.controllers.run import assemble
from kube_local.controllers.settings import Settings
from kube_runtime.client.client import Client
from kube_runtime.client.write import Write
from kube_runtime.loop.run import Ending

WEB = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 6
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: image}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: rest}
spec:
  replicas: 6
  selector: {matchLabels: {app: rest}}
  template:
    metadata: {labels: {app: rest}}
    spec: {containers: [{name: main, image: image}]}
"""


async def _resolve(port: int, name: str) -> list[str]:
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    data = struct.pack("!HHHHHH", 9, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", 1, 1)
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.setblocking(False)
        one.connect(("127.0.0.1", port))
        await loop.sock_sendall(one, data)
        said = await loop.sock_recv(one, 65535)
    count = struct.unpack_from("!H", said, 6)[0]
    return [socket.inet_ntoa(said[len(data) + 16 * n + 12 :][:4]) for n in range(count)]


async def test_names_of_pods_and_services_resolve_to_their_addresses(
    server: Any, tmp_path: Path, running_on: Any, free_port: int
) -> None:
    async with running_on(server, tmp_path, dns_address="127.0.0.1", dns_port=free_port) as cluster:
        await cluster.add_nodes("node-0")
        await cluster.apply(WEB)
        await cluster.status("StatefulSet", "web", readyReplicas=6)
        pods = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in await cluster.list("Pod", "app=web")}

        async def all_known() -> bool:
            found = await _resolve(free_port, "web.test.svc.cluster.local")
            return sorted(found) == sorted(pods.values())

        await cluster.until(all_known)
        assert await _resolve(free_port, "web-3.web.test.svc.cluster.local") == [pods["web-3"]]
        assert await _resolve(free_port, "web-9.web.test.svc.cluster.local") == []


class Cut(BaseException):
    """The process is gone, between one write and the next."""


def _cut_after(most: int) -> Callable[[Write], Awaitable[None]]:
    writes = 0

    async def before(_: Write) -> None:
        nonlocal writes
        writes += 1
        if writes > most:
            raise Cut

    return before


@pytest.mark.parametrize("first", [1, 2, 3])
async def test_controllers_that_are_killed_again_and_again_end_at_the_same_place(
    server: Any, tmp_path: Path, running_on: Any, kubelets_for: Any, first: int
) -> None:
    client = Client(InProcess(server))
    kubelets = asyncio.create_task(kubelets_for(client))
    async with running_on(server, tmp_path) as cluster:
        await cluster.apply(WEB)
    for most in range(first, 40, 4):
        plane = assemble(client, Settings(volumes=tmp_path))
        plane.world.writer.before = _cut_after(most)
        stop = asyncio.Event()
        # With nothing left to write nobody is killed; that run ends by itself.
        asyncio.get_running_loop().call_later(0.5, stop.set)
        assert await plane.run(stop) in (Ending.FAILED, Ending.ASKED)
    async with running_on(server, tmp_path) as cluster:
        await cluster.status("StatefulSet", "web", readyReplicas=6, updatedReplicas=6)
        await cluster.status("Deployment", "rest", availableReplicas=6, updatedReplicas=6)
        await cluster.quiet()
        assert len(await cluster.list("Pod", "app=rest")) == 6
        assert len(await cluster.list("ReplicaSet")) == 1
        assert len(await cluster.list("ControllerRevision")) == 1
    kubelets.cancel()
    await asyncio.gather(kubelets, return_exceptions=True)


async def test_three_hundred_pods_are_made_placed_and_served(cluster: Any) -> None:
    await cluster.add_nodes("large", room={"pods": "1000", "cpu": "1000"})
    await cluster.apply(
        WEB.replace("replicas: 6", "replicas: 150").replace(
            "serviceName", "podManagementPolicy: Parallel\n  serviceName"
        )
    )
    await cluster.status("Deployment", "rest", availableReplicas=150)
    await cluster.status("StatefulSet", "web", readyReplicas=150)
    nodes = {pod["spec"]["nodeName"] for pod in await cluster.list("Pod")}
    assert nodes == {"node-0", "node-1", "large"}

    async def served() -> bool:
        slices = await cluster.list("EndpointSlice", "kubernetes.io/service-name=web")
        return sum(len(one.get("endpoints") or ()) for one in slices) == 150

    await cluster.until(served)
