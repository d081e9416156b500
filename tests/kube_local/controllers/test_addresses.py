"""A Service answers on its own address: connections go to ready pods, and are refused where there is none.

Every address of 127.0.0.0/8 is this machine's, so no network has to be made for it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Any

import pytest

from kube_local.controllers.addresses import ClusterAddresses
from kube_local.controllers.objects import EndpointSlice, Service, ServicePort, ServiceSpec
from kube_runtime.client.objects import ObjectMeta

NETWORK = IPv4Network("127.96.0.0/16")


@dataclass
class Caches:
    """Services and slices as the caches hold them."""

    services: dict[str, Service] = field(default_factory=dict)
    slices: dict[str, tuple[EndpointSlice, ...]] = field(default_factory=dict)
    listeners: list[Callable[[Any, Any], None]] = field(default_factory=list)

    def items(self) -> tuple[Service, ...]:
        return tuple(self.services.values())

    def on_change(self, listener: Callable[[Any, Any], None]) -> None:
        self.listeners.append(listener)

    def by_index(self, name: str, value: str) -> tuple[EndpointSlice, ...]:
        assert name == "service"
        return self.slices.get(value, ())

    def put(self, address: str, port: int, *endpoints: dict[str, Any], number: int = 0, name: str = "web") -> None:
        head = ObjectMeta(name=name, namespace="ns")
        ports = (ServicePort(name="rest", port=port, target_port="http"),)
        self.services[name] = Service(metadata=head, spec=ServiceSpec(cluster_ip=address, ports=ports))
        listed = ({"name": "other", "port": 1, "protocol": "TCP"}, {"name": "rest", "port": number, "protocol": "TCP"})
        self.slices[f"ns/{name}"] = (EndpointSlice(metadata=head, endpoints=endpoints, ports=listed),)
        self.tell()

    def drop(self, name: str) -> None:
        del self.services[name]
        self.tell()

    def tell(self) -> None:
        for listener in self.listeners:
            listener(None, None)


@pytest.fixture
async def caches() -> AsyncIterator[Caches]:
    made = Caches()
    serving = asyncio.create_task(ClusterAddresses(made, made, NETWORK).run())
    yield made
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


@pytest.fixture
async def backend() -> AsyncIterator[int]:
    """A pod's port: it answers what it was asked, and who was behind it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read()
        writer.write(b"you said " + asked)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def ask(address: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(b"hello")
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def soon(question: Callable[[], Awaitable[bytes]]) -> bytes:
    """Ask until somebody listens."""
    while True:
        with suppress(OSError):
            return await question()
        await asyncio.sleep(0.01)


def pod(address: str = "127.0.0.1", *, ready: bool = True) -> dict[str, Any]:
    return {"addresses": [address], "conditions": {"ready": ready}}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_connection_goes_to_a_ready_pod_on_the_port_of_that_name(caches: Caches, backend: int) -> None:
    port = free_port()
    caches.put("127.96.0.7", port, pod(ready=False), pod(), number=backend)
    assert await soon(lambda: ask("127.96.0.7", port)) == b"you said hello"


async def test_a_pod_that_does_not_answer_is_passed_over(caches: Caches, backend: int) -> None:
    port = free_port()
    # Nobody listens there: refused at once.
    caches.put("127.96.0.7", port, pod("127.0.0.9"), pod(), number=backend)
    assert [await soon(lambda: ask("127.96.0.7", port)) for _ in range(8)] == [b"you said hello"] * 8


async def test_without_a_ready_pod_a_connection_is_cut_off(caches: Caches, backend: int) -> None:
    port = free_port()
    caches.put("127.96.0.7", port, pod(), number=backend)
    await soon(lambda: ask("127.96.0.7", port))
    caches.put("127.96.0.7", port, pod(ready=False), number=backend)
    with pytest.raises(ConnectionError):
        await ask("127.96.0.7", port)


async def test_a_service_that_goes_takes_its_listener_with_it(caches: Caches, backend: int) -> None:
    port, other = free_port(), free_port()
    caches.put("127.96.0.7", port, pod(), number=backend)
    await soon(lambda: ask("127.96.0.7", port))
    caches.drop("web")
    caches.put("127.96.0.8", other, pod(), number=backend, name="api")
    assert await soon(lambda: ask("127.96.0.8", other)) == b"you said hello"
    with pytest.raises(ConnectionRefusedError):
        await ask("127.96.0.7", port)


@pytest.mark.parametrize("address", ["None", "", "127.97.0.1"], ids=["headless", "none yet", "of another range"])
async def test_other_services_have_no_listener(caches: Caches, backend: int, address: str) -> None:
    port = free_port()
    caches.put(address, port, pod(), number=backend)
    caches.put("127.96.0.8", port, pod(), number=backend, name="api")
    await soon(lambda: ask("127.96.0.8", port))
    with pytest.raises(ConnectionRefusedError):
        await ask("127.97.0.1", port)
