"""One connection to slurmrestd that reads one response. In: bytes from the socket. Out: that response, for aiohttp.

slurmrestd of Slurm 26.05 sends two answers to a request that fails: the real one with `Connection: Close`, then a short
text. When both arrive in one piece, aiohttp rejects both as malformed, and the error number is lost. So what follows
the end of an answer that announces the close is dropped here. Used by `transport.py`.
"""

from __future__ import annotations

import asyncio
import functools
import math
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

MAX_HEAD_BYTES = 65536
# Of a Content-Length; more of them are no size of anything.
MAX_SIZE_DIGITS = 18


class OneResponse(ResponseHandler):
    """aiohttp's own handling of a connection, given the bytes of one answer per request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._head = b""
        self._passed = 0
        self._end: float | None = None

    def set_response_params(self, **params: Any) -> None:
        """aiohttp says that the next answer is due."""
        self._head, self._passed, self._end = b"", 0, None
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Pass on what belongs to the answer."""
        if self._end is None:
            self._head += data
            self._end = _end_of_response(self._head)
        room = len(data) if self._end is None else min(len(data), max(0, self._end - self._passed))
        self._passed += int(room)
        if room or not data:
            super().data_received(data[: int(room)])


def use_in(connector: aiohttp.BaseConnector) -> None:
    """Make every new connection of that connector a `OneResponse`."""
    connector._factory = functools.partial(_connection, asyncio.get_running_loop())


def _connection(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return OneResponse(loop)


def _end_of_response(data: bytes) -> float | None:
    """How many bytes the answer has: None while that cannot be seen yet, infinity where nothing is to be cut."""
    head, found, _ = data.partition(b"\r\n\r\n")
    if not found:
        return math.inf if len(data) > MAX_HEAD_BYTES else None
    status, *lines = head.split(b"\r\n")
    fields = {
        name.strip().lower(): value.strip().lower() for name, _, value in (line.partition(b":") for line in lines)
    }
    size = fields.get(b"content-length", b"")
    if b"close" not in fields.get(b"connection", b"") or not size.isdigit() or len(size) > MAX_SIZE_DIGITS:
        return math.inf
    has_body = status.split(b" ")[1:2] not in ([b"204"], [b"304"])
    return len(head) + len(found) + (int(size) if has_body else 0)
