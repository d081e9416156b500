"""Many small questions instead of a large one: a few at a time, and not for longer than a reconcile may take.

In: a way to ask for one node or job, and which. Out: the answers, by what was asked for. Used by `job_records.py`,
`node_records.py` and `reconcile/clusters.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_CONCURRENT_REQUESTS = 4
# How long nodes, or jobs, are asked for one by one in one snapshot; the rest waits for the next one.
ONE_BY_ONE_SECONDS = 10.0


async def ask_each(ask: Callable[[K], Awaitable[V]], keys: Iterable[K], monotonic: Callable[[], float]) -> dict[K, V]:
    """The answers; whatever has none was not asked for in time."""
    waiting, answers, end = iter(keys), dict[K, V](), monotonic() + ONE_BY_ONE_SECONDS

    async def ask_on() -> None:
        for key in waiting:
            if monotonic() >= end:
                return
            answers[key] = await ask(key)

    asking = [asyncio.ensure_future(ask_on()) for _ in range(MAX_CONCURRENT_REQUESTS)]
    try:
        await asyncio.gather(*asking)
    finally:
        for each in asking:
            each.cancel()
    return answers
