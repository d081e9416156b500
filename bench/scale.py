"""What 1,000 new workers cost: a NodeSet scaled from 0 to 1,000 pods on a real kube-apiserver with fake nodes.

    python bench/scale.py [-o json] [--pods N] [--idle SECONDS] [--rounds N]

In: the programs that `make kube-tools` built; without them it says so and exits 0. Out: seconds until all pods exist,
requests, CPU and memory of the operator's own process. The floor is measured in the same run: a bare aiohttp client
that posts the same pods into another namespace, 64 in flight. It runs three times on the same cluster: once to warm it
up (the first thousand pods of a new scheduler are bound late, so that posting them looks cheap), once before and once
after the operator, and the floor is the mean of these two. Each waits until the machine is at rest. Every round has a
cluster of its own; times are medians, the other figures are those of the worst round. Exits 1 above a bar.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.real.kube.cluster import Cluster, real_cluster  # noqa: E402
from tests.real.kube.fake_nodes import fake_nodes  # noqa: E402
from tests.real.kube.tools import missing_tools  # noqa: E402

from slurm_operator.api.controller import Controller  # noqa: E402
from slurm_operator.api.nodeset import NodeSet  # noqa: E402
from slurm_operator.api.validate import decode  # noqa: E402
from slurm_operator.build import nodeset  # noqa: E402
from slurm_operator.build.refs import Refs  # noqa: E402

Json = dict[str, Any]

IN_FLIGHT = 64
NODES = 25
WAIT_SECONDS = 120.0
# Fake nodes run no sidecar: the operator nudges it for a minute before it gives the new configuration up.
SILENCE_SECONDS = 65.0
WARM_UP, BEFORE, AFTER, OURS = "warm-up", "floor-before", "floor-after", "scale"
FLOORS = (WARM_UP, BEFORE, AFTER)
REST_SECONDS, REST_SHARE = 20.0, 0.85
CUSTOM = "/apis/slinky.slurm.net/v1beta1/namespaces/{namespace}/{plural}"
SHARED = {
    "Service": "/api/v1/namespaces/{namespace}/services",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
}
JSON_BODY = {"Content-Type": "application/json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
TICKS = os.sysconf("SC_CLK_TCK")

BAR_TIME = 1.15
BAR_CPU_SECONDS = 6.0
BAR_MEGABYTES = 160.0
# Writes that are sent a second apart do not arrive exactly so.
STATUS_WINDOW = 0.9
BAR_STATUS_WRITES = 1
MEDIANS = ("floor_seconds", "seconds_until_all_exist", "times_floor")
WORST = ("cpu_seconds", "peak_megabytes", "status_writes_in_a_second", "idle_writes")


# What is made


def controller_object(namespace: str) -> Json:
    """A Controller without a RestApi: Slurm's word must not be needed to create."""
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "Controller",
        "metadata": {"name": "slurm", "namespace": namespace},
        "spec": {
            "slurmKeyRef": {"name": "keys", "key": "slurm.key"},
            "jwtKeyRef": {"name": "keys", "key": "jwt.key"},
            "persistence": {"enabled": False},
        },
    }


def nodeset_object(namespace: str, replicas: int) -> Json:
    """A NodeSet of small workers, many to a node."""
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "NodeSet",
        "metadata": {"name": "compute", "namespace": namespace},
        "spec": {
            "controllerRef": {"name": "slurm"},
            "replicas": replicas,
            "oversubscribeNode": True,
            "partition": {"enabled": True},
        },
    }


def built(controller_body: Json, nodeset_body: Json, count: int) -> tuple[list[Json], list[Json]]:
    """The objects that the operator would make: what workers share, and the workers."""
    controller, cr = decode(controller_body).resource, decode(nodeset_body).resource
    if not isinstance(controller, Controller) or not isinstance(cr, NodeSet):
        raise TypeError("the benchmark's own objects are not valid")
    refs = Refs(controllers={"slurm": controller}, nodesets=(cr,))
    template = nodeset.pod_template(cr, controller, refs)
    pods = [nodeset.pod(cr, template, nodeset.WorkerIdentity(ordinal=number)) for number in range(count)]
    return nodeset.shared_objects(controller, refs), pods


# The cluster


@contextlib.asynccontextmanager
async def audited_cluster(folder: Path) -> AsyncIterator[Cluster]:
    """A control plane that writes down every request."""
    policy = folder / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    flags = (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--audit-log-mode=batch",
        "--audit-log-batch-max-wait=1s",
    )
    async with real_cluster(folder, controllers=True, scheduler=True, apiserver_flags=flags) as cluster:
        yield cluster


async def call(
    http: aiohttp.ClientSession, method: str, path: str, body: Any = None, headers: Json = JSON_BODY
) -> Json:
    """One request that must succeed."""
    data = None if body is None else msgspec.json.encode(body)
    async with http.request(method, path, data=data, headers=headers) as answer:
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
        return dict(await answer.json())


async def prepare(http: aiohttp.ClientSession) -> None:
    """Definitions, namespaces, keys and service accounts."""
    for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
        for definition in yaml.safe_load_all(path.read_text()):
            await call(http, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    for name in (*FLOORS, OURS):
        await call(http, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    keys = {"metadata": {"name": "keys"}, "stringData": {"slurm.key": "k" * 64, "jwt.key": "k" * 32}}
    await call(http, "POST", f"/api/v1/namespaces/{OURS}/secrets", keys)
    for name in (*FLOORS, OURS):
        await until(http, f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda _: True)
    served = CUSTOM.format(namespace=OURS, plural="nodesets")
    await until(http, served, lambda _: True)


async def until(http: aiohttp.ClientSession, path: str, wanted: Any, pause: float = 0.1) -> Json:
    """Ask until the answer is as wanted."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            async with http.get(path) as answer:
                if answer.status == 200:
                    body = dict(await answer.json())
                    if wanted(body):
                        return body
            await asyncio.sleep(pause)


async def until_pods(http: aiohttp.ClientSession, namespace: str, count: int) -> None:
    """Wait until a namespace holds so many pods; one object is read, the others are only counted."""

    def held(body: Json) -> bool:
        return len(body["items"]) + int(body["metadata"].get("remainingItemCount") or 0) == count

    # Seldom: the server's own record has the moment, and a bare client is not looked at while it posts.
    await until(http, f"/api/v1/namespaces/{namespace}/pods?limit=1", held, pause=0.5)


async def until_running(http: aiohttp.ClientSession, namespace: str) -> None:
    """Wait until no pod waits for its fake kubelet."""
    path = f"/api/v1/namespaces/{namespace}/pods?limit=1&fieldSelector=status.phase%3DPending"
    await until(http, path, lambda body: not body["items"], pause=0.5)


async def until_at_rest() -> None:
    """Wait until little runs on the machine, for a while: what went before is not to be paid by what comes next."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REST_SECONDS):
            while await idle_share() < REST_SHARE:
                pass


async def idle_share() -> float:
    """How much of the next second the processors had nothing to do."""
    before = _processor_ticks()
    await asyncio.sleep(1)
    after = _processor_ticks()
    spent = [late - early for early, late in zip(before, after, strict=True)]
    return (spent[3] + spent[4]) / max(1, sum(spent))


def _processor_ticks() -> list[int]:
    return [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


# The floor


async def post_all(url: str, ca_path: str, namespace: str, token: str, bodies: Sequence[bytes]) -> None:
    """Post the pods with nothing else around it; says first when it began to connect, as a new operator must too."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca_path), limit=IN_FLIGHT)
    headers = {"Authorization": f"Bearer {token}", **JSON_BODY}
    pending = iter(bodies)
    print(time.time(), flush=True)
    async with aiohttp.ClientSession(url, headers=headers, connector=connector) as http:

        async def poster() -> None:
            for body in pending:
                async with http.post(f"/api/v1/namespaces/{namespace}/pods", data=body) as answer:
                    text = await answer.read()
                    if answer.status != 201:
                        raise RuntimeError(text.decode(errors="replace"))

        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(poster())


async def measure_floor(cluster: Cluster, http: aiohttp.ClientSession, namespace: str, count: int) -> float:
    """The bare client, in a process of its own; its pods have the same Service, budget and kind of owner as ours.

    Gives when it began.
    """
    controllers, nodesets = (CUSTOM.format(namespace=namespace, plural=name) for name in ("controllers", "nodesets"))
    controller = await call(http, "POST", controllers, controller_object(namespace))
    owner = await call(http, "POST", nodesets, nodeset_object(namespace, count))
    shared, pods = built(controller, owner, count)
    for item in shared:
        await call(http, "POST", SHARED[item["kind"]].format(namespace=namespace), item)
    await until_at_rest()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        "--floor",
        cluster.url,
        str(cluster.folder / "ca.crt"),
        namespace,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    lines = [cluster.token.encode(), *map(msgspec.json.encode, pods)]
    said, _ = await child.communicate(b"\n".join(lines))
    if child.returncode:
        raise RuntimeError("the bare client failed")
    await until_running(http, namespace)
    await remove_all(http, namespace)
    return float(said)


async def remove_all(http: aiohttp.ClientSession, namespace: str) -> None:
    """Take away owners and pods, and wait until they are gone."""
    for plural in ("nodesets", "controllers"):
        await call(http, "DELETE", CUSTOM.format(namespace=namespace, plural=plural))
    await call(http, "DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
    await until_pods(http, namespace, 0)


# The operator


@dataclass(frozen=True, slots=True)
class Process:
    """A running operator, and what the kernel says of it."""

    pid: int

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def peak_megabytes(self) -> float:
        """The largest resident set so far."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        peak = next(line for line in lines if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024


@dataclass(frozen=True, slots=True)
class Moments:
    """When the new replica count was written, when all was ready, and when nothing was left to do."""

    since: float
    ended: float
    rested: float


@contextlib.asynccontextmanager
async def operator(cluster: Cluster, profile: str) -> AsyncIterator[Process]:
    """`slurm-operator run` as people run it, for the length of the block."""
    program = ["-m", "slurm_operator", "run", "--kubeconfig", str(cluster.kubeconfig_path)]
    ports = ["--health-addr", "0", "--metrics-addr", "0"]
    wrapped = ["-m", "cProfile", "-o", profile] if profile else []
    with (cluster.folder / "operator.log").open("wb") as log:
        child = await asyncio.create_subprocess_exec(
            sys.executable, *wrapped, *program, *ports, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield Process(child.pid)
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


async def measure_operator(
    cluster: Cluster, http: aiohttp.ClientSession, options: argparse.Namespace
) -> tuple[Json, Moments]:
    """Scale out, then rest."""
    count = options.pods
    nodesets = CUSTOM.format(namespace=OURS, plural="nodesets")
    await call(http, "POST", CUSTOM.format(namespace=OURS, plural="controllers"), controller_object(OURS))
    await call(http, "POST", nodesets, nodeset_object(OURS, 0))
    async with operator(cluster, options.profile) as process:
        await until(http, f"{nodesets}/compute", lambda it: it.get("status", {}).get("observedGeneration"))
        await until_pods(http, OURS, 1)  # the slurmctld
        await until_at_rest()
        cpu, began = process.cpu_seconds(), time.monotonic()
        since = time.time()
        await call(http, "PATCH", f"{nodesets}/compute", {"spec": {"replicas": count}}, MERGE)
        await until_pods(http, OURS, count + 1)
        exist_cpu = process.cpu_seconds() - cpu
        await until(http, f"{nodesets}/compute", lambda it: it["status"].get("readyReplicas") == count, pause=0.25)
        result = {
            "seconds_until_status_says_ready": round(time.monotonic() - began, 2),
            "cpu_seconds_until_all_exist": round(exist_cpu, 2),
            "cpu_seconds": round(process.cpu_seconds() - cpu, 2),
            "peak_megabytes": round(process.peak_megabytes(), 1),
        }
        ended = time.time()
        if options.idle:
            await asyncio.sleep(SILENCE_SECONDS)
        rested = time.time()
        idle = await measure_idle(process, options.idle)
    return {**result, **idle}, Moments(since, ended, rested)


async def measure_idle(process: Process, seconds: float) -> Json:
    """What rest costs."""
    cpu = process.cpu_seconds()
    await asyncio.sleep(seconds)
    return {"idle_seconds": seconds, "idle_cpu_seconds": round(process.cpu_seconds() - cpu, 2)}


# The audit log


def requests(path: Path, moments: Moments, floors: Mapping[str, float], count: int) -> Json:
    """What the operator asked for: while it scaled, and while it rested."""
    everything = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    entries = [entry for entry in everything if _is_operator(entry)]
    # The status that said "ready" may have been seen before a last write of the same moment.
    busy = [entry for entry in entries if moments.since <= _time(entry) <= moments.ended + 5]
    resting = [entry for entry in entries if _time(entry) > moments.rested]
    status = sorted(_time(entry) for entry in busy if entry["objectRef"].get("subresource") == "status")
    by_kind: dict[str, int] = {}
    for entry in busy:
        reference = entry["objectRef"]
        name = "/".join(part for part in (reference["resource"], reference.get("subresource")) if part)
        by_kind[f"{entry['verb']} {name}"] = by_kind.get(f"{entry['verb']} {name}", 0) + 1
    return {
        **_durations(everything, moments.since, floors),
        "requests": len(busy),
        "requests_per_pod": round(len(busy) / count, 3),
        "requests_by_kind": dict(sorted(by_kind.items())),
        "status_writes": len(status),
        "status_writes_in_a_second": _most_within(status, STATUS_WINDOW),
        "idle_writes": sum(entry["verb"] not in {"get", "list", "watch"} for entry in resting),
        "idle_requests": len(resting),
    }


def _durations(entries: Sequence[Json], since: float, floors: Mapping[str, float]) -> Json:
    """From the beginning of a bare client, or from the new replica count, to the last pod that the server has made."""
    bare = [_last_pod(entries, name) - began for name, began in floors.items()]
    floor = statistics.mean(bare)
    ours = _last_pod([entry for entry in entries if _is_operator(entry)], OURS) - since
    return {
        "floor_seconds": round(floor, 2),
        "floor_seconds_before_and_after": [round(each, 2) for each in bare],
        "seconds_until_all_exist": round(ours, 2),
        "times_floor": round(ours / floor, 3),
    }


def _last_pod(entries: Sequence[Json], namespace: str) -> float:
    return max(_time(entry, "stageTimestamp") for entry in entries if _is_new_pod(entry, namespace))


def _is_new_pod(entry: Json, namespace: str) -> bool:
    reference = entry.get("objectRef", {})
    kind = (entry["verb"], reference.get("resource"), reference.get("subresource"))
    return (
        kind == ("create", "pods", None)
        and reference.get("namespace") == namespace
        and entry.get("responseStatus", {}).get("code") == 201
    )


def _is_operator(entry: Json) -> bool:
    return str(entry.get("userAgent", "")).startswith("slurm-operator") and "objectRef" in entry


def _time(entry: Json, field: str = "requestReceivedTimestamp") -> float:
    return datetime.fromisoformat(entry[field]).timestamp()


def _most_within(times: Sequence[float], seconds: float) -> int:
    return max((sum(start <= each < start + seconds for each in times) for start in times), default=0)


# Putting it together


async def measure(options: argparse.Namespace) -> Json:
    """Floor, operator, and floor again, on one fresh cluster."""
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        folder = Path(name)
        async with audited_cluster(folder) as cluster, cluster.session() as http, fake_nodes(cluster, NODES):
            await prepare(http)
            await measure_floor(cluster, http, WARM_UP, options.pods)
            before = await measure_floor(cluster, http, BEFORE, options.pods)
            try:
                ours, moments = await measure_operator(cluster, http, options)
            except TimeoutError:
                log = (folder / "operator.log").read_text(errors="replace")
                raise RuntimeError(f"the operator did not get there:\n{log[-3000:]}") from None
            await remove_all(http, OURS)
            after = await measure_floor(cluster, http, AFTER, options.pods)
            await asyncio.sleep(2)  # the last batch of the audit log
            asked = requests(folder / "audit.log", moments, {BEFORE: before, AFTER: after}, options.pods)
    return {"pods": options.pods, **ours, **asked}


def measure_rounds(options: argparse.Namespace) -> Json:
    """The round in the middle, with medians of times and the worst of all that has a bar."""
    rounds = [asyncio.run(measure(options)) for _ in range(options.rounds)]
    ratios = [each["times_floor"] for each in rounds]
    middle = sorted(rounds, key=lambda each: float(each["times_floor"]))[(len(rounds) - 1) // 2]
    times = {name: round(statistics.median(each[name] for each in rounds), 3) for name in MEDIANS}
    worst = {name: max(each[name] for each in rounds) for name in WORST}
    return {**middle, **times, **worst, "times_floor_of_each_round": ratios}


def above_bars(result: Json) -> list[str]:
    """Which bars were missed."""
    bars = {
        "times_floor": BAR_TIME,
        "cpu_seconds": BAR_CPU_SECONDS,
        "peak_megabytes": BAR_MEGABYTES,
        "status_writes_in_a_second": BAR_STATUS_WRITES,
        "idle_writes": 0,
    }
    return [f"{name} is {result[name]}, the bar is {bar}" for name, bar in bars.items() if result[name] > bar]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--idle", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", default="", help="write a cProfile of the operator to this file")
    parser.add_argument("--floor", nargs=3, metavar=("URL", "CA", "NAMESPACE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.floor:
        token, *bodies = sys.stdin.buffer.read().split(b"\n")
        url, ca_path, namespace = options.floor
        asyncio.run(post_all(url, ca_path, namespace, token.decode(), bodies))
        return 0
    if missing := missing_tools():
        print(f"skipped: {', '.join(missing)} are not built (make kube-tools)", file=sys.stderr)
        return 0
    result = measure_rounds(options)
    missed = above_bars(result)
    if options.output == "json":
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:34} {value}")
    for line in missed:
        print(line, file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
