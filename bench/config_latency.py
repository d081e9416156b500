"""From a write to the Kubernetes API until Slurm's own answer shows it: live partitions, and what needs a reconfigure.

    python bench/config_latency.py [-o json] [--count 50 | --short] [--kubelet | --kubeconfig FILE] ...

In: a running cluster with a Controller and a RestApi: the local one (`slurm-operator local up`) by default, any other
whose pods can be reached, or with `--kubelet` one on a real kubelet that is made for this and taken away again. Out:
percentiles in seconds of each kind of change, of the same back to back and in bursts, of the path without the nudge,
and of two floors: `scontrol update`, and a file in a volume, without an operator and without Slurm. `-o json` ends with
one line that holds all of it. Progress goes to stderr. What was changed is put back. Exits 1 above a bar; where there
is no cluster it says so and exits 0, or 1 for a cluster that was named.

What needs a reconfigure is split: `trial` and `reconfigure` are Slurm's own time, `inside` is the rest of the sidecar's
time up to its verdict, `outside` is what operator, kubelet and slurmrestd add until Slurm shows it, and `reported` is
from the write until ConfigApplied is True.

Slurm is asked every 10 ms, through slurmrestd; that is part of each number.
Changes are a second apart. Back to back, each is written as soon as Slurm shows the one before; in a burst, five are
written at once, and the time is that until Slurm shows the last. There a kubelet's own pace shows: it looks at a pod
again only when its list of containers, made every second, is newer than its last look. `volume_in_a_row` is what it
lets through at best.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.latency.volume import volume  # noqa: E402

from kube_runtime.client import kubeconfig  # noqa: E402
from kube_runtime.client.client import Client  # noqa: E402
from kube_runtime.client.errors import KubeError, NotFound  # noqa: E402
from kube_runtime.client.objects import CONFIG_MAPS, PODS, SECRETS, RawObject, Resource  # noqa: E402
from slurm_operator.local.home import DEFAULT_NAME, Home  # noqa: E402
from slurm_operator.reconcile.resources import OURS  # noqa: E402
from slurm_operator.slurm.client import SlurmClient  # noqa: E402
from slurm_operator.slurm.token import TokenSource  # noqa: E402

# Seconds.
BARS = {"reconfigure": {"p50": 0.3, "p99": 0.6}, "live": {"p99": 0.15}, "back_to_back": {"p99": 1.0}}
SHOWN = ("p50", "p90", "p99", "max")
SHORT_COUNT = 5
BURST = 5
# Seconds between two questions, and for one change.
LOOK = 0.01
LONGEST = 30.0
# The path without a nudge takes up to a minute and a half; nobody waits for more.
LONGEST_WITHOUT = 100.0
BENCH_MAP = "bench-config"
NEW_SETS = ("bench-0", "bench-1")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", RawObject)
RAW = {kind: resource.raw() for kind, resource in OURS.items()}
TIMED = "e=$EPOCHREALTIME; echo $(( ${e/./} - ${s/./} ))"
Shows = Callable[[], Awaitable[bool]]
Change = Callable[["Bench", int], Awaitable[None]]


@dataclass
class Bench:
    """One cluster and what was measured on it."""

    kube: Client
    slurm: SlurmClient
    namespace: str
    controller: str
    extra: str
    measured: dict[str, list[float]] = field(default_factory=dict)
    # By kind of change: by stage.
    stages: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    # When the last change was written.
    written_at: float = 0.0

    async def until(self, shows: Shows, limit: float = LONGEST) -> float:
        """Seconds until Slurm's answer shows it."""
        started = time.perf_counter()
        while not await shows():
            if time.perf_counter() - started > limit:
                raise TimeoutError(f"Slurm does not show it after {limit} s")
            await asyncio.sleep(LOOK)
        return time.perf_counter() - started

    async def one(self, name: str, write: Awaitable[Any], shows: Shows) -> None:
        """One change, measured from before its write."""
        self.written_at = time.perf_counter()
        await write
        await self.until(shows)
        self.measured.setdefault(name, []).append(time.perf_counter() - self.written_at)

    async def patch(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        """`kubectl patch --type=merge`."""
        await self.kube.merge_patch(RAW[kind], name, {"spec": spec}, self.namespace)

    async def settled(self) -> bool:
        """Whether nothing is on its way any more: two changes at once would measure each other."""
        found = (await self.kube.get(RAW["Controller"], self.controller, self.namespace)).content()
        status = found.get("status") or {}
        applied = [each["status"] for each in status.get("conditions") or () if each["type"] == "ConfigApplied"]
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return seen and applied == ["True"] and "candidate" not in (status.get("config") or {})

    def published(self, text: str, *, present: bool = True) -> Shows:
        """Whether the file has followed what Slurm was told live: until then the change is still under way."""

        async def shows() -> bool:
            found = await self.kube.get(CONFIG_MAPS.raw(), f"{self.controller}-config", self.namespace)
            return (text in found.content()["data"]["slurm.conf"]) == present

        return shows

    async def limit_of(self, partition: str) -> int | str | None:
        """MaxTime of a partition in minutes, None when it is not there."""
        found = {each.name: each for each in (await self.slurm.all_partitions()).items}
        return found[partition].max_time if partition in found else None

    def shows_limit(self, partition: str, minutes: int) -> Shows:
        """Whether a partition has that MaxTime."""

        async def shows() -> bool:
            return await self.limit_of(partition) == minutes

        return shows

    def shows_conf(self, key: str, value: int) -> Shows:
        """Whether the running configuration has that value; where Slurm cannot say it, whether a partition does."""

        async def shows() -> bool:
            return str(value) in str(_found(await self.slurm.conf(), key))

        return shows

    async def note_stages(self, change: str) -> None:
        """What the sidecar needed for the last change, as soon as the status tells of it."""
        await self.until(self.settled, 60)
        stages = {"reported": time.perf_counter() - self.written_at}
        found = await self.kube.get(RAW["Controller"], self.controller, self.namespace)
        config = (found.content().get("status") or {}).get("config") or {}
        stages |= _split(self.measured[change][-1], config)
        for name, value in stages.items():
            self.stages.setdefault(change, {}).setdefault(name, []).append(value)


def _split(seconds: float, config: dict[str, Any]) -> dict[str, float]:
    """Where the time of a change went, as far as `status.config` tells."""
    stages = {name: value / 1000 for name, value in (config.get("stages") or {}).items()}
    if config.get("milliseconds") is None or not {"trial", "reconfigure"} <= stages.keys():
        return {}
    sidecar, slurm = config["milliseconds"] / 1000, stages["trial"] + stages["reconfigure"]
    return {
        "trial": stages["trial"],
        "reconfigure": stages["reconfigure"],
        "inside": max(sidecar - slurm, 0.0),
        # The verdict comes a little after Slurm's answer shows the change.
        "outside": max(seconds - sidecar, 0.0),
    }


def _found(value: Any, key: str) -> Any:
    """The value of a key anywhere in an answer, whatever its case."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.replace("_", "").lower() == key.lower():
                return inner
            deeper = _found(inner, key)
            if deeper is not None:
                return deeper
    if isinstance(value, list):
        return next((found for found in (_found(inner, key) for inner in value) if found is not None), None)
    return None


async def nodeset_partition(bench: Bench, number: int) -> None:
    """A NodeSet's own partition gets another MaxTime."""
    minutes = 60 + number % 7
    spec = {"partition": {"enabled": True, "config": f"MaxTime={minutes}"}}
    await bench.one("nodeset_partition", bench.patch("NodeSet", "bench", spec), bench.shows_limit("bench", minutes))
    await bench.until(bench.published(f"PartitionName=bench Nodes=bench MaxTime={minutes}"))


async def partition(bench: Bench, number: int) -> None:
    """A Partition gets another MaxTime."""
    minutes = 70 + number % 7
    write = bench.patch("Partition", "bench-partition", {"maxTime": str(minutes)})
    await bench.one("partition", write, bench.shows_limit("bench-partition", minutes))
    await bench.until(bench.published(f"PartitionName=bench-partition Nodes=bench State=UP MaxTime={minutes}"))


async def extra_conf(bench: Bench, number: int) -> None:
    """A line of extraConf changes."""
    age = 301 + number % 7
    write = bench.patch("Controller", bench.controller, {"extraConf": f"{bench.extra}\nMinJobAge={age}\n"})
    await bench.one("extra_conf", write, bench.shows_conf("MinJobAge", age))
    await bench.note_stages("extra_conf")


async def new_nodeset(bench: Bench, number: int) -> None:
    """A NodeSet comes; its going is not measured."""
    name, minutes = NEW_SETS[number % 2], 80
    body = _nodeset(bench.controller, name, f"MaxTime={minutes}")
    create = bench.kube.create(RAW["NodeSet"], body, bench.namespace)
    await bench.one("new_nodeset", create, bench.shows_limit(name, minutes))
    await bench.note_stages("new_nodeset")
    await bench.kube.delete(RAW["NodeSet"], name, bench.namespace)

    async def gone() -> bool:
        with suppress(NotFound):
            await bench.kube.get(RAW["NodeSet"], name, bench.namespace)
            return False
        return await bench.limit_of(name) is None

    await bench.until(gone, 60)
    await bench.until(bench.published(f"NodeSet={name} ", present=False), 60)


async def config_files(bench: Bench, number: int) -> None:
    """A file of configFileRefs, included by slurm.conf, changes."""
    timeout = 21 + number % 7
    write = bench.kube.merge_patch(CONFIG_MAPS, BENCH_MAP, {"data": _file(timeout)}, bench.namespace)
    await bench.one("config_files", write, bench.shows_conf("BatchStartTimeout", timeout))
    await bench.note_stages("config_files")


async def back_to_back(bench: Bench, number: int) -> None:
    """A line of extraConf changes as soon as Slurm shows the one before."""
    age = 311 + number % 7
    write = bench.patch("Controller", bench.controller, {"extraConf": f"{bench.extra}\nMinJobAge={age}\n"})
    await bench.one("back_to_back", write, bench.shows_conf("MinJobAge", age))


async def burst(bench: Bench, number: int) -> None:
    """A line of extraConf changes five times at once; measured from the last write."""
    ages = [321 + (number * BURST + each) % 11 for each in range(BURST)]
    for age in ages[:-1]:
        await bench.patch("Controller", bench.controller, {"extraConf": f"{bench.extra}\nMinJobAge={age}\n"})
    write = bench.patch("Controller", bench.controller, {"extraConf": f"{bench.extra}\nMinJobAge={ages[-1]}\n"})
    await bench.one("burst", write, bench.shows_conf("MinJobAge", ages[-1]))
    await bench.note_stages("burst")


async def floor(bench: Bench, number: int) -> None:
    """`scontrol update` in the controller's pod, timed there; a Partition that only reports is left alone."""
    script = f"s=$EPOCHREALTIME; scontrol update partitionname=bench-partition maxtime={90 + number % 7} >&2; {TIMED}"
    ran = await bench.kube.run(
        bench.namespace, f"{bench.controller}-controller-0", ["bash", "-c", script], container="slurmctld"
    )
    bench.measured.setdefault("scontrol_update", []).append(int(ran.stdout.decode().split()[-1]) / 1e6)


async def volume_floor(bench: Bench, options: argparse.Namespace) -> None:
    """A file in a volume, without an operator and without Slurm: with pauses, and each as soon as the last is read."""
    pods = await bench.kube.list(PODS.raw(), bench.namespace, label_selector="app.kubernetes.io/name=slurmrestd")
    image = pods.items[0].content()["spec"]["containers"][0]["image"]
    async with volume(bench.kube, bench.namespace, image) as file:
        for name, pause in (("volume", options.pause), ("volume_in_a_row", 0.0)):
            for _ in range(options.count):
                await asyncio.sleep(pause)
                bench.measured.setdefault(name, []).append(await file.change())
                _progress(bench, name, options.count)


def _file(timeout: int) -> dict[str, str]:
    return {"bench.conf": f"BatchStartTimeout={timeout}\n"}


def _nodeset(controller: str, name: str, config: str) -> dict[str, Any]:
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "NodeSet",
        "metadata": {"name": name},
        "spec": {
            "controllerRef": {"name": controller},
            "replicas": 0,
            "partition": {"enabled": True, "config": config},
        },
    }


async def write_objects(kube: Client, options: argparse.Namespace, before: dict[str, Any]) -> None:
    """The objects that are changed, and an include of a file that changes."""
    space, ref = options.namespace, {"controllerRef": {"name": options.controller}}
    kind = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "Partition", "metadata": {"name": "bench-partition"}}
    await kube.create(RAW["NodeSet"], _nodeset(options.controller, "bench", "MaxTime=59"), space)
    await kube.create(RAW["Partition"], {**kind, "spec": {**ref, "nodeSets": ["bench"], "maxTime": "69"}}, space)
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": BENCH_MAP}, "data": _file(20)}
    await kube.create(CONFIG_MAPS, made, space)
    refs = [*(before["configFileRefs"] or ()), {"name": BENCH_MAP}]
    spec = {"extraConf": f"{before['extraConf'] or ''}\nInclude bench.conf\n", "configFileRefs": refs}
    await kube.merge_patch(RAW["Controller"], options.controller, {"spec": spec}, space)


async def clean_up(kube: Client, options: argparse.Namespace, before: dict[str, Any]) -> None:
    """As it was."""
    await kube.merge_patch(RAW["Controller"], options.controller, {"spec": before}, options.namespace)
    for kind, name in (("Partition", "bench-partition"), *(("NodeSet", each) for each in ("bench", *NEW_SETS))):
        with suppress(NotFound):
            await kube.delete(RAW[kind], name, options.namespace)
    with suppress(NotFound):
        await kube.delete(CONFIG_MAPS, BENCH_MAP, options.namespace)


async def without_nudge(bench: Bench, count: int) -> None:
    """How long the same ConfigMap takes to a pod that nobody nudges: that of slurmrestd."""
    pods = await bench.kube.list(PODS, bench.namespace, label_selector="app.kubernetes.io/name=slurmrestd")
    pod = pods.items[0].metadata.name
    for number in range(count):
        age = f"MinJobAge={401 + number}"
        started = time.perf_counter()
        await bench.patch("Controller", bench.controller, {"extraConf": f"{bench.extra}\n{age}\n"})

        async def shows(age: str = age) -> bool:
            ran = await bench.kube.run(bench.namespace, pod, ["cat", "/etc/slurm/slurm.conf"])
            await asyncio.sleep(0.3)
            return age in ran.stdout.decode()

        # One that is not there by then took at least so long.
        with suppress(TimeoutError):
            await bench.until(shows, LONGEST_WITHOUT)
        bench.measured.setdefault("without_nudge", []).append(time.perf_counter() - started)


CHANGES = (nodeset_partition, partition, extra_conf, new_nodeset, config_files)
IN_A_ROW = (back_to_back, burst)
LIVE = ("nodeset_partition", "partition")
RECONFIGURE = ("extra_conf", "new_nodeset", "config_files")
GROUPS = {"reconfigure": RECONFIGURE, "live": LIVE, "back_to_back": ("back_to_back",), "burst": ("burst",)}

FLOORS = ("scontrol_update", "volume", "volume_in_a_row", "without_nudge")


async def measure(kube: Client, options: argparse.Namespace) -> dict[str, Any]:
    """Everything, each kind of change `count` times, taking turns."""
    found = (await kube.get(RAW["Controller"], options.controller, options.namespace)).content()
    before = {key: found["spec"].get(key) for key in ("extraConf", "configFileRefs")}
    key = await _jwt_key(kube, options.namespace, found["spec"])
    try:
        await write_objects(kube, options, before)
        # New files may mean a new pod of slurmrestd.
        await _rolled_out(kube, options.namespace)
        address = options.restapi or await _address(kube, options.namespace)
        async with SlurmClient(address, TokenSource(lambda: key)) as slurm:
            extra = f"{before['extraConf'] or ''}\nInclude bench.conf\n"
            bench = Bench(kube, slurm, options.namespace, options.controller, extra)
            await bench.until(bench.shows_conf("BatchStartTimeout", 20), 60)
            await bench.until(bench.shows_limit("bench-partition", 69), 60)
            await bench.until(bench.settled, 60)
            await _rounds(bench, options)
            return summary(bench)
    finally:
        await clean_up(kube, options, before)


async def _rolled_out(kube: Client, namespace: str) -> None:
    """Until every pod of slurmrestd is of today's template, and ready, three looks in a row."""
    calm = 0
    while calm < 3:
        listed = await kube.list(DEPLOYMENTS, namespace, label_selector="app.kubernetes.io/name=slurmrestd")
        pods = await kube.list(PODS, namespace, label_selector="app.kubernetes.io/name=slurmrestd")
        calm = calm + 1 if _settled([each.content() for each in listed.items], len(pods.items)) else 0
        await asyncio.sleep(1)


def _settled(deployments: list[dict[str, Any]], pods: int) -> bool:
    wanted = sum(each["spec"]["replicas"] for each in deployments)
    ready = sum((each.get("status") or {}).get("readyReplicas", 0) for each in deployments)
    seen = all(each["metadata"]["generation"] == each["status"].get("observedGeneration") for each in deployments)
    return seen and wanted == ready == pods


async def _rounds(bench: Bench, options: argparse.Namespace) -> None:
    wanted = [change for change in CHANGES if not options.only or change.__name__ in options.only]
    for number in range(options.count):
        for change in wanted:
            await change(bench, number)
            _progress(bench, change.__name__, options.count)
            await asyncio.sleep(options.pause)
            await bench.until(bench.settled, 60)
    for change in IN_A_ROW:
        if not options.only or change.__name__ in options.only:
            await _in_a_row(bench, change, options)
    if not options.only:
        await bench.patch("Partition", "bench-partition", {"driftPolicy": "Keep"})
        for number in range(options.count):
            await floor(bench, number)
        await volume_floor(bench, options)
        await without_nudge(bench, options.without_nudge)


async def _in_a_row(bench: Bench, change: Change, options: argparse.Namespace) -> None:
    """One after the other, with nothing in between but what the change itself waits for."""
    for number in range(options.count):
        await change(bench, number)
        _progress(bench, change.__name__, options.count)
    await asyncio.sleep(options.pause)
    await bench.until(bench.settled, 60)


def _progress(bench: Bench, name: str, count: int) -> None:
    values = bench.measured[name]
    print(f"{name} {len(values)} of {count}: {values[-1]:.3f} s", file=sys.stderr)


async def _address(kube: Client, namespace: str) -> str:
    pods = await kube.list(PODS, namespace, label_selector="app.kubernetes.io/name=slurmrestd")
    return f"http://{pods.items[0].status.pod_ip}:6820"


async def _jwt_key(kube: Client, namespace: str, spec: dict[str, Any]) -> bytes:
    ref = spec.get("jwtKeyRef") or spec["jwtHs256KeyRef"]
    secret = await kube.get(SECRETS.raw(), ref["name"], namespace)
    return b64decode(secret.content()["data"][ref["key"]])


def summary(bench: Bench) -> dict[str, Any]:
    """Percentiles in seconds."""
    result: dict[str, Any] = {
        group: _percentiles([each for name in names for each in bench.measured.get(name, ())])
        for group, names in GROUPS.items()
    }
    result["changes"] = {name: _percentiles(values) for name, values in bench.measured.items()}
    result["stages"] = {
        change: {name: _percentiles(values) for name, values in stages.items()}
        for change, stages in {"reconfigure": _joined_stages(bench), **bench.stages}.items()
    }
    for name in FLOORS:
        result[name] = _percentiles(bench.measured.get(name, []))
    result["bars"] = BARS
    return result


def _joined_stages(bench: Bench) -> dict[str, list[float]]:
    """The stages of all changes that need a reconfigure."""
    joined: dict[str, list[float]] = {}
    for change in RECONFIGURE:
        for name, values in bench.stages.get(change, {}).items():
            joined.setdefault(name, []).extend(values)
    return joined


def _percentiles(values: list[float]) -> dict[str, float]:
    if not values:
        return {"n": 0}
    ordered = sorted(values)
    at = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    picked = {name: round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3) for name, share in at.items()}
    return {"n": len(values), **picked, "max": round(ordered[-1], 3)}


def _missed(result: dict[str, Any]) -> Iterator[str]:
    for group, bars in BARS.items():
        for name, bar in bars.items():
            if result[group].get(name, 0.0) > bar:
                yield f"{group} {name} is {result[group][name]} s, above {bar} s"


def _text(result: dict[str, Any]) -> Iterator[str]:
    yield f"{'seconds':24}{'n':>5}" + "".join(f"{name:>8}" for name in SHOWN)
    for group in (*GROUPS, *FLOORS):
        yield from _row(group, result[group])
        yield from (
            row for name, values in result["stages"].get(group, {}).items() for row in _row(f"  {name}", values)
        )
    for name, values in result["changes"].items():
        if name not in result:
            yield from _row(name, values)
            stages = result["stages"].get(name, {})
            yield from (row for stage, numbers in stages.items() for row in _row(f"  {stage}", numbers))


def _row(name: str, values: dict[str, float]) -> Iterator[str]:
    if values["n"]:
        yield f"{name:24}{values['n']:>5}" + "".join(f"{values[each]:>8.3f}" for each in SHOWN)


@asynccontextmanager
async def target(options: argparse.Namespace) -> AsyncIterator[Path]:
    """The kubeconfig of the cluster that is measured; one on a real kubelet lives no longer than this."""
    if not options.kubelet:
        yield Path(options.kubeconfig) if options.kubeconfig else Home.of(DEFAULT_NAME, None).kubeconfig
        return
    from tests.real.kubelet import images
    from tests.real.kubelet.installed import install
    from tests.real.kubelet.machine import machine

    with tempfile.TemporaryDirectory(prefix="config-latency-") as folder, ExitStack() as stack:
        # Beside the event loop: downloads run one of their own.
        archives = await asyncio.to_thread(stack.enter_context, images.archives())
        async with machine(Path(folder) / "machine", archives) as (cluster, _), install(cluster):
            yield cluster.kubeconfig_path


def lacking(options: argparse.Namespace) -> str:
    """What keeps this from being measured, in a sentence."""
    if not options.kubelet:
        local = Home.of(DEFAULT_NAME, None).kubeconfig
        there = options.kubeconfig or os.access(local, os.R_OK)
        return "" if there else "needs a cluster: slurm-operator local up, or --kubelet"
    from tests.real.kubelet.tools import missing

    found = [*missing(), *([] if os.geteuid() == 0 else ["root"])]
    return f"a real kubelet needs {', '.join(found)} (make kubelet-tools)" if found else ""


async def run(options: argparse.Namespace) -> dict[str, Any] | str:
    """The result, or the sentence that says why there is none."""
    async with target(options) as path:
        try:
            async with Client.to(kubeconfig.find(path=str(path))) as kube:
                await kube.get(RAW["Controller"], options.controller, options.namespace)
        except KubeError as error:
            return f"no Controller {options.namespace}/{options.controller} can be reached ({error})"
        async with Client.to(kubeconfig.find(path=str(path))) as kube:
            return await measure(kube, options)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--count", type=int, help="how often each change is made; 50 by default")
    short = f"{SHORT_COUNT} of each, and not the path without the nudge"
    parser.add_argument("--short", action="store_true", help=short)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between changes")
    parser.add_argument("--without-nudge", type=int, help="how often the slow path is measured; once by default")
    parser.add_argument("--only", action="append", choices=[each.__name__ for each in (*CHANGES, *IN_A_ROW)])
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--kubeconfig", help="a cluster that is there; the local one by default")
    where.add_argument("--kubelet", action="store_true", help="a cluster on a real kubelet, made for this (root)")
    parser.add_argument("--namespace", default="slurm")
    parser.add_argument("--controller", default="slurm")
    parser.add_argument("--restapi", help="address of slurmrestd; its pod's by default")
    options = parser.parse_args()
    count, without_nudge = (SHORT_COUNT, 0) if options.short else (50, 1)
    options.count = count if options.count is None else options.count
    options.without_nudge = without_nudge if options.without_nudge is None else options.without_nudge
    return options


def main() -> int:
    """Measure and print."""
    options = arguments()
    result = lacking(options) or asyncio.run(run(options))
    if isinstance(result, str):
        print(f"{result}; nothing was measured", file=sys.stderr)
        # A cluster that was named should be there.
        return 1 if options.kubeconfig else 0
    print(json.dumps(result) if options.output == "json" else "\n".join(_text(result)))
    missed = list(_missed(result))
    for line in missed:
        print(line, file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
