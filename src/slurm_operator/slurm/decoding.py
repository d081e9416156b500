"""How much processor time one cluster's responses may take: it must not be the time of all other clusters.

In: work on the bytes of one cluster's responses. Out: its result, and when the next long response may be asked for.
Python runs one thread at a time, so decoding beside the event loop still takes time from it: each piece is followed by
a rest, a list waits until its cluster has paid for the last one, and a list that could not be used is not asked for
again for a while. One `Decoder` serves one `client.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from slurm_operator.slurm.errors import SlurmError

P = ParamSpec("P")
T = TypeVar("T")

# A larger response is decoded beside the event loop, which it would hold for long.
INLINE_BYTES = 256 * 1024
# Two at once, whoever they are of, and one of each cluster: a large cluster leaves room for another.
DECODERS = ThreadPoolExecutor(2, thread_name_prefix="slurm-decode")
# A decoder rests after each piece so many times as long as that took.
REST_RATIO = 3.0
# The event loop has received these bytes before a decoder sees them.
RECEIVE_SECONDS_PER_BYTE = 2e-9
# The share of one processor that a cluster's long responses may take, and those that could not be used.
SHARE = 0.05
WASTED_SHARE = 0.02
LONGEST_PAUSE_SECONDS = 10.0
LONGEST_REFUSAL_SECONDS = 60.0


class Decoder:
    """The processor time of one cluster's responses. `inline_bytes` is the size up to which nothing is counted."""

    def __init__(self, monotonic: Callable[[], float], inline_bytes: int = INLINE_BYTES) -> None:
        self.inline_bytes = inline_bytes
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._spent_seconds = 0.0
        self._next_at = float("-inf")
        # By path: until when it is not asked for again, and why.
        self._refused: dict[str, tuple[float, SlurmError]] = {}

    async def admit(self, path: str) -> None:
        """Wait until that list may be asked for; raises again why it could not be used, while that is recent."""
        until, problem = self._refused.pop(path, (float("-inf"), None))
        if problem is not None and self._monotonic() < until:
            self._refused[path] = until, problem
            raise problem.again()
        if (pause := self._next_at - self._monotonic()) > 0:
            await asyncio.sleep(pause)

    async def feed(self, work: Callable[[bytes, str], None], piece: bytes, label: str) -> None:
        """Decode a piece of a response that is on its way."""
        await self._in_thread(lambda: work(piece, label), len(piece) * RECEIVE_SECONDS_PER_BYTE)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do a piece of work in a thread, and rest."""
        return await self._in_thread(lambda: work(*args, **kwargs))

    async def _in_thread(self, work: Callable[[], T], spent_before_seconds: float = 0.0) -> T:
        def timed() -> T:
            began = time.thread_time() - spent_before_seconds
            try:
                return work()
            finally:
                seconds = time.thread_time() - began
                self._spent_seconds += seconds
                time.sleep(seconds * REST_RATIO)

        async with self._lock:
            return await asyncio.get_running_loop().run_in_executor(DECODERS, timed)

    def close(self, path: str, problem: SlurmError | None) -> None:
        """A response is over: what it cost says when the next one may come."""
        spent, self._spent_seconds = self._spent_seconds, 0.0
        if not spent:
            return
        now = self._monotonic()
        self._next_at = now + min(spent / SHARE, LONGEST_PAUSE_SECONDS)
        if problem is not None:
            self._refused[path] = now + min(spent / WASTED_SHARE, LONGEST_REFUSAL_SECONDS), problem.again()
