"""What R9 does to operators: it puts them to sleep at a write, holds back their events, answers in the servers' place.

Each `Weather` asks `world.disturbance` whether this is its point; see `leaders.py` for the cases.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from tests.campaigns.led_world import LedWorld
from tests.campaigns.processes import FairWeather, Process, is_kube_write, plural_of
from tests.campaigns.slurm_model import is_write

from kube_local.apiserver.request import Response
from kube_local.apiserver.store import Row
from kube_runtime.client.errors import TimedOut, Unreachable
from kube_runtime.client.requests import Request
from slurm_operator.slurm.policy import drain_is_ours
from slurm_operator.slurm.transport import Sending

# After so long a user cancels a job that does not start.
PATIENT_SECONDS = 60.0


class _Sleep(FairWeather):
    """The process sleeps at a write: before it is sent (`017-held`), or before its answer is read (`017-done`)."""

    def __init__(self, world: LedWorld, seconds: float) -> None:
        super().__init__(world)
        self.seconds = seconds
        self.writes = 0

    def asleep(self, process: Process) -> None:
        """The process has fallen asleep."""

    async def before(self, process: Process, request: Request) -> Response | None:
        if is_kube_write(request):
            self._at(process, "held", f"{request.method} {request.path}")
        return None

    async def after(self, process: Process, request: Request, response: Response) -> Response:
        if is_kube_write(request):
            self._at(process, "done", f"{request.method} {request.path}")
        return response

    async def before_slurm(self, process: Process, sending: Sending) -> None:
        if is_write(sending):
            self._at(process, "held", f"slurm {sending.label}")

    async def after_slurm(self, process: Process, sending: Sending) -> None:
        if is_write(sending):
            self._at(process, "done", f"slurm {sending.label}")

    def _at(self, process: Process, moment: str, what: str) -> None:
        world = self.world
        if not world.armed or process.name != "a" or world.disturbed:
            return
        self.writes += moment == "held"
        if not world.disturbance.strikes("R9", f"{self.writes - 1:03}-{moment}"):
            return
        world.disturbed.append(f"{process.name} sleeps {self.seconds:g} s, {moment}: {what}")
        process.clock.fall_asleep()
        world.clock.call_later(self.seconds, process.clock.wake)
        self.asleep(process)


class TwoLeaders(_Sleep):
    """A standby is there, takes the lease and goes on; then the old leader wakes up in the middle of its write."""

    def asleep(self, _: Process) -> None:
        self.world.start_process("b")


class Suspended(_Sleep):
    """Nobody else is there. Just before the process wakes, an admin puts nodes back and their users submit jobs."""

    def asleep(self, _: Process) -> None:
        self.world.clock.call_later(self.seconds - 5.0, self._meanwhile)

    def _meanwhile(self) -> None:
        slurm, resumed = self.world.slurm, 0
        for node in slurm.nodes.values():
            if "DRAIN" in node.flags and drain_is_ours(node.reason):
                node.flags.discard("DRAIN")
                node.reason = ""
                resumed += 1
        slurm.touch("nodes")
        for _ in range(resumed):
            job_id = slurm.submit(30.0)
            # A NodeSet that is being deleted waits for whoever waits for it.
            self.world.clock.call_later(PATIENT_SECONDS, functools.partial(slurm.cancel_pending, job_id))
        slurm.schedule()


class Stuck(FairWeather):
    """A watch brings nothing any more, and no error, until the client's own patience ends it; the point is its kind."""

    def __init__(self, world: LedWorld) -> None:
        super().__init__(world)
        self.kind = ""

    def armed(self) -> None:
        for kind in cached_plurals(self.world):
            if self.world.disturbance.strikes("R9", kind):
                self.kind = kind
                self.world.disturbed.append(f"the watch of {kind} is stuck")

    async def chunk(self, process: Process, request: Request, chunk: bytes) -> bytes:
        if self.kind and plural_of(request) == self.kind:
            try:
                await process.clock.sleep(request.seconds or 300.0)
            finally:
                # It is this one that is stuck; the next one is not.
                self.kind = ""
            raise TimedOut(f"{request.what}: no answer in time", sent=True)
        return chunk


def cached_plurals(world: LedWorld) -> list[str]:
    """The kinds that an operator watches."""
    observer = world.processes[0].operator.observer
    raw = [cache for caches in observer.raw.values() for cache in caches]
    caches: list[Any] = [*raw, *observer.pods, *([observer.nodes] if observer.nodes is not None else [])]
    return sorted({cache.resource.plural for cache in caches})


def rows_of(world: LedWorld, plural: str) -> list[Row]:
    """All objects of a kind, as they are stored."""
    store = world.server.store
    return [row for each in store.resources() if each.partition(".")[0] == plural for row in store.rows(each)]


@dataclass(frozen=True)
class Gust:
    """One answer of a storm."""

    name: str
    code: int
    reason: str
    headers: tuple[tuple[str, str], ...] = ()
    details: tuple[tuple[str, Any], ...] = ()
    applied: bool = False
    streamed: bool = False

    def response(self) -> Response:
        """As the API server would write it."""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": self.reason,
            "code": self.code,
            "details": dict(self.details),
        }
        if self.streamed:
            line = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
            return Response(200, stream=_once(line))
        headers = {"Content-Type": "application/json", **dict(self.headers)}
        return Response(self.code, json.dumps(status).encode(), headers)


async def _once(line: bytes) -> AsyncIterator[bytes]:
    yield line


def _busy(name: str, text: str) -> Gust:
    return Gust(f"429-{name}", 429, "TooManyRequests", (("Retry-After", text),))


GUSTS = (
    _busy("1", "1"),
    _busy("30", "30"),
    _busy("negative", "-5"),
    _busy("huge", "99999999999"),
    _busy("endless", "9" * 400),
    _busy("text", "soon"),
    _busy("date", "Wed, 21 Oct 2037 07:28:00 GMT"),
    _busy("infinite", "1e309"),
    _busy("other-digits", "\u0663"),
    Gust("429-none", 429, "TooManyRequests"),
    Gust("429-details", 429, "TooManyRequests", details=(("retryAfterSeconds", 2**40),)),
    Gust("429-details-negative", 429, "TooManyRequests", details=(("retryAfterSeconds", -7),)),
    Gust("429-details-text", 429, "TooManyRequests", details=(("retryAfterSeconds", "x"),)),
    Gust("410", 410, "Expired"),
    Gust("410-gone", 410, "Gone"),
    Gust("410-event", 410, "Expired", streamed=True),
    Gust("500-event", 500, "InternalError", streamed=True),
    Gust("500", 500, "InternalError"),
    Gust("500-applied", 500, "InternalError", applied=True),
    Gust("502", 502, ""),
    Gust("503", 503, "ServiceUnavailable"),
    Gust("504", 504, "Timeout"),
    Gust("504-applied", 504, "Timeout", applied=True),
)
PATTERNS = ("all", "every-second", "bursts", "reads", "writes", "watches", "lists")
STORM_SECONDS = 60.0


class Storm(FairWeather):
    """For a minute the API server answers with errors: all requests, some, or bursts of them."""

    def __init__(self, world: LedWorld) -> None:
        super().__init__(world)
        self.gust: Gust | None = None
        self.pattern = ""
        self.until = 0.0
        self.requests = itertools.count()
        # Watches that began in the storm; those from before it are cut when it begins.
        self.young: set[int] = set()

    def armed(self) -> None:
        for gust, pattern in _storms():
            if self.gust is None and self.world.disturbance.strikes("R9", f"{gust.name}-{pattern}"):
                self.gust, self.pattern = gust, pattern
                self.until = self.world.clock.monotonic() + STORM_SECONDS
                self.world.disturbed.append(f"{gust.name} to {pattern}")

    async def before(self, _: Process, request: Request) -> Response | None:
        if self.gust is not None and request.stream:
            self.young.add(id(request))
        if self.gust is None or not self._blows(self.gust, request):
            return None
        return None if self.gust.applied else self.gust.response()

    async def after(self, _: Process, request: Request, response: Response) -> Response:
        if self.gust is None or not self.gust.applied or not self._blows(self.gust, request):
            return response
        if response.stream is not None and hasattr(response.stream, "aclose"):
            await response.stream.aclose()
        return self.gust.response()

    async def chunk(self, _: Process, request: Request, chunk: bytes) -> bytes:
        if self.gust is not None and self.pattern != "writes" and id(request) not in self.young:
            raise Unreachable(f"{request.what}: Connection reset by peer", sent=True)
        return chunk

    def _blows(self, gust: Gust, request: Request) -> bool:
        now = self.world.clock.monotonic()
        if now >= self.until or (gust.streamed and not request.stream):
            return False
        number = next(self.requests)
        watch, read = request.stream, request.method == "GET"
        return {
            "all": True,
            "every-second": bool(number % 2),
            "bursts": int(now / 5.0) % 2 == 0,
            "reads": read,
            "writes": not read,
            "watches": watch,
            "lists": read and not watch,
        }[self.pattern]


def _storms() -> Iterator[tuple[Gust, str]]:
    for gust, pattern in itertools.product(GUSTS, PATTERNS):
        if not gust.streamed or pattern in ("watches", "bursts"):
            yield gust, pattern


DEEP = b"[" * 2000 + b"]" * 2000
GARBLED_SECONDS = 120.0
SPOILS: dict[str, bytes] = {
    "deep": b'"spec":' + DEEP,
    "deep-status": b'"status":' + DEEP,
    "labels": b'"metadata":5',
    "type": b'"spec":7,"status":"x","data":9',
}


class Garbled(FairWeather):
    """For two minutes one object of a kind comes in a form that nobody can read, in lists and in events."""

    def __init__(self, world: LedWorld) -> None:
        super().__init__(world)
        self.kind, self.how, self.name = "", "", ""
        self.cut: set[str] = set()

    def armed(self) -> None:
        for plural in cached_plurals(self.world):
            rows = [row for row in rows_of(self.world, plural) if row.name]
            for how in SPOILS if rows else ():
                if not self.kind and self.world.disturbance.strikes("R9", f"{plural}-{how}"):
                    self.kind, self.how, self.name = plural, how, rows[-1].name
                    self.world.disturbed.append(f"{plural} {self.name} is garbled: {how}")
                    self.cut = {"first"}
                    self.world.clock.call_later(GARBLED_SECONDS, self._end)
                    self._touch()

    def _touch(self) -> None:
        """Something happens to the object, so that every watch tells of it."""
        row = next((row for row in rows_of(self.world, self.kind) if row.name == self.name), None)
        if row is not None:
            self.world.server.store.put(row.resource, row.load())

    def _end(self) -> None:
        self.how = ""
        self._touch()

    async def after(self, _: Process, request: Request, response: Response) -> Response:
        is_list = request.method == "GET" and not request.stream and "limit" in dict(request.query)
        if self.how and is_list and plural_of(request) == self.kind:
            body = json.loads(response.body)
            items = b",".join(self._take_unreadable(item) for item in body.pop("items"))
            whole = json.dumps(body).encode()[:-1] + b',"items":[' + items + b"]}"
            return Response(response.status, whole, response.headers)
        return response

    async def chunk(self, _: Process, request: Request, chunk: bytes) -> bytes:
        # The log of a pod is a stream too.
        is_watch = request.stream and ("watch", "true") in request.query
        if not self.how or not is_watch or plural_of(request) != self.kind:
            return chunk
        lines = [self._event(line) for line in chunk.split(b"\n") if line]
        return b"\n".join(lines) + b"\n"

    def _event(self, line: bytes) -> bytes:
        event = json.loads(line)
        return b'{"type":%b,"object":%b}' % (json.dumps(event["type"]).encode(), self._take_unreadable(event["object"]))

    def _take_unreadable(self, item: dict[str, Any]) -> bytes:
        if item["metadata"].get("name") != self.name:
            return json.dumps(item).encode()
        if self.how == "labels":
            return json.dumps(item | {"metadata": item["metadata"] | {"labels": 5}}).encode()
        kept = {key: value for key, value in item.items() if f'"{key}":'.encode() not in SPOILS[self.how]}
        return json.dumps(kept).encode()[:-1] + b"," + SPOILS[self.how] + b"}"
