"""One round with many small clusters in one operator: `--clusters 200 --nodesets 5`.

In: a scratch folder, the program that is measured, the options of the command line. Out: the figures of the round: what
it takes to bring all of them up, what rest costs, and how soon a change in one is in effect, alone and among all.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from bench.scaling import kubernetes, objects
from bench.scaling.audit import AuditLog
from bench.scaling.figures import latency_ratio, percentile
from bench.scaling.kubernetes import BENCH_AGENT, PODS_PER_NODE, call
from bench.scaling.large import FEWEST_NODES, OTHER_PODS, stand_in_flags
from bench.scaling.objects import COMPUTE, Json
from bench.scaling.processes import Program, stand_in, start
from bench.scaling.steps import (
    CHANGE_PAUSE_SECONDS,
    CHANGES,
    POLL_SECONDS,
    SHORT_CHANGES,
    Bench,
    Step,
    change_partition,
    idle,
    in_effect,
    say,
)
from tests.real.kube.cluster import free_ports

# Namespaces that are made at the same time.
AT_ONCE = 8


def namespace_of(number: int) -> str:
    """Where a cluster lives."""
    return f"many-{number}"


async def measure(folder: Path, program: Program, options: argparse.Namespace) -> Json:
    """The round."""
    clusters, sets = options.clusters, options.nodesets
    nodes = max(FEWEST_NODES, 1 + int(1.25 * clusters * (sets + OTHER_PODS) / PODS_PER_NODE))
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        say(f"control plane, {nodes} fake nodes, stand-in of slurmrestd")
        cluster = await stack.enter_async_context(kubernetes.audited_cluster(folder, scheduler=True))
        http = await stack.enter_async_context(kubernetes.session(cluster, BENCH_AGENT))
        await kubernetes.prepare(http)
        slurm = await stack.enter_async_context(stand_in(cluster, stand_in_flags(options)))
        kubelets = await stack.enter_async_context(kubernetes.kubelets(cluster, nodes, slurm.log_port))
        process = await start(program, cluster, slurm.port)
        bench = Bench(cluster, http, slurm, program, process, clusters * sets, options.idle, is_short=options.short)
        try:
            steps = await _steps(bench, clusters, sets)
        finally:
            await bench.process.stop()
        await asyncio.sleep(3)  # the last batch of the audit log
        failed = [f"kubelet: {each}" for each in kubelets.failures[:3]]
    found = _figures(steps, AuditLog(folder / "audit.log", program.agent))
    return {
        "program": program.agent,
        "clusters": clusters,
        "nodesets": sets,
        "pods": clusters * sets,
        "heartbeat_seconds": options.heartbeat,
        "record_milliseconds": options.record_ms,
        "jobs": options.jobs,
        "round_seconds": round(time.monotonic() - began),
        **found,
        **({"failed": failed} if failed else {}),
    }


async def _steps(bench: Bench, clusters: int, sets: int) -> dict[str, Step]:
    ports = free_ports(clusters)
    say("one cluster alone")
    await _make(bench, 0, ports[0], sets)
    await call(
        bench.http, "POST", objects.path_of(namespace_of(0), "partitions"), objects.partition(namespace_of(0), 100)
    )
    await _until_up(bench, sets)
    await in_effect(bench.stand_in, namespace_of(0), 100, 0.0)
    await bench.settle()
    bench.minutes = 100
    steps = {"alone": await _change(bench, "alone")}
    say(f"{clusters - 1:,} more clusters with {sets} NodeSets each")
    steps["out"] = await _out(bench, ports, sets)
    say(f"idle for {bench.idle_seconds:.0f} s")
    steps["idle"] = await idle(bench)
    say("changes in one of them")
    steps["change"] = await _change(bench, "change")
    return steps


async def _make(bench: Bench, number: int, port: int, sets: int) -> None:
    """One cluster."""
    namespace, http = namespace_of(number), bench.http
    await kubernetes.make_namespaces(http, namespace)
    await bench.stand_in.add([{"namespace": namespace, "cluster_name": objects.cluster_name(namespace), "port": port}])
    await call(http, "POST", objects.path_of(namespace, "controllers"), objects.controller(namespace))
    await call(http, "POST", objects.path_of(namespace, "restapis"), objects.restapi(namespace, port))
    for index in range(sets):
        name = f"set-{index}" if index else COMPUTE
        await call(http, "POST", objects.path_of(namespace, "nodesets"), objects.workers(namespace, 1, name))


async def _until_up(bench: Bench, workers: int) -> Json:
    """Wait until so many workers are Ready and known to their Slurm."""
    end = time.monotonic() + bench.patience_seconds
    while True:
        seen = await bench.stand_in.ask("totals")
        if seen["ready"] == seen["nodes"] == workers:
            return seen
        bench.check_alive()
        if time.monotonic() > end:
            raise TimeoutError(f"not after {bench.patience_seconds:.0f} s: {seen}")
        await asyncio.sleep(POLL_SECONDS)


async def _out(bench: Bench, ports: list[int], sets: int) -> Step:
    pending = iter(range(1, len(ports)))

    async def maker() -> None:
        for number in pending:
            await _make(bench, number, ports[number], sets)

    async def act() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(maker())

    async def goal(_: float) -> Json:
        return await _until_up(bench, len(ports) * sets)

    return await bench.measure("out", (len(ports) - 1) * sets, act, goal)


async def _change(bench: Bench, name: str) -> Step:
    seconds: list[float] = []

    async def act() -> None:
        for _ in range(SHORT_CHANGES if bench.is_short else CHANGES):
            bench.minutes += 1
            seconds.append(await change_partition(bench.http, bench.stand_in, namespace_of(0), bench.minutes))
            await asyncio.sleep(CHANGE_PAUSE_SECONDS)

    async def goal(_: float) -> Json:
        return {"seconds": seconds}

    return await bench.measure(name, 1, act, goal)


def _figures(steps: dict[str, Step], log: AuditLog) -> Json:
    out, resting = steps["out"], steps["idle"]
    alone, among = steps["alone"].more["seconds"], steps["change"].more["seconds"]
    return {
        "out_seconds": round(out.ended - out.since, 2),
        "out_settled_seconds": round(out.settled - out.since, 2),
        "out_cpu_seconds": round(out.cpu_seconds, 2),
        "out_requests": len(log.between(out.since, out.settled)),
        "out_requests_by_kind": log.by_kind(out.since, out.settled),
        "idle_seconds": round(resting.ended - resting.since, 1),
        "idle_cpu_seconds": round(resting.cpu_seconds, 2),
        "idle_writes": log.writes(resting.since, resting.ended),
        "idle_requests_by_kind": log.by_kind(resting.since, resting.ended),
        "idle_slurm_requests": resting.slurm["total"],
        "idle_slurm_requests_by_kind": resting.slurm["requests"],
        "idle_slurm_writes": resting.slurm["writes"],
        "idle_slurm_megabytes": round(resting.slurm["sent_bytes"] / 1e6, 2),
        "rss_mb": round(max(step.peak_megabytes for step in steps.values()), 1),
        "idle_rss_mb": round(resting.rss_megabytes, 1),
        "alone_p50_seconds": round(percentile(alone, 0.5), 3),
        "alone_p99_seconds": round(percentile(alone, 0.99), 3),
        "change_p50_seconds": round(percentile(among, 0.5), 3),
        "change_p99_seconds": round(percentile(among, 0.99), 3),
        "change_p99_ratio": latency_ratio(percentile(among, 0.99), percentile(alone, 0.99)),
    }
