"""Commands in containers, over the websocket protocols that Kubernetes speaks.

Called by `client.Client.run` alone. Every message starts with the number of its channel: 0 stdin, 1 stdout, 2 stderr,
3 the result. Version 5 can say that stdin has ended; version 4 cannot, so it is only used when there is no input.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from kube_runtime.client.errors import BadAnswer, KubeError, ServerError, Status, TimedOut, class_for
from kube_runtime.client.requests import Request
from kube_runtime.client.transport import Socket, Transport

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, RESULT, CLOSE = 0, 1, 2, 3, 255
MAX_OUTPUT_BYTES = 16 * 1024 * 1024
CHUNK_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command printed and how it ended."""

    stdout: bytes
    stderr: bytes
    code: int


async def run(
    transport: Transport, request: Request, stdin: bytes | None, seconds: float, max_bytes: int = MAX_OUTPUT_BYTES
) -> CommandResult:
    """Run a command, feed it, and collect what it says."""
    protocols = (V5, V4) if stdin is None else (V5,)
    try:
        async with asyncio.timeout(seconds), transport.connect(request, protocols) as socket:
            if socket.protocol not in protocols:
                raise BadAnswer(f"{request.what}: the server speaks {socket.protocol or 'no protocol'}")
            if stdin is not None:
                await _feed(socket, stdin)
            return await _collect(socket, request.what, max_bytes)
    except TimeoutError as error:
        raise TimedOut(f"{request.what}: not done within {seconds:g} s", sent=True) from error


async def _feed(socket: Socket, stdin: bytes) -> None:
    for start in range(0, len(stdin), CHUNK_BYTES):
        await socket.send(bytes([STDIN]) + stdin[start : start + CHUNK_BYTES])
    await socket.send(bytes([CLOSE, STDIN]))


async def _collect(socket: Socket, what: str, max_bytes: int) -> CommandResult:
    streams = {STDOUT: bytearray(), STDERR: bytearray(), RESULT: bytearray()}
    async for message in socket.messages():
        stream = streams.get(message[0]) if message else None
        if stream is None:
            continue
        stream += message[1:]
        if len(stream) > max_bytes:
            raise BadAnswer(f"{what}: the command printed more than {max_bytes} bytes")
        if message[0] == RESULT:
            break
    code = _exit_code(bytes(streams[RESULT]), what)
    return CommandResult(bytes(streams[STDOUT]), bytes(streams[STDERR]), code)


def _exit_code(result: bytes, what: str) -> int:
    if not result:
        raise BadAnswer(f"{what}: the connection ended without a result; the command may still run")
    try:
        status = msgspec.json.decode(result, type=Status)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"{what}: the result is not a Status: {error}") from error
    if status.status == "Success":
        return 0
    for cause in (status.details and status.details.causes) or ():
        if cause.reason == "ExitCode" and cause.message.isdecimal():
            return int(cause.message)
    raise _failure(status, what)


def _failure(status: Status, what: str) -> KubeError:
    kind = class_for(status.code or 500, status.reason)
    error = kind if kind is not BadAnswer else ServerError
    return error(f"{what}: {status.message or status.reason or 'failed'}", status=status)
