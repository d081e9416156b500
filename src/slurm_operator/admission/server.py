"""The admission server: HTTPS in front of the rules.

In: a way to see a namespace, and whom to tell of each answer. Out: an aiohttp application with one path per kind, as
the Go operator has them. Called by `cli/webhook.py`. It holds no state; any number of them may run.

Reviews are answered in threads (`lanes.py`): small ones in a lane of their own, so that they need not wait for large
ones. A review that finds its lane full, or takes too long, is refused with that reason: the server fails closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web

from slurm_operator.admission.lanes import SMALL_BYTES, Lane, Overloaded, TookTooLong
from slurm_operator.admission.review import RefsOf, ReviewResponse, answer, asked_by, refusal
from slurm_operator.api.kinds import KINDS
from slurm_operator.api.meta import GROUP, VERSION

MAX_REVIEW_BYTES = 3 * 1024 * 1024
# Of all bodies that are on their way. Whoever reaches the port may send as slowly as they like.
MAX_HELD_BYTES = 64 * 1024 * 1024
READ_SECONDS = 5.0
OVERLOADED = "the admission server of slurm-operator has too many reviews to answer; try again in a moment"
TOO_LONG = "the admission server of slurm-operator could not answer in time; make the resource smaller, or try again"

# Each takes milliseconds of the loop, which small reviews wait for; the others wait in the kernel's buffers. More than
# one or two, since who sends slowly keeps a place for READ_SECONDS.
MAX_LARGE_READS = 8

# Kind, result and seconds of one answer.
Report = Callable[[str, str, float], None]


def _small_lane() -> Lane:
    return Lane(threads=2, max_waiting=512, max_waiting_per_namespace=128)


def _large_lane() -> Lane:
    # One at a time: each takes up to a third of a second of the one interpreter that there is.
    return Lane(threads=1, max_waiting=64, max_waiting_per_namespace=32)


@dataclass(frozen=True, slots=True)
class Lanes:
    """A lane for small reviews, and one for large."""

    small: Lane = field(default_factory=_small_lane)
    large: Lane = field(default_factory=_large_lane)
    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_LARGE_READS))

    def of(self, size: int) -> Lane:
        """The lane of a body of so many bytes."""
        return self.small if size <= SMALL_BYTES else self.large

    async def close(self, _: web.Application) -> None:
        """Start nothing more."""
        self.small.close()
        self.large.close()


@dataclass(slots=True)
class Bodies:
    """The bodies that are on their way, each for a bounded time; what is beyond a small one is bounded in sum."""

    max_bytes: int = MAX_HELD_BYTES
    seconds: float = READ_SECONDS
    held_bytes: int = 0

    async def read(self, request: web.Request) -> bytes | None:
        """The body of a request; None when there is no room for it."""
        content, large = bytearray(), 0
        try:
            async with asyncio.timeout(self.seconds):
                async for part in request.content.iter_any():
                    content += part
                    grown = max(len(content) - SMALL_BYTES, 0) - large
                    large, self.held_bytes = large + grown, self.held_bytes + grown
                    if len(content) > MAX_REVIEW_BYTES:
                        raise web.HTTPRequestEntityTooLarge(max_size=MAX_REVIEW_BYTES, actual_size=len(content))
                    if grown and self.held_bytes > self.max_bytes:
                        return None
        except TimeoutError:
            raise web.HTTPRequestTimeout(text=f"the review did not arrive within {self.seconds:g} s\n") from None
        finally:
            self.held_bytes -= large
        return bytes(content)


def path_of(kind: str) -> str:
    """Where a kind is checked."""
    return f"/validate-{GROUP.replace('.', '-')}-{VERSION}-{kind.lower()}"


def admission_app(
    refs_of: RefsOf, report: Report = lambda _, __, ___: None, lanes: Lanes | None = None
) -> web.Application:
    """The application that API servers talk to; `refs_of` is called in threads."""
    lanes, bodies = lanes or Lanes(), Bodies()
    app = web.Application(client_max_size=MAX_REVIEW_BYTES)
    app.on_cleanup.append(lanes.close)
    for kind in KINDS:
        app.router.add_post(path_of(kind.name), _handler(refs_of, kind.name, report, lanes, bodies))
    return app


def _handler(
    refs_of: RefsOf, kind: str, report: Report, lanes: Lanes, bodies: Bodies
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="reviews must be sent as application/json\n")
        if lanes.of(request.content_length or 0).is_full:
            # Not even read: bodies that wait would fill the memory.
            report(kind, "overloaded", 0.0)
            raise web.HTTPTooManyRequests(text=f"{OVERLOADED}\n", headers={"Retry-After": "1"})
        body = await _body(request, lanes, bodies)
        if body is None:
            report(kind, "overloaded", 0.0)
            raise web.HTTPTooManyRequests(text=f"{OVERLOADED}\n", headers={"Retry-After": "1"})
        started = time.monotonic()
        code, body, result = await _answered(body, refs_of, lanes)
        report(kind, result, time.monotonic() - started)
        return web.Response(status=code, body=body, content_type="application/json" if code == 200 else "text/plain")

    return handle


async def _body(request: web.Request, lanes: Lanes, bodies: Bodies) -> bytes | None:
    if request.content_length is not None and request.content_length <= SMALL_BYTES:
        return await bodies.read(request)
    async with lanes.reading:
        return await bodies.read(request)


async def _answered(body: bytes, refs_of: RefsOf, lanes: Lanes) -> ReviewResponse:
    asked = asked_by(body)
    try:
        return await lanes.of(len(body)).run(asked.namespace, partial(answer, body, refs_of))
    except Overloaded:
        return refusal(asked, 429, "TooManyRequests", OVERLOADED, "overloaded")
    except TookTooLong:
        return refusal(asked, 504, "Timeout", TOO_LONG, "timeout")
