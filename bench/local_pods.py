"""What pods of local mode cost: time to start, time until a changed ConfigMap is seen, memory with real Slurm.

    python bench/local_pods.py [-o json] [--workers 8] [--most 64] [--only start,nudge,refresh,memory,many]

In: an image in the cache (`slurm-operator local image build`) and root; without them it says so and exits 0. It brings
up a cluster of its own from examples/demo and takes it away again. Out: seconds and megabytes. Exits 1 above a bar.
Times are those of a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube_local.node.paths import Paths
from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.decode import Changed
from kube_runtime.client.objects import CONFIG_MAPS, PODS, RawObject
from slurm_operator.local import machine
from slurm_operator.local.home import Home
from slurm_operator.local.image import rules, store
from slurm_operator.local.supervisor import supervisor_pid
from slurm_operator.reconcile.resources import OURS

DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo"
NAMESPACE, NODE_SET = "slurm", "compute"
BARS = {
    "one_pod_seconds": 0.5,
    "sixteen_pods_seconds": 5.0,
    "nudge_seconds": 0.3,
    "refresh_seconds": 70.0,
    "memory_megabytes": 1500.0,
}
STAGES = ("start", "nudge", "refresh", "memory", "many")
STAY = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A local cluster and a way to talk to it."""

    home: Home
    client: Client

    async def until(self, wanted: Callable[[dict[str, Json]], bool], selector: str, seconds: float = 300.0) -> float:
        """The time at which all pods of a selector together are as wanted."""
        listed = await self.client.list(PODS.raw(), NAMESPACE, label_selector=selector)
        found = {pod.metadata.name: pod.content() for pod in listed.items}
        async with asyncio.timeout(seconds):
            if wanted(found):
                return time.monotonic()
            async with aclosing(self._changes(selector, listed.resource_version)) as changes:
                async for pod in changes:
                    found[pod.metadata.name] = pod.content()
                    if wanted(found):
                        return time.monotonic()
        raise RuntimeError("the watch ended before the pods were as wanted")

    async def _changes(self, selector: str, version: str) -> AsyncGenerator[RawObject, None]:
        events = self.client.watch(PODS.raw(), NAMESPACE, resource_version=version, label_selector=selector)
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Changed):
                    yield event.object

    async def start(self, names: list[str], **spec: Any) -> float:
        """Create pods at once; when the first request left."""
        began = time.monotonic()
        container = {"name": "main", "image": "busybox", "command": STAY, **spec.pop("container", {})}
        body = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], **spec}}
        await asyncio.gather(
            *(
                self.client.create(PODS, {**body, "metadata": {"name": name, "labels": {"bench": names[0]}}}, NAMESPACE)
                for name in names
            )
        )
        return began

    async def remove(self, names: list[str]) -> None:
        """Take pods away at once."""
        await asyncio.gather(*(self.client.delete(PODS, name, NAMESPACE, grace_seconds=0) for name in names))


def is_running(pod: Json) -> bool:
    """Whether its containers run."""
    return bool((pod.get("status") or {}).get("phase") == "Running")


def is_ready(pod: Json) -> bool:
    """Whether it is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def all_of(count: int, good: Callable[[Json], bool]) -> Callable[[dict[str, Json]], bool]:
    """That many pods, all of them good."""
    return lambda pods: len(pods) >= count and all(good(pod) for pod in pods.values())


# --- the figures ------------------------------------------------------------------------------------------------------


async def start(cluster: Cluster) -> Json:
    """From creation to Running for one pod, to Ready for sixteen."""
    alone = []
    for number in range(5):
        began = await cluster.start([f"alone-{number}"])
        alone.append(await cluster.until(all_of(1, is_running), f"bench=alone-{number}") - began)
        await cluster.remove([f"alone-{number}"])
    names = [f"many-{number}" for number in range(16)]
    began = await cluster.start(names)
    took = await cluster.until(all_of(16, is_ready), "bench=many-0") - began
    await cluster.remove(names)
    return {"one_pod_seconds": round(statistics.median(alone), 3), "sixteen_pods_seconds": round(took, 2)}


async def _mounted(cluster: Cluster, name: str) -> Path:
    """A pod with a ConfigMap as a volume; answers the file as the machine sees it."""
    await _write(cluster, name, "0")
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    await cluster.start([name], container=mount, volumes=[{"name": "v", "configMap": {"name": name}}])
    await cluster.until(all_of(1, is_ready), f"bench={name}")
    uid = (await cluster.client.get(PODS, name, NAMESPACE)).metadata.uid
    return Paths.of(cluster.home.data).pod(uid).memory / "v" / "value"


async def _write(cluster: Cluster, name: str, value: str) -> None:
    body = {"metadata": {"name": name}, "data": {"value": value}}
    await cluster.client.apply(CONFIG_MAPS, name, body, NAMESPACE, field_manager="bench")


async def _seen(file: Path, value: str) -> float:
    while file.read_text() != value:  # noqa: ASYNC110, ASYNC240 - the kernel tells nobody of a moved link
        await asyncio.sleep(0.001)
    return time.monotonic()


async def nudge(cluster: Cluster) -> Json:
    """From an annotation on the pod to the changed file in it, twenty times."""
    file = await _mounted(cluster, "nudged")
    took = []
    for number in range(1, 21):
        await _write(cluster, "nudged", str(number))
        began = time.monotonic()
        await cluster.client.merge_patch(
            PODS, "nudged", {"metadata": {"annotations": {"nudge": str(number)}}}, NAMESPACE
        )
        took.append(await _seen(file, str(number)) - began)
    await cluster.remove(["nudged"])
    return {"nudge_seconds": round(max(took), 3), "nudge_median_seconds": round(statistics.median(took), 3)}


async def refresh(cluster: Cluster) -> Json:
    """From a changed ConfigMap to the changed file, when nobody nudges."""
    file = await _mounted(cluster, "left")
    began = time.monotonic()
    await _write(cluster, "left", "1")
    took = await _seen(file, "1") - began
    await cluster.remove(["left"])
    return {"refresh_seconds": round(took, 1)}


async def scaled(cluster: Cluster, workers: int) -> float:
    """Seconds until that many workers are ready."""
    began = time.monotonic()
    await cluster.client.merge_patch(OURS["NodeSet"], NODE_SET, {"spec": {"replicas": workers}}, NAMESPACE)
    selector = f"app.kubernetes.io/name=slurmd,app.kubernetes.io/instance={NODE_SET}"
    return await cluster.until(all_of(workers, is_ready), selector, 600.0) - began


async def memory(cluster: Cluster, workers: int) -> Json:
    """Megabytes of everything: control plane, Slurm, MariaDB and this many workers."""
    # The demo has one worker in another node set.
    await scaled(cluster, workers - 1)
    await asyncio.sleep(5)
    parts = by_program(cluster.home)
    return {
        "workers": workers,
        "memory_megabytes": round(sum(parts.values()), 1),
        "memory_by_program": {name: round(size, 1) for name, size in sorted(parts.items(), key=lambda one: -one[1])},
    }


async def many(cluster: Cluster, workers: int) -> Json:
    """Many workers at once."""
    took = await scaled(cluster, workers)
    return {
        "many_workers": workers,
        "many_workers_seconds": round(took, 1),
        "many_workers_megabytes": round(sum(by_program(cluster.home).values()), 1),
    }


# --- memory -----------------------------------------------------------------------------------------------------------


def by_program(home: Home) -> dict[str, float]:
    """Megabytes of the cluster by program; shared pages count in parts, memory volumes as `tmpfs`."""
    found: dict[str, float] = {}
    for pid in processes(home):
        name, size = _program(pid), _megabytes(pid)
        found[name] = found.get(name, 0.0) + size
    found["tmpfs"] = sum(_tmpfs(home))
    return found


def processes(home: Home) -> set[int]:
    """The supervisor, the monitors of the containers, and all that they have started."""
    parents = dict(_parents())
    roots = {supervisor_pid(home)} | {pid for pid in parents if f"{home.data}/" in _command(pid)}
    found = set(roots)
    while fresh := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= fresh
    return found - {0, os.getpid()}


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                yield int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _program(pid: int) -> str:
    words = _command(pid).split()
    if "slurm_operator.local.parts" in words:
        return f"part {words[words.index('slurm_operator.local.parts') + 1]}"
    if "slurm_operator.cli.main" in words:
        return "part operator"
    if "slurm_operator.local.supervisor" in words:
        return "supervisor"
    return Path(words[0]).name.rstrip(":") if words else "gone"


def _megabytes(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def _tmpfs(home: Home) -> Iterator[float]:
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if kind == "tmpfs" and point.startswith(f"{home.data}/"):
            room = os.statvfs(point)
            yield (room.f_blocks - room.f_bfree) * room.f_frsize / 1e6


# --- the run ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def running(data: Path) -> AsyncIterator[Cluster]:
    """The demo's cluster, and nothing of it afterwards."""
    home = Home(data)
    try:
        await asyncio.to_thread(_local, "up", home, "-f", str(DEMO))
        async with Client.to(kubeconfig.find(path=str(home.kubeconfig), context="")) as client:
            yield Cluster(home, client)
    finally:
        await asyncio.to_thread(_local, "reset", home)


def _local(verb: str, home: Home, *arguments: str) -> None:
    command = [sys.executable, "-m", "slurm_operator.cli.main", "local", verb, "--data", str(home.data), *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


async def measure(stages: list[str], workers: int, most: int) -> Json:
    """Every figure that was asked for."""
    found: Json = {}
    steps: dict[str, Callable[[Cluster], Any]] = {
        "start": start,
        "nudge": nudge,
        "refresh": refresh,
        "memory": lambda cluster: memory(cluster, workers),
        "many": lambda cluster: many(cluster, most),
    }
    with tempfile.TemporaryDirectory(prefix="local-pods-") as folder:
        async with running(Path(folder) / "cluster") as cluster:
            for stage in stages:
                found |= await steps[stage](cluster)
                print(f"{stage}: done", file=sys.stderr)
    return found


def lacking() -> list[str]:
    """What keeps this from being measured."""
    if os.geteuid() != 0:
        return ["root"]
    without = [name for name in machine.PROGRAMS if machine.which(name) is None]
    image = "an image (slurm-operator local image build)"
    return without if rules.built_images(store.default_cache()) else [*without, image]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--workers", type=int, default=8, help="workers for the figure of memory")
    parser.add_argument("--most", type=int, default=64, help="workers at once")
    parser.add_argument("--only", default=",".join(STAGES), help="stages, with commas between them")
    options = parser.parse_args()
    if without := lacking():
        print(f"a local cluster needs {', '.join(without)}; nothing was measured", file=sys.stderr)
        return 0
    result = asyncio.run(measure(options.only.split(","), options.workers, options.most))
    print(json.dumps(result) if options.output == "json" else json.dumps(result, indent=2))
    return 1 if any(result[name] > bar for name, bar in BARS.items() if name in result) else 0


if __name__ == "__main__":
    sys.exit(main())
