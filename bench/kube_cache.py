"""What a watched list costs: 10,000 pods of 7 KB listed and indexed, then 20,000 watch events.

    python bench/kube_cache.py [-o json] [--client own kubernetes kopf] [--peer-python PATH]

A fake API server runs in a process of its own on the first core, the client in another on the last. The cache of this
project is measured beside the official `kubernetes` client and kopf where they are installed, here or in the
interpreter of `--peer-python`. CPU seconds are the client's own (user and system); the resident set is its peak.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAGE = 500
POD_BYTES = 7000
CLIENTS = ("own", "kubernetes", "kopf")


def pod(number: int, version: int) -> dict[str, Any]:
    """A pod of a worker, as large as real ones are."""
    name = f"worker-{number}"
    labels = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/instance": f"set-{number % 50}"}
    body: dict[str, Any] = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": f"ns-{number % 10}",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "resourceVersion": str(version),
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "labels": labels,
            "annotations": {"revision": "1"},
            "ownerReferences": [owner(number)],
            "managedFields": [managed_fields()],
        },
        "spec": {"nodeName": f"node-{number % 500}", "containers": [container()], "volumes": volumes()},
        "status": status(number),
    }
    body["spec"]["containers"][0]["args"].append("x" * max(0, POD_BYTES - len(encode(body))))
    return body


def owner(number: int) -> dict[str, Any]:
    """The set that a pod belongs to."""
    uid = f"11111111-0000-0000-0000-{number % 50:012d}"
    return {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "name": "s", "uid": uid, "controller": True}


def managed_fields() -> dict[str, Any]:
    """The bulk of any object's metadata."""
    fields: dict[str, Any] = {f"f:field{number}": {".": {}, "f:name": {}, "f:value": {}} for number in range(30)}
    return {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:status": fields}}


def container() -> dict[str, Any]:
    """A container with the usual trimmings."""
    env = [{"name": f"VARIABLE_{number}", "value": f"value-{number}"} for number in range(20)]
    mounts = [{"name": f"volume-{number}", "mountPath": f"/mnt/{number}"} for number in range(6)]
    probe = {"tcpSocket": {"port": 6818}, "periodSeconds": 10, "failureThreshold": 3}
    return {
        "name": "slurmd",
        "image": "registry.test/slurmd:25.11",
        "args": ["-Z"],
        "env": env,
        "volumeMounts": mounts,
        "readinessProbe": probe,
        "livenessProbe": probe,
        "resources": {"limits": {"cpu": "4", "memory": "8Gi"}},
    }


def volumes() -> list[dict[str, Any]]:
    """Volumes of several kinds."""
    return [{"name": f"volume-{number}", "configMap": {"name": f"map-{number}"}} for number in range(6)]


def status(number: int) -> dict[str, Any]:
    """A running pod."""
    kinds = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"} for kind in kinds]
    running = {
        "name": "slurmd",
        "ready": True,
        "restartCount": 0,
        "image": "i",
        "imageID": "i",
        "state": {"running": {}},
    }
    return {
        "phase": "Running",
        "podIP": f"10.0.{number // 250}.{number % 250}",
        "hostIP": "10.1.0.1",
        "conditions": conditions,
        "containerStatuses": [running],
    }


def encode(value: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


# The fake server


class Server:
    """Lists and watches pods; everything is encoded before the clock runs."""

    def __init__(self, pods: int, events: int) -> None:
        self.bodies = [encode(pod(number, number + 1)) for number in range(pods)]
        changed = (encode(pod(number % pods, pods + 1 + number)) for number in range(events))
        lines = [b'{"type":"MODIFIED","object":' + body + b"}\n" for body in changed]
        self.chunks = [_chunk(b"".join(lines[start : start + 20])) for start in range(0, len(lines), 20)]

    def page(self, limit: int, start: int) -> bytes:
        """One page of the list."""
        limit = limit or len(self.bodies)
        following = start + limit
        token = f',"continue":"{following}"' if following < len(self.bodies) else ""
        metadata = f'{{"resourceVersion":"{len(self.bodies)}"{token}}}'.encode()
        items = b",".join(self.bodies[start:following])
        return b'{"kind":"PodList","apiVersion":"v1","metadata":' + metadata + b',"items":[' + items + b"]}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the peer leaves."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                await self.answer(head.split(" ")[1], writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def answer(self, target: str, writer: asyncio.StreamWriter) -> None:
        """One answer; a watch never ends."""
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if query.get("watch", "").lower() in {"true", "1"}:
            await self.watch(parts.path, writer)
        elif parts.path == "/api/v1/pods":
            await self.send(writer, self.page(int(query.get("limit", "0")), int(query.get("continue", "0"))))
        else:
            await self.send(writer, encode(discovery(parts.path)))

    async def watch(self, path: str, writer: asyncio.StreamWriter) -> None:
        """All events as fast as they are taken."""
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        for chunk in self.chunks if path == "/api/v1/pods" else ():
            writer.write(chunk)
            await writer.drain()
        await asyncio.Event().wait()

    async def send(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        """One whole answer."""
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def discovery(path: str) -> dict[str, Any]:
    """What kopf asks before it starts."""
    verbs = ["get", "list", "watch", "patch"]
    names = (("pods", "Pod", True), ("namespaces", "Namespace", False), ("events", "Event", True))
    resources = [
        {"name": plural, "singularName": plural[:-1], "kind": kind, "namespaced": scoped, "verbs": verbs}
        for plural, kind, scoped in names
    ]
    answers: dict[str, dict[str, Any]] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": []},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources},
        "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.4"},
    }
    return answers.get(path, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})


async def run_server(pods: int, events: int) -> None:
    """Print the port, then serve until killed."""
    server = Server(pods, events)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=2**20)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


# The contenders: each prints one line of JSON


class Meter:
    """CPU seconds, wall seconds and resident set of this process, in two parts."""

    def __init__(self, client: str, events: int) -> None:
        self.result: dict[str, Any] = {"client": client, "events": events}
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def listed(self, count: int) -> None:
        """The list is there."""
        self.result["objects"] = count
        self.result["list_cpu_seconds"] = round(time.process_time() - self.cpu, 3)
        self.result["list_seconds"] = round(time.perf_counter() - self.wall, 3)
        self.result["list_rss_mb"] = round(rss_mb())
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def watched(self) -> None:
        """All events are there."""
        cpu, wall = time.process_time() - self.cpu, time.perf_counter() - self.wall
        events = self.result["events"]
        self.result["watch_cpu_seconds"] = round(cpu, 3)
        self.result["microseconds_per_event"] = round(cpu / events * 1e6, 1)
        self.result["events_per_second"] = round(events / wall)
        self.result["peak_rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        print(json.dumps(self.result), flush=True)


def rss_mb() -> float:
    """The resident set now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def run_own(url: str, events: int) -> None:
    """The cache of this project, with two indexes and a listener."""
    from kube_runtime.client.cache import Cache
    from kube_runtime.client.client import Client
    from kube_runtime.client.credentials import Fixed
    from kube_runtime.client.kubeconfig import Target
    from kube_runtime.client.objects import PODS, Pod

    def by_node(item: Pod) -> Iterator[str]:
        yield item.spec.node_name

    def by_owner(item: Pod) -> Iterator[str]:
        yield from (reference.uid for reference in item.metadata.owner_references)

    meter = Meter("own", events)
    async with Client.to(Target(server=url, credentials=Fixed())) as client:
        cache = Cache(client, PODS, indexes={"node": by_node, "owner": by_owner})
        left, done = events, asyncio.Event()

        def count(old: Pod | None, _: Pod | None) -> None:
            nonlocal left
            left -= old is not None
            if left == 0:
                done.set()

        cache.on_change(count)
        task = asyncio.create_task(cache.run())
        await cache.wait_synced()
        meter.listed(len(cache))
        await done.wait()
        meter.watched()
        task.cancel()


def run_kubernetes(url: str, events: int) -> None:
    """The official client: pages into a dictionary, then its watch."""
    kubernetes = importlib.import_module("kubernetes")
    meter = Meter("kubernetes", events)
    configuration = kubernetes.client.Configuration()
    configuration.host = url
    api = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))
    store, token, version = {}, None, ""
    while True:
        page = api.list_pod_for_all_namespaces(limit=PAGE, _continue=token)
        store.update({(item.metadata.namespace, item.metadata.name): item for item in page.items})
        token, version = page.metadata._continue, page.metadata.resource_version
        if not token:
            break
    meter.listed(len(store))
    stream = kubernetes.watch.Watch().stream(api.list_pod_for_all_namespaces, resource_version=version)
    for number, event in enumerate(stream, 1):
        item = event["object"]
        store[item.metadata.namespace, item.metadata.name] = item
        if number == events:
            break
    meter.watched()
    os._exit(0)


def run_kopf(url: str, events: int) -> None:
    """kopf in its cheapest form: one event handler, nothing posted, nothing scanned."""
    kopf = importlib.import_module("kopf")
    meter = Meter("kopf", events)
    seen: dict[tuple[str, str], Any] = {}
    counts = {"listed": 0, "watched": 0}

    def configure(settings: Any, **_: Any) -> None:
        settings.posting.enabled = False
        settings.scanning.disabled = True

    def login(**_: Any) -> Any:
        return kopf.ConnectionInfo(server=url)

    def on_event(event: Any, body: Any, **_: Any) -> None:
        seen[body["metadata"]["namespace"], body["metadata"]["name"]] = dict(body)
        if event["type"] is None:
            counts["listed"] += 1
            if len(seen) == counts["listed"] == OBJECTS:
                meter.listed(len(seen))
            return
        counts["watched"] += 1
        if counts["watched"] == events:
            meter.watched()
            os._exit(0)

    kopf.on.startup()(configure)
    kopf.on.login()(login)
    kopf.on.event("", "v1", "pods")(on_event)
    asyncio.run(kopf.operator(clusterwide=True, standalone=True))


OBJECTS = 10_000


def run_client(client: str, url: str, objects: int, events: int) -> None:
    """Run one contender in this process."""
    global OBJECTS  # noqa: PLW0603 - a contender is a process of its own
    OBJECTS = objects
    if client == "own":
        asyncio.run(run_own(url, events))
    elif client == "kubernetes":
        run_kubernetes(url, events)
    else:
        run_kopf(url, events)


# The referee


def pin(core: int) -> None:
    """Keep a process on one core."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def measure(client: str, python: str, objects: int, events: int, seconds: float) -> dict[str, Any]:
    """One contender against a fresh server."""
    me = [str(Path(__file__).resolve()), "--pods", str(objects), "--events", str(events)]
    server = subprocess.Popen([sys.executable, *me, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        ran = subprocess.run(
            [python, *me, "--run", client, url], capture_output=True, text=True, timeout=seconds, check=False
        )
    finally:
        server.kill()
        server.wait()
    lines = ran.stdout.strip().splitlines()
    if not lines:
        return {"client": client, "failed": ran.stderr.strip().splitlines()[-1:]}
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def has(client: str, python: str) -> bool:
    """Whether an interpreter can import a client."""
    if client == "own":
        return True
    if python == sys.executable:
        return importlib.util.find_spec(client) is not None
    return subprocess.run([python, "-c", f"import {client}"], capture_output=True, check=False).returncode == 0


def show(results: list[dict[str, Any]]) -> None:
    """A table for people."""
    columns = ("list_cpu_seconds", "list_rss_mb", "microseconds_per_event", "events_per_second", "peak_rss_mb")
    print(f"{'client':<12}" + "".join(f"{name.replace('_', ' '):>24}" for name in columns))
    for result in results:
        print(f"{result['client']:<12}" + "".join(f"{result.get(name, '-'):>24}" for name in columns))
    own = results[0]
    for peer in results[1:]:
        if "watch_cpu_seconds" in peer:
            total = peer["list_cpu_seconds"] + peer["watch_cpu_seconds"]
            times = total / (own["list_cpu_seconds"] + own["watch_cpu_seconds"])
            print(f"{peer['client']} used {times:.0f} times the CPU")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--client", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has kubernetes and kopf")
    parser.add_argument("--seconds", type=float, default=600.0, help="limit for one contender")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--run", nargs=2, metavar=("CLIENT", "URL"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Serve, run one contender, or compare them all."""
    options = parse()
    if options.serve:
        pin(0)
        asyncio.run(run_server(options.pods, options.events))
    elif options.run:
        pin(-1)
        client, url = options.run
        run_client(client, url, options.pods, options.events)
    else:
        results = []
        for client in options.client:
            python = sys.executable if client == "own" else options.peer_python
            if has(client, python):
                results.append(measure(client, python, options.pods, options.events, options.seconds))
            else:
                results.append({"client": client, "failed": ["not installed"]})
        print(json.dumps(results)) if options.output == "json" else show(results)


if __name__ == "__main__":
    main()
