"""The small servers beside a long-running command: health, metrics, and stacks for those who debug.

In: settings. Out: listening servers, closed with the stack that they were put on. Called by `run` and `webhook`.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import sys
from collections.abc import Coroutine, Iterable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from kube_runtime.client import self_review
from kube_runtime.client.access_review import may_get
from kube_runtime.client.client import Call, Client
from kube_runtime.client.denials import Denials
from kube_runtime.client.missing_right import MissingRight
from kube_runtime.key_pair import load_pair
from kube_runtime.loop.health import Authorize, Watchdog, debug_app, metrics_app, serve
from kube_runtime.loop.metrics import MISSING_RIGHT
from slurm_operator.admission import certificates
from slurm_operator.metrics import OperatorMetrics
from slurm_operator.settings import Settings

# How long a thread may keep the interpreter from the event loop, which answers all others and the probes.
SWITCH_SECONDS = 0.0005


def share_interpreter() -> None:
    """Let threads take turns quickly, and keep the garbage collector from walking all that was imported."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()


async def start(
    stack: AsyncExitStack, settings: Settings, health: web.Application, metrics: OperatorMetrics, client: Client
) -> None:
    """Start every server that is turned on."""
    if settings.health[1]:
        await _listen(stack, health, settings.health)
    if settings.metrics[1]:
        secure = settings.metrics_secure
        app = metrics_app(metrics, _reader(client) if secure else None)
        await _listen(stack, app, settings.metrics, _own_certificate() if secure else None)
    if settings.profile[1]:
        await _listen(stack, debug_app(), settings.profile)


def watch_loop(stack: AsyncExitStack, metrics: OperatorMetrics) -> None:
    """Log and count what holds the event loop up, until the stack closes."""
    _beside(stack, Watchdog(metrics=metrics).run(), "watchdog")


def watch_rights(
    stack: AsyncExitStack, client: Client, metrics: OperatorMetrics, wanted: Iterable[MissingRight]
) -> None:
    """Log and count rights that are missing: those that are wanted, and those that somebody was refused."""
    denials, before = Denials(), client.report

    def report(call: Call) -> None:
        before(call)
        denials.note(call)

    client.report = report
    metrics.watch(MISSING_RIGHT, denials.samples)
    _beside(stack, self_review.keep_looking(client, tuple(wanted), denials, asyncio.sleep), "rights")


def _beside(stack: AsyncExitStack, work: Coroutine[Any, Any, None], name: str) -> None:
    task = asyncio.create_task(work, name=name)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)


async def _listen(
    stack: AsyncExitStack, app: web.Application, place: tuple[str, int], tls: ssl.SSLContext | None = None
) -> None:
    server = await serve(app, *place, tls=tls)
    stack.push_async_callback(server.close)


def _reader(client: Client) -> Authorize:
    async def authorize(request: web.Request) -> bool:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and await may_get(client, token.strip(), request.path)

    return authorize


def _own_certificate() -> ssl.SSLContext:
    """Scrapers of metrics are known by their token; this certificate only keeps that token from being read."""
    pair = certificates.issue((socket.gethostname(), "localhost"), datetime.now(UTC))
    return context(pair.certificate, pair.key)


def context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """A server's TLS context."""
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_pair(made, certificate, key)
    return made
