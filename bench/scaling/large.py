"""One round on one large cluster: floor, operator with all its steps, floor again.

In: a scratch folder, the program that is measured, the options of the command line. Out: the figures of the round.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import time
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import aiohttp
from bench.scaling import kubernetes, objects, plots
from bench.scaling.audit import AuditLog
from bench.scaling.figures import bars, figures, floor_seconds, lost_moments
from bench.scaling.floors import Floor, measure_floor, until_pods
from bench.scaling.kubernetes import BENCH_AGENT, PODS_PER_NODE, REST_SECONDS, call, until
from bench.scaling.objects import COMPUTE, Json
from bench.scaling.processes import REAL_SLURM, Program, StandIn, stand_in, start
from bench.scaling.steps import OURS, STEPS, Bench, Step, say
from tests.real.kube.cluster import Cluster

WARM_UP, BEFORE, AFTER = "warm-up", "floor-before", "floor-after"
WARM_UP_PODS = 1000
# On two cores a kube-scheduler cannot keep up with more.
MAX_SCHEDULED_PODS = 2000
FEWEST_NODES = 25
# slurmctld and slurmrestd.
OTHER_PODS = 2
WITH_PARTITIONS = frozenset({"config", "config-of-few"})
# What steps and floors take on two cores: seconds, and seconds for each worker.
USUAL_SECONDS = {
    "floor": (15.0, 0.06),
    "out": (20.0, 0.05),
    "idle": (30.0, 0.0),
    "config": (85.0, 0.0),
    "leader": (25.0, 0.01),
    "drain-all": (40.0, 0.02),
    "in": (25.0, 0.05),
    "roll": (70.0, 0.0),
    "config-of-few": (100.0, 0.0),
    "delete": (25.0, 0.0),
}
WORKER_QUERY = "labelSelector=app.kubernetes.io%2Fname%3Dslurmd"


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


def is_bound(options: argparse.Namespace) -> bool:
    """Whether workers are bound as they are created, by the API server itself."""
    return bool(options.scheduler == "bound" or (options.scheduler == "auto" and options.pods > MAX_SCHEDULED_PODS))


def stand_in_flags(options: argparse.Namespace) -> list[str]:
    """How the stand-in is to behave."""
    slim = ["--slim"] if options.slim else []
    pace = ["--heartbeat", str(options.heartbeat), "--record-ms", str(options.record_ms)]
    return [*pace, "--jobs", str(options.jobs), *slim]


def _slurm(cluster: Cluster, options: argparse.Namespace) -> AbstractAsyncContextManager[StandIn]:
    """The stand-in, or a real Slurm."""
    if options.slurm == "real":
        return stand_in(cluster, [], REAL_SLURM)
    return stand_in(cluster, stand_in_flags(options))


def usual_seconds(name: str, options: argparse.Namespace) -> float:
    """About how long a step takes, on a machine that is not busy."""
    fixed, each = USUAL_SECONDS[name]
    idle = float(options.idle) if name == "idle" else 0.0
    return (fixed / 8 if options.short else fixed) + each * int(options.pods) + idle


async def measure(folder: Path, program: Program, options: argparse.Namespace) -> Json:
    """The round."""
    bound, pods = is_bound(options), options.pods
    nodes = max(FEWEST_NODES, 1 + int(1.25 * pods / PODS_PER_NODE))
    began = time.monotonic()
    asked = [*_chosen(program, options), *["floor"] * (options.floors + (options.floors > 0 and not options.short))]
    minutes = (20 + sum(usual_seconds(name, options) for name in asked)) / 60
    async with AsyncExitStack() as stack:
        say(f"control plane, {nodes} fake nodes, {options.slurm} Slurm; about {max(1, minutes):.0f} min in all")
        cluster = await stack.enter_async_context(kubernetes.audited_cluster(folder, scheduler=True))
        http = await stack.enter_async_context(kubernetes.session(cluster, BENCH_AGENT))
        await kubernetes.prepare(http)
        slurm = await stack.enter_async_context(_slurm(cluster, options))
        kubelets = await stack.enter_async_context(kubernetes.kubelets(cluster, nodes, slurm.log_port))
        if bound:
            await kubernetes.bind_at_once(http, nodes)
        await kubernetes.make_namespaces(http, WARM_UP, BEFORE, AFTER, OURS)
        floors = await _floors(cluster, http, options, (WARM_UP, BEFORE))
        steps, failed = await _steps(cluster, http, slurm, program, options)
        await _clear(http)
        floors += await _floors(cluster, http, options, (AFTER,))
        await asyncio.sleep(3)  # the last batch of the audit log
        failed += [f"kubelet: {each}" for each in kubelets.failures[:3]]
    log = AuditLog(folder / "audit.log", program.agent)
    compared = [each for each in floors if each.namespace != WARM_UP]
    failed += lost_moments(steps, compared, log)
    # A real Slurm that was not as the benchmark believed: what it waited for may have come earlier or later.
    if wrong := sum(step.slurm.get("differences", 0) for step in steps.values()):
        failed.append(f"{wrong} node records were not in slurmctld as their model had them")
    found = figures(steps, floor_seconds(log, compared) if compared else None, log, pods)
    if options.plots:
        held = bars(pods, options.idle)
        for path in plots.write(Path(options.plots), steps, compared, log, found, held):
            say(f"wrote {path}")
    return {
        "program": program.agent,
        "slurm": options.slurm,
        "bound_at_creation": bound,
        "heartbeat_seconds": options.heartbeat,
        "record_milliseconds": options.record_ms,
        "jobs": options.jobs,
        "round_seconds": round(time.monotonic() - began),
        **found,
        **({"failed": failed} if failed else {}),
    }


async def _floors(
    cluster: Cluster, http: aiohttp.ClientSession, options: argparse.Namespace, names: tuple[str, ...]
) -> list[Floor]:
    """The bare client: once to warm up (the first pods of a new scheduler are bound late), once before, once after."""
    if options.floors < (2 if names == (AFTER,) else 1):
        return []
    found = []
    for name in names if not options.short else names[1:]:
        count = min(options.pods, WARM_UP_PODS) if name == WARM_UP else options.pods
        usual = usual_seconds("floor", options)
        say(f"{name}: a bare client creates {count:,} pods and deletes nine of ten, about {usual:.0f} s")
        seconds = 120 + 0.2 * count
        leaving, rest = count - max(1, count // 10), 1.0 if options.short else REST_SECONDS
        found.append(await measure_floor(cluster, http, name, count, leaving, seconds, rest))
    return found


async def _steps(
    cluster: Cluster, http: aiohttp.ClientSession, slurm: StandIn, program: Program, options: argparse.Namespace
) -> tuple[dict[str, Step], list[str]]:
    """Every step that was asked for."""
    port = free_port()
    await slurm.add([{"namespace": OURS, "cluster_name": objects.cluster_name(OURS), "port": port}])
    await call(http, "POST", objects.path_of(OURS, "controllers"), objects.controller(OURS))
    await call(http, "POST", objects.path_of(OURS, "restapis"), objects.restapi(OURS, port))
    await call(http, "POST", objects.path_of(OURS, "nodesets"), objects.workers(OURS, 0))
    process = await start(program, cluster, slurm.port)
    bench = Bench(cluster, http, slurm, program, process, options.pods, options.idle, is_short=options.short)
    steps: dict[str, Step] = {}
    failed: list[str] = []
    try:
        say(f"{program.agent} starts, with no workers")
        path = objects.path_of(OURS, "nodesets", COMPUTE)
        await until(http, path, lambda it: it.get("status", {}).get("observedGeneration"))
        await until_pods(http, OURS, OTHER_PODS, bench.patience_seconds)
        await bench.settle()
        for name in _chosen(program, options):
            say(f"{name}, {bench.count:,} workers now, about {usual_seconds(name, options):.0f} s")
            await _step(bench, name, steps, failed)
    finally:
        await bench.process.stop()
    return steps, failed


def _chosen(program: Program, options: argparse.Namespace) -> list[str]:
    """The steps that were asked for, in their order; a peer has no Partitions."""
    asked = options.scenarios.split(",")
    return [name for name in STEPS if name in asked and not (program.is_peer and name in WITH_PARTITIONS)]


async def _step(bench: Bench, name: str, steps: dict[str, Step], failed: list[str]) -> None:
    """One step; one that does not get there is named, and the next one is tried."""
    try:
        step = steps[name] = await STEPS[name](bench)
    except TimeoutError as error:
        log = (bench.cluster.folder / "operator.log").read_text(errors="replace")
        say(f"{name}: {error}\n{log[-3000:]}")
        failed.append(f"{name} did not get there: {error}")
    else:
        say(f"{name}: {step.ended - step.since:.1f} s, CPU {step.cpu_seconds:.2f} s, {step.rss_megabytes:.0f} MB")


async def _clear(http: aiohttp.ClientSession) -> None:
    """Take away the workers that are left."""
    path = f"/api/v1/namespaces/{OURS}/pods?{WORKER_QUERY}"
    await call(http, "DELETE", path, {"gracePeriodSeconds": 0})
    await until(http, f"{path}&limit=1", lambda it: not it["items"], pause=0.5, seconds=600)
