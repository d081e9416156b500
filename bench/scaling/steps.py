"""The measured steps on one large cluster: out, idle, config, leader, drain-all, in, roll, delete.

In: a running cluster, its stand-in of Slurm, and the program that is measured. Out: a `Step` for each, with the times,
CPU, memory and Slurm requests that it took; `figures.py` adds what the audit log has. Each step ends when its goal is
reached, and is over when the operator has come to rest: what it postpones counts too.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp
from bench.scaling import objects
from bench.scaling.audit import AuditTail
from bench.scaling.kubernetes import MERGE, REST_SECONDS, call, until, until_rest
from bench.scaling.objects import COMPUTE, PARTITION, Json
from bench.scaling.processes import LEASE_NAMESPACE, Process, Program, StandIn, start
from tests.real.kube.cluster import Cluster

from slurm_operator.program import NAME

OURS = "scale"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases/{NAME}"
ROLLED = 200
FEW_WORKERS = 10
POLL_SECONDS = 0.25
# At rest: so long no write to Kubernetes or Slurm, and less than this share of a core.
QUIET_SECONDS, SHORT_QUIET_SECONDS, QUIET_SHARE, SETTLE_SECONDS = 4.0, 2.0, 0.15, 180.0
# What is put off on purpose, such as keeping a configuration in the history, is not rest.
LATE_SECONDS = 20.0
# Changes of a partition, a second apart.
CHANGES, SHORT_CHANGES, CHANGE_PAUSE_SECONDS, CHANGE_SECONDS = 50, 3, 1.0, 60.0


def say(text: str) -> None:
    """Progress, for whoever waits."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Step:
    """One measured step. Times are in seconds since 1970; `workers` is how many it was about."""

    name: str
    workers: int
    since: float
    # When its goal was reached, and when nothing had been left to do for a while: until then everything counts.
    ended: float
    settled: float
    cpu_seconds_to_goal: float
    cpu_seconds: float
    rss_megabytes: float
    peak_megabytes: float
    slurm: Json
    more: Json = field(default_factory=dict)


@dataclass(slots=True)
class Bench:
    """What all steps have in common, and how many workers there are now."""

    cluster: Cluster
    http: aiohttp.ClientSession
    stand_in: StandIn
    program: Program
    process: Process
    pods: int
    idle_seconds: float
    is_short: bool = False
    count: int = 0
    minutes: int = 100
    tail: AuditTail = field(init=False)

    def __post_init__(self) -> None:
        self.tail = AuditTail(self.cluster.folder / "audit.log", self.program.agent)

    @property
    def patience_seconds(self) -> float:
        """How long a step may take."""
        return 120.0 + 0.2 * self.pods

    async def rest(self) -> None:
        """Let the machine come to rest before a step."""
        await until_rest(1.0 if self.is_short else REST_SECONDS)

    @property
    def nodeset(self) -> str:
        """The path of the NodeSet."""
        return objects.path_of(OURS, "nodesets", COMPUTE)

    async def scale(self, count: int) -> None:
        """Write a new number of replicas."""
        await call(self.http, "PATCH", self.nodeset, {"spec": {"replicas": count}}, MERGE)
        self.count = count

    async def wait(self, since: float, reached: Callable[[Json], bool]) -> Json:
        """Wait until the stand-in, which follows pods and records, sees that."""
        end = time.monotonic() + self.patience_seconds
        while True:
            seen = await self.stand_in.summary(OURS, since)
            if reached(seen):
                return seen
            self.check_alive()
            if time.monotonic() > end:
                raise TimeoutError(f"not after {self.patience_seconds:.0f} s: {_without_changes(seen)}")
            # The stand-in looks at every pod for an answer.
            await asyncio.sleep(max(POLL_SECONDS, self.pods / 10_000))

    async def wait_status(self, reached: Callable[[Json], bool]) -> None:
        """Wait until the NodeSet's status says that."""
        try:
            await until(
                self.http,
                self.nodeset,
                lambda it: reached(it.get("status", {})),
                pause=POLL_SECONDS,
                seconds=self.patience_seconds,
            )
        except TimeoutError:
            raise TimeoutError(f"the status did not say so after {self.patience_seconds:.0f} s") from None

    def check_alive(self) -> None:
        """Raise when the operator has ended by itself."""
        if self.process.child.returncode is not None:
            raise RuntimeError(f"the operator ended with {self.process.child.returncode}")

    async def settle(self) -> float:
        """Wait until the operator has had nothing to do for a while; gives the end of that while."""
        end, rested = time.monotonic() + SETTLE_SECONDS, time.time()
        writes, cpu = (-1, -1), self.process.cpu_seconds()
        quiet = SHORT_QUIET_SECONDS if self.is_short else QUIET_SECONDS
        while time.time() - rested < quiet and time.monotonic() < end:
            await asyncio.sleep(1)
            self.check_alive()
            now = self.tail.look(), int((await self.stand_in.counters())["writes"])
            spent = self.process.cpu_seconds()
            if now != writes or spent - cpu > QUIET_SHARE:
                rested = time.time()
            writes, cpu = now, spent
        return time.time()

    async def measure(
        self, name: str, workers: int, act: Callable[[], Awaitable[object]], goal: Callable[[float], Awaitable[Json]]
    ) -> Step:
        """Act, wait for the goal, wait for rest; what it took."""
        await self.rest()
        before, cpu = await self.stand_in.counters(), self.process.cpu_seconds()
        since = time.time()
        await act()
        more = await goal(since)
        ended, to_goal = time.time(), self.process.cpu_seconds() - cpu
        settled = await self.settle()
        rss, peak = self.process.megabytes()
        slurm = difference(before, await self.stand_in.counters())
        spent = self.process.cpu_seconds() - cpu
        return Step(name, workers, since, ended, settled, to_goal, spent, rss, peak, slurm, more)


def difference(before: Json, after: Json) -> Json:
    """What was counted meanwhile."""
    found = {key: after[key] - before[key] for key in after if key != "requests"}
    asked = {key: count - before["requests"].get(key, 0) for key, count in after["requests"].items()}
    return {**found, "requests": {key: count for key, count in asked.items() if count}}


def _without_changes(seen: Json) -> Json:
    return {key: value for key, value in seen.items() if key != "partition_changes"}


# The steps


async def out(bench: Bench) -> Step:
    """From none to all."""
    count = bench.pods

    async def goal(since: float) -> Json:
        seen = await bench.wait(since, lambda it: it["ready"] == count)
        exists = bench.process.cpu_seconds()
        await bench.wait_status(lambda status: status.get("readyReplicas") == count)
        said_at = time.time()
        # What Slurm is told about them belongs to it.
        await bench.wait(since, lambda it: it["nodes"] == count)
        return {"status_at": said_at, "cpu_seconds_at_ready": exists, "last_ready_at": seen["last_ready_at"]}

    return await bench.measure("out", count, lambda: bench.scale(count), goal)


async def idle(bench: Bench) -> Step:
    """Nothing happens."""
    await bench.settle()
    await asyncio.sleep(1.0 if bench.is_short else LATE_SECONDS)
    before, cpu, since = await bench.stand_in.counters(), bench.process.cpu_seconds(), time.time()
    await asyncio.sleep(bench.idle_seconds)
    spent, ended = bench.process.cpu_seconds() - cpu, time.time()
    rss, peak = bench.process.megabytes()
    slurm = difference(before, await bench.stand_in.counters())
    return Step("idle", bench.count, since, ended, ended, spent, spent, rss, peak, slurm)


async def config(bench: Bench, name: str = "config") -> Step:
    """A partition's time limit is changed again and again: how soon does Slurm have it?"""
    path = objects.path_of(OURS, "partitions")
    if name == "config":
        await call(bench.http, "POST", path, objects.partition(OURS, bench.minutes))
        await in_effect(bench.stand_in, OURS, bench.minutes, 0.0)
        await bench.settle()
    seconds: list[float] = []

    async def act() -> None:
        for _ in range(SHORT_CHANGES if bench.is_short else CHANGES):
            bench.minutes += 1
            seconds.append(await change_partition(bench.http, bench.stand_in, OURS, bench.minutes))
            await asyncio.sleep(CHANGE_PAUSE_SECONDS)

    async def goal(_: float) -> Json:
        return {"seconds": seconds}

    return await bench.measure(name, bench.count, act, goal)


async def change_partition(http: aiohttp.ClientSession, stand_in: StandIn, namespace: str, minutes: int) -> float:
    """One change; gives how many seconds passed until it was in effect."""
    path = objects.path_of(namespace, "partitions", PARTITION)
    since = time.time()
    await call(http, "PATCH", path, {"spec": {"maxTime": str(minutes)}}, MERGE)
    return await in_effect(stand_in, namespace, minutes, since) - since


async def in_effect(stand_in: StandIn, namespace: str, minutes: int, since: float) -> float:
    """When Slurm had that time limit; waits for it."""
    async with asyncio.timeout(CHANGE_SECONDS):
        query = {"namespace": namespace, "name": PARTITION, "minutes": minutes, "since": since}
        return float((await stand_in.ask("partition", **query))["at"])


async def leader(bench: Bench) -> Step:
    """kill -9, and another one starts: how soon does it do what was asked for meanwhile?"""
    wanted = bench.count + 1
    await bench.rest()
    await bench.process.kill()
    await release_lease(bench.http)
    await bench.scale(wanted)
    before, since = await bench.stand_in.counters(), time.time()
    bench.process = await start(bench.program, bench.cluster, bench.stand_in.port)
    seen = await bench.wait(since, lambda it: it["pods"] == wanted)
    ended, to_goal = time.time(), bench.process.cpu_seconds()
    await bench.wait_status(lambda status: status.get("readyReplicas") == wanted)
    settled = await bench.settle()
    rss, peak = bench.process.megabytes()
    slurm = difference(before, await bench.stand_in.counters())
    spent = bench.process.cpu_seconds()
    more = {"worked_at": seen["last_seen_at"]}
    return Step("leader", bench.count, since, ended, settled, to_goal, spent, rss, peak, slurm, more)


async def release_lease(http: aiohttp.ClientSession) -> None:
    """Take away the lease of an operator that was killed: another one would wait for its fifteen seconds."""
    async with http.delete(LEASE) as answer:
        # A peer has a lease of another name.
        if answer.status not in {200, 404}:
            raise RuntimeError(f"DELETE {LEASE}: {answer.status} {await answer.text()}")


async def drain_all(bench: Bench) -> Step:
    """All Kubernetes nodes are cordoned: every worker is drained, and put back once they are not."""

    async def goal(since: float) -> Json:
        try:
            await bench.wait(since, lambda it: it["drained"] == bench.count)
            drained_at = time.time()
            await bench.settle()
        finally:
            back_since = time.time()
            await cordon(bench.http, False)
        await bench.wait(since, lambda it: it["drained"] == 0)
        return {"drained_at": drained_at, "back_since": back_since, "back_at": time.time()}

    return await bench.measure("drain-all", bench.count, lambda: cordon(bench.http, True), goal)


async def cordon(http: aiohttp.ClientSession, on: bool) -> None:
    """kubectl cordon, or uncordon, of all nodes."""
    nodes = (await call(http, "GET", "/api/v1/nodes"))["items"]
    paths = [f"/api/v1/nodes/{node['metadata']['name']}" for node in nodes]
    await asyncio.gather(*(call(http, "PATCH", path, {"spec": {"unschedulable": on}}, MERGE) for path in paths))


async def scale_in(bench: Bench) -> Step:
    """From all to a tenth, drained first."""
    left = max(1, bench.pods // 10)
    leaving = bench.count - left

    async def goal(since: float) -> Json:
        seen = await bench.wait(since, lambda it: it["pods"] == left and it["nodes"] == left)
        return {key: seen[key] for key in ("last_gone_at", "deleted_at", "gone", "gone_undrained")}

    return await bench.measure("in", leaving, lambda: bench.scale(left), goal)


async def roll(bench: Bench) -> Step:
    """A new template: every worker is replaced, a quarter at a time."""
    count = min(ROLLED, max(4, bench.pods // 5))
    if bench.count != count:
        await bench.scale(count)
        await bench.wait(0.0, lambda it: it["pods"] == it["ready"] == it["nodes"] == count)
        await bench.wait_status(lambda status: status.get("readyReplicas") == count)
        await bench.settle()
    body = {"spec": {"slurmd": {"env": [{"name": "BENCH_ROLL", "value": str(int(time.time()))}]}}}

    async def goal(since: float) -> Json:
        seen = await bench.wait(since, lambda it: it["new_ready"] == it["pods"] == count)
        return {key: seen[key] for key in ("last_ready_at", "gone", "gone_undrained")}

    return await bench.measure("roll", count, lambda: call(bench.http, "PATCH", bench.nodeset, body, MERGE), goal)


async def config_of_few(bench: Bench) -> Step:
    """The same changes of a partition with ten workers."""
    if bench.count != FEW_WORKERS:
        await bench.scale(FEW_WORKERS)
        await bench.wait(0.0, lambda it: it["pods"] == it["ready"] == it["nodes"] == FEW_WORKERS)
        await bench.settle()
    return await config(bench, "config-of-few")


async def delete(bench: Bench) -> Step:
    """The NodeSet is deleted: its workers are drained, and go with their records."""
    count, bench.count = bench.count, 0

    async def goal(since: float) -> Json:
        seen = await bench.wait(since, lambda it: it["pods"] == 0 and it["nodes"] == 0)
        return {key: seen[key] for key in ("last_gone_at", "deleted_at", "gone", "gone_undrained")}

    return await bench.measure("delete", count, lambda: call(bench.http, "DELETE", bench.nodeset), goal)


STEPS: dict[str, Callable[[Bench], Awaitable[Step]]] = {
    "out": out,
    "idle": idle,
    "config": config,
    "leader": leader,
    "drain-all": drain_all,
    "in": scale_in,
    "roll": roll,
    "config-of-few": config_of_few,
    "delete": delete,
}
