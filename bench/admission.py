"""How long the admission server takes over 10,000 reviews, most of them malformed.

Floor: the same server with a handler that answers at once, in the same run. Bars: no answer of 500 or more, and 99 of
100 answers in under 50 ms. Run: python bench/admission.py [-o json]
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import ssl
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from slurm_operator.admission.certificates import issue
from slurm_operator.admission.server import admission_app, path_of
from slurm_operator.build.refs import Refs
from slurm_operator.cli.serving import context
from slurm_operator.loop.health import serve

ROOT = Path(__file__).resolve().parents[1]
REVIEWS = 10_000
AT_ONCE = 4
BAR_SECONDS = 0.05
JUNK: tuple[Any, ...] = (None, True, -1, 1e300, "", "\x00", "a\nb", [], {}, [[]], {"a": {}}, "x" * 2000)


def samples() -> list[dict[str, Any]]:
    """Every resource of ours in the examples."""
    found: list[dict[str, Any]] = []
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        found += [each for each in yaml.safe_load_all(path.read_text()) if each and "slinky" in each["apiVersion"]]
    return found


def review(resource: dict[str, Any]) -> dict[str, Any]:
    """A question about a resource."""
    kind = {"group": "slinky.slurm.net", "version": "v1beta1", "kind": resource["kind"]}
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "namespace": "slurm", "object": resource}
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


async def measure(app: web.Application, asked: list[tuple[str, bytes]]) -> dict[str, Any]:
    """Times and codes of all answers."""
    pair = issue(("localhost",), datetime.now(UTC))
    server = await serve(app, "127.0.0.1", 0, tls=context(pair.certificate, pair.key))
    trust = ssl.create_default_context(cadata=pair.ca.decode())
    times: list[float] = []
    codes: Counter[int] = Counter()
    queue = iter(asked)

    async def worker(session: aiohttp.ClientSession) -> None:
        for path, body in queue:
            began = time.perf_counter()
            headers = {"Content-Type": "application/json"}
            async with session.post(f"https://localhost:{server.port}{path}", data=body, headers=headers) as answer:
                await answer.read()
            times.append(time.perf_counter() - began)
            codes[answer.status] += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        await asyncio.gather(*(worker(session) for _ in range(AT_ONCE)))
    await server.close()
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

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=b"{}")

    app = web.Application(client_max_size=3 * 1024 * 1024)
    app.router.add_post("/{path}", answer)
    return app


def main() -> int:
    """Measure, print, and hold against the bars."""
    asked = bodies(REVIEWS)
    made: dict[str, Callable[[], web.Application]] = {"floor": floor, "ours": lambda: admission_app(lambda _: Refs())}
    result = {name: asyncio.run(measure(app(), asked)) for name, app in made.items()}
    ours = result["ours"]
    good = ours["p99"] < BAR_SECONDS and not any(int(code) >= 500 for code in ours["codes"])
    if "json" in sys.argv:
        print(json.dumps({**result, "pass": good}))
    else:
        for name, row in result.items():
            print(f"{name:6} p50 {row['p50'] * 1000:6.2f} ms  p99 {row['p99'] * 1000:6.2f} ms  codes {row['codes']}")
        print(f"bars: p99 < {BAR_SECONDS * 1000:.0f} ms, no 5xx: {'kept' if good else 'NOT KEPT'}")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
