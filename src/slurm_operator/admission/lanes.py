"""Where reviews are computed: off the event loop, a bounded number at once, in turn by namespace, in bounded time.

In: a function to run, and the namespace that it is for. Out: its result, or `Overloaded` or `TookTooLong`. Called by
`server.py`. Threads share one interpreter, so this buys no speed: it keeps the loop free to read, write and answer,
lets small reviews pass large ones, and gives a namespace that asks much no more than its turn.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

T = TypeVar("T")

SMALL_BYTES: Final = 64 * 1024
# Below the ten seconds that the charts let an API server wait: it is told why, and does not time out.
TIME_LIMIT_SECONDS: Final = 8.0


class Overloaded(Exception):
    """Too much is waiting already."""


class TookTooLong(Exception):
    """The time limit has passed, in the queue or at work."""


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    work: Callable[[], Any]
    done: asyncio.Future[Any]


@dataclass(slots=True)
class Lane:
    """Some threads, and in front of them one queue for each namespace."""

    threads: int
    max_waiting: int
    # Of one namespace: the rest of the room is for others.
    max_waiting_per_namespace: int
    time_limit_seconds: float = TIME_LIMIT_SECONDS
    _pool: ThreadPoolExecutor = field(init=False)
    _queues: OrderedDict[str, deque[_Job]] = field(default_factory=OrderedDict)
    _running: int = 0

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="review")

    @property
    def waiting(self) -> int:
        """How many wait for a thread."""
        return sum(len(queue) for queue in self._queues.values())

    @property
    def is_full(self) -> bool:
        """Whether nobody else may wait."""
        return self.waiting >= self.max_waiting

    async def run(self, namespace: str, work: Callable[[], T]) -> T:
        """The result of `work`, which is called in a thread."""
        if self.is_full or len(self._queues.get(namespace, ())) >= self.max_waiting_per_namespace:
            raise Overloaded
        job = _Job(work, asyncio.get_running_loop().create_future())
        queue = self._queues.setdefault(namespace, deque())
        queue.append(job)
        self._start()
        try:
            async with asyncio.timeout(self.time_limit_seconds):
                result: T = await job.done
        except TimeoutError:
            raise TookTooLong from None
        else:
            return result
        finally:
            if job in queue:
                queue.remove(job)

    def close(self) -> None:
        """Start nothing more; what runs ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> None:
        while self._running < self.threads and (job := self._next()) is not None:
            self._running += 1
            running = asyncio.get_running_loop().run_in_executor(self._pool, job.work)
            running.add_done_callback(partial(self._finish, job))

    def _next(self) -> _Job | None:
        """The oldest job of the namespace that has waited longest for its turn."""
        while self._queues:
            namespace, queue = self._queues.popitem(last=False)
            if queue:
                job = queue.popleft()
                # Behind all others that wait.
                self._queues[namespace] = queue
                return job
        return None

    def _finish(self, job: _Job, future: asyncio.Future[Any]) -> None:
        self._running -= 1
        # Whoever gave up has cancelled it: nobody reads the result.
        if not job.done.done():
            error = future.exception() if not future.cancelled() else Overloaded()
            if error is not None:
                job.done.set_exception(error)
            else:
                job.done.set_result(future.result())
        self._start()
