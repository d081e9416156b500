"""A controller: one queue, a few workers, one reconcile function, and what to do with each way it can end.

Watches call `add`; workers call `reconcile(key)`. A result may ask to be called again; `Retryable` comes
again with backoff; `Terminal` waits for a change; anything unexpected is logged with its traceback once under an id,
counted, reported on its object by that id (`report_fault`), and retried with backoff. No exception leaves a reconcile,
no key runs twice at once, and no reconcile outlives its time limit. Only what is not an `Exception` passes through (a
simulated crash, a cancellation).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random as _random
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from kube_runtime.backoff import Backoff
from kube_runtime.clock import Clock, DeadlinePassedError, SystemClock, within
from kube_runtime.errors import OperatorError, Retryable, Terminal
from kube_runtime.loop.logs import log_fields
from kube_runtime.loop.metrics import Metrics
from kube_runtime.loop.queue import Key, Places, Queue, ShutDownError
from kube_runtime.loop.rest import Rests

log = logging.getLogger(__name__)

MIN_REQUEUE_SECONDS = 0.1
"""Seconds; a reconcile that asks for less, again and again, would be a hot loop."""

SHARED_FACTOR = 8
"""So many groups may have all their workers at work; each further one has one."""

REPORT_SECONDS = 10.0
"""How long a report of a fault may take."""


@dataclass(frozen=True, slots=True)
class Result:
    """A reconcile that did what could be done; `requeue_after` asks for another look in so many seconds.

    `is_at_rest` says that only a change can bring more to do: each look that follows without one is twice as late, and
    the more keys are at rest, the later it is (`rest.py`).
    """

    requeue_after: float | None = None
    is_at_rest: bool = False


Reconcile = Callable[[Key], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that nobody foresaw: what to say of it, and the id under which the log has its traceback."""

    id: str
    text: str
    # False while the same fault comes again and again.
    is_new: bool = True


# Says on the object that its reconcile met a fault.
ReportFault = Callable[[Key, Fault], Coroutine[Any, Any, None]]


async def _no_report(_: Key, __: Fault) -> None:
    return None


class Outcome(Enum):
    """How a reconcile ended; the values are the `result` label of the metric."""

    OK = "ok"
    REQUEUE = "requeue"
    RETRY = "retry"
    TERMINAL = "terminal"
    TIMEOUT = "timeout"
    ERROR = "error"
    CANCELLED = "cancelled"


def classify(error: Exception) -> Outcome:
    """What an exception asks for; a group is retried if any known part of it is worth retrying."""
    leaves = list(_leaves(error))
    if not all(isinstance(leaf, OperatorError) for leaf in leaves):
        return Outcome.ERROR
    if all(isinstance(leaf, Terminal) for leaf in leaves):
        return Outcome.TERMINAL
    return Outcome.RETRY


def retry_after(error: Exception) -> float:
    """The longest wait that a part of this error asks for (`retry_after`, from a server's Retry-After)."""
    asked = (getattr(leaf, "retry_after", None) for leaf in _leaves(error) if isinstance(leaf, Retryable))
    return max((float(seconds) for seconds in asked if isinstance(seconds, int | float)), default=0.0)


def _leaves(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error


class Controller:
    """Turns changed keys into reconciles; see the module's opening."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        workers: int = 1,
        kind: str | None = None,
        time_limit: float = 120.0,
        clock: Clock | None = None,
        random: Callable[[], float] = _random.random,
        backoff: Backoff | None = None,
        metrics: Metrics | None = None,
        group_of: Callable[[Key], Hashable] = lambda _: None,
        report_fault: ReportFault = _no_report,
        rests: Rests | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"controller {name}: workers must be at least 1, not {workers}")
        self.name = name
        self.kind = kind or name
        self.workers = workers
        self.time_limit = time_limit
        self.clock: Clock = clock or SystemClock()
        places = Places(per_group=workers, shared=workers * SHARED_FACTOR)
        self.queue: Queue[Key] = Queue(self.clock, backoff=backoff, random=random, group_of=group_of, places=places)
        self._reconcile = reconcile
        self._metrics = metrics or Metrics()
        self._metrics.watch_queue(self.kind, self.queue)
        self._running: dict[Key, float] = {}
        self._ids = itertools.count(1)
        self._random = random
        self._report_fault = report_fault
        # By key: what its last fault was, and the id that it got.
        self._faults: dict[Key, tuple[str, str]] = {}
        self._rests = rests or Rests(random)

    @property
    def running(self) -> Mapping[Key, float]:
        """The keys that are worked on, and since when (monotonic time)."""
        return MappingProxyType(self._running)

    def add(self, key: Key) -> None:
        """This object, or one that it depends on, has changed."""
        self._end_rest(key)
        self.queue.add(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Look at this object after so long at the latest; if it is at rest, it stays so."""
        self.queue.add_after(key, seconds)

    async def run(self) -> None:
        """Work until `stop`, with at most `workers` reconciles of one group at once."""
        async with asyncio.TaskGroup() as tasks:
            with contextlib.suppress(ShutDownError):
                while True:
                    key = await self.queue.get()
                    tasks.create_task(self._process(key), name=f"{self.name} {key}")

    def stop(self) -> None:
        """Take no more keys; `run` returns once the running reconciles have ended."""
        self.queue.shut_down()

    async def step(self) -> bool:
        """Work on one key to its end, in this task; False when no key is ready."""
        key = self.queue.take()
        if key is None:
            return False
        await self._process(key)
        return True

    async def _process(self, key: Key) -> None:
        started = self._running[key] = self.clock.monotonic()
        self._metrics.reconcile_started(self.kind)
        outcome = Outcome.CANCELLED
        try:
            with log_fields(
                kind=self.kind,
                namespace=key.namespace,
                name=key.name,
                controller=self.name,
                reconcile=f"{self.name}-{next(self._ids)}",
            ):
                outcome = await self._attempt(key)
        finally:
            del self._running[key]
            self.queue.done(key)
            self._metrics.reconcile_ended(self.kind, outcome.value, self.clock.monotonic() - started)

    async def _attempt(self, key: Key) -> Outcome:
        try:
            result = await within(self.clock, self.time_limit, self._call(key))
        except DeadlinePassedError:
            self._end_rest(key)
            await self._report(key, self._cut_off(key))
            return Outcome.TIMEOUT
        except Exception as error:
            self._end_rest(key)
            return await self._failed(key, error)
        self._faults.pop(key, None)
        self.queue.forget(key)
        if result.requeue_after is None:
            self._end_rest(key)
            return Outcome.OK
        self.queue.add_after(key, max(MIN_REQUEUE_SECONDS, self._next_look(key, result)))
        return Outcome.REQUEUE

    def _next_look(self, key: Key, result: Result) -> float:
        seconds = result.requeue_after or 0.0
        if result.is_at_rest and not self.queue.is_waiting(key):
            return self._rests.next_look((self.name, key), seconds)
        self._end_rest(key)
        return seconds

    def _end_rest(self, key: Key) -> None:
        self._rests.end((self.name, key))

    async def _call(self, key: Key) -> Result:
        try:
            return await self._reconcile(key)
        except DeadlinePassedError as error:
            # A limit inside the reconcile is an ordinary failure, not the end of the whole reconcile's time.
            raise InnerDeadlinePassed(str(error)) from error
        except asyncio.CancelledError as error:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            # Nobody cancelled this reconcile: a task that it waited for was, and that must not end the worker.
            raise InnerTaskCancelled("a task that the reconcile waited for was cancelled") from error

    def _cut_off(self, key: Key) -> Fault:
        delay = self.queue.retry(key)
        text = f"the reconcile was cut off after {self.time_limit:g} s"
        fault = self._fault(key, "cut off", text)
        log.error("%s (fault %s); again in %.3g s", text, fault.id, delay)
        return fault

    async def _failed(self, key: Key, error: Exception) -> Outcome:
        outcome = classify(error)
        if outcome is Outcome.TERMINAL:
            self.queue.give_up(key)
            log.warning("%s; waiting for a change", _summary(error))
            return outcome
        delay = self.queue.retry(key, min_delay=retry_after(error))
        if outcome is Outcome.RETRY:
            log.warning("%s; again in %.3g s", _summary(error), delay)
        else:
            await self._report(key, self._unexpected(key, error, delay))
        return outcome

    def _unexpected(self, key: Key, error: Exception, delay: float) -> Fault:
        fault = self._fault(key, _fingerprint(error), type(error).__name__)
        log.error(
            "unexpected %s (fault %s); again in %.3g s%s",
            _summary(error),
            fault.id,
            delay,
            "" if fault.is_new else " (traceback is above)",
            exc_info=error if fault.is_new else None,
        )
        return fault

    def _fault(self, key: Key, fingerprint: str, text: str) -> Fault:
        """The same fault of a key keeps its id, or each retry would be a new status and a new event."""
        known, id_ = self._faults.get(key, ("", ""))
        is_new = known != fingerprint
        if is_new:
            id_ = f"{int(self._random() * 16**8):08x}"
        self._faults[key] = (fingerprint, id_)
        return Fault(id_, text, is_new)

    async def _report(self, key: Key, fault: Fault) -> None:
        """Report a fault; an error on the way, whatever it is, ends here."""
        self._metrics.reconcile_fault(self.kind, key.namespace, key.name)
        try:
            await within(self.clock, REPORT_SECONDS, self._report_fault(key, fault))
        except Exception:
            log.exception("fault %s could not be reported on %s %s", fault.id, self.kind, key)


class InnerDeadlinePassed(Retryable):
    """Something inside a reconcile took too long."""

    reason = "Timeout"


class InnerTaskCancelled(Retryable):
    """Something that a reconcile waited for was cancelled by somebody else."""

    reason = "Cancelled"


def _summary(error: Exception) -> str:
    parts = [f"{getattr(leaf, 'reason', type(leaf).__name__)}: {leaf}" for leaf in _leaves(error)]
    return "; ".join(dict.fromkeys(parts))


def _fingerprint(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__qualname__}@{where}"
