"""The DNS server on loopback, over UDP and TCP."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube_local.dns.server import DnsServer


def question(name: str) -> bytes:
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    return struct.pack("!HHHHHH", 9, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", 1, 1)


@pytest.fixture
async def served(zone: Any, endpoint: Any) -> AsyncIterator[DnsServer]:
    zone.service("many", *(endpoint(f"10.0.{n >> 8}.{n & 255}") for n in range(1000)))
    zone.service("one", endpoint("10.9.9.9"))
    server = DnsServer(zone.records, "127.0.0.1", 0)
    task = asyncio.create_task(server.run())
    await server.started.wait()
    yield server
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def over_udp(server: DnsServer, data: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.setblocking(False)
        one.connect((server.address, server.port))
        await loop.sock_sendall(one, data)
        return await loop.sock_recv(one, 65535)


async def over_tcp(server: DnsServer, *questions: bytes) -> list[bytes]:
    reader, writer = await asyncio.open_connection(server.address, server.port)
    found = []
    for data in questions:
        writer.write(len(data).to_bytes(2, "big") + data)
        found.append(await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big")))
    writer.close()
    await writer.wait_closed()
    return found


async def test_a_short_answer_comes_by_udp(served: DnsServer) -> None:
    assert (await over_udp(served, question("one.ns.svc.cluster.local"))).endswith(bytes([10, 9, 9, 9]))


async def test_a_long_answer_is_cut_by_udp_and_whole_by_tcp_on_one_connection(served: DnsServer) -> None:
    asked = question("many.ns.svc.cluster.local")
    cut = await over_udp(served, asked)
    assert len(cut) <= 512
    assert struct.unpack_from("!H", cut, 2)[0] & 0x0200
    whole, again = await over_tcp(served, asked, asked)
    assert struct.unpack_from("!HHHH", whole)[3] == 1000
    assert len(whole) == len(again)


async def test_nonsense_is_answered_and_harms_nobody(served: DnsServer) -> None:
    assert (await over_udp(served, b"\x12\x34nonsense"))[:2] == b"\x12\x34"
    assert (await over_udp(served, question("one.ns.svc.cluster.local"))).endswith(bytes([10, 9, 9, 9]))


async def test_an_address_that_is_not_there_yet_can_be_listened_on(zone: Any) -> None:
    server = DnsServer(zone.records, "192.0.2.53", 0)
    task = asyncio.create_task(server.run())
    async with asyncio.timeout(5):
        await server.started.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
