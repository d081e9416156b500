"""ClusterIPs: each TCP port of a Service is served on the Service's own address, for this machine and for pods.

In: the caches of Services and EndpointSlices, and the address range of Services, which is routed to this machine
(`node/network.py`). Out: a listener for each port, which forwards each connection to a ready pod. Run by `run` beside
the DNS server. If no pod is ready, the connection is refused, as with kube-proxy.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from kube_local.controllers.objects import EndpointSlice, Service, ServicePort
from kube_local.dns.records import BY_SERVICE, endpoints_of, is_ready

log = logging.getLogger(__name__)

# Linux: bind although the address may become local only later.
_FREEBIND = 15
_CHUNK_BYTES = 64 * 1024
_CONNECT_SECONDS = 5.0
_RETRY_SECONDS = 5.0

# Address and port, of a Service or of a pod behind it.
Place = tuple[str, int]


class ServiceCache(Protocol):
    """What is read of the cache of Services."""

    def items(self) -> tuple[Service, ...]: ...
    def on_change(self, listener: Callable[[Any, Any], None]) -> None: ...


class SliceCache(Protocol):
    """What is read of the cache of EndpointSlices."""

    def by_index(self, name: str, value: str) -> tuple[EndpointSlice, ...]: ...


@dataclass(slots=True)
class ClusterAddresses:
    """Listens for the Services of a range until it is cancelled."""

    services: ServiceCache
    slices: SliceCache
    network: ipaddress.IPv4Network
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _open: dict[Place, asyncio.Server] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.services.on_change(lambda _, __: self._changed.set())

    async def run(self) -> None:
        """Open and close listeners as Services come and go, for ever."""
        try:
            while True:
                self._changed.clear()
                failed = await self._bring_up_to_date()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_SECONDS if failed else None):
                        await self._changed.wait()
        finally:
            for server in self._open.values():
                server.close()
            self._open.clear()

    async def _bring_up_to_date(self) -> bool:
        """Open and close listeners; returns whether any could not be opened."""
        wanted = {place: owner for service in self.services.items() for place, owner in self._places(service)}
        for place in [each for each in self._open if each not in wanted]:
            self._open.pop(place).close()
        failed = False
        for place in [each for each in wanted if each not in self._open]:
            try:
                self._open[place] = await asyncio.start_server(self._on_connection(place), sock=_bound(place))
            except OSError as error:
                failed = True
                log.warning("ClusterIP %s:%d cannot be served, will be tried again: %s", *place, error)
        return failed

    def _places(self, service: Service) -> Iterator[tuple[Place, ServicePort]]:
        try:
            address = ipaddress.IPv4Address(service.spec.cluster_ip)
        except ValueError:
            return
        if address in self.network:
            yield from (((str(address), port.port), port) for port in service.spec.ports if port.protocol == "TCP")

    def _on_connection(self, place: Place) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, TimeoutError):
                await self._hand_on(place, reader, writer)
            writer.close()

        return converse

    async def _hand_on(self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = list(self.endpoints(place))
        random.shuffle(behind)
        for address, port in behind:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    there, away = await asyncio.open_connection(address, port)
            except (OSError, TimeoutError):
                continue
            try:
                await asyncio.gather(_pump(reader, away), _pump(there, writer))
            finally:
                away.close()
            return
        # A reset, not an orderly end: nobody answered.
        writer.transport.abort()

    def endpoints(self, place: Place) -> Iterator[Place]:
        """The ready pods behind a Service's port, according to the caches."""
        for service in self.services.items():
            port = dict(self._places(service)).get(place)
            if port is None:
                continue
            key = f"{service.metadata.namespace}/{service.metadata.name}"
            for slice_ in self.slices.by_index(BY_SERVICE, key):
                numbers = [int(each["port"]) for each in slice_.ports or () if _is_of(each, port)]
                ready = [str(one["addresses"][0]) for one in endpoints_of(slice_) if is_ready(one)]
                yield from ((address, number) for number in numbers for address in ready)


def _is_of(each: dict[str, Any], port: ServicePort) -> bool:
    return (each.get("name") or "") == port.name and each.get("protocol", "TCP") == port.protocol and bool(each["port"])


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy everything from one side to the other, including the end of the stream."""
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def _bound(place: Place) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.IPPROTO_IP, _FREEBIND, 1)
        made.bind(place)
    except OSError:
        made.close()
        raise
    return made
