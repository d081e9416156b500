"""A long list over real HTTP: read as it comes, with the same outcome as a short one (T11)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from tests.slurm.replay import kept_answer

from slurm_operator.slurm import wire
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import SlurmBadAnswer, SlurmBudgetExceeded, SlurmError, SlurmWrongCluster
from slurm_operator.slurm.token import TokenSource

KEY = b"k" * 32


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = kept_answer("26.05", name)["json"]
    return found


def long_list(count: int = 2_000) -> bytes:
    """So many nodes, far above what is read in one piece."""
    answer = recorded("nodes")
    shape = answer["nodes"][0]
    return json.dumps({**answer, "nodes": [{**shape, "name": f"n{number}"} for number in range(count)]}).encode()


@asynccontextmanager
async def serving(body: bytes, port: int, declared: int | None = None) -> AsyncIterator[SlurmClient]:
    """A slurmrestd whose list of nodes is these bytes."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if "ping" in request.path:
            return web.json_response(recorded("ping"))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = declared or len(body)
        await response.prepare(request)
        await response.write(body)
        return response

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    token = TokenSource(lambda: KEY, now=lambda: 1e9)
    try:
        async with SlurmClient(f"http://127.0.0.1:{port}", token, cluster="test") as client:
            yield client
    finally:
        await runner.cleanup()


async def test_a_long_list_is_read_whole_and_as_a_short_one_would_be(unused_tcp_port: int) -> None:
    body = long_list()
    async with serving(body, unused_tcp_port) as client:
        found = await client.all_nodes()
    assert found == wire.nodes(wire.Reply(200, "application/json", body), "GET nodes")
    assert found.complete
    assert len(found.items) == 2_000


def with_odd_bytes(body: bytes) -> bytes:
    return body.replace(b'"comment": ""', b'"comment": "\xff\xfe\x1b[2J"', 1)


def with_odd_item(body: bytes) -> bytes:
    return body.replace(b'"name": "n7"', b'"name": 7', 1)


@pytest.mark.parametrize(
    ("spoil", "items", "complete"),
    [(with_odd_bytes, 2_000, True), (with_odd_item, 1_999, False)],
    ids=["bytes that are not UTF-8 in a comment", "a node without a name"],
)
async def test_one_odd_item_does_not_take_the_others_with_it(
    unused_tcp_port: int, spoil: Callable[[bytes], bytes], items: int, complete: bool
) -> None:
    body = spoil(long_list())
    assert body != long_list()
    async with serving(body, unused_tcp_port) as client:
        found = await client.all_nodes()
    assert (len(found.items), found.complete) == (items, complete)


async def test_a_long_list_of_states_is_read_as_it_comes(unused_tcp_port: int) -> None:
    answer = recorded("jobs_state")
    tasks = [{"job_id": f"{number // 10}_{number}", "state": ["PENDING"]} for number in range(50_000)]
    body = json.dumps({**answer, "jobs": tasks}, indent=2).encode()
    async with serving(body, unused_tcp_port) as client:
        found = await client.job_states()
    assert (len(found.items), found.complete) == (5_000, True)
    assert found == wire.job_states(wire.Reply(200, "application/json", body), "GET jobs/state")


CUT = long_list()[:-100]
DEEP = long_list()[:-1] + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
OTHER = long_list().replace(b'"cluster": "test"', b'"cluster": "other"')
MANY = b'{"nodes": [' + b"0," * 1_500_000 + b"0]}"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (CUT, SlurmBadAnswer),
        (DEEP, SlurmBudgetExceeded),
        (OTHER, SlurmWrongCluster),
        (MANY, SlurmBudgetExceeded),
        (b'{"nodes": ["' + b"x" * (20 * 1024 * 1024), SlurmBudgetExceeded),
        (b"[" + b"1," * 1_000_000 + b"1]", SlurmBadAnswer),
    ],
    ids=["cut off", "too deep", "another cluster", "too many items", "an endless item", "no object"],
)
async def test_a_long_list_that_cannot_be_used_is_told_by_its_reason(
    unused_tcp_port: int, body: bytes, error: type[SlurmError]
) -> None:
    async with serving(body, unused_tcp_port) as client:
        with pytest.raises(error):
            await client.all_nodes()
