"""exec over a websocket: the channel protocols v5 and v4 of Kubernetes.

In: a websocket, and a command to run. Out: bytes both ways, and at the end a Status that
says how it went. `access` calls it. Every message starts with the number of its channel.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import termios
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from kube_local.node.runtime import end_command, forget_pid_file

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK_BYTES = 32 * 1024

Feed = Callable[[bytes], Awaitable[None]]
Resize = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which streams the client asked for."""

    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


def success() -> dict[str, Any]:
    """The result of a command that ended with 0."""
    return {"metadata": {}, "status": "Success"}


def exited(code: int) -> dict[str, Any]:
    """The result of a command that ended with another code."""
    if code == 0:
        return success()
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def execute(peer: web.WebSocketResponse, argv: Sequence[str], wanted: Wanted, pid_file: Path) -> None:
    """Run a command for the client and tell how it ended; a client that goes away ends the command."""
    await peer.send_bytes(bytes([STDOUT]))
    gone = asyncio.Event()
    work = asyncio.create_task(
        _with_terminal(peer, argv, gone) if wanted.tty else _with_pipes(peer, argv, wanted, gone)
    )
    leaving = asyncio.create_task(gone.wait())
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            await send(peer, ERROR, json.dumps(exited(work.result())).encode())
    finally:
        for task in (work, leaving):
            task.cancel()
        await asyncio.gather(work, leaving, return_exceptions=True)
        if work.cancelled():
            end_command(pid_file)
        forget_pid_file(pid_file)
        await peer.close()


async def send(peer: web.WebSocketResponse, channel: int, data: bytes) -> None:
    """One message, if the client is still there."""
    if not peer.closed:
        with suppress(ConnectionError):
            await peer.send_bytes(bytes([channel]) + data)


async def _listen(peer: web.WebSocketResponse, feed: Feed, resize: Resize, gone: asyncio.Event) -> None:
    """Hand on what the client types, until it says that there is no more."""
    async for message in peer:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == STDIN and data:
            await feed(data)
        elif channel == CLOSE and data[:1] == bytes([STDIN]):
            await feed(b"")
        elif channel == RESIZE:
            with suppress(ValueError, KeyError, TypeError):
                size = json.loads(data)
                resize(int(size["Width"]), int(size["Height"]))
    gone.set()


def _no_resize(_: int, __: int) -> None:
    return None


async def _with_pipes(peer: web.WebSocketResponse, argv: Sequence[str], wanted: Wanted, gone: asyncio.Event) -> int:
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE if wanted.stdin else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )

    async def feed(data: bytes) -> None:
        if process.stdin is None or process.stdin.is_closing():
            return
        with suppress(ConnectionError):
            if data:
                process.stdin.write(data)
                await process.stdin.drain()
            else:
                process.stdin.close()

    async def copy(stream: asyncio.StreamReader | None, channel: int) -> None:
        while stream is not None and (data := await stream.read(_CHUNK_BYTES)):
            await send(peer, channel, data)

    listening = asyncio.create_task(_listen(peer, feed, _no_resize, gone))
    try:
        await asyncio.gather(copy(process.stdout, STDOUT), copy(process.stderr, STDERR))
        return await process.wait()
    finally:
        listening.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _with_terminal(peer: web.WebSocketResponse, argv: Sequence[str], gone: asyncio.Event) -> int:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
    finally:
        os.close(theirs)
    loop = asyncio.get_running_loop()

    async def feed(data: bytes) -> None:
        while data:
            try:
                data = data[os.write(ours, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.01)

    def resize(width: int, height: int) -> None:
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGWINCH)

    listening = asyncio.create_task(_listen(peer, feed, resize, gone))
    readable = asyncio.Event()
    loop.add_reader(ours, readable.set)
    try:
        while data := await _read_terminal(ours, readable):
            await send(peer, STDOUT, data)
        return await process.wait()
    finally:
        loop.remove_reader(ours)
        listening.cancel()
        os.close(ours)
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _read_terminal(handle: int, readable: asyncio.Event) -> bytes:
    while True:
        try:
            return os.read(handle, _CHUNK_BYTES)
        except BlockingIOError:
            readable.clear()
            await readable.wait()
        except OSError:
            # A terminal without a program on it cannot be read: that is its end.
            return b""
