"""How much processor time one cluster's responses may take: it must not be the time of all other clusters.

In: work on the bytes of one cluster's responses. Out: its result, and when the next long response may be asked for.
Python runs one thread at a time, so decoding beside the event loop still takes time from it: each piece is followed by
a rest, a list waits until its cluster has paid for the last one, and a list that exceeded a budget is not asked for
again for a while. One `Decoder` serves one `client.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from slurm_operator.slurm.errors import SlurmBudgetExceeded, SlurmError

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
# The share of one processor that a cluster's long responses may take, and those that exceeded a budget. The pauses have
# an end: a response that takes more than half a second (1.2 s) takes a larger share.
CPU_SHARE = 0.05
WASTED_CPU_SHARE = 0.02
MAX_PAUSE_SECONDS = 10.0
MAX_REFUSAL_SECONDS = 60.0


@dataclass(slots=True)
class Reading:
    """What it cost so far to read one response."""

    spent_seconds: float = 0.0
    # As much of it as was followed by a rest.
    rested_seconds: float = 0.0


class Decoder:
    """The processor time of one cluster's responses. `inline_bytes` is the size up to which nothing is counted."""

    def __init__(self, monotonic: Callable[[], float], inline_bytes: int = INLINE_BYTES) -> None:
        self.inline_bytes = inline_bytes
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._next_at = float("-inf")
        # By path: until when it is not asked for again, and why.
        self._refused: dict[str, tuple[float, SlurmBudgetExceeded]] = {}
        # By path of a list: whether its last response had a cost. Of what never waits to be admitted nothing is kept:
        # each job that ever was has a path of its own.
        self._costly: dict[str, bool] = {}

    async def admit(self, path: str, *, is_usually_small: bool = False) -> None:
        """Wait until that list may be asked for; raises again that it is too large, while that is recent.

        One that was small the last time, or usually is, does not wait for what another list has cost.
        """
        until, problem = self._refused.pop(path, (float("-inf"), None))
        if problem is not None and self._monotonic() < until:
            self._refused[path] = until, problem
            raise problem.again()
        self._costly.setdefault(path, not is_usually_small)
        if (pause := self.due_in(path)) > 0:
            await asyncio.sleep(pause)

    def due_in(self, path: str) -> float:
        """In how many seconds that list may be asked for."""
        return max(0.0, self._next_at - self._monotonic()) if self._costly.get(path, False) else 0.0

    async def feed(self, reading: Reading, work: Callable[[bytes, str], None], piece: bytes, label: str) -> None:
        """Decode a piece of a response that is on its way."""
        reading.spent_seconds += len(piece) * RECEIVE_SECONDS_PER_BYTE
        await self.run(reading, work, piece, label)

    async def run(self, reading: Reading, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do a piece of work in a thread, then rest; the thread serves others meanwhile."""

        def timed() -> T:
            began = time.thread_time()
            try:
                return work(*args, **kwargs)
            finally:
                reading.spent_seconds += time.thread_time() - began

        async with self._lock:
            done = await asyncio.get_running_loop().run_in_executor(DECODERS, timed)
            rest, reading.rested_seconds = reading.spent_seconds - reading.rested_seconds, reading.spent_seconds
            await asyncio.sleep(rest * REST_RATIO)
            return done

    def close(self, reading: Reading, path: str, problem: SlurmError | None) -> None:
        """A response is over: what it cost says when the next one may come."""
        is_list = path in self._costly
        if is_list:
            self._costly[path] = reading.spent_seconds > 0.0
        if not reading.spent_seconds:
            return
        now = self._monotonic()
        self._next_at = max(self._next_at, now + min(reading.spent_seconds / CPU_SHARE, MAX_PAUSE_SECONDS))
        # One that was merely cut off, or came too late, may be good the next time.
        if is_list and isinstance(problem, SlurmBudgetExceeded):
            pause = min(reading.spent_seconds / WASTED_CPU_SHARE, MAX_REFUSAL_SECONDS)
            self._refused[path] = now + pause, problem.again()
