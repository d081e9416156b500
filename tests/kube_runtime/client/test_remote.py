"""Commands in containers, against a server that speaks the websocket protocols."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest
from aiohttp import web

from kube_runtime.client import errors
from kube_runtime.client.client import Client
from kube_runtime.client.credentials import Fixed
from kube_runtime.client.kubeconfig import Target
from kube_runtime.client.remote import MAX_OUTPUT_BYTES, V4, V5, CommandResult

SUCCESS = b'\x03{"status":"Success"}'


def exit_code(code: int) -> bytes:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    status = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
    return b"\x03" + msgspec.json.encode(status)


Behaviour = Callable[[web.WebSocketResponse], Awaitable[None]]


def says(*messages: bytes) -> Behaviour:
    async def behave(socket: web.WebSocketResponse) -> None:
        for message in messages:
            await socket.send_bytes(message)

    return behave


async def echo(socket: web.WebSocketResponse) -> None:
    """Give stdin back when it has ended."""
    received = b""
    async for message in socket:
        if message.data[0] == 0:
            received += message.data[1:]
        if message.data == b"\xff\x00":
            break
    await socket.send_bytes(b"\x01" + received)
    await socket.send_bytes(SUCCESS)


async def hang(socket: web.WebSocketResponse) -> None:
    await socket.receive()


@dataclass
class PodServer:
    """Accepts one command."""

    url: str = ""
    behaviour: Behaviour = field(default=says(SUCCESS))
    protocols: Sequence[str] = (V5, V4)
    queries: list[list[tuple[str, str]]] = field(default_factory=list)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if request.headers["Accept"] != "*/*":
            # As kube-apiserver does: what is asked for cannot be had here.
            return web.Response(status=406)
        self.queries.append(list(request.query.items()))
        socket = web.WebSocketResponse(protocols=self.protocols)
        await socket.prepare(request)
        await self.behaviour(socket)
        await socket.close()
        return socket


@pytest.fixture
async def pod() -> AsyncIterator[PodServer]:
    server = PodServer()
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/ns/pods/p/exec", server.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
async def pod_client(pod: PodServer) -> AsyncIterator[Client]:
    async with Client.to(Target(server=pod.url, credentials=Fixed())) as client:
        yield client


async def test_a_command_is_a_list_of_words_and_its_output_comes_back(pod: PodServer, pod_client: Client) -> None:
    pod.behaviour = says(b"\x01one ", b"\x02two", b"\x01three", SUCCESS)
    ran = await pod_client.run("ns", "p", ["scontrol", "show config; rm -rf /"], container="slurmctld")
    assert ran == CommandResult(b"one three", b"two", 0)
    assert pod.queries == [
        [
            ("command", "scontrol"),
            ("command", "show config; rm -rf /"),
            ("container", "slurmctld"),
            ("stdout", "true"),
            ("stderr", "true"),
        ]
    ]


async def test_a_caller_says_how_much_a_command_may_print(pod: PodServer, pod_client: Client) -> None:
    pod.behaviour = says(b"\x01" + b"x" * 50, b"\x01" + b"x" * 50, SUCCESS)
    assert (await pod_client.run("ns", "p", ["true"], max_bytes=100)).stdout == b"x" * 100
    with pytest.raises(errors.BadAnswer, match="more than 99 bytes"):
        await pod_client.run("ns", "p", ["true"], max_bytes=99)


async def test_the_exit_code_is_the_commands_own(pod: PodServer, pod_client: Client) -> None:
    pod.behaviour = says(exit_code(7))
    assert (await pod_client.run("ns", "p", ["false"])).code == 7


async def test_stdin_is_fed_and_ended(pod: PodServer, pod_client: Client) -> None:
    pod.behaviour = echo
    text = bytes(range(256)) * 400
    assert (await pod_client.run("ns", "p", ["cat"], stdin=text)).stdout == text


async def test_an_old_server_is_spoken_to_in_version_4(pod: PodServer, pod_client: Client) -> None:
    pod.protocols = (V4,)
    assert (await pod_client.run("ns", "p", ["true"])).code == 0


@pytest.mark.parametrize(
    ("behaviour", "protocols", "stdin", "expected"),
    [
        pytest.param(says(SUCCESS), (V4,), b"x", errors.BadAnswer, id="version 4 cannot end stdin"),
        pytest.param(says(SUCCESS), (), None, errors.BadAnswer, id="no common version"),
        pytest.param(says(b"\x01half"), (V5,), None, errors.BadAnswer, id="no result"),
        pytest.param(says(b"\x03not json"), (V5,), None, errors.BadAnswer, id="a broken result"),
        pytest.param(
            says(b'\x03{"status":"Failure","message":"no such container","code":500}'),
            (V5,),
            None,
            errors.ServerError,
            id="the command did not start",
        ),
        pytest.param(hang, (V5,), None, errors.TimedOut, id="a command that does not end"),
        pytest.param(
            says(*[b"\x01" + b"x" * (MAX_OUTPUT_BYTES // 4)] * 5), (V5,), None, errors.BadAnswer, id="endless output"
        ),
    ],
)
async def test_what_goes_wrong_is_a_typed_error(
    pod: PodServer,
    pod_client: Client,
    behaviour: Behaviour,
    protocols: Sequence[str],
    stdin: bytes | None,
    expected: type[errors.KubeError],
) -> None:
    pod.behaviour, pod.protocols = behaviour, protocols
    with pytest.raises(expected):
        # Only the hanging command may reach its limit; the others must end by themselves, on slow machines too.
        await pod_client.run("ns", "p", ["true"], stdin=stdin, seconds=0.5 if behaviour is hang else 60.0)


async def test_a_refused_handshake_is_the_error_of_its_code(pod_client: Client) -> None:
    with pytest.raises(errors.NotFound):
        await pod_client.run("ns", "another", ["true"])
