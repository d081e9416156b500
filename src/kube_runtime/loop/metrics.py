"""What the loop counts and times; a program adds its own metrics and a prefix.

One `Metrics` per program, with a registry of its own. Controllers and caches report into it, and a program whatever
else it counts; `health.metrics_app` serves it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

_RECONCILE_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
REQUEST_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MetricEntry:
    """One metric: what a dashboard has to know about it. A program puts its prefix before the name."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


def entry(
    name: str,
    type_: Literal["counter", "gauge", "histogram"],
    labels: tuple[str, ...],
    help_: str,
    buckets: tuple[float, ...] = (),
) -> MetricEntry:
    """A metric without prefix."""
    return MetricEntry(name, type_, labels, help_, buckets)


_QUEUE_DEPTH = entry("queue_depth", "gauge", ("kind",), "Objects that wait for a worker.")
_QUEUE_ADDS = entry("queue_adds_total", "counter", ("kind",), "Requests to look at an object, before they are merged.")
_QUEUE_RETRIES = entry("queue_retries_total", "counter", ("kind",), "Objects put back with backoff after a failure.")
_QUEUE_WAIT = entry(
    "queue_wait_seconds", "histogram", ("kind",), "How long objects waited for a worker.", _RECONCILE_BUCKETS
)
_RECONCILES = entry(
    "reconcile_total",
    "counter",
    ("kind", "result"),
    "Reconciles by result: ok, requeue, retry, terminal, timeout, error, cancelled.",
)
_RECONCILE_SECONDS = entry("reconcile_seconds", "histogram", ("kind",), "How long reconciles took.", _RECONCILE_BUCKETS)
_FAULTS = entry(
    "reconcile_faults_total",
    "counter",
    ("kind", "namespace", "name"),
    "Reconciles of an object that ended in an unexpected error or were cut off; the log has its traceback.",
)
_RUNNING = entry("reconcile_running", "gauge", ("kind",), "Reconciles that run now.")
_CACHE_AGE = entry(
    "cache_age_seconds",
    "gauge",
    ("kind",),
    "Time since the cache last heard from the API server; +Inf before that.",
)
_API_REQUESTS = entry(
    "api_requests_total", "counter", ("verb", "resource", "code"), "Requests to the Kubernetes API server."
)
_API_SECONDS = entry(
    "api_request_seconds",
    "histogram",
    ("verb", "resource"),
    "How long requests to the Kubernetes API server took; watches are not counted.",
    REQUEST_BUCKETS,
)
MISSING_RIGHT = entry(
    "missing_right",
    "gauge",
    ("verb", "resource", "namespace"),
    "1 for each right that this program needs and does not have, in the words of kubectl auth can-i.",
)
_LEADER = entry("leader", "gauge", (), "1 while this process may write, otherwise 0.")
_STALLS = entry("loop_stalls_total", "counter", (), "Times that the event loop stood still for too long.")
_BUILD = entry("build_info", "gauge", ("version",), "Always 1; the label says which release runs.")

LOOP_METRICS: Final = (
    _QUEUE_DEPTH,
    _QUEUE_ADDS,
    _QUEUE_RETRIES,
    _QUEUE_WAIT,
    _RECONCILES,
    _RECONCILE_SECONDS,
    _FAULTS,
    _RUNNING,
    _CACHE_AGE,
    _API_REQUESTS,
    _API_SECONDS,
    MISSING_RIGHT,
    _LEADER,
    _STALLS,
    _BUILD,
)

# Label values in the order of the entry's labels, and the value.
Sample = tuple[tuple[str, ...], float]
Samples = Callable[[], Iterable[Sample]]


class CountedQueue(Sized, Protocol):
    """What is read from a queue when somebody scrapes."""

    adds: int
    retries: int
    on_wait: Callable[[float], object] | None


@dataclass(frozen=True, slots=True)
class Sources:
    """The metrics that the loop keeps, each with the labels above."""

    reconciles: MetricWrapperBase
    reconcile_seconds: MetricWrapperBase
    running: MetricWrapperBase
    waits: MetricWrapperBase
    api_requests: MetricWrapperBase
    queues: Mapping[str, CountedQueue]
    leading: Callable[[], bool]


class _ScrapedState(Collector):
    """Queues, caches and statuses are asked at scrape time, so that their hot paths count nothing twice."""

    def __init__(self, prefix: str, asked: Sequence[MetricEntry]) -> None:
        self.prefix = prefix
        self.entries = asked
        self.queues: dict[str, CountedQueue] = {}
        self.ages: dict[str, Callable[[], float | None]] = {}
        self.leading: Callable[[], bool] = lambda: False
        self.asked: dict[str, Samples] = {}

    def collect(self) -> Iterator[Metric]:
        yield from self._loop()
        for each in self.entries:
            family = self._gauge(each)
            try:
                for labels, value in self.asked.get(each.name, tuple)():
                    family.add_metric(labels, value)
            except Exception:
                # One bad object must not take every other metric with it.
                log.exception("metric %s could not be read to its end", each.name)
            yield family

    def _gauge(self, each: MetricEntry) -> GaugeMetricFamily:
        return GaugeMetricFamily(self.prefix + each.name, each.help, labels=each.labels)

    def _loop(self) -> Iterator[Metric]:
        depth = self._gauge(_QUEUE_DEPTH)
        adds = CounterMetricFamily(self.prefix + _QUEUE_ADDS.name, _QUEUE_ADDS.help, labels=_QUEUE_ADDS.labels)
        name = self.prefix + _QUEUE_RETRIES.name
        retries = CounterMetricFamily(name, _QUEUE_RETRIES.help, labels=_QUEUE_RETRIES.labels)
        for kind, queue in self.queues.items():
            depth.add_metric([kind], len(queue))
            adds.add_metric([kind], queue.adds)
            retries.add_metric([kind], queue.retries)
        age = self._gauge(_CACHE_AGE)
        for kind, ask in self.ages.items():
            seconds = ask()
            age.add_metric([kind], math.inf if seconds is None else seconds)
        leader = GaugeMetricFamily(self.prefix + _LEADER.name, _LEADER.help, value=float(self.leading()))
        yield from (depth, adds, retries, age, leader)


MAX_FAULT_PLACES = 1000
"""So many objects are named in the counter of faults; those beyond count for their kind."""


class Metrics:
    """The program's counters and histograms, and the registry that holds them."""

    def __init__(self, prefix: str = "", version: str = "", asked: Sequence[MetricEntry] = ()) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._prefix = prefix
        # Those that are asked for as a whole when somebody scrapes.
        self._scraped = _ScrapedState(prefix, (*asked, MISSING_RIGHT))
        self.registry.register(self._scraped)
        self._queue_wait = self.histogram(_QUEUE_WAIT)
        self._reconciles = self.counter(_RECONCILES)
        self._reconcile_seconds = self.histogram(_RECONCILE_SECONDS)
        self._faults = self.counter(_FAULTS)
        self._fault_places: set[tuple[str, str, str]] = set()
        self._running = Gauge(prefix + _RUNNING.name, _RUNNING.help, _RUNNING.labels, registry=self.registry)
        self._api_requests = self.counter(_API_REQUESTS)
        self._api_seconds = self.histogram(_API_SECONDS)
        self._stalls = self.counter(_STALLS)
        Gauge(prefix + _BUILD.name, _BUILD.help, _BUILD.labels, registry=self.registry).labels(version).set(1)

    def watch_queue(self, kind: str, queue: CountedQueue) -> None:
        """Show this queue under `kind`."""
        self._scraped.queues[kind] = queue
        queue.on_wait = self._queue_wait.labels(kind).observe

    def watch_cache(self, kind: str, age: Callable[[], float | None]) -> None:
        """Show this cache's age under `kind`; None means that it has not heard anything yet."""
        self._scraped.ages[kind] = age

    def unwatch_cache(self, kind: str) -> None:
        """This cache is gone."""
        self._scraped.ages.pop(kind, None)

    def watch_leadership(self, leading: Callable[[], bool]) -> None:
        """Where to ask whether this process leads."""
        self._scraped.leading = leading

    def watch(self, entry: MetricEntry, samples: Samples) -> None:
        """Where to ask for a metric that the program named as asked, or for MISSING_RIGHT."""
        self._scraped.asked[entry.name] = samples

    def reconcile_started(self, kind: str) -> None:
        self._running.labels(kind).inc()

    def reconcile_fault(self, kind: str, namespace: str, name: str) -> None:
        """A reconcile of that object met an error that nobody foresaw."""
        place = (kind, namespace, name)
        if place not in self._fault_places and len(self._fault_places) >= MAX_FAULT_PLACES:
            # Whoever makes objects of ever new names must not fill the memory of who scrapes.
            place = (kind, "", "")
        self._fault_places.add(place)
        self._faults.labels(*place).inc()

    def reconcile_ended(self, kind: str, result: str, seconds: float) -> None:
        self._running.labels(kind).dec()
        self._reconciles.labels(kind, result).inc()
        self._reconcile_seconds.labels(kind).observe(seconds)

    def api_request(self, verb: str, resource: str, code: str, seconds: float | None) -> None:
        """One request; `code` is the status or a word like `timeout`, `seconds` is None for watches."""
        self._api_requests.labels(verb, resource, code).inc()
        if seconds is not None:
            self._api_seconds.labels(verb, resource).observe(seconds)

    def sources(self) -> Sources:
        """The metrics of the loop, for a collector that exports them under other names."""
        scraped = self._scraped
        return Sources(
            reconciles=self._reconciles,
            reconcile_seconds=self._reconcile_seconds,
            running=self._running,
            waits=self._queue_wait,
            api_requests=self._api_requests,
            queues=scraped.queues,
            # `leading` is set later.
            leading=lambda: scraped.leading(),  # noqa: PLW0108
        )

    def loop_stalled(self) -> None:
        self._stalls.inc()

    def text(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        return generate_latest(self.registry)

    def counter(self, entry: MetricEntry) -> Counter:
        """A counter of the program's own."""
        return Counter(self._prefix + entry.name, entry.help, entry.labels, registry=self.registry)

    def histogram(self, entry: MetricEntry) -> Histogram:
        """A histogram of the program's own."""
        name = self._prefix + entry.name
        return Histogram(name, entry.help, entry.labels, buckets=entry.buckets, registry=self.registry)
