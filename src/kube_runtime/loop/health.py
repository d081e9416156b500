"""Is this process alive, is it ready, what does it count, what is it doing? Small HTTP servers that say so.

`/healthz` fails when a reconcile outlives its limits, since its worker is stuck; `/readyz` fails until the
caches are complete, and tells leader from standby (both are ready); `/metrics` has a port of its own;
`/debug/stacks` and `/debug/profile` are off by default and answer to loopback only.

A stuck event loop cannot answer. That silence is the signal: the kubelet's probe times out and counts as a
failure. A second server in a thread would answer for a loop that it knows less about than the probe does. What
the probe cannot tell is why, so the `Watchdog` thread logs the stack that holds the loop up, and counts it.
"""

from __future__ import annotations

import asyncio
import collections
import ipaddress
import logging
import os
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import FrameType
from typing import Protocol

from aiohttp import web

from kube_runtime.clock import Clock, SystemClock
from kube_runtime.errors import Terminal
from kube_runtime.loop import closing
from kube_runtime.loop.metrics import Metrics
from kube_runtime.loop.queue import Key

log = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Says what is wrong, or None."""

Authorize = Callable[[web.Request], Awaitable[bool]]

_MAX_PROFILE_SECONDS = 60.0
_PROFILE_PERIOD_SECONDS = 0.01


class Worker(Protocol):
    """What `/healthz` reads from a controller."""

    @property
    def name(self) -> str: ...
    @property
    def time_limit(self) -> float: ...
    @property
    def running(self) -> Mapping[Key, float]: ...


def stuck_workers(workers: Iterable[Worker], clock: Clock, slack: float = 30.0) -> Check:
    """A check that fails when a reconcile runs on although its time limit passed `slack` seconds ago."""
    workers = list(workers)

    def check() -> str | None:
        now = clock.monotonic()
        stuck = [
            f"{worker.name} {key} runs for {now - since:.0f} s"
            for worker in workers
            for key, since in worker.running.items()
            if now - since > worker.time_limit + slack
        ]
        return "; ".join(stuck) or None

    return check


class Watchdog:
    """A thread that notices when the event loop stands still longer than `limit` seconds, and logs where.

    `beat` runs on the loop; the thread sees that it stopped. One report per stall.
    """

    def __init__(
        self,
        limit: float = 10.0,
        *,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._clock: Clock = clock or SystemClock()
        self._metrics = metrics or Metrics()
        self._monotonic = monotonic
        self._last = monotonic()
        self._reported = False
        self._loop_thread: int | None = None
        self._stopping = threading.Event()

    async def run(self) -> None:
        """Beat on the loop and watch from a thread, until cancelled."""
        self.beat()
        self._stopping.clear()
        thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        thread.start()
        try:
            while True:
                self.beat()
                await self._clock.sleep(self._limit / 4)
        finally:
            self._stopping.set()
            thread.join()

    def beat(self) -> None:
        """The loop is alive."""
        self._loop_thread = threading.get_ident()
        self._last = self._monotonic()
        self._reported = False

    def look(self) -> bool:
        """Report a stall that was not reported yet; True when there is one."""
        still = self._monotonic() - self._last
        if still <= self._limit:
            return False
        if not self._reported:
            self._reported = True
            self._metrics.loop_stalled()
            log.error("the event loop has stood still for %.1f s at:\n%s", still, self._stack())
        return True

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._loop_thread or 0)
        return "".join(traceback.format_stack(frame)) if frame else "(thread is gone)"

    def _watch(self) -> None:
        while not self._stopping.wait(self._limit / 4):
            self.look()


def health_app(
    *,
    healthy: Mapping[str, Check],
    ready: Mapping[str, Check],
    leading: Callable[[], bool] | None = None,
) -> web.Application:
    """`/healthz` and `/readyz`: 200 or 503, and a JSON body that says what is wrong."""

    async def healthz(_request: web.Request) -> web.Response:
        return _verdict(healthy, {})

    async def readyz(_request: web.Request) -> web.Response:
        role = {} if leading is None else {"role": "leader" if leading() else "standby"}
        return _verdict(ready, role)

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def _verdict(checks: Mapping[str, Check], facts: Mapping[str, str]) -> web.Response:
    wrong = {name: reason for name, check in checks.items() if (reason := _ask(check)) is not None}
    body = {"ok": not wrong, **facts, "failing": wrong}
    return web.json_response(body, status=503 if wrong else 200)


def _ask(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:
        log.exception("a health check failed to run")
        return f"the check itself failed: {error}"


def metrics_app(metrics: Metrics, authorize: Authorize | None = None) -> web.Application:
    """`/metrics`; with `authorize`, only for requests that it lets pass."""

    async def serve(request: web.Request) -> web.Response:
        if authorize is not None and not await authorize(request):
            raise web.HTTPForbidden(text="metrics are not for this caller\n")
        content = "text/plain; version=0.0.4; charset=utf-8"
        return web.Response(body=metrics.text(), headers={"Content-Type": content})

    app = web.Application()
    app.router.add_get("/metrics", serve)
    return app


def debug_app(clock: Clock | None = None) -> web.Application:
    """`/debug/stacks` and `/debug/profile?seconds=N` (folded stacks, for any flame graph), for loopback only."""
    timer: Clock = clock or SystemClock()

    async def stacks(_request: web.Request) -> web.Response:
        return web.Response(text=all_stacks())

    async def profile(request: web.Request) -> web.Response:
        seconds = _profile_seconds(request.query.get("seconds", "5"))
        return web.Response(text=await _profile(timer, seconds))

    app = web.Application(middlewares=[_loopback_only])
    app.router.add_get("/debug/stacks", stacks)
    app.router.add_get("/debug/profile", profile)
    return app


@web.middleware
async def _loopback_only(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    if not is_loopback(request.remote):
        raise web.HTTPForbidden(text="debug pages answer to loopback only\n")
    return await handler(request)


def is_loopback(address: str | None) -> bool:
    """Is this peer address one of this machine's loopback addresses?"""
    try:
        return address is not None and ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _profile_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MAX_PROFILE_SECONDS:
        raise web.HTTPBadRequest(text=f"seconds must be a number above 0 and up to {_MAX_PROFILE_SECONDS:g}\n")
    return seconds


def all_stacks() -> str:
    """What every thread and every task of the running loop is doing."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    ]
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        frames = "".join(f"  {_place(frame)}\n" for frame in task.get_stack())
        parts.append(f"task {task.get_name()}\n{frames}")
    return "\n".join(parts)


async def _profile(clock: Clock, seconds: float) -> str:
    counts: collections.Counter[str] = collections.Counter()
    over = threading.Event()
    sampler = threading.Thread(target=_sample, args=(threading.get_ident(), over, counts), name="profile", daemon=True)
    sampler.start()
    try:
        await clock.sleep(seconds)
    finally:
        over.set()
        sampler.join()
    return "".join(f"{stack} {count}\n" for stack, count in counts.most_common())


def _sample(thread: int, over: threading.Event, counts: collections.Counter[str]) -> None:
    while True:
        frame = sys._current_frames().get(thread)
        counts[_folded(frame)] += 1
        if over.wait(_PROFILE_PERIOD_SECONDS):
            return


def _folded(frame: FrameType | None) -> str:
    places: list[str] = []
    while frame is not None:
        places.append(_place(frame))
        frame = frame.f_back
    return ";".join(reversed(places)) or "(gone)"


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{frame.f_lineno})"


class CannotListen(Terminal):
    """The address is another's, or not of this machine."""


class Server:
    """An application that listens; `port` is the real one, also when 0 was asked for."""

    def __init__(self, runner: web.AppRunner, host: str, port: int) -> None:
        self._runner = runner
        self.host = host
        self.port = port

    async def close(self) -> None:
        """Stop listening and let running answers end."""
        await closing.end(self._runner)


async def serve(app: web.Application, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> Server:
    """Listen on `host` and `port` for `app`."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
    except BaseException as error:
        await runner.cleanup()
        if isinstance(error, OSError) and error.errno:
            raise CannotListen(f"cannot listen on {host}:{port}: {os.strerror(error.errno)}") from error
        raise
    return Server(runner, host, runner.addresses[0][1])
