"""Events about our objects, for `kubectl describe` and `kubectl events`.

In: an object, a reason and a sentence. Out: events.k8s.io/v1 Events through `write`; core/v1 ones, which have a
`lastTimestamp` to sort by, where a part of local mode stands for a kubelet. A repeated one becomes a series
of the first, written at the 2nd, 4th, 8th … time; names are computed, so that a restarted operator goes on with the
same Event. An Event never fails a reconcile: what goes wrong is logged and counted.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from typing import Any

from kube_runtime.client.errors import AlreadyExists, KubeError, NotFound
from kube_runtime.client.lease import format_time
from kube_runtime.client.objects import EVENTS, KubeObject, RawObject, Resource
from kube_runtime.client.timing import Timing
from kube_runtime.client.write import Writer
from kube_runtime.times import time_text

log = logging.getLogger(__name__)

CORE_EVENTS: Resource[RawObject] = Resource("", "v1", "events", "Event", RawObject)
MAX_NOTE_CHARACTERS = 1024
# One object may say this much at once, and one more thing every five minutes.
BURST_EVENTS = 25.0
REFILL_SECONDS = 300.0
MAX_REMEMBERED_EVENTS = 4096
# The server forgets an Event after this long (its default).
LIFE_SECONDS = 3600.0


@dataclass(slots=True)
class _Series:
    name: str
    written: float
    count: int = 1


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class Recorder:
    """Writes Events as one controller."""

    writer: Writer
    instance: str
    controller: str = "kube-runtime"
    timing: Timing = field(default_factory=Timing)
    dropped: int = 0
    # As kubelets and kube-controller-manager write them; the writer must know CORE_EVENTS then.
    core: bool = False
    _series: dict[tuple[str, ...], _Series] = field(default_factory=dict)
    _buckets: dict[str, _Bucket] = field(default_factory=dict)

    async def normal(
        self, regarding: KubeObject, resource: Resource[Any], reason: str, note: str, action: str = "Reconcile"
    ) -> None:
        """Say that something went as it should."""
        await self.record("Normal", regarding, resource, reason, note, action)

    async def warning(
        self, regarding: KubeObject, resource: Resource[Any], reason: str, note: str, action: str = "Reconcile"
    ) -> None:
        """Say that something needs a person's eye."""
        await self.record("Warning", regarding, resource, reason, note, action)

    async def record(
        self, kind: str, regarding: KubeObject, resource: Resource[Any], reason: str, note: str, action: str
    ) -> None:
        """Write an Event, or count it as one more of the same."""
        note = note if len(note) <= MAX_NOTE_CHARACTERS else note[: MAX_NOTE_CHARACTERS - 1] + "…"
        key = (regarding.metadata.uid, kind, reason, action, note)
        try:
            series = self._series.get(key)
            if series is None or self.timing.clock.monotonic() - series.written > LIFE_SECONDS:
                await self._first(key, regarding, resource)
            else:
                await self._again(key, series, regarding, resource)
        except KubeError as error:
            self.dropped += 1
            log.warning("event %s about %s was not written: %s", reason, regarding.metadata.name, error)

    async def _first(self, key: tuple[str, ...], regarding: KubeObject, resource: Resource[Any]) -> None:
        if not self._is_within_rate(regarding.metadata.uid):
            self.dropped += 1
            return
        body = self._body(key, regarding, resource)
        series = _Series(body["metadata"]["name"], self.timing.clock.monotonic())
        self._remember(key, series)
        try:
            await self.writer.create(body)
        except AlreadyExists:
            # Written by our predecessor: the same words about the same object go on counting.
            series.count = await self._counted(series.name, _namespace(regarding))
            await self._again(key, series, regarding, resource)

    async def _again(
        self, key: tuple[str, ...], series: _Series, regarding: KubeObject, resource: Resource[Any]
    ) -> None:
        series.count += 1
        if series.count & (series.count - 1):
            return
        series.written = self.timing.clock.monotonic()
        try:
            await self._write_count(series, _namespace(regarding))
        except NotFound:
            series.count = 1
            await self.writer.create(self._body(key, regarding, resource))

    async def _counted(self, name: str, namespace: str) -> int:
        if self.core:
            return int((await self.writer.client.get(CORE_EVENTS, name, namespace)).content().get("count") or 1)
        before = await self.writer.client.get(EVENTS, name, namespace)
        return before.series.count if before.series is not None else 1

    async def _write_count(self, series: _Series, namespace: str) -> None:
        now = self.timing.clock.now()
        if self.core:
            patch: dict[str, Any] = {"count": series.count, "lastTimestamp": time_text(now)}
            await self.writer.patch(CORE_EVENTS, series.name, patch, namespace)
        else:
            patch = {"series": {"count": series.count, "lastObservedTime": format_time(now)}}
            await self.writer.patch(EVENTS, series.name, patch, namespace)

    def _body(self, key: tuple[str, ...], regarding: KubeObject, resource: Resource[Any]) -> dict[str, Any]:
        uid, kind, reason, action, note = key
        metadata = regarding.metadata
        digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:16]
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{metadata.name[:200]}.{digest}", "namespace": _namespace(regarding)},
            "eventTime": format_time(self.timing.clock.now()),
            "type": kind,
            "reason": reason,
            "action": action,
            "note": note,
            "reportingController": self.controller,
            "reportingInstance": self.instance[:128],
            "regarding": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": uid,
                "resourceVersion": metadata.resource_version,
            },
        }
        return _as_core(body, time_text(self.timing.clock.now())) if self.core else body

    def _remember(self, key: tuple[str, ...], series: _Series) -> None:
        while len(self._series) >= MAX_REMEMBERED_EVENTS:
            del self._series[next(iter(self._series))]
        self._series[key] = series

    def _is_within_rate(self, uid: str) -> bool:
        now = self.timing.clock.monotonic()
        bucket = self._buckets.setdefault(uid, _Bucket(BURST_EVENTS, now))
        bucket.tokens = min(BURST_EVENTS, bucket.tokens + (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if len(self._buckets) > MAX_REMEMBERED_EVENTS:
            del self._buckets[next(iter(self._buckets))]
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def _namespace(regarding: KubeObject) -> str:
    """Events about objects without a namespace live in `default`."""
    namespace: str = regarding.metadata.namespace
    return namespace or "default"


def _as_core(body: dict[str, Any], now: str) -> dict[str, Any]:
    """The same Event in the form of old."""
    kept = {key: body[key] for key in ("metadata", "type", "reason", "reportingInstance")}
    return {
        **kept,
        "apiVersion": CORE_EVENTS.api_version,
        "kind": CORE_EVENTS.kind,
        "message": body["note"],
        "involvedObject": body["regarding"],
        "reportingComponent": body["reportingController"],
        "source": {"component": body["reportingController"], "host": body["reportingInstance"]},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
