"""Operators as processes that can be stopped and wake up: each with its own clock, its own way to both servers.

In: a `World`, and what may go wrong on the way (`Weather`). Out: `Process`es. A process that sleeps gets no timer, no
answer and no event until it wakes; whatever it was about to send is then sent, unless the fence says no.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from tests.campaigns.slurm_model import is_write
from tests.kube_runtime.client.in_process import InProcessResponse

from kube_local.apiserver.request import Response
from kube_runtime.client.errors import Unreachable
from kube_runtime.client.requests import Request
from kube_runtime.client.transport import HttpResponse, Socket
from kube_runtime.clock import Timer, VirtualClock
from kube_runtime.loop.run import Ending
from slurm_operator.reconcile.operator import Operator
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

if TYPE_CHECKING:
    from tests.campaigns.led_world import LedWorld


@dataclass
class _Timer:
    clock: ProcessClock
    due: float
    call: Callable[[], object] | None
    inner: Timer | None = None

    def cancel(self) -> None:
        self.call = None
        if self.inner is not None:
            self.inner.cancel()

    def arm(self) -> None:
        self.inner = self.clock.true.call_later(self.due - self.clock.awake_seconds(), self.fire)

    def fire(self) -> None:
        if self.clock.asleep:
            self.clock.waiting.append(self)
        elif self.due - self.clock.awake_seconds() > 1e-9:
            self.arm()
        elif self.call is not None:
            call, self.call = self.call, None
            call()


@dataclass
class ProcessClock:
    """The clock of one process. Its timers do not fire while it sleeps.

    A stopped process (SIGSTOP) finds them due when it goes on; those of a suspended machine are later by the sleep.
    """

    true: VirtualClock
    suspends: bool = False
    asleep: bool = False
    waiting: list[_Timer] = field(default_factory=list)
    _since: float = 0.0
    _slept: float = 0.0
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def monotonic(self) -> float:
        return self.true.monotonic()

    def now(self) -> datetime:
        return self.true.now()

    def awake_seconds(self) -> float:
        """What timers count by."""
        return self.true.monotonic() - self._slept

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        timer = _Timer(self, self.awake_seconds() + max(0.0, seconds), call)
        timer.arm()
        return timer

    async def sleep(self, seconds: float) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, functools.partial(_finish, over))
        try:
            await over
        finally:
            timer.cancel()

    def fall_asleep(self) -> None:
        self.asleep, self._since = True, self.true.monotonic()
        self._woken.clear()

    def wake(self) -> None:
        if not self.asleep:
            return
        self.asleep = False
        if self.suspends:
            self._slept += self.true.monotonic() - self._since
        waiting, self.waiting = self.waiting, []
        self._woken.set()
        for timer in waiting:
            timer.fire()

    async def awake(self) -> None:
        """Wait as long as it sleeps."""
        while self.asleep:
            await self._woken.wait()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Weather(Protocol):
    """What goes wrong on the way to the servers; each may put a process to sleep, answer itself, or raise."""

    async def before(self, process: Process, request: Request) -> Response | None: ...

    async def after(self, process: Process, request: Request, response: Response) -> Response: ...

    async def chunk(self, process: Process, request: Request, chunk: bytes) -> bytes: ...

    async def before_slurm(self, process: Process, sending: Sending) -> None: ...

    async def after_slurm(self, process: Process, sending: Sending) -> None: ...


class FairWeather:
    """Nothing goes wrong."""

    def __init__(self, world: LedWorld) -> None:
        self.world = world

    def armed(self) -> None:
        """The scenario's own story begins."""

    async def before(self, _process: Process, _request: Request) -> Response | None:
        return None

    async def after(self, _process: Process, _request: Request, response: Response) -> Response:
        return response

    async def chunk(self, _process: Process, _request: Request, chunk: bytes) -> bytes:
        return chunk

    async def before_slurm(self, _process: Process, _sending: Sending) -> None:
        return None

    async def after_slurm(self, _process: Process, _sending: Sending) -> None:
        return None


@dataclass
class Process:
    """One operator that runs."""

    name: str
    world: LedWorld
    clock: ProcessClock
    operator: Operator = field(init=False)
    task: asyncio.Task[Ending] = field(init=False)

    def is_busy(self) -> bool:
        """Whether it has something to do that it will do by itself."""
        if self.clock.asleep:
            return True
        if not self.leads():
            return False
        queues = [controller.queue for controller in self.operator.controllers.values()]
        return any(len(queue) or queue.failing or queue.processing for queue in queues)

    def leads(self) -> bool:
        """Whether it may write."""
        return self.operator.elector is None or self.operator.elector.is_leader

    def check_right(self, what: str) -> None:
        """A write has reached a server: nobody else may lead, and the writer must know that it does."""
        elector = self.operator.elector
        if elector is None:
            return
        holder = self.world.lease_holder()
        if holder != elector.identity or not elector.is_leader:
            self.world.judge.violation("R9", f"{self.name} writes without the lease: {what} (it is {holder}'s)")


@dataclass
class ProcessWire:
    """The way of one process to the embedded API server."""

    process: Process

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[HttpResponse]:
        """Hand over a request, as `HttpTransport` does: the fence is asked when the connection is there."""
        process, world = self.process, self.process.world
        weather = world.weather
        await process.clock.awake()
        response = await weather.before(process, request)
        await process.clock.awake()
        if request.fence is not None:
            request.fence()
        if response is None:
            response = await self._handle(request)
        response = await weather.after(process, request, response)
        await process.clock.awake()
        try:
            yield ProcessAnswer(response, process, request)
        finally:
            if response.stream is not None and hasattr(response.stream, "aclose"):
                await response.stream.aclose()

    async def _handle(self, request: Request) -> Response:
        world = self.process.world
        world.judge.request(request)
        if request.method != "GET" and "/leases" not in request.path:
            self.process.check_right(f"{request.method} {request.path}")
        headers = {"Accept": request.accept, "Content-Type": request.content_type}
        body = request.body or None
        return await world.server.handle(request.method, request.path, dict(request.query), headers, body)

    def connect(self, request: Request, protocols: Sequence[str]) -> AbstractAsyncContextManager[Socket]:
        """There are no pods to speak to."""
        raise Unreachable(f"{request.what}: no websockets within one process ({', '.join(protocols)})", sent=False)

    def refused(self) -> None:
        """There are no credentials."""

    async def close(self) -> None:
        """There are no connections."""


@dataclass(frozen=True)
class ProcessAnswer(InProcessResponse):
    """An answer that a sleeping process does not read."""

    process: Process
    request: Request

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        watches = ("watch", "true") in self.request.query
        async for chunk in self.response.stream:
            # Events that came together: one that is late holds up only those after it.
            for part in chunk.splitlines(keepends=True) if watches else (chunk,):
                await self.process.clock.awake()
                yield await self.process.world.weather.chunk(self.process, self.request, part)


@dataclass
class ProcessLine:
    """The way of one process to slurmrestd."""

    process: Process

    async def send(self, sending: Sending, token: str) -> Reply:
        """One request, one reply."""
        process, weather = self.process, self.process.world.weather
        await process.clock.awake()
        await weather.before_slurm(process, sending)
        await process.clock.awake()
        if sending.fence is not None:
            sending.fence()
        if is_write(sending):
            process.check_right(f"slurm {sending.label}")
        reply = await process.world.line.send(sending, token)
        await weather.after_slurm(process, sending)
        await process.clock.awake()
        return reply

    async def close(self) -> None:
        """There are no connections."""


def is_kube_write(request: Request) -> bool:
    """Whether a request changes something besides the lease."""
    return request.method != "GET" and "/leases" not in request.path


def plural_of(request: Request) -> str:
    """The collection that a request is about."""
    parts: list[Any] = request.path.split("/")
    if "namespaces" in parts[:-2]:
        return str(parts[parts.index("namespaces") + 2])
    return str(parts[4] if parts[1] == "apis" else parts[3])
