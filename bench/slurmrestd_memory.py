"""Whether slurmrestd's memory stays flat under the operator: 3,000 jobs, 1,000 nodes, an hour.

    python bench/slurmrestd_memory.py [-o json] [--version 26.05] [--minutes 60] [--jobs 3000] [--nodes 1000] [--short]
                                      [--plots FOLDER] [--keep FOLDER]

In: root and Debian's Slurm, which is fetched once (`tests/real/slurm/rootfs.py`); without them it says so and exits 0.
Out: resident sets of slurmrestd, slurmctld and the operator every 5 s, what was asked of slurmrestd, CPU of each; a
table or one line of JSON, progress on stderr. slurmctld and slurmrestd are real, slurmrestd with the options of the
operator's pod; the operator is a process of its own on an embedded API server. Exits 1 when memory is not flat.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.real_slurm import memory  # noqa: E402
from bench.real_slurm.embedded import MERGE, EmbeddedKubernetes, until  # noqa: E402
from bench.real_slurm.jobs import Queue  # noqa: E402
from bench.real_slurm.memory import Sample  # noqa: E402
from bench.real_slurm.relay import Relay  # noqa: E402
from bench.real_slurm.slurm import RealSlurm, require_real_slurm, rest_command, slurm_conf  # noqa: E402
from bench.scaling import objects, plots  # noqa: E402
from bench.scaling.objects import COMPUTE, PARTITION, Json  # noqa: E402
from bench.scaling.processes import TICKS, Process, Program, start  # noqa: E402
from bench.scaling.steps import say  # noqa: E402
from tests.real.slurm import rootfs  # noqa: E402
from tests.real.slurm.cluster import ClusterFailed  # noqa: E402

NAMESPACE, BUSY = "memory", "busy"
MINUTES, SHORT_MINUTES = 60.0, 4.0
# Workers with a slurmd, on which jobs run.
BUSY_WORKERS = 12
SAMPLE_SECONDS, TURN_SECONDS, SAY_SECONDS = 5.0, 5.0, 60.0
CHANGE_SECONDS = 60.0
UP_SECONDS, EFFECT_SECONDS = 600.0, 180.0
# So many workers go and come back.
SCALED = 4
MAX_NODES_FACTOR = 2
PID_FILES = {"slurmrestd": "/run/rest.pid", "slurmctld": "/run/slurmctld/slurmctld.pid"}
PROCESSES = ("slurmrestd", "slurmctld", "operator")


@dataclass(slots=True)
class Bench:
    """Everything that runs, and what was seen of it."""

    options: argparse.Namespace
    slurm: RealSlurm
    kube: EmbeddedKubernetes
    relay: Relay
    queue: Queue
    operator: Process
    began: float = 0.0
    samples: dict[str, list[Sample]] = field(default_factory=lambda: {name: [] for name in PROCESSES})
    # By kind of change: how many seconds each took until it was seen where it should be.
    changes: dict[str, list[float]] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    minutes: int = 100
    _pids: dict[str, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it is measured."""
        return float(self.options.minutes) * 60

    @property
    def wide(self) -> int:
        """Workers without a slurmd."""
        return int(self.options.nodes) - BUSY_WORKERS

    # What the kernel says

    def sample(self) -> None:
        """All processes, now."""
        at = time.monotonic() - self.began
        for name in PROCESSES:
            pid = self.operator.child.pid if name == "operator" else self._pid_of(name)
            try:
                self.samples[name].append(Sample(at, _megabytes(pid), _cpu_seconds(pid)))
            except OSError:
                raise RuntimeError(f"{name} has ended") from None

    def _pid_of(self, name: str) -> int:
        if not Path(f"/proc/{self._pids.get(name, 0)}/status").exists():
            self._pids[name] = self.slurm.host_pid(PID_FILES[name])
        return self._pids[name]

    async def watch(self) -> None:
        """Sample until the time is over."""
        self.began = said = time.monotonic()
        while (passed := time.monotonic() - self.began) < self.seconds:
            self.sample()
            if time.monotonic() - said >= SAY_SECONDS or len(self.samples["operator"]) == 1:
                said = time.monotonic()
                self._say(passed)
            await asyncio.sleep(SAMPLE_SECONDS)
        self.sample()

    def _say(self, passed: float) -> None:
        sizes = ", ".join(f"{name} {samples[-1].megabytes:.0f} MB" for name, samples in self.samples.items())
        jobs, left = len(self.queue.listed), (self.seconds - passed) / 60
        say(f"{passed / 60:.0f} of {self.seconds / 60:.0f} min: {sizes}; {jobs:,} jobs; {left:.0f} min left")

    # What changes meanwhile

    async def users(self) -> None:
        """The queue is kept up."""
        while True:
            with suppress(ClusterFailed):
                await asyncio.to_thread(self.queue.turn)
            await asyncio.sleep(TURN_SECONDS)

    async def administrators(self) -> None:
        """A drain, a scale-in and a changed partition, and back, side by side: each about once a minute."""
        async with asyncio.TaskGroup() as group:
            for steps in ((self._drain, self._undrain), (self._scale_in, self._scale_out), (self._partition,)):
                group.create_task(self._repeat(steps))

    async def _repeat(self, steps: Sequence[Callable[[], Awaitable[None]]]) -> None:
        for step in itertools.cycle(steps):
            await asyncio.sleep(CHANGE_SECONDS / len(steps))
            await self._timed(step)

    async def _timed(self, step: Callable[[], Awaitable[None]]) -> None:
        name, began = step.__name__.strip("_").replace("_", "-"), time.monotonic()
        try:
            await step()
        except TimeoutError as error:
            self.late.append(f"{name}: {error}")
        self.changes.setdefault(name, []).append(time.monotonic() - began)

    async def _drain(self) -> None:
        await self._set_node("state=drain", "reason=disk")
        await self._until_status("slurmDrain", lambda count: count >= 1)

    async def _undrain(self) -> None:
        await self._set_node("state=undrain")
        await self._until_status("slurmDrain", lambda count: count == 0)

    async def _set_node(self, *change: str) -> None:
        # One with a slurmd: in 24.11 a record alone does not come back.
        await asyncio.to_thread(self.slurm.run, "scontrol", "update", f"nodename={BUSY}-0", *change)

    async def _until_status(self, key: str, is_so: Callable[[int], bool]) -> None:
        path = objects.path_of(NAMESPACE, "nodesets", BUSY)
        await until(f"{key} in the status of {BUSY}", lambda: is_so(self.kube.status(path).get(key, 0)), EFFECT_SECONDS)

    async def _scale_in(self) -> None:
        await self._scale(self.wide - SCALED)

    async def _scale_out(self) -> None:
        await self._scale(self.wide)

    async def _scale(self, count: int) -> None:
        path = objects.path_of(NAMESPACE, "nodesets", COMPUTE)
        await self.kube.ask("PATCH", path, {"spec": {"replicas": count}}, MERGE)
        await until(f"{count} records", lambda: self._records() == count, EFFECT_SECONDS)

    def _records(self) -> int:
        return sum(name.startswith(f"{COMPUTE}-") for name in self.slurm.node_names())

    async def _partition(self) -> None:
        self.minutes += 1
        path = objects.path_of(NAMESPACE, "partitions", PARTITION)
        await self.kube.ask("PATCH", path, {"spec": {"maxTime": str(self.minutes)}}, MERGE)
        hours, rest = divmod(self.minutes, 60)
        shown = f"MaxTime={hours:02}:{rest:02}:00"

        def has_it() -> bool:
            return shown in self.slurm.run("scontrol", "-o", "show", "partition", PARTITION, check=False)

        await until(f"{shown} of partition {PARTITION}", has_it, EFFECT_SECONDS)


def _megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


# One run


async def measure(options: argparse.Namespace, folder: Path) -> Json:
    """Everything up, then the time that was asked for."""
    async with AsyncExitStack() as stack:
        bench = await _set_up(options, folder, stack)
        started = bench.queue.started()
        requests, sent = Counter(bench.relay.requests), Counter(bench.relay.sent_bytes)
        say(f"measuring for {options.minutes:g} min")
        tasks = [asyncio.create_task(work()) for work in (bench.users, bench.administrators)]
        try:
            await _first_to_fail([asyncio.create_task(bench.watch()), *tasks])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        asked, sent = bench.relay.requests - requests, bench.relay.sent_bytes - sent
        return _result(bench, asked, sent, bench.queue.started() - started)


async def _first_to_fail(tasks: list[asyncio.Task[None]]) -> None:
    """Until the first of them is done; what went wrong in any of them is raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def _set_up(options: argparse.Namespace, folder: Path, stack: AsyncExitStack) -> Bench:
    """Slurm, Kubernetes, operator, workers, queue."""
    say(f"Slurm {options.version} with {options.nodes:,} nodes and {options.jobs:,} jobs; a few minutes until it is up")
    controller, restapi = objects.controller(NAMESPACE), objects.restapi(NAMESPACE, 6820)
    slurm = _slurm(options, controller, restapi)
    stack.callback(slurm.stop)
    await asyncio.to_thread(_start, slurm)
    relay = Relay(slurm.socket)
    port = await relay.start()
    stack.push_async_callback(relay.stop)
    kube = await stack.enter_async_context(EmbeddedKubernetes(slurm, NAMESPACE, BUSY, folder))
    wide = options.nodes - BUSY_WORKERS
    made = {
        "controllers": [controller],
        "restapis": [objects.restapi(NAMESPACE, port)],
        "nodesets": [objects.workers(NAMESPACE, BUSY_WORKERS, BUSY), objects.workers(NAMESPACE, wide)],
        "partitions": [objects.partition(NAMESPACE, 100)],
    }
    for plural, bodies in made.items():
        for body in bodies:
            await kube.ask("POST", objects.path_of(NAMESPACE, plural), body)
    operator = await start(Program((), "slurm-operator"), kube.access(), 0)
    stack.push_async_callback(operator.stop)
    for name, count in ((BUSY, BUSY_WORKERS), (COMPUTE, wide)):
        await _until_ready(kube, operator, name, count)
    queue = Queue(slurm, BUSY, options.jobs)
    say(f"all workers are ready; {options.jobs:,} jobs are submitted")
    await asyncio.to_thread(queue.fill)
    return Bench(options, slurm, kube, relay, queue, operator)


def _slurm(options: argparse.Namespace, controller: Json, restapi: Json) -> RealSlurm:
    timeout = () if options.version >= "26.05" else ("SlurmdTimeout=0",)
    names, most = (BUSY, COMPUTE), MAX_NODES_FACTOR * options.nodes
    conf = slurm_conf(objects.cluster_name(NAMESPACE), names, most, timeout)
    root = rootfs.provide(options.version)
    return RealSlurm(options.version, root, conf=conf, rest=rest_command(controller, restapi))


def _start(slurm: RealSlurm) -> None:
    slurm.start_empty()
    slurm.start_controller()
    slurm.start_rest()


async def _until_ready(kube: EmbeddedKubernetes, operator: Process, name: str, count: int) -> None:
    path = objects.path_of(NAMESPACE, "nodesets", name)

    def is_ready() -> bool:
        if operator.child.returncode is not None:
            raise RuntimeError(f"the operator ended with {operator.child.returncode}")
        status = kube.status(path)
        registered = {each["type"]: each["status"] for each in status.get("conditions") or ()}.get("Ready")
        return bool(status.get("readyReplicas") == count and registered == "True")

    try:
        await until(f"{count} workers of {name}", is_ready, UP_SECONDS)
    except TimeoutError as error:
        log = (kube.folder / "operator.log").read_text(errors="replace")
        raise RuntimeError(f"{error}: {kube.status(path)}; {kube.failures[:3]}\n{log[-3000:]}") from None


# Figures


def _result(bench: Bench, asked: Counter[str], sent: Counter[str], started: int) -> Json:
    options = bench.options
    processes: Json = {}
    for name in PROCESSES:
        processes |= memory.figures(name, bench.samples[name])
    waited = {kind: bench.relay.seconds[kind] / bench.relay.requests[kind] for kind in asked}
    if options.plots:
        say(f"wrote {_plot(Path(options.plots), bench)}")
    return {
        "program": "slurmrestd",
        "version": options.version,
        "minutes": options.minutes,
        "jobs": options.jobs,
        "nodes": options.nodes,
        **processes,
        "requests": asked.total(),
        "requests_by_kind": dict(sorted(asked.items())),
        "refused_by_kind": dict(sorted(bench.relay.refused.items())),
        "megabytes": round(sent.total() / 1e6, 1),
        "megabytes_by_kind": {kind: round(count / 1e6, 2) for kind, count in sorted(sent.items())},
        "mean_seconds_by_kind": {kind: round(mean, 3) for kind, mean in sorted(waited.items())},
        "job_starts": started,
        "fewest_jobs_listed": bench.queue.fewest,
        "most_jobs_listed": bench.queue.most,
        "jobs_changed": dict(sorted(bench.queue.done.items())),
        "changes": {name: len(found) for name, found in sorted(bench.changes.items())},
        "changes_p50_seconds": {name: round(median(found), 2) for name, found in sorted(bench.changes.items())},
        "changes_max_seconds": {name: round(max(found), 2) for name, found in sorted(bench.changes.items())},
        "failed": [*_not_flat(bench), *bench.late, *bench.kube.failures[:3]],
    }


def _not_flat(bench: Bench) -> list[str]:
    """What is above the bar; a short run has none."""
    found = None if bench.options.short else memory.flatness(bench.samples["slurmrestd"])
    return found.problems("slurmrestd") if found is not None else []


def _plot(folder: Path, bench: Bench) -> Path:
    options = bench.options
    curves = [
        plots.Curve(name, [(each.at / 60, each.megabytes) for each in samples], is_dashed=name != "slurmrestd")
        for name, samples in bench.samples.items()
    ]
    title = f"Slurm {options.version}, {options.jobs:,} jobs, {options.nodes:,} nodes: resident sets"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"slurmrestd-memory-{options.version}.svg"
    path.write_text(plots.line_chart(title, "minutes", "MB", curves))
    return path


def table(result: Json) -> str:
    """The figures for people."""
    rows = [(name, value) for name, value in result.items() if name != "failed"]
    return "\n".join(f"{name:32} {_shown(value)}" for name, value in rows)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {count}" for key, count in value.items()) or "none"
    return str(value)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--version", choices=sorted(rootfs.SUITES), default="26.05", help="of Slurm")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--short", action="store_true", help=f"{SHORT_MINUTES:g} minutes, no bar")
    parser.add_argument("--jobs", type=int, default=3000, help="that slurmctld holds at any time")
    parser.add_argument("--nodes", type=int, default=1000, help=f"{BUSY_WORKERS} of them with a slurmd")
    parser.add_argument("--plots", default="", metavar="FOLDER", help="write an SVG figure there")
    parser.add_argument("--keep", default="", metavar="FOLDER", help="keep the operator's log there")
    options = parser.parse_args()
    if options.short:
        options.minutes = min(options.minutes, SHORT_MINUTES)
    if options.nodes <= BUSY_WORKERS + SCALED:
        parser.error(f"--nodes must be above {BUSY_WORKERS + SCALED}")
    return options


def main() -> int:
    """Measure and print."""
    options = parse()
    # A run that is ended takes its Slurm along, also in the background, where SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        require_real_slurm(options.version)
        with tempfile.TemporaryDirectory(prefix="slurmrestd-memory-") as name:
            folder = Path(options.keep or name)
            folder.mkdir(parents=True, exist_ok=True)
            result = asyncio.run(measure(options, folder))
    except rootfs.CannotProvision as missing:
        print(f"SKIPPED, nothing was measured: no real Slurm {options.version}: {missing}", file=sys.stderr)
        return 0
    print(json.dumps(result) if options.output == "json" else table(result))
    for line in result["failed"]:
        print(line, file=sys.stderr)
    return int(bool(result["failed"]))


if __name__ == "__main__":
    sys.exit(main())
