"""The probes tell the truth, and debug pages are for this machine only."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from kube_runtime.clock import SystemClock, VirtualClock
from kube_runtime.loop import health
from kube_runtime.loop.health import (
    CannotListen,
    Watchdog,
    all_stacks,
    debug_app,
    health_app,
    is_loopback,
    metrics_app,
    serve,
    stuck_workers,
)
from kube_runtime.loop.metrics import Metrics
from kube_runtime.loop.queue import Key

Get = Callable[[web.Application, str], Coroutine[Any, Any, tuple[int, str]]]


@pytest.fixture
async def get() -> AsyncIterator[Get]:
    async with aiohttp.ClientSession() as session:

        async def get(app: web.Application, path: str) -> tuple[int, str]:
            server = await serve(app, "127.0.0.1", 0)
            try:
                async with session.get(f"http://{server.host}:{server.port}{path}") as answer:
                    return answer.status, await answer.text()
            finally:
                await server.close()

        yield get


@dataclass
class FakeWorker:
    name: str = "NodeSet"
    time_limit: float = 60.0
    running: dict[Key, float] = field(default_factory=dict)


def ok() -> None:
    return None


async def test_health_is_ok_when_nothing_is_wrong(get: Get) -> None:
    status, body = await get(health_app(healthy={"workers": ok}, ready={}), "/healthz")
    assert status == 200
    assert json.loads(body) == {"ok": True, "failing": {}}


async def test_health_fails_when_a_worker_outlives_its_limit(get: Get, clock: VirtualClock) -> None:
    worker = FakeWorker(running={Key("slurm", "gpu"): clock.monotonic()})
    app = health_app(healthy={"workers": stuck_workers([worker], clock, slack=30)}, ready={})
    clock.advance(90)
    assert (await get(app, "/healthz"))[0] == 200
    clock.advance(1)
    app = health_app(healthy={"workers": stuck_workers([worker], clock, slack=30)}, ready={})
    status, body = await get(app, "/healthz")
    assert status == 503
    assert json.loads(body)["failing"] == {"workers": "NodeSet slurm/gpu runs for 91 s"}


async def test_a_check_that_breaks_is_a_failing_check(get: Get) -> None:
    def broken() -> str | None:
        raise LookupError("no such cache")

    status, body = await get(health_app(healthy={"caches": broken}, ready={}), "/healthz")
    assert status == 503
    assert json.loads(body)["failing"] == {"caches": "the check itself failed: no such cache"}


@pytest.mark.parametrize(
    ("leading", "unsynced", "status", "role"),
    [
        (lambda: True, None, 200, "leader"),
        (lambda: False, None, 200, "standby"),
        (lambda: False, "pods", 503, "standby"),
        (None, None, 200, None),
    ],
    ids=["leader", "standby is ready too", "caches are not complete", "no election"],
)
async def test_readiness_is_complete_caches_and_tells_the_role(
    get: Get, leading: Callable[[], bool] | None, unsynced: str | None, status: int, role: str | None
) -> None:
    app = health_app(healthy={}, ready={"caches": lambda: unsynced}, leading=leading)
    code, body = await get(app, "/readyz")
    assert code == status
    assert json.loads(body).get("role") == role


async def test_metrics_are_served_as_prometheus_reads_them(get: Get) -> None:
    status, body = await get(metrics_app(Metrics()), "/metrics")
    assert status == 200
    assert "loop_stalls_total 0.0" in body


@pytest.mark.parametrize(("allowed", "status"), [(True, 200), (False, 403)], ids=["let in", "kept out"])
async def test_metrics_can_ask_who_is_there(get: Get, allowed: bool, status: int) -> None:
    async def authorize(request: web.Request) -> bool:
        return allowed

    assert (await get(metrics_app(Metrics(), authorize), "/metrics"))[0] == status


async def test_the_stacks_of_threads_and_tasks_are_shown(get: Get) -> None:
    status, body = await get(debug_app(), "/debug/stacks")
    assert status == 200
    assert "thread MainThread" in body
    assert "task " in body


async def test_stacks_name_the_place_where_a_task_waits() -> None:
    async def waits_here() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(waits_here(), name="patient")
    await asyncio.sleep(0)
    assert "task patient\n  test_stacks_name_the_place_where_a_task_waits.<locals>.waits_here" in all_stacks()
    task.cancel()


async def test_a_profile_is_folded_stacks_with_counts(get: Get) -> None:
    status, body = await get(debug_app(), "/debug/profile?seconds=0.05")
    assert status == 200
    counts = [int(row.rpartition(" ")[2]) for row in body.splitlines()]
    assert sum(counts) >= 1


@pytest.mark.parametrize("seconds", ["0", "-1", "61", "nan", "many"])
async def test_a_profile_of_senseless_length_is_refused(get: Get, seconds: str) -> None:
    status, body = await get(debug_app(), f"/debug/profile?seconds={seconds}")
    assert status == 400
    assert "above 0 and up to 60" in body


def test_a_thread_that_is_gone_has_an_empty_stack() -> None:
    assert health._folded(None) == "(gone)"


@pytest.mark.parametrize(
    ("address", "answer"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("10.0.0.7", False),
        ("fe80::1", False),
        ("", False),
        (None, False),
    ],
)
def test_loopback_is_known_by_its_address(address: str | None, answer: bool) -> None:
    assert is_loopback(address) is answer


async def test_debug_pages_refuse_other_machines() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response()

    request = make_mocked_request("GET", "/debug/stacks").clone(remote="10.0.0.7")
    with pytest.raises(web.HTTPForbidden):
        await health._loopback_only(request, handler)


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open() -> None:
    server = await serve(metrics_app(Metrics()), "127.0.0.1", 0)
    try:
        with pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1:{server.port}: Address already in use"):
            await serve(metrics_app(Metrics()), "127.0.0.1", server.port)
    finally:
        await server.close()


class StallHeard(logging.Handler):
    """Sets an event when the watchdog reports our own stall: a busy machine may make others before it."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.Event()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        if "hold_up_the_loop" in record.getMessage():
            self.text = record.getMessage()
            self.heard.set()


async def test_the_watchdog_logs_where_a_stuck_loop_is_stuck() -> None:
    metrics, handler = Metrics(), StallHeard()
    health.log.addHandler(handler)
    task = asyncio.create_task(Watchdog(0.02, clock=SystemClock(), metrics=metrics).run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    def hold_up_the_loop() -> bool:
        return handler.heard.wait(30)

    assert hold_up_the_loop()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    health.log.removeHandler(handler)
    assert "the event loop has stood still" in handler.text
    assert b"loop_stalls_total 0.0" not in metrics.text()


def test_one_stall_is_one_report_and_a_beat_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    watchdog = Watchdog(10, monotonic=lambda: now)
    watchdog.beat()
    now = 10.0
    assert not watchdog.look()
    now = 11.0
    assert watchdog.look()
    assert watchdog.look()
    assert len(caplog.records) == 1
    watchdog.beat()
    assert not watchdog.look()
    now = 30.0
    assert watchdog.look()
    assert len(caplog.records) == 2


def test_a_loop_thread_that_is_gone_is_said_to_be_gone(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    watchdog = Watchdog(10, monotonic=lambda: now)
    now = 11.0
    watchdog.look()
    assert "(thread is gone)" in caplog.text
