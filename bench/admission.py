"""How the admission server holds up: 10,000 reviews, most of them malformed; the worst manifests; and both at once.

Three parts, each with its bar:
- 10,000 reviews, most of them malformed. Floor: the same server with a handler that answers at once, in the same run.
  No answer of 500 or more, and 99 of 100 answers in under 50 ms.
- The worst manifests of a megabyte that we know of, each alone: at most 0.3 s of CPU. Floor: decoding the JSON.
- Fifty of the worst sent at once while somebody else sends small reviews: 99 of 100 of those in under 100 ms. The
  server is a process of its own, as in a cluster. Floor: the same small reviews with nobody else there.

Run: python bench/admission.py [-o json]
"""

from __future__ import annotations

import asyncio
import copy
import io
import json
import os
import platform
import random
import ssl
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from kube_runtime.loop.health import serve
from slurm_operator.admission.certificates import issue
from slurm_operator.admission.review import answer
from slurm_operator.admission.server import admission_app, path_of
from slurm_operator.api.bounds import MAX_EMBEDDED_VALUES
from slurm_operator.api.controller import Controller
from slurm_operator.api.text import MAX_LINES
from slurm_operator.api.validate import decode
from slurm_operator.build.refs import Refs
from slurm_operator.cli.serving import context, share_interpreter

ROOT = Path(__file__).resolve().parents[1]
REVIEWS = 10_000
IN_FLIGHT = 4
BAR_SECONDS = 0.05
WORST_BYTES = 1_000_000
WORST_BAR_SECONDS = 0.3
FLOOD = 50
SMALL_REVIEWS = 500
FLOODED_BAR_SECONDS = 0.1
JUNK: tuple[Any, ...] = (None, True, -1, 1e300, "", "\x00", "a\nb", [], {}, [[]], {"a": {}}, "x" * 2000)
KEYS = {"slurmKeyRef": {"name": "a", "key": "b"}, "jwtKeyRef": {"name": "a", "key": "c"}}


def samples() -> list[dict[str, Any]]:
    """Every resource of ours in the examples."""
    found: list[dict[str, Any]] = []
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        found += [each for each in yaml.safe_load_all(path.read_text()) if each and "slinky" in each["apiVersion"]]
    return found


def review(resource: dict[str, Any], namespace: str = "slurm") -> dict[str, Any]:
    """A question about a resource."""
    kind = {"group": "slinky.slurm.net", "version": "v1beta1", "kind": resource["kind"]}
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "namespace": namespace, "object": resource}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def spoilt(value: Any, draw: random.Random) -> Any:
    """A copy with a few things replaced or gone."""
    if draw.random() < 0.03:
        return draw.choice(JUNK)
    if isinstance(value, dict):
        return {key: spoilt(item, draw) for key, item in value.items() if draw.random() > 0.02}
    return [spoilt(item, draw) for item in value] if isinstance(value, list) else value


def bodies(count: int) -> list[tuple[str, bytes]]:
    """Paths and bodies; one of twenty is cut off."""
    draw, known = random.Random(20261116), samples()  # noqa: S311
    made = []
    for _ in range(count):
        chosen = draw.choice(known)
        body = json.dumps(spoilt(review(copy.deepcopy(chosen)), draw)).encode()
        made.append((path_of(chosen["kind"]), body[: draw.randrange(len(body))] if draw.random() < 0.05 else body))
    return made


def resource(kind: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A resource that belongs to the Controller `slurm`."""
    required = KEYS if kind == "Controller" else {"controllerRef": {"name": "slurm"}}
    meta = {"name": "x", "namespace": "slurm", **metadata}
    return {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": meta, "spec": {**required, **spec}}


def filled(make: Callable[[int, str], Any], each: int, padding: int = 0) -> list[Any]:
    """As many items as a resource may hold, of `each` values, and a megabyte long with this padding."""
    count = MAX_EMBEDDED_VALUES // each - 4
    return [make(at, "x" * (padding or WORST_BYTES // count - 40)) for at in range(count)]


def unbounded(make: Callable[[int], Any]) -> list[Any]:
    """Items until a megabyte is full."""
    made: list[Any] = []
    size = 0
    while size < WORST_BYTES:
        made.append(make(len(made)))
        size += len(json.dumps(made[-1], separators=(",", ":"))) + 1
    return made


def worst() -> dict[str, dict[str, Any]]:
    """Manifests of a megabyte by what there is too much of: dense ones that are refused, and full ones that are not."""

    def worker(**container: Any) -> dict[str, Any]:
        return resource("NodeSet", {"slurmd": container})

    def pod(**spec: Any) -> dict[str, Any]:
        return resource("NodeSet", {"template": {"spec": spec}})

    repeated = [{"name": "c", "env": filled(lambda at, pad: {"name": f"A{at}", "value": pad}, 4)}]
    lines = "NodeName=n0001 CPUs=1\n"
    return {
        "env, dense": worker(env=unbounded(lambda at: {"name": f"A{at}"})),
        "env, full": worker(env=filled(lambda at, pad: {"name": f"A{at}", "value": pad}, 3)),
        "volumes, dense": pod(volumes=unbounded(lambda at: {"name": f"v{at}"})),
        "volumes, full": pod(volumes=filled(lambda at, pad: {"name": f"v{at}", "emptyDir": {"medium": pad}}, 4)),
        "tolerations, full": pod(tolerations=filled(lambda at, pad: {"key": f"{at}{pad}", "operator": "Exists"}, 3)),
        "containers, full": pod(containers=filled(lambda at, pad: {"name": f"c{at}", "image": pad}, 3)),
        "one container, again and again": pod(containers=[*repeated, *[{"name": "c", "env": [{"name": "A"}]}] * 3]),
        "wrong types": pod(tolerations=unbounded(lambda _: 1)),
        "unknown fields": pod(**{f"containerz{at}": 1 for at in range(WORST_BYTES // 16)}),
        "claims without a name": resource("NodeSet", {"volumeClaimTemplates": unbounded(lambda _: {})}),
        "labels": resource("NodeSet", {}, labels={f"k{at}": "" for at in range(WORST_BYTES // 10)}),
        "a long duration": resource(
            "NodeSet", {"updateStrategy": {"scheduledUpdate": {"duration": "1" * WORST_BYTES}}}
        ),
        "a long quantity": worker(resources={"limits": {"cpu": "1" * WORST_BYTES}}),
        "extraConf, short lines": resource("Controller", {"extraConf": "a\n" * (WORST_BYTES // 3)}),
        "extraConf, full": resource("Controller", {"extraConf": lines * min(MAX_LINES, WORST_BYTES // 23)}),
        "nodes of extraConf": resource("Controller", {"extraConf": "NodeName=a[0-99999]\n" * (WORST_BYTES // 21)}),
        "references": resource("Controller", {"configFileRefs": unbounded(lambda at: {"name": f"c{at}"})}),
        "accounts": resource("Partition", {"nodeSets": ["ALL"], "allowAccounts": unbounded(lambda at: f"a{at}")}),
        "host list": resource("Partition", {"nodes": "a[0-9]" * (WORST_BYTES // 6)}),
    }


def controller_refs(_: str = "") -> Refs:
    """A namespace with one Controller."""
    made = decode(resource("Controller", {}, name="slurm")).resource
    if not isinstance(made, Controller):
        raise TypeError("the Controller of this benchmark is refused")
    return Refs(controllers={"slurm": made})


def alone() -> dict[str, Any]:
    """CPU seconds of each of the worst manifests, and of decoding its JSON."""
    refs, rows = controller_refs(), {}
    for name, manifest in worst().items():
        body = json.dumps(review(manifest), separators=(",", ":")).encode()
        start = time.process_time()
        json.loads(body)
        floor_seconds = time.process_time() - start
        start = time.process_time()
        result = answer(body, lambda _: refs).result
        rows[name] = {
            "bytes": len(body),
            "seconds": time.process_time() - start,
            "floor": floor_seconds,
            "result": result,
        }
    return rows


async def measure(app: web.Application, asked: list[tuple[str, bytes]]) -> dict[str, Any]:
    """Times and codes of all answers."""
    pair = issue(("localhost",), datetime.now(UTC))
    server = await serve(app, "127.0.0.1", 0, tls=context(pair.certificate, pair.key))
    result = await asking(server.port, pair.ca.decode(), asked, IN_FLIGHT)
    await server.close()
    return result


async def asking(port: int, trusted: str, asked: list[tuple[str, bytes]], in_flight: int) -> dict[str, Any]:
    """Times and codes of all answers of a server."""
    trust = ssl.create_default_context(cadata=trusted)
    times: list[float] = []
    codes: Counter[int] = Counter()
    queue = iter(asked)

    async def worker(session: aiohttp.ClientSession) -> None:
        for path, body in queue:
            began = time.perf_counter()
            headers = {"Content-Type": "application/json"}
            url = f"https://localhost:{port}{path}"
            async with session.post(url, data=io.BytesIO(body), headers=headers) as response:
                await response.read()
            times.append(time.perf_counter() - began)
            codes[response.status] += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=0)) as session:
        await asyncio.gather(*(worker(session) for _ in range(in_flight)))
    ordered = sorted(times)
    return {
        "reviews": len(times),
        "codes": {str(code): count for code, count in sorted(codes.items())},
        "p50": statistics.median(ordered),
        "p99": ordered[int(len(ordered) * 0.99)],
        "max": ordered[-1],
    }


def floor() -> web.Application:
    """A server that answers at once."""

    async def at_once(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=b"{}")

    app = web.Application(client_max_size=3 * 1024 * 1024)
    app.router.add_post("/{path}", at_once)
    return app


async def serve_forever() -> None:
    """The server of the last part, in a process of its own: prints its port and its CA, ends with its input."""
    share_interpreter()
    pair, refs = issue(("localhost",), datetime.now(UTC)), controller_refs()
    server = await serve(admission_app(lambda _: refs), "127.0.0.1", 0, tls=context(pair.certificate, pair.key))
    sys.stdout.write(json.dumps({"port": server.port, "ca": pair.ca.decode()}) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await server.close()


@contextmanager
def server_process() -> Iterator[dict[str, Any]]:
    """A server on its own."""
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdout is None or process.stdin is None:
            raise OSError("the server has no pipes")
        yield json.loads(process.stdout.readline())
        process.stdin.close()


def flood(port: str, folder: str) -> None:
    """Send fifty of the worst manifests at once, over and over, until the folder is marked; print what came of it."""
    trusted, worst_bodies = Path(folder, "ca.pem").read_text(), [Path(folder, str(at)).read_bytes() for at in range(3)]
    total: Counter[str] = Counter()
    while not Path(folder, "end").exists():
        asked = [(path_of("NodeSet"), worst_bodies[at % 3]) for at in range(FLOOD)]
        total.update(asyncio.run(asking(int(port), trusted, asked, FLOOD))["codes"])
        Path(folder, "begun").touch()
    sys.stdout.write(json.dumps(total))


def flooded() -> dict[str, Any]:
    """Small reviews of one namespace, first with nobody else there, then beside a flood from another."""
    small = [(path_of("Controller"), json.dumps(review(resource("Controller", {}))).encode())] * SMALL_REVIEWS
    manifests = worst()
    slowest = sorted(alone().items(), key=lambda row: -row[1]["seconds"])
    named = [name for name, _ in slowest if manifests[name]["kind"] == "NodeSet"][:3]
    with server_process() as server, TemporaryDirectory() as folder:
        quiet = asyncio.run(asking(server["port"], server["ca"], small, 1))
        Path(folder, "ca.pem").write_text(server["ca"])
        for at, name in enumerate(named):
            body = json.dumps(review(manifests[name], "hostile"), separators=(",", ":")).encode()
            Path(folder, str(at)).write_bytes(body)
        command = [sys.executable, __file__, "--flood", str(server["port"]), folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            while not Path(folder, "begun").exists():
                asyncio.run(asking(server["port"], server["ca"], small[:1], 1))
            beside = asyncio.run(asking(server["port"], server["ca"], small, 1))
            Path(folder, "end").touch()
            out, _ = process.communicate()
    return {"alone": quiet, "beside": beside, "flood": json.loads(out), "manifests": named}


def conditions() -> str:
    """What this was measured on."""
    load = os.getloadavg()[0]
    return f"Python {platform.python_version()}, {os.cpu_count()} cores (shared), load {load:.1f} at the start"


def shown(result: dict[str, Any]) -> Iterator[str]:
    """The results for people."""
    yield result["conditions"]
    for name in ("floor", "ours"):
        row = result[name]
        yield f"{name:6} p50 {row['p50'] * 1000:6.2f} ms  p99 {row['p99'] * 1000:6.2f} ms  codes {row['codes']}"
    for name, row in sorted(result["worst"].items(), key=lambda each: -each[1]["seconds"]):
        ratio = row["seconds"] / max(row["floor"], 1e-6)
        size = f"{row['bytes']:8} bytes"
        yield f"{row['seconds']:6.3f} s CPU  {ratio:5.1f} x json.loads  {size}  {row['result']:8} {name}"
    crowd = result["flooded"]
    for name in ("alone", "beside"):
        row = crowd[name]
        yield f"small reviews {name:6} p50 {row['p50'] * 1000:6.2f} ms  p99 {row['p99'] * 1000:6.2f} ms  {row['codes']}"
    yield f"beside {FLOOD} at once of {', '.join(crowd['manifests'])}: answers {crowd['flood']}"
    yield f"ratio of p99: {crowd['beside']['p99'] / crowd['alone']['p99']:.1f}"


def kept(result: dict[str, Any]) -> dict[str, bool]:
    """The bars, and which of them are kept."""
    ours, beside = result["ours"], result["flooded"]["beside"]
    return {
        f"p99 < {BAR_SECONDS * 1000:.0f} ms": ours["p99"] < BAR_SECONDS,
        "no 5xx": not any(int(code) >= 500 for code in ours["codes"]),
        f"worst manifest < {WORST_BAR_SECONDS} s CPU": all(
            row["seconds"] < WORST_BAR_SECONDS and row["result"] != "failed" for row in result["worst"].values()
        ),
        f"small beside {FLOOD} worst: p99 < {FLOODED_BAR_SECONDS * 1000:.0f} ms": beside["p99"] < FLOODED_BAR_SECONDS
        and set(beside["codes"]) == {"200"},
    }


def main() -> int:
    """Measure, print, and hold against the bars."""
    if "--serve" in sys.argv:
        asyncio.run(serve_forever())
        return 0
    if "--flood" in sys.argv:
        flood(*sys.argv[-2:])
        return 0
    result: dict[str, Any] = {"conditions": conditions()}
    asked = bodies(REVIEWS)
    made: dict[str, Callable[[], web.Application]] = {"floor": floor, "ours": lambda: admission_app(lambda _: Refs())}
    result |= {name: asyncio.run(measure(app(), asked)) for name, app in made.items()}
    result |= {"worst": alone(), "flooded": flooded()}
    bars = kept(result)
    if "json" in sys.argv:
        print(json.dumps({**result, "bars": bars, "pass": all(bars.values())}))
    else:
        print("\n".join(shown(result)))
        print("bars: " + "; ".join(f"{bar}: {'kept' if good else 'NOT KEPT'}" for bar, good in bars.items()))
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
