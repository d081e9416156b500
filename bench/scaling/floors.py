"""The floor: what a bare client needs to create and to delete the same pods, with nothing else around it.

    python -m bench.scaling.floors URL CA NAMESPACE create|delete    token and bodies, or names, on stdin

In: the objects that the operator would make. Out: when the client began; the audit log has when the last pod was there,
Ready, or gone. A process of its own, 64 requests in flight.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
from bench.scaling import objects
from bench.scaling.kubernetes import CLIENT_AGENT, JSON_BODY, call, until, until_rest
from tests.real.kube.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class Floor:
    """When a bare client began to create, and to delete; how many pods each."""

    namespace: str
    created_since: float
    created: int
    deleted_since: float
    deleted: int


async def send_all(http: aiohttp.ClientSession, method: str, path: str, items: Iterable[bytes]) -> None:
    """Every request once, so many at a time."""
    pending = iter(items)

    async def sender() -> None:
        for item in pending:
            url = path if method == "POST" else f"{path}/{item.decode()}"
            async with http.request(method, url, data=item if method == "POST" else None) as answer:
                text = await answer.read()
                if answer.status >= 300:
                    raise RuntimeError(text.decode(errors="replace"))

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(sender())


async def bare_client(url: str, ca_path: str, namespace: str, verb: str, token: str, items: Sequence[bytes]) -> None:
    """Says first when it began to connect, as a new operator must too."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca_path), limit=IN_FLIGHT)
    headers = {"Authorization": f"Bearer {token}", "User-Agent": CLIENT_AGENT, **JSON_BODY}
    print(time.time(), flush=True)
    async with aiohttp.ClientSession(url, headers=headers, connector=connector) as http:
        await send_all(http, "POST" if verb == "create" else "DELETE", f"/api/v1/namespaces/{namespace}/pods", items)


async def run_client(cluster: Cluster, namespace: str, verb: str, items: Sequence[bytes]) -> float:
    """The bare client as a process; gives when it began."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.scaling.floors",
        cluster.url,
        str(cluster.folder / "ca.crt"),
        namespace,
        verb,
        env={**os.environ, "PYTHONPATH": paths},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await child.communicate(b"\n".join([cluster.token.encode(), *items]))
    if child.returncode:
        raise RuntimeError("the bare client failed")
    return float(said)


async def measure_floor(
    cluster: Cluster,
    http: aiohttp.ClientSession,
    namespace: str,
    count: int,
    leaving: int,
    seconds: float,
    rest_seconds: float,
) -> Floor:
    """Create `count` pods with the same Service, budget and kind of owner as ours, then delete `leaving` of them."""
    controllers, nodesets = objects.path_of(namespace, "controllers"), objects.path_of(namespace, "nodesets")
    controller = await call(http, "POST", controllers, objects.controller(namespace))
    owner = await call(http, "POST", nodesets, objects.workers(namespace, count))
    shared, pods = objects.built(controller, owner, count)
    for item in shared:
        await call(http, "POST", objects.SHARED[item["kind"]].format(namespace=namespace), item)
    await until_rest(rest_seconds)
    created_since = await run_client(cluster, namespace, "create", [msgspec.json.encode(pod) for pod in pods])
    await until_running(http, namespace, seconds)
    await until_rest(rest_seconds)
    # The last ones first, as the operator does.
    names = [str(pod["metadata"]["name"]).encode() for pod in reversed(pods)][:leaving]
    deleted_since = await run_client(cluster, namespace, "delete", names)
    await until_pods(http, namespace, count - leaving, seconds)
    await remove_all(http, namespace, seconds)
    return Floor(namespace, created_since, count, deleted_since, leaving)


async def until_running(http: aiohttp.ClientSession, namespace: str, seconds: float) -> None:
    """Wait until no pod waits for its fake kubelet."""
    path = f"/api/v1/namespaces/{namespace}/pods?limit=1&fieldSelector=status.phase%3DPending"
    await until(http, path, lambda body: not body["items"], pause=0.5, seconds=seconds)


async def until_pods(http: aiohttp.ClientSession, namespace: str, count: int, seconds: float) -> None:
    """Wait until a namespace holds so many pods; one object is read, the others are only counted."""

    def held(body: objects.Json) -> bool:
        return len(body["items"]) + int(body["metadata"].get("remainingItemCount") or 0) == count

    # Seldom: the server's own record has the moment, and a bare client is not looked at while it works.
    await until(http, f"/api/v1/namespaces/{namespace}/pods?limit=1", held, pause=0.5, seconds=seconds)


async def remove_all(http: aiohttp.ClientSession, namespace: str, seconds: float) -> None:
    """Take away owners and pods, and wait until they are gone."""
    for plural in ("nodesets", "restapis", "controllers"):
        await call(http, "DELETE", objects.path_of(namespace, plural))
    await call(http, "DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
    await until_pods(http, namespace, 0, seconds)


def main() -> None:
    """The process."""
    url, ca_path, namespace, verb = sys.argv[1:]
    token, *items = sys.stdin.buffer.read().split(b"\n")
    asyncio.run(bare_client(url, ca_path, namespace, verb, token.decode(), items))


if __name__ == "__main__":
    main()
