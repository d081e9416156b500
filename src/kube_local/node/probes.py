"""Probes and hooks: whether a container answers, and when its answers count.

In: a probe or handler of the spec. Out: an `Answer`; `Tally` turns answers into verdicts and `pauses` says when to ask
next (both pure). `container` runs them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

from kube_local.node.errors import ConfigInvalid
from kube_local.node.sources import Object

_MAX_OUTPUT_CHARACTERS = 300
FIRST_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Answer:
    """What a probe heard."""

    good: bool
    output: str = ""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When to ask, how long to wait, how many answers decide."""

    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    successes: int = 1
    failures: int = 3

    @classmethod
    def of(cls, probe: Object) -> Thresholds:
        """The numbers of a probe, with the defaults of Kubernetes."""
        return cls(
            float(probe.get("initialDelaySeconds") or 0),
            max(1.0, float(probe.get("periodSeconds") or 10)),
            max(1.0, float(probe.get("timeoutSeconds") or 1)),
            max(1, int(probe.get("successThreshold") or 1)),
            max(1, int(probe.get("failureThreshold") or 3)),
        )


@dataclass(slots=True)
class Tally:
    """Counts answers in a row; a verdict falls when enough of them agree."""

    thresholds: Thresholds
    _last: bool | None = None
    _row: int = 0

    def note(self, good: bool) -> bool | None:
        """True or False once the container counts as well or ill, None while undecided."""
        self._row = self._row + 1 if good is self._last else 1
        self._last = good
        needed = self.thresholds.successes if good else self.thresholds.failures
        return good if self._row >= needed else None


@dataclass(frozen=True, slots=True)
class Pause:
    """How long to wait before asking, and whether a failure then counts."""

    seconds: float
    counts: bool


def pauses(thresholds: Thresholds) -> Iterator[Pause]:
    """Until the first good answer: ask soon and then ever more seldom, but let failures count once a period only.

    A kubelet would ask once a period; a daemon that needs 100 ms to listen would then be ready after 10 s.
    """
    step, waited = FIRST_PAUSE_SECONDS, 0.0
    while True:
        seconds = min(step, thresholds.period - waited)
        waited += seconds
        counts = waited >= thresholds.period
        yield Pause(seconds, counts)
        waited = 0.0 if counts else waited
        step = min(step * 2, 1.0)


class Executes(Protocol):
    """Runs a command in the container; None when it took too long."""

    async def __call__(self, command: list[str], seconds: float) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Target:
    """The container that is asked."""

    address: str
    container: Object
    execute: Executes
    session: aiohttp.ClientSession


async def ask(handler: Object, target: Target, seconds: float) -> Answer:
    """Ask once: a command, an HTTP request or a connection."""
    try:
        if "exec" in handler:
            return await target.execute(list(handler["exec"].get("command") or ()), seconds)
        if "httpGet" in handler:
            return await _http(handler["httpGet"], target, seconds)
        if "tcpSocket" in handler:
            return await _tcp(handler["tcpSocket"], target, seconds)
    except ConfigInvalid as error:
        return Answer(False, str(error))
    return Answer(False, "only exec, httpGet and tcpSocket probes run in local mode")


def port(container: Object, wanted: Any) -> int:
    """A port by number or by the name that the container gave it."""
    if isinstance(wanted, int) or str(wanted).isdecimal():
        return int(wanted)
    for each in container.get("ports") or ():
        if each.get("name") == wanted:
            return int(each["containerPort"])
    raise ConfigInvalid(f"couldn't find port: {wanted!r} is no port of container {container.get('name')!r}")


async def _tcp(wanted: Object, target: Target, seconds: float) -> Answer:
    host, number = wanted.get("host") or target.address, port(target.container, wanted.get("port"))
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, number)
    except TimeoutError:
        return Answer(False, f"dial tcp {host}:{number}: i/o timeout")
    except OSError as error:
        return Answer(False, f"dial tcp {host}:{number}: {_reason(error)}")
    writer.close()
    return Answer(True)


async def _http(wanted: Object, target: Target, seconds: float) -> Answer:
    """Only the status line is read: slurmctld sends bytes after its answer that a strict client would not forgive."""
    scheme = str(wanted.get("scheme") or "HTTP").lower()
    path = "/" + str(wanted.get("path") or "").lstrip("/")
    host, number = wanted.get("host") or target.address, port(target.container, wanted.get("port"))
    url = f"{scheme}://{host}:{number}{path}"
    headers = {"Host": f"{host}:{number}", "User-Agent": "kube-probe/local", "Accept": "*/*", "Connection": "close"}
    headers |= {str(each["name"]): str(each.get("value", "")) for each in wanted.get("httpHeaders") or ()}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(
                host, number, ssl=_any_certificate() if scheme == "https" else None
            )
            try:
                writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
                status_line = (await reader.readline()).split()
            finally:
                writer.close()
    except TimeoutError:
        return Answer(False, f'Get "{url}": context deadline exceeded')
    except (OSError, ValueError) as error:
        return Answer(False, f'Get "{url}": {_reason(error)}')
    if len(status_line) < 2 or not status_line[0].startswith(b"HTTP/") or not status_line[1].isdigit():
        return Answer(False, f'Get "{url}": the answer is not HTTP')
    good = 200 <= int(status_line[1]) < 400
    return Answer(good, "" if good else f"HTTP probe failed with statuscode: {int(status_line[1])}")


def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _reason(error: Exception) -> str:
    return (
        "connect: connection refused"
        if isinstance(error, ConnectionRefusedError)
        else str(error)[:_MAX_OUTPUT_CHARACTERS]
    )
