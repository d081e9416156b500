"""All that can be wrong with the line, the server or the token: a typed error, a bounded wait, no secret shown."""

from __future__ import annotations

import asyncio
import ssl
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from tests.slurm.replay import KEY, Replay, load, respond

from slurm_operator.slurm.client import Observation, Seconds, SlurmClient
from slurm_operator.slurm.errors import (
    SlurmBadAnswer,
    SlurmBudgetExceeded,
    SlurmError,
    SlurmRejected,
    SlurmTimeout,
    SlurmUnauthorized,
    SlurmUnreachable,
)
from slurm_operator.slurm.model import Answer, Known, Unknown
from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.transport import Endpoint, Http, Sending
from slurm_operator.slurm.wire import Reply


def said(text: str, status: int = 200, kind: str = "application/json") -> Callable[[web.Request], web.Response]:
    return lambda _: web.Response(text=text, status=status, content_type=kind)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (said('{"nodes": [{"name": "n0"'), SlurmBadAnswer),
        (said("<html>log in</html>", kind="text/html"), SlurmBadAnswer),
        (said("<html>log in</html>"), SlurmBadAnswer),
        (said("{}"), SlurmBadAnswer),
        (said('{"nodes": []}'), SlurmBadAnswer),
        (said("[]"), SlurmBadAnswer),
        (said("null"), SlurmBadAnswer),
        (said(""), SlurmBadAnswer),
        (said("[" * 100_000), SlurmBadAnswer),
        (said('{"meta":{"slurm":{"release":"26.05.5","cluster":"test"}},"errors":[]}'), SlurmBadAnswer),
        (said("Bad Gateway", 502, "text/plain"), SlurmUnreachable),
        (said("slow down", 429, "text/plain"), SlurmUnreachable),
        (said("no", 401, "text/plain"), SlurmUnauthorized),
        (said("no", 511, "text/plain"), SlurmUnauthorized),
        (said("moved", 302, "text/plain"), SlurmError),
        (said("oops", 500, "text/plain"), SlurmError),
    ],
    ids=[
        *(
            "cut off",
            "HTML",
            "HTML that says JSON",
            "empty object",
            "an empty list of nobody",
            "list",
            "null",
            "nothing",
        ),
        *("deep nesting", "no list", "502", "429", "401", "511", "redirect", "500"),
    ],
)
async def test_a_strange_answer_is_a_typed_error_and_never_an_absence(
    client: SlurmClient, replay: Replay, answer: Callable[[web.Request], web.Response], kind: type[SlurmError]
) -> None:
    replay.on_call("GET /nodes", answer)
    replay.on_call("GET /node/n0", answer)
    with pytest.raises(kind):
        await client.nodes()
    assert isinstance(await client.node("n0"), Unknown)


async def test_one_unreadable_node_makes_the_list_incomplete_not_empty(client: SlurmClient, replay: Replay) -> None:
    body = load(replay.release, "nodes").body.replace(b'"name": "n1"', b'"name": 7')
    replay.on_call("GET /nodes", lambda _: respond(Reply(200, "application/json", body)))
    answer = await client.all_nodes()
    assert [node.name for node in answer.items] == ["n0", "n2"]
    assert not answer.complete


async def test_a_state_never_heard_of_is_kept(client: SlurmClient, replay: Replay) -> None:
    body = load(replay.release, "node").body.replace(b'"IDLE"', b'"QUANTUM"')
    replay.on_call("GET /node/n0", lambda _: respond(Reply(200, "application/json", body)))
    view = await client.node("n0")
    assert isinstance(view, Known)
    assert "QUANTUM" in view.node.states


async def test_a_refused_token_is_made_anew_once(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /nodes", "refused_token", "nodes")
    assert isinstance(await client.nodes(), Answer)
    first, second = replay.tokens[-2:]
    assert first != second


async def test_a_token_that_stays_refused_is_an_error(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /nodes", "refused_token")
    with pytest.raises(SlurmUnauthorized):
        await client.nodes()
    assert replay.seen.count("GET /nodes") == 2


async def test_a_missing_token_is_an_error(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /nodes", "no_token")
    with pytest.raises(SlurmUnauthorized):
        await client.nodes()


async def test_a_ping_with_a_refused_token_is_not_taken_for_a_dead_controller(
    client: SlurmClient, replay: Replay
) -> None:
    replay.on("GET /ping", "ping_refused_token")
    replay.on("GET /diag", "refused_token")
    with pytest.raises(SlurmUnauthorized):
        await client.nodes()


async def test_a_dead_controller_is_found_by_ping_and_not_asked(
    client: SlurmClient, replay: Replay, clock: list[float]
) -> None:
    replay.on("GET /ping", "ping_controller_down")
    replay.on("GET /diag", "nodes_controller_down")
    replay.on("GET /nodes", "nodes")
    for _ in range(5):
        with pytest.raises(SlurmUnreachable):
            await client.nodes()
    assert "GET /nodes" not in replay.seen
    assert replay.seen.count("GET /ping") <= 3
    replay.on("GET /ping", "ping")
    with pytest.raises(SlurmUnreachable, match="not asked again"):
        await client.nodes()
    clock[0] += 1.5
    assert isinstance(await client.nodes(), Answer)


async def test_the_pause_of_the_breaker_grows_and_is_bounded(
    client: SlurmClient, replay: Replay, clock: list[float]
) -> None:
    replay.on("GET /ping", "ping_controller_down")
    replay.on("GET /diag", "nodes_controller_down")
    pauses = []
    for _ in range(8):
        with pytest.raises(SlurmUnreachable):
            await client.nodes()
        began = clock[0]
        asked = len(replay.seen)
        while len(replay.seen) == asked:
            clock[0] += 0.25
            with pytest.raises(SlurmUnreachable):
                await client.nodes()
        pauses.append(clock[0] - began)
    assert pauses[0] < pauses[1] < pauses[-1]
    assert max(pauses) <= 10.25


async def test_a_recent_answer_saves_the_ping(client: SlurmClient, replay: Replay, clock: list[float]) -> None:
    replay.on("GET /nodes", "nodes")
    await client.nodes()
    pings = replay.seen.count("GET /ping")
    await client.nodes()
    assert replay.seen.count("GET /ping") == pings
    clock[0] += 6.1
    await client.nodes()
    assert replay.seen.count("GET /ping") == pings + 1


async def test_whoever_looks_every_five_seconds_pings_twice_a_minute(
    client: SlurmClient, replay: Replay, clock: list[float]
) -> None:
    replay.on("GET /nodes", "nodes")
    await client.nodes()
    pings = replay.seen.count("GET /ping")
    for _ in range(12):
        clock[0] += 5.0
        await client.nodes()
    assert replay.seen.count("GET /ping") == pings + 2


async def test_a_change_goes_out_right_after_a_ping(client: SlurmClient, replay: Replay, clock: list[float]) -> None:
    replay.on("GET /nodes", "nodes")
    await client.nodes()
    clock[0] += 1.1
    await client.nodes()
    before = len(replay.seen)
    with suppress(SlurmError):
        await client.reconfigure()
    assert replay.seen[before - 1 : before + 2] == ["GET /nodes", "GET /ping", "GET /reconfigure"]


async def test_an_upgraded_server_is_spoken_to_in_its_new_version(
    client: SlurmClient, replay: Replay, clock: list[float]
) -> None:
    replay.release = "24.11"
    replay.on("GET /ping", "ping")
    assert await client.version() == "v0.0.42"
    replay.release = "26.05"
    replay.on("GET /ping", "ping")
    clock[0] += 31
    assert await client.version() == "v0.0.45"


async def test_a_server_that_went_back_is_found_within_the_call(client: SlurmClient, replay: Replay) -> None:
    replay.release = "26.05"
    replay.on("GET /ping", "ping")
    assert await client.version() == "v0.0.45"
    replay.release = "24.11"
    replay.on("GET /ping", "ping")
    replay.on("GET /nodes", "nodes")
    assert isinstance(await client.nodes(), Answer)
    assert await client.version() == "v0.0.42"


async def test_a_silent_server_is_not_waited_for(replay: Replay) -> None:
    stop = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/nodes"):
            await stop.wait()
        return await replay.handle(request)

    runner = await serve(handle)
    async with quick(runner) as asking:
        with pytest.raises(SlurmTimeout):
            await asking.nodes()
    stop.set()
    await runner.cleanup()


async def test_a_controller_that_dies_during_a_call_ends_the_wait(replay: Replay) -> None:
    stop = asyncio.Event()
    down = load(replay.release, "ping_controller_down")

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/nodes"):
            replay.on_call("GET /ping", lambda _: respond(down))
            await stop.wait()
        return await replay.handle(request)

    runner = await serve(handle)
    async with quick(runner, large=60) as asking:
        with pytest.raises(SlurmUnreachable, match="died during the call"):
            await asking.nodes()
    stop.set()
    await runner.cleanup()


async def serve(handle: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.AppRunner:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner


def quick(runner: web.AppRunner, large: float = 0.3) -> SlurmClient:
    host, port = runner.addresses[0][:2]
    seconds = Seconds(ping=2, call=0.3, large=large, diagnosis=0.3, patience=0.1)
    return SlurmClient(f"http://{host}:{port}", TokenSource(lambda: KEY), seconds=seconds)


RAW = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
REFUSED = b"HTTP/1.1 422 UNPROCESSABLE CONTENT\r\nConnection: Close\r\n"
TWICE = (
    REFUSED
    + b'Content-Length: 22\r\nContent-Type: application/json\r\n\r\n{"errors":[],"meta":1}'
    + REFUSED
    + b"Content-Length: 3\r\n\r\nbad"
)


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


@pytest.mark.parametrize("piece", [1, 7, 64, 10_000], ids="pieces of {}".format)
async def test_the_second_answer_that_26_05_sends_after_an_error_is_dropped(piece: int) -> None:
    async with raw_server(TWICE, piece) as address:
        transport = Http(Endpoint.parse(address))
        for _ in range(3):
            reply = await transport.send(Sending(method="GET", path="/", label="GET x", seconds=2), "t")
            assert reply == Reply(422, "application/json", b'{"errors":[],"meta":1}')
        await transport.close()


class raw_server:  # noqa: N801 - reads as a statement
    """A server that sends these bytes in pieces to whoever asks, and closes."""

    def __init__(self, sent: bytes, piece: int = 10_000) -> None:
        self._sent = sent
        self._piece = piece

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for start in range(0, len(self._sent), self._piece):
            writer.write(self._sent[start : start + self._piece])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()


async def test_an_answer_without_end_is_cut_off() -> None:
    async def endless(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * 5000)

    runner = await serve(endless)
    host, port = runner.addresses[0][:2]
    transport = Http(Endpoint.parse(f"http://{host}:{port}"))
    with pytest.raises(SlurmBudgetExceeded, match="budget of 1,000 bytes: it has 5,000"):
        await transport.send(Sending(method="GET", path="/", label="GET x", most_bytes=1000), "t")
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


async def test_no_secret_is_in_any_error(client: SlurmClient, replay: Replay, observed: list[Observation]) -> None:
    def echo(request: web.Request) -> web.Response:
        return web.Response(text=f"you sent {dict(request.headers)}", status=500, content_type="text/plain")

    replay.on_call("GET /nodes", echo)
    replay.on_call("GET /jobs", lambda r: web.Response(text=str(dict(r.headers)), content_type="text/html"))
    shown = [repr(client), repr(observed)]
    for ask in (client.nodes, client.jobs):
        with pytest.raises(SlurmError) as caught:
            await ask()
        shown.append(f"{caught.value!r}{caught.value}{''.join(traceback.format_exception(caught.value))}")
    for token in {token for token in replay.tokens if token}:
        assert not any(token in text for text in shown)
    assert "you sent" in shown[2]


async def test_calls_at_the_same_time_share_one_negotiation(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /nodes", "nodes")
    answers = await asyncio.gather(*(client.all_nodes() for _ in range(10)))
    assert all(answer.complete for answer in answers)
    unknown = [call for call in replay.seen if call.startswith("GET /ping v")]
    assert len(unknown) == {"24.11": 3, "26.05": 0}[replay.release]
