"""A `World` whose operators run as processes do: leadership, workers side by side, restarts when the lease is lost.

In: as `World`, and a `Weather`. Out: a world at rest, judged. Scenarios are the same.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field, replace
from typing import Any

from tests.campaigns.invariants import Judge
from tests.campaigns.processes import FairWeather, Process, ProcessClock, ProcessLine, ProcessWire
from tests.campaigns.rig import HORIZON, SETTINGS, World

from kube_runtime.client.client import Client
from kube_runtime.client.timing import Timing
from kube_runtime.clock import run_until_idle
from kube_runtime.loop.run import Ending
from slurm_operator.metrics import OperatorMetrics
from slurm_operator.reconcile.operator import Outside, assemble
from slurm_operator.slurm.client import SlurmClient

LEASES = "leases.coordination.k8s.io"
LIMIT_SECONDS = 9000.0
# A process that slept, and a server that was away for minutes, bring these; everything else is unexpected.
EXPECTED = ("leadership is lost", "reconcile was cut off after")


class LedJudge(Judge):
    """The judge, who knows what a lost lease looks like in the log."""

    def said(self, record: logging.LogRecord) -> None:
        if not record.getMessage().startswith(EXPECTED):
            super().said(record)

    def at_rest(self) -> None:
        if self.world.disturbed:
            # Whoever slept or was refused for minutes cannot tell in time.
            self.world.cluster.sidecar.untold.clear()
        super().at_rest()


@dataclass
class LedWorld(World):
    """Everything that there is, with any number of operators."""

    weather_of: Callable[[LedWorld], FairWeather] = FairWeather
    elect: bool = True
    suspends: bool = False
    horizon: float = HORIZON
    processes: list[Process] = field(default_factory=list)
    changes: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.judge = LedJudge(self)
        self._log._judge = self.judge
        self.weather = self.weather_of(self)
        self.server.store.listen(self._changed)
        self._starting: set[asyncio.Task[Any]] = set()

    def _changed(self, change: Any) -> None:
        self.changes += change.row.resource != LEASES

    def _fingerprint(self) -> tuple[int, int]:
        return (self.changes, self.slurm.changes)

    def lease_holder(self) -> str:
        """Who leads, as it is written."""
        row = self.server.store.get(LEASES, "default", "slurm-operator")
        return "" if row is None else str(row.load()["spec"].get("holderIdentity", ""))

    # Processes

    async def start_operator(self) -> None:
        """The first process, up to its first write."""
        process = self.start_process("a")
        while process.operator.sources.unsynced():
            await run_until_idle()
            if process.operator.sources.unsynced() and not self.clock.fire_next():
                raise AssertionError(f"caches never came: {process.operator.sources.unsynced()}")

    def start_process(self, name: str) -> Process:
        """One more operator with nothing in its memory."""
        process = Process(name, self, ProcessClock(self.clock, self.suspends))
        clock = process.clock
        settings = replace(SETTINGS, leader_elect=self.elect)
        line = ProcessLine(process)
        outside = Outside(
            self._host_keys,
            lambda: f"id-{next(self._ids):08}",
            lambda: 0.5,
            lambda target, token, own: SlurmClient(
                target.address,
                token,
                cluster=target.cluster_name,
                transport=line,
                monotonic=own.monotonic,
                inline_bytes=sys.maxsize,
            ),
        )
        client = Client(ProcessWire(process), Timing(clock, lambda: 0.5))
        process.operator = assemble(client, settings, clock, OperatorMetrics(), outside)
        process.operator.writer.before = self._before
        process.operator.writer.after = self._after
        # In a context of its own: it may be begun in the middle of another one's reconcile.
        process.task = asyncio.create_task(process.operator.run(), name=f"process {name}", context=Context())
        process.task.add_done_callback(lambda task: self._ended(process, task))
        self.processes.append(process)
        return process

    def _ended(self, process: Process, task: asyncio.Task[Ending]) -> None:
        if process in self.processes:
            self.processes.remove(process)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None or task.result() is not Ending.LEADERSHIP_LOST:
            self.judge.violation("I11", f"process {process.name} ended: {error or task.result()!r}")
        self.start_process(f"{process.name}'")

    async def stop_operator(self) -> None:
        """All processes are gone."""
        tasks = [process.task for process in self.processes]
        for process in self.processes:
            process.clock.wake()
            process.task.cancel()
        while any(not task.done() for task in tasks):
            await run_until_idle()
            if any(not task.done() for task in tasks) and not self.clock.fire_next():
                break
        self.processes.clear()

    def arm(self) -> None:
        super().arm()
        self.weather.armed()

    # Time

    async def run(self, horizon: float = HORIZON) -> None:
        """Until nothing happens any more."""
        horizon = max(horizon, self.horizon)
        started = changed = self.clock.monotonic()
        seen = self._fingerprint()
        while True:
            await run_until_idle()
            now = self.clock.monotonic()
            if self._fingerprint() != seen:
                seen, changed = self._fingerprint(), now
            if now - started > LIMIT_SECONDS:
                busy = [process.name for process in self.processes if process.is_busy()]
                self.judge.violation("I11", f"still at work after {LIMIT_SECONDS:g} s: {busy}")
                return
            if not self.clock.fire_next(float("inf") if self.is_busy() else changed + horizon):
                break
        self.judge.at_rest()

    def is_busy(self) -> bool:
        """Whether something will happen by itself: work, a process that wakes, a standby that takes over."""
        return any(process.is_busy() for process in self.processes) or not any(
            process.leads() for process in self.processes
        )

    async def run_for(self, seconds: float) -> None:
        """So many virtual seconds, whatever happens."""
        await self.clock.run_for(seconds)
