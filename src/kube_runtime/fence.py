"""The last question before a write leaves: may it still be sent?

In: a check that raises when it may not, given with a request as `trace_request_ctx`. Out: an aiohttp trace that asks.
Both doors put it into their sessions, so that a process that slept while it logged in or connected sends nothing late.
"""

from __future__ import annotations

from typing import Any

import aiohttp


def last_check() -> aiohttp.TraceConfig:
    """Ask on the open connection, before the first byte of the request."""

    async def ask(_: aiohttp.ClientSession, context: Any, __: aiohttp.TraceRequestHeadersSentParams) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx()

    config = aiohttp.TraceConfig()
    # Despite its name, this one is called before anything is written; what it raises closes the connection.
    config.on_request_headers_sent.append(ask)
    return config
