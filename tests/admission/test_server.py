"""The admission server over HTTP: small reviews pass large ones, and what is not looked at is refused."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kube_runtime.loop.health import Server, serve
from slurm_operator.admission.lanes import SMALL_BYTES, Lane
from slurm_operator.admission.server import MAX_REVIEW_BYTES, Lanes, admission_app, path_of
from slurm_operator.build.refs import Refs

TOKEN: dict[str, Any] = {
    "apiVersion": "slinky.slurm.net/v1beta1",
    "kind": "Token",
    "metadata": {"name": "t", "namespace": "slurm"},
    "spec": {"username": "u", "jwtKeyRef": {"name": "a", "key": "b"}},
}


def review(namespace: str, padding: int = 0) -> bytes:
    kind = {"group": "slinky.slurm.net", "version": "v1beta1", "kind": "Token"}
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "namespace": namespace, "object": TOKEN}
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps({**envelope, "padding": "x" * padding}).encode()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


async def until(happened: Callable[[], bool]) -> None:
    if not happened():
        await asyncio.sleep(0.005)
        await until(happened)


@asynccontextmanager
async def closing(server: Server) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await server.close()


Ask = Callable[[bytes], Coroutine[Any, Any, tuple[int, Any]]]


@asynccontextmanager
async def asked(app: web.Application) -> AsyncIterator[Ask]:
    server = await serve(app, "127.0.0.1", 0)
    async with closing(server), aiohttp.ClientSession() as session:

        async def ask(body: bytes) -> tuple[int, Any]:
            url, headers = f"http://127.0.0.1:{server.port}{path_of('Token')}", {"Content-Type": "application/json"}
            async with session.post(url, data=BytesIO(body), headers=headers) as answer:
                text = await answer.text()
                return answer.status, json.loads(text)["response"] if answer.status == 200 else text

        yield ask


async def test_small_reviews_pass_while_a_large_one_is_stuck(gate: threading.Event) -> None:
    """T3: one large review held up everybody's."""

    def refs_of(namespace: str) -> Refs:
        if namespace == "large":
            gate.wait(20)
        return Refs()

    results: list[str] = []
    app = admission_app(refs_of, lambda _, result, __: results.append(result))
    async with asked(app) as ask:
        large = asyncio.create_task(ask(review("large", SMALL_BYTES)))
        for _ in range(20):
            code, response = await asyncio.wait_for(ask(review("slurm")), 10)
            assert (code, response["allowed"]) == (200, True)
        assert not large.done()
        gate.set()
        code, response = await large
        assert (code, response["allowed"]) == (200, True)
    assert results == ["allowed"] * 21


async def test_what_is_too_much_is_refused_with_a_reason_that_says_try_again(gate: threading.Event) -> None:
    def refs_of(_: str) -> Refs:
        gate.wait(20)
        return Refs()

    results: list[str] = []
    lanes = Lanes(small=Lane(threads=1, max_waiting=4, max_waiting_per_namespace=1))
    app = admission_app(refs_of, lambda _, result, __: results.append(result), lanes)
    async with asked(app) as ask:
        tasks = [asyncio.create_task(ask(review("a"))) for _ in range(2)]
        await asyncio.wait_for(until(lambda: lanes.small.waiting == 1), 10)
        code, response = await ask(review("a"))
        assert (code, response["allowed"]) == (200, False)
        assert (response["status"]["code"], response["status"]["reason"]) == (429, "TooManyRequests")
        assert "try again" in response["status"]["message"]
        gate.set()
        assert all(response["allowed"] for _, response in await asyncio.gather(*tasks))
    assert sorted(results) == ["allowed", "allowed", "overloaded"]


async def test_a_body_is_not_read_when_its_lane_is_full() -> None:
    lanes = Lanes(large=Lane(threads=1, max_waiting=0, max_waiting_per_namespace=0))
    async with asked(admission_app(lambda _: Refs(), lanes=lanes)) as ask:
        code, text = await ask(review("a", SMALL_BYTES))
        assert (code, "try again" in text) == (429, True)
        assert (await ask(review("a")))[0] == 200


async def test_a_review_that_takes_too_long_is_refused_and_told_so(gate: threading.Event) -> None:
    def refs_of(_: str) -> Refs:
        gate.wait(20)
        return Refs()

    lanes = Lanes(small=Lane(threads=1, max_waiting=4, max_waiting_per_namespace=4, time_limit_seconds=0.05))
    async with asked(admission_app(refs_of, lanes=lanes)) as ask:
        code, response = await ask(review("a"))
        assert (code, response["allowed"], response["status"]["reason"]) == (200, False, "Timeout")
        assert (await ask(b'{"request": {}}'))[0] == 503, "who cannot be answered gets an error, which also refuses"
        gate.set()


async def test_a_body_above_the_limit_is_refused_unread() -> None:
    async with asked(admission_app(lambda _: Refs())) as ask:
        assert (await ask(review("a", MAX_REVIEW_BYTES)))[0] == 413
        assert (await ask(b"{"))[0] == 400
