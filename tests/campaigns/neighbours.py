"""R10, neighbours: twenty clusters under one operator, one of them hostile.

    python -m tests.campaigns.neighbours [--rounds N] [--modes all|NAME,...] [--clusters 20] [--json FILE]

A real operator process runs against an embedded API server and small slurmrestds on loopback, in real time. While the
last cluster is hostile (its slurmrestd, its user, or both), users of the others scale, roll and repartition; the same
is measured with the last cluster behaving well. Each hostile phase is compared with a
control right before or after it, and every phase has a new operator.

Exits 1 when a bar is missed: no job is lost, on the hostile cluster neither; no foreign object is touched; every
action is done; actions and first reactions of the others take at most 1.3 times as long (median and 95th
percentile), and the operator's memory is at most 1.5 times as much.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.campaigns import hostile_slurmrestd, hostile_tenant
from tests.campaigns.hostile_tenant import DECOY_GROUP, HostileTenant
from tests.campaigns.neighbour_actions import Sample, perform, workers_are
from tests.campaigns.neighbour_report import HEAD, Phase, Verdict, as_json, judge, percentile
from tests.campaigns.neighbour_world import BUSY, BUSY_WORKERS, WORKERS, FakeCluster, World, until
from tests.campaigns.operator_process import OperatorProcess

from slurm_operator.slurm import transport

UP_SECONDS = 120.0
QUIET_SECONDS = 1.5
SETTLE_SECONDS = 25.0
RECOVERY_SECONDS = 20.0
LAG_SECONDS = 0.05
# Above this the machine, not the operator, may have decided.
BUSY_LAG_SECONDS = 0.03


@dataclass(frozen=True)
class Hostility:
    """What the last cluster does in a phase."""

    name: str
    slurm: str = "good"
    tenant: str = ""
    # Its user writes decoys, so that the API server has as much to do and the operator nothing.
    is_decoy: bool = False
    # How long it goes on, at least: workers that do not register are believed for 40 s.
    seconds: float = 12.0

    @property
    def control(self) -> Hostility:
        """The same without harm for the operator."""
        return Hostility(f"good beside {self.tenant}", tenant=self.tenant, is_decoy=True) if self.tenant else GOOD


GOOD = Hostility("good")
LONG = {"flap": 60.0, "impostor": 60.0}
MODES: dict[str, Hostility] = {
    **{
        name: Hostility(name, slurm=name, seconds=LONG.get(name, 12.0))
        for name in hostile_slurmrestd.MODES
        if name not in ("good", "mixed")
    },
    **{name: Hostility(name, tenant=name) for name in hostile_tenant.WAYS if name != "everything"},
    "mixed": Hostility("mixed", slurm="mixed", tenant="everything", seconds=20.0),
}


@dataclass
class HostileServer:
    """The process that stands in for the last cluster's slurmrestd."""

    port: int = 0
    _child: asyncio.subprocess.Process | None = None

    async def start(self, honest: int, other: int) -> None:
        """Start it and learn its port."""
        program = [sys.executable, "-m", "tests.campaigns.hostile_slurmrestd", str(honest), str(other)]
        self._child = await asyncio.create_subprocess_exec(
            *program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert self._child.stdout is not None
        self.port = int(await self._child.stdout.readline())

    def be(self, mode: str) -> None:
        """From now on."""
        assert self._child is not None
        assert self._child.stdin is not None
        self._child.stdin.write(f"{mode}\n".encode())

    async def stop(self) -> None:
        """End it."""
        if self._child is not None:
            if self._child.returncode is None:
                self._child.terminate()
            await self._child.communicate()


@dataclass
class Campaign:
    """One world, and the phases in it."""

    world: World
    hostile: HostileServer
    folder: Path
    seed: int = 12
    passes: int = 1
    turns: int = 0
    phases: list[Phase] = field(default_factory=list)

    @property
    def last(self) -> FakeCluster:
        """The cluster that may be hostile."""
        return [*self.world.clusters.values()][-1]

    @property
    def good(self) -> list[FakeCluster]:
        """The others."""
        return [*self.world.clusters.values()][:-1]

    async def bring_up(self) -> None:
        """All clusters, by an operator of their own."""
        async with self._operator("bring-up"):
            for cluster in self.world.clusters.values():
                for name, count in WORKERS.items():
                    if not await until(self._has(cluster, name, count), cluster.changed, UP_SECONDS):
                        log = (self.folder / "bring-up.log").read_text(errors="replace")
                        raise RuntimeError(f"{cluster.namespace}/{name} did not come up:\n{log[-2000:]}")

    def _has(self, cluster: FakeCluster, name: str, count: int) -> Callable[[], bool]:
        return lambda: workers_are(self.world, cluster, count, name=name)

    @contextlib.asynccontextmanager
    async def _operator(self, name: str) -> AsyncIterator[OperatorProcess]:
        operator = OperatorProcess(self.folder / "kubeconfig", self.folder / f"{name.replace(' ', '-')}.log")
        await operator.start()
        try:
            yield operator
        finally:
            await operator.stop()

    async def phase(self, what: Hostility) -> Phase:
        """A new operator, everybody's actions, and what it cost."""
        self.turns += 1
        for cluster in self.world.clusters.values():
            cluster.start_jobs()
        load, world_cpu = os.getloadavg()[0], time.process_time()
        delays: list[float] = []
        lag = asyncio.create_task(_lag(delays))
        async with self._operator(f"{self.turns:03}-{what.name}") as operator:
            await self._settle()
            samples, problems = await self._hostile_while(what)
            is_recovered = await until(self._has(self.last, BUSY, BUSY_WORKERS), self.last.changed, RECOVERY_SECONDS)
        lag.cancel()
        found = Phase(
            what.name,
            tuple(samples),
            operator.peak_megabytes,
            operator.cpu_seconds,
            operator.longest_stall_seconds,
            dict(operator.reconciles),
            tuple(self._violations(what, samples, [*operator.endings, *problems])),
            load,
            is_recovered,
            percentile(delays, 0.95),
            time.process_time() - world_cpu,
        )
        self.phases.append(found)
        return found

    async def _settle(self) -> None:
        """Until the new operator has asked every Slurm and has nothing to do."""
        since, before = time.monotonic(), {each.namespace: each.requests for each in self.world.clusters.values()}
        while time.monotonic() - since < SETTLE_SECONDS:
            await asyncio.sleep(0.1)
            asked = all(each.requests > before[each.namespace] for each in self.world.clusters.values())
            if asked and time.monotonic() - max(self.world.changed_at, since) > QUIET_SECONDS:
                return

    async def _hostile_while(self, what: Hostility) -> tuple[list[Sample], list[str]]:
        tenant = HostileTenant(self.world, self.last.namespace)
        tenant = replace(tenant, group=DECOY_GROUP) if what.is_decoy else tenant
        self.hostile.be(what.slurm)
        if what.tenant:
            tenant.start(*hostile_tenant.WAYS[what.tenant])
        # Tempts it: all workers are busy, and two are no longer wanted.
        await self.world.patch(self.last.namespace, "NodeSet", BUSY, {"replicas": 1})
        try:
            lasting = asyncio.create_task(asyncio.sleep(what.seconds))
            done = await asyncio.gather(*(self._users(each) for each in self.good))
            await lasting
        finally:
            self.hostile.be("good")
            problems = await tenant.stop()
            await self.world.patch(self.last.namespace, "NodeSet", BUSY, {"replicas": BUSY_WORKERS})
        return [sample for samples in done for sample in samples], problems

    async def _users(self, cluster: FakeCluster) -> list[Sample]:
        draw = random.Random(f"{self.seed} {cluster.namespace}")  # noqa: S311  # not for secrets
        await asyncio.sleep(draw.uniform(0, 2 + len(self.good) / 4))
        samples: list[Sample] = []
        for each in range(self.passes):
            samples += await perform(self.world, cluster, draw, self.turns * 10 + each)
        return samples

    def _violations(self, what: Hostility, samples: Sequence[Sample], endings: Sequence[str]) -> list[str]:
        found = [f"{what.name}: the operator {each}" for each in endings]
        found += [f"{what.name}: {each} was touched" for each in self.world.touched()]
        for cluster in self.world.clusters.values():
            found += [f"{what.name}: {cluster.namespace} lost job {number}" for number in cluster.lost]
            if cluster.foreign_tokens:
                found.append(f"{what.name}: {cluster.namespace} got {cluster.foreign_tokens} tokens of another cluster")
            cluster.slurm.lost.clear()
            cluster.foreign_tokens = 0
        late = [sample for sample in samples if not sample.is_reached]
        found += [f"{what.name}: {each.cluster} {each.action} was not done after {each.seconds:.0f} s" for each in late]
        found += [f"{what.name}: the fake cluster: {each}" for each in self.world.problems[:5]]
        self.world.problems.clear()
        return found


async def _lag(delays: list[float]) -> None:
    """How late this process's own timers are, until cancelled: what machine and fake world add to every figure."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(LAG_SECONDS)
        delays.append(time.monotonic() - began - LAG_SECONDS)


@contextlib.asynccontextmanager
async def campaign(clusters: int, folder: Path, seed: int = 12, passes: int = 1) -> AsyncIterator[Campaign]:
    """A world with that many clusters, all up."""
    world, hostile = World(), HostileServer()
    await world.open(clusters)
    try:
        (folder / "kubeconfig").write_text(world.server.kubeconfig())
        made = Campaign(world, hostile, folder, seed, passes)
        await hostile.start(made.last.port, made.good[0].port)
        made.last.served_port = hostile.port
        await world.populate()
        await made.bring_up()
        yield made
    finally:
        await hostile.stop()
        await world.close()


async def measure(
    given: argparse.Namespace, folder: Path
) -> tuple[list[Verdict], dict[str, list[tuple[Phase, Phase]]]]:
    """All modes, round by round, each beside its control."""
    wanted = [MODES[name] for name in given.modes]
    pairs: dict[str, list[tuple[Phase, Phase]]] = {each.name: [] for each in wanted}
    async with campaign(given.clusters, folder, given.seed, given.passes) as made:
        for number in range(given.rounds):
            for what in wanted:
                pairs[what.name].append(await _pair(made, what, is_first=number % 2 == 0))
                print(judge(what.name, pairs[what.name][-1:]).row(), flush=True)
    controls = [control for each in pairs.values() for control, _ in each]

    def same_kind(name: str) -> list[Phase]:
        return [control for control in controls if control.mode == MODES[name].control.name]

    return [judge(name, each, same_kind(name)) for name, each in pairs.items()], pairs


async def _pair(made: Campaign, what: Hostility, *, is_first: bool) -> tuple[Phase, Phase]:
    """A control and a hostile phase, in this order or the other."""
    if is_first:
        control = await made.phase(what.control)
        return control, await made.phase(what)
    hostile = await made.phase(what)
    return await made.phase(what.control), hostile


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code is 1 when a bar is missed."""
    given = _parsed(arguments)
    conditions = {
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "clusters": given.clusters,
        "rounds": given.rounds,
        "seed": given.seed,
        "largest_answer_bytes": transport.LIST_RESPONSE_BYTES,
    }
    print(", ".join(f"{name} {value}" for name, value in conditions.items()))
    print(HEAD, flush=True)
    # Also who is told to stop stops the operator first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        folder = given.logs or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="neighbours-")))
        folder.mkdir(parents=True, exist_ok=True)
        verdicts, pairs = asyncio.run(measure(given, folder))
    print(f"\nover {given.rounds} rounds; load at the end {os.getloadavg()[0]:.1f}\n{HEAD}")
    for verdict in verdicts:
        print(verdict.row())
        for line in verdict.missed[:20]:
            print(f"    {line}")
    lags = sorted(phase.lag_seconds for each in pairs.values() for pair in each for phase in pair)
    if lags and lags[len(lags) // 2] > BUSY_LAG_SECONDS:
        print(
            f"the machine was busy (timers were {1000 * lags[len(lags) // 2]:.0f} ms late): believe no ratio of times"
        )
    if given.json:
        given.json.write_text(json.dumps(as_json(verdicts, pairs, **conditions), indent=1))
    return int(any(verdict.missed for verdict in verdicts))


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.neighbours", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", default="all", help=f"all, or some of {', '.join(MODES)}")
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--passes", type=int, default=1, help="how often each user does everything in a phase")
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    parser.add_argument("--logs", type=Path, help="keep the operators' logs in this folder")
    given = parser.parse_args(arguments)
    given.modes = list(MODES) if given.modes == "all" else given.modes.split(",")
    for name in given.modes:
        if name not in MODES:
            parser.error(f"there is no mode {name!r}")
    return given


if __name__ == "__main__":
    sys.exit(main())
