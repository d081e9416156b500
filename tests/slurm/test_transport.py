"""The line to slurmrestd: whatever is wrong with it is a typed error, and nobody waits for ever."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from tests.slurm.replay import KEY, Replay
from tests.slurm.servers import raw_server, serve

from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import (
    SlurmBadAnswer,
    SlurmBudgetExceeded,
    SlurmError,
    SlurmRejected,
    SlurmUnreachable,
)
from slurm_operator.slurm.model import Unknown
from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.transport import Endpoint, Http, Sending

RAW = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"


@pytest.mark.parametrize(
    ("sent", "kind"),
    [(RAW, SlurmBadAnswer), (b"nonsense\r\n\r\n", SlurmBadAnswer), (b"", SlurmUnreachable)],
    ids=["body cut off", "not HTTP", "closed at once"],
)
async def test_a_broken_line_is_a_typed_error(sent: bytes, kind: type[SlurmError]) -> None:
    async with raw_server(sent) as address:
        transport = Http(Endpoint.parse(address))
        with pytest.raises(kind):
            await transport.send(Sending(method="GET", path="/", label="GET x", seconds=2), "t")
        await transport.close()


async def test_an_answer_without_end_is_cut_off() -> None:
    async def endless(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * 5000)

    runner = await serve(endless)
    host, port = runner.addresses[0][:2]
    transport = Http(Endpoint.parse(f"http://{host}:{port}"))
    with pytest.raises(SlurmBudgetExceeded, match="budget of 1,000 bytes: it has 5,000"):
        await transport.send(Sending(method="GET", path="/", label="GET x", max_bytes=1000), "t")
    await transport.close()
    await runner.cleanup()


async def test_nobody_there_is_unreachable_and_the_node_unknown(tmp_path: Path) -> None:
    async with SlurmClient(f"unix://{tmp_path}/none.sock", TokenSource(lambda: KEY)) as nobody:
        with pytest.raises(SlurmUnreachable, match="cannot connect"):
            await nobody.nodes()
        assert isinstance(await nobody.node("n0"), Unknown)


async def test_a_unix_socket_serves_as_well(replay: Replay, tmp_path: Path) -> None:
    replay.on("GET /nodes", "nodes")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", replay.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "rest.sock")).start()
    async with SlurmClient(f"unix://{tmp_path}/rest.sock", TokenSource(lambda: KEY)) as through:
        assert len((await through.all_nodes()).items) == 3
    await runner.cleanup()


async def test_tls_is_spoken_and_a_foreign_certificate_refused(replay: Replay) -> None:
    replay.on("GET /nodes", "nodes")
    ours, foreign = trustme.CA(), trustme.CA()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.issue_cert("127.0.0.1").configure_cert(serving)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", replay.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving).start()
    address = f"https://127.0.0.1:{runner.addresses[0][1]}"
    async with SlurmClient(address, TokenSource(lambda: KEY), tls=trusting(ours)) as safe:
        assert len((await safe.all_nodes()).items) == 3
    async with SlurmClient(address, TokenSource(lambda: KEY), tls=trusting(foreign)) as fooled:
        with pytest.raises(SlurmUnreachable):
            await fooled.nodes()
    await runner.cleanup()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.parametrize(
    "address",
    ["", "slurmrestd:6820", "ftp://h", "http://", "http://u:p@h:1", "http://h/path", "unix://relative", "unix:"],
)
def test_an_address_that_cannot_be_meant_is_refused(address: str) -> None:
    with pytest.raises(SlurmRejected, match="slurmrestd address"):
        Endpoint.parse(address)
