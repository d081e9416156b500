"""Wakes a Controller's reconcile when a sidecar prints its verdict, instead of at the next poll of its log.

In: which pods are trying which candidate (`want`, after each reconcile of a Controller). Out: `wake`, when a log that
is followed shows a verdict on that candidate, and when a stream ends without one. Nothing is decided on what a stream
says: the reconcile that it wakes reads the log itself, and polls it where there is no stream, or one that is silent
(a proxy may hold lines back).

A stream is open only while a candidate is undecided, for a minute at most, and is bounded in bytes. Run beside the
controllers by `reconcile/operator.py`: it ends with them, at shutdown and on loss of leadership.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kube_runtime.client.errors import KubeError
from kube_runtime.clock import Clock, DeadlinePassedError, within
from kube_runtime.loop.queue import Key
from slurm_operator.build import verdicts
from slurm_operator.plan.config import ControllerPod, last_verdict
from slurm_operator.plan.verdict_poll import PACES, VerdictPoll

log = logging.getLogger(__name__)

# As long as a sidecar may be trying it; afterwards its log is polled.
STREAM_SECONDS = PACES[-1][0]
# Of all Controllers together; what is beyond is polled.
MAX_STREAMS = 256

# (namespace, pod) -> the line that its sidecar printed last, and those that it prints from now on.
Follow = Callable[[str, str], AsyncGenerator[str, None]]


class Target(NamedTuple):
    """The log that is followed, and the candidate whose verdict is waited for."""

    uid: str
    pod: str
    hash: str


@dataclass
class VerdictStreams:
    """The open streams of all Controllers."""

    follow: Follow
    clock: Clock
    wake: Callable[[Key], object] = lambda _: None
    # By Controller: streams that are open, and those that have ended and are not opened again; the result is whether
    # the verdict was heard.
    _streams: dict[Key, dict[Target, asyncio.Task[bool]]] = field(default_factory=dict)
    # By Controller: when a verdict was last heard (monotonic).
    _heard_at: dict[Key, float] = field(default_factory=dict)
    _group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Let streams be opened until cancelled; then all are closed."""
        try:
            async with asyncio.TaskGroup() as self._group:
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None
            self._streams.clear()
            self._heard_at.clear()

    def want(self, key: Key, poll: VerdictPoll | None, pods: Iterable[ControllerPod]) -> None:
        """Follow the pods of a poll and no others; with None, nothing."""
        targets = {Target(pod.uid, pod.name, poll.hash) for pod in pods if pod.uid in poll.pods} if poll else set()
        streams = self._streams.get(key, {})
        for target in streams.keys() - targets:
            streams.pop(target).cancel()
        for target in sorted(targets - streams.keys()):
            if self._group is not None and self._open_count() < MAX_STREAMS:
                # In a context of its own: the reconcile that asks for it has a time limit.
                work = self._listen(key, target)
                streams[target] = self._group.create_task(work, name=f"log of {target.pod}", context=Context())
        if streams:
            self._streams[key] = streams
        else:
            self._streams.pop(key, None)
            self._heard_at.pop(key, None)

    def forget(self, key: Key) -> None:
        """A Controller has gone: close its streams. Its last reconcile may have been before that."""
        self.want(key, None, ())

    def follows(self, key: Key, poll: VerdictPoll) -> bool:
        """Whether every pod of a poll is listened to, or was until it gave its verdict."""
        streams = self._streams.get(key, {})
        mine = {target.uid for target, task in streams.items() if target.hash == poll.hash and _is_of_use(task)}
        return set(poll.pods) <= mine

    def heard_at(self, key: Key) -> float:
        """When a verdict was last heard, monotonic; in the infinite past where none was."""
        return self._heard_at.get(key, float("-inf"))

    def _open_count(self) -> int:
        return sum(not task.done() for streams in self._streams.values() for task in streams.values())

    async def _listen(self, key: Key, target: Target) -> bool:
        is_heard = False
        try:
            is_heard = await within(self.clock, STREAM_SECONDS, self._until_verdict(key, target))
        except (KubeError, DeadlinePassedError) as error:
            # A container that has not started has no log.
            log.debug("log of %s/%s: %s", key.namespace, target.pod, error)
        except Exception:
            log.exception("the log of %s/%s cannot be followed; it is polled", key.namespace, target.pod)
        if is_heard:
            self._heard_at[key] = self.clock.monotonic()
        # Also where nothing was heard: the poll has to go on at its own pace.
        self.wake(key)
        return is_heard

    async def _until_verdict(self, key: Key, target: Target) -> bool:
        async with aclosing(self.follow(key.namespace, target.pod)) as lines:
            async for line in lines:
                found = last_verdict((line,))
                if found is not None and (found.hash == target.hash or found.stage == verdicts.UNREADABLE):
                    return True
        return False


def _is_of_use(task: asyncio.Task[bool]) -> bool:
    return not task.done() or (not task.cancelled() and task.result())


def follower(client: Any, container: str, max_bytes: int) -> Follow:
    """Follows logs through a client, from the last line on: what was said before it is not true any more."""

    def follow(namespace: str, pod: str) -> AsyncGenerator[str, None]:
        limits = {"tail": 1, "limit_bytes": max_bytes}
        found: AsyncGenerator[str, None] = client.logs(namespace, pod, container=container, follow=True, **limits)
        return found

    return follow
