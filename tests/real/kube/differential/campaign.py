"""Plays random request sequences on two API servers and reports where they part.

In: how many sequences, from which seed, and which server is judged (`embedded`, or `real` to prove that
the mask hides nothing it should not and lets nothing through). Out: a summary line, and one file per
distinct difference with the shortest sequence that still shows it. Run by `make differential` and, with
few sequences, by `test_differential.py`.

    python -m tests.real.kube.differential.campaign --sequences 300 --judge embedded
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml
from tests.real.kube.cluster import real_cluster
from tests.real.kube.differential.bodies import KINDS, Kind, sentinel
from tests.real.kube.differential.compare import Verdict, judge
from tests.real.kube.differential.play import Address, Player, session_of
from tests.real.kube.differential.sequences import Step, sequence

OWN_DEFINITIONS = Path(__file__).parents[4] / "deploy" / "crds"
DEFINITIONS = (Path(__file__).with_name("widget.yaml"), *sorted(OWN_DEFINITIONS.glob("*.yaml")))
CONTROLLERS = (
    "--controllers=garbage-collector-controller,namespace-controller,persistentvolumeclaim-protection-controller"
)
SHORTENING_TRIALS = 40


@dataclass(slots=True)
class Pair:
    """Two sessions: the one that is right by definition, and the one that is judged."""

    left: aiohttp.ClientSession
    right: aiohttp.ClientSession
    runs: int = 0

    async def verdict(self, steps: list[Step]) -> Verdict:
        """Play one sequence on both, each in a fresh namespace."""
        self.runs += 1
        one, other = await asyncio.gather(
            Player(self.left, f"differ-{self.runs}-l").play(steps),
            Player(self.right, f"differ-{self.runs}-r").play(steps),
        )
        return judge(steps, one, other)


@dataclass(slots=True)
class Result:
    """The outcome of a campaign."""

    sequences: int = 0
    requests: int = 0
    failures: dict[str, str] = field(default_factory=dict)  # signature -> report
    failed: Counter[str] = field(default_factory=Counter)
    used_rules: Counter[str] = field(default_factory=Counter)


@asynccontextmanager
async def reference_server(folder: Path) -> AsyncIterator[Address]:
    """The real API server, with the controllers whose work the embedded server does too, and no others."""
    flags = ("--disable-admission-plugins=ServiceAccount",)
    async with real_cluster(
        folder, controllers=True, apiserver_flags=flags, controller_flags=(CONTROLLERS,)
    ) as cluster:
        yield cluster


@asynccontextmanager
async def embedded_server() -> AsyncIterator[Address]:
    """The embedded API server over HTTPS, in memory."""
    from kube_local.apiserver import ApiServer

    server = ApiServer(store=":memory:")
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def install_kinds(http: aiohttp.ClientSession) -> None:
    """Create the test kind and our own kinds; wait until they are served and their garbage is collected."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for file in DEFINITIONS:
        async with http.post(path, json=yaml.safe_load(file.read_text())) as answer:
            if answer.status not in {201, 409}:
                raise RuntimeError(f"{file.name}: {await answer.text()}")
    async with asyncio.timeout(120):
        for kind in KINDS:
            await until(http, kind, "", served=True)
            await until_collected(http, kind)


async def until(http: aiohttp.ClientSession, kind: Kind, name: str, *, served: bool) -> None:
    """Poll until a path of the kind answers, or answers no longer."""
    path = f"{kind.collection.replace('{ns}', 'default')}/{name}".rstrip("/")
    while (await status_of(http, path) == 200) != served:  # noqa: ASYNC110 (the other side is a server)
        await asyncio.sleep(0.05)


async def status_of(http: aiohttp.ClientSession, path: str) -> int:
    """The code of one GET."""
    async with http.get(path) as answer:
        return answer.status


async def until_collected(http: aiohttp.ClientSession, kind: Kind) -> None:
    """An orphan of an unknown owner disappears once the collector watches a new kind."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "no-such-uid"}
    body = sentinel(kind)
    body["metadata"] = {"name": "collected", "ownerReferences": [reference]}
    async with http.post(kind.collection.replace("{ns}", "default"), json=body) as answer:
        if answer.status != 201:
            raise RuntimeError(f"cannot create a {kind.kind}: {await answer.text()}")
    await until(http, kind, "collected", served=False)


async def shortest(pair: Pair, steps: list[Step], signature: str) -> list[Step]:
    """Leave out steps, in ever smaller runs, as long as the same difference shows."""
    size, trials = max(len(steps) // 2, 1), 0
    while size and trials < SHORTENING_TRIALS:
        start = 0
        while start < len(steps) and trials < SHORTENING_TRIALS:
            trials += 1
            candidate = steps[:start] + steps[start + size :]
            if candidate and signature_of(candidate, await pair.verdict(candidate)) == signature:
                steps = candidate
            else:
                start += size
        size //= 2
    return steps


def signature_of(steps: list[Step], verdict: Verdict) -> str:
    """What kind of difference it is, whatever the names and numbers."""
    if not verdict.differences:
        return ""
    what, _, number = verdict.place.partition(" ")
    step = steps[int(number)] if what == "step" else None
    request = f"{step.method} {step.path} {step.content_type}" if step else verdict.place.split(" ")[0]
    request = re.sub(r"(cm|pod|svc|wd|ns|part|sec|sts|dep|pvc|pdb|ls)-[a-c]", "X", request)
    first = verdict.differences[0]
    values = f"{str(first.left)[:40]} / {str(first.right)[:40]}"
    return re.sub(r"\d+", "N", f"{request} {first.path} {values}")


def report(seed: int, steps: list[Step], verdict: Verdict) -> str:
    """Everything needed to understand and replay a difference."""
    lines = [f"seed {seed}, at {verdict.place}", "", "steps:"]
    lines += [f"  {number:2} {step.describe()}" for number, step in enumerate(steps)]
    lines += ["", "differences (left: real, right: judged):"]
    for each in verdict.differences[:40]:
        lines += [f"  {each.path}", f"    - {shown(each.left)}", f"    + {shown(each.right)}"]
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    """A value on one line."""
    return msgspec.json.encode(value).decode()[:1500]


async def try_seed(pair: Pair, seed: int, length: int, result: Result) -> None:
    """One sequence; a new kind of difference is shortened and kept."""
    steps = sequence(seed, length)
    verdict = await pair.verdict(steps)
    result.sequences += 1
    result.requests += len(steps)
    result.used_rules.update(verdict.used_rules)
    signature = signature_of(steps, verdict)
    if not signature:
        return
    result.failed[signature] += 1
    if result.failed[signature] > 1:
        return
    print(f"seed {seed}, {verdict.place}: {signature}", file=sys.stderr, flush=True)
    if verdict.place.startswith("step"):
        steps = steps[: int(verdict.place.split(" ")[1]) + 1]
    again = await pair.verdict(steps)
    if signature_of(steps, again) == signature:
        steps = await shortest(pair, steps, signature)
        again = await pair.verdict(steps)
    result.failures[signature] = report(seed, steps, again if again.differences else verdict)


async def campaign(reference: Address, judged: Address, seeds: range, *, length: int = 60, workers: int = 2) -> Result:
    """All seeds, a few at a time."""
    result, queue = Result(), list(reversed(seeds))
    async with session_of(reference) as left, session_of(judged) as right:
        for http in {left, right} if reference is not judged else {left}:
            await install_kinds(http)
        pair = Pair(left, right)

        async def work() -> None:
            while queue:
                await try_seed(pair, queue.pop(), length, result)

        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
    return result


@asynccontextmanager
async def both_servers(folder: Path, judge: str) -> AsyncIterator[tuple[Address, Address]]:
    """The reference, and the server that is judged; the reference itself to try the mask."""
    async with reference_server(folder) as reference:
        if judge == "real":
            yield reference, reference
        else:
            async with embedded_server() as embedded:
                yield reference, embedded


def save(result: Result, folder: Path) -> None:
    """One file per kind of difference, the frequent ones first."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.txt"):
        old.unlink()
    for number, (signature, count) in enumerate(result.failed.most_common()):
        text = f"{signature}\nseen in {count} sequences\n\n{result.failures[signature]}"
        (folder / f"{number:03}.txt").write_text(text)


async def run(options: argparse.Namespace) -> Result:
    """The campaign as the command line asks for it."""
    seeds = range(options.seed, options.seed + options.sequences)
    with tempfile.TemporaryDirectory(prefix="differential-") as folder:
        async with both_servers(Path(folder), options.judge) as (reference, judged):
            return await campaign(reference, judged, seeds, length=options.length, workers=options.workers)


def main() -> int:
    """Command line: exit code 1 when any difference is unexplained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=300)
    parser.add_argument("--length", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--judge", choices=("embedded", "real"), default="embedded")
    parser.add_argument("--reports", type=Path, help="folder for one file per distinct difference")
    options = parser.parse_args()
    started = time.monotonic()
    result = asyncio.run(run(options))
    if options.reports:
        save(result, options.reports)
    for signature, count in result.failed.most_common():
        print(f"{count:4} x {signature}")
    rules = ", ".join(f"{name} {count}" for name, count in sorted(result.used_rules.items())) or "none"
    print(f"accepted differences used (sequences): {rules}")
    print(
        f"{result.sequences} sequences, {result.requests} requests on each server, "
        f"{sum(result.failed.values())} sequences with unexplained differences, {time.monotonic() - started:.0f} s"
    )
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
