"""What the operator counts and times, under the names `slurm_operator_*`.

One `Metrics` per program, with a registry of its own. Controllers and caches report into it, and so do both doors, the
statuses of resources (`reconcile/measured.py`) and the admission server; `health.metrics_app` serves it; `catalogue`
feeds the reference page, and the tests of the shipped alerts and dashboards.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from slurm_operator import __version__

_RECONCILE_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_REQUEST_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_CONFIG_BUCKETS: Final = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 120)

log = logging.getLogger(__name__)

_PREFIX: Final = "slurm_operator_"


@dataclass(frozen=True, slots=True)
class MetricEntry:
    """One metric as scraped: what a dashboard has to know about it."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


def _entry(
    name: str,
    type_: Literal["counter", "gauge", "histogram"],
    labels: tuple[str, ...],
    help_: str,
    buckets: tuple[float, ...] = (),
) -> MetricEntry:
    return MetricEntry(_PREFIX + name, type_, labels, help_, buckets)


_QUEUE_DEPTH = _entry("queue_depth", "gauge", ("kind",), "Objects that wait for a worker.")
_QUEUE_ADDS = _entry("queue_adds_total", "counter", ("kind",), "Requests to look at an object, before they are merged.")
_QUEUE_RETRIES = _entry("queue_retries_total", "counter", ("kind",), "Objects put back with backoff after a failure.")
_RECONCILES = _entry(
    "reconcile_total",
    "counter",
    ("kind", "result"),
    "Reconciles by result: ok, requeue, retry, terminal, timeout, error, cancelled.",
)
_RECONCILE_SECONDS = _entry(
    "reconcile_seconds", "histogram", ("kind",), "How long reconciles took.", _RECONCILE_BUCKETS
)
_FAULTS = _entry(
    "reconcile_faults_total",
    "counter",
    ("kind", "namespace", "name"),
    "Reconciles of an object that ended in an unexpected error or were cut off; the log has its traceback.",
)
_RUNNING = _entry("reconcile_running", "gauge", ("kind",), "Reconciles that run now.")
_CACHE_AGE = _entry(
    "cache_age_seconds",
    "gauge",
    ("kind",),
    "Time since the cache last heard from the API server; +Inf before that.",
)
_API_REQUESTS = _entry(
    "api_requests_total", "counter", ("verb", "resource", "code"), "Requests to the Kubernetes API server."
)
_API_SECONDS = _entry(
    "api_request_seconds",
    "histogram",
    ("verb", "resource"),
    "How long requests to the Kubernetes API server took; watches are not counted.",
    _REQUEST_BUCKETS,
)
_SLURM_REQUESTS = _entry("slurm_requests_total", "counter", ("method", "endpoint", "code"), "Requests to slurmrestd.")
_SLURM_SECONDS = _entry(
    "slurm_request_seconds",
    "histogram",
    ("method", "endpoint"),
    "How long requests to slurmrestd took.",
    _REQUEST_BUCKETS,
)
_CONFIG_SECONDS = _entry(
    "config_apply_seconds",
    "histogram",
    ("method",),
    "How long it took into force: live, from the change seen to Slurm's answer; reconfigure, the sidecar's share.",
    _CONFIG_BUCKETS,
)
CONDITION = _entry(
    "condition",
    "gauge",
    ("kind", "namespace", "name", "type", "status", "reason"),
    "1 for each condition of each resource, as its status says now.",
)
CONDITION_CHANGED = _entry(
    "condition_changed_timestamp_seconds",
    "gauge",
    ("kind", "namespace", "name", "type"),
    "When a condition last changed its status, in seconds since 1970.",
)
WORKERS = _entry(
    "workers",
    "gauge",
    ("namespace", "nodeset", "state"),
    "Workers of a NodeSet: desired, present, ready, available, updated; in Slurm idle, allocated, down, drain.",
)
_REVIEWS = _entry(
    "admission_reviews_total",
    "counter",
    ("kind", "result"),
    "Answers of the admission server by result: allowed, refused, malformed, failed, overloaded, timeout.",
)
_REVIEW_SECONDS = _entry(
    "admission_review_seconds",
    "histogram",
    ("kind",),
    "How long the admission server took to answer.",
    _REQUEST_BUCKETS,
)
CERTIFICATE_EXPIRY = _entry(
    "certificate_expiry_timestamp_seconds",
    "gauge",
    (),
    "When the certificate that the admission server serves ends, in seconds since 1970.",
)
MISSING_RIGHT = _entry(
    "missing_right",
    "gauge",
    ("verb", "resource", "namespace"),
    "1 for each right that this program needs and does not have, in the words of kubectl auth can-i.",
)
_LEADER = _entry("leader", "gauge", (), "1 while this process may write, otherwise 0.")
_STALLS = _entry("loop_stalls_total", "counter", (), "Times that the event loop stood still for too long.")
_BUILD = _entry("build_info", "gauge", ("version",), "Always 1; the label says which release runs.")

_CATALOGUE: Final = (
    _QUEUE_DEPTH,
    _QUEUE_ADDS,
    _QUEUE_RETRIES,
    _RECONCILES,
    _RECONCILE_SECONDS,
    _FAULTS,
    _RUNNING,
    _CACHE_AGE,
    _API_REQUESTS,
    _API_SECONDS,
    _SLURM_REQUESTS,
    _SLURM_SECONDS,
    _CONFIG_SECONDS,
    CONDITION,
    CONDITION_CHANGED,
    WORKERS,
    _REVIEWS,
    _REVIEW_SECONDS,
    CERTIFICATE_EXPIRY,
    MISSING_RIGHT,
    _LEADER,
    _STALLS,
    _BUILD,
)
# Those that are asked for as a whole when somebody scrapes.
_ASKED: Final = (CONDITION, CONDITION_CHANGED, WORKERS, CERTIFICATE_EXPIRY, MISSING_RIGHT)

# Label values in the order of the entry's labels, and the value.
Sample = tuple[tuple[str, ...], float]
Samples = Callable[[], Iterable[Sample]]


def catalogue() -> tuple[MetricEntry, ...]:
    """Every metric that this program has, in the order of the reference page."""
    return _CATALOGUE


class CountedQueue(Sized, Protocol):
    """What is read from a queue when somebody scrapes."""

    adds: int
    retries: int


class _ScrapedState(Collector):
    """Queues, caches and statuses are asked at scrape time, so that their hot paths count nothing twice."""

    def __init__(self) -> None:
        self.queues: dict[str, CountedQueue] = {}
        self.ages: dict[str, Callable[[], float | None]] = {}
        self.leading: Callable[[], bool] = lambda: False
        self.asked: dict[str, Samples] = {}

    def collect(self) -> Iterator[Metric]:
        yield from self._loop()
        for entry in _ASKED:
            family = GaugeMetricFamily(entry.name, entry.help, labels=entry.labels)
            try:
                for labels, value in self.asked.get(entry.name, tuple)():
                    family.add_metric(labels, value)
            except Exception:
                # One odd object must not take every other metric with it.
                log.exception("metric %s could not be read to its end", entry.name)
            yield family

    def _loop(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily(_QUEUE_DEPTH.name, _QUEUE_DEPTH.help, labels=_QUEUE_DEPTH.labels)
        adds = CounterMetricFamily(_QUEUE_ADDS.name, _QUEUE_ADDS.help, labels=_QUEUE_ADDS.labels)
        retries = CounterMetricFamily(_QUEUE_RETRIES.name, _QUEUE_RETRIES.help, labels=_QUEUE_RETRIES.labels)
        for kind, queue in self.queues.items():
            depth.add_metric([kind], len(queue))
            adds.add_metric([kind], queue.adds)
            retries.add_metric([kind], queue.retries)
        age = GaugeMetricFamily(_CACHE_AGE.name, _CACHE_AGE.help, labels=_CACHE_AGE.labels)
        for kind, ask in self.ages.items():
            seconds = ask()
            age.add_metric([kind], math.inf if seconds is None else seconds)
        leader = GaugeMetricFamily(_LEADER.name, _LEADER.help, value=float(self.leading()))
        yield from (depth, adds, retries, age, leader)


MOST_FAULT_PLACES = 1000
"""So many objects are named in the counter of faults; those beyond count for their kind."""


class Metrics:
    """The program's counters and histograms, and the registry that holds them."""

    def __init__(self, version: str = __version__) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._scraped = _ScrapedState()
        self.registry.register(self._scraped)
        self._reconciles = self._counter(_RECONCILES)
        self._reconcile_seconds = self._histogram(_RECONCILE_SECONDS)
        self._faults = self._counter(_FAULTS)
        self._fault_places: set[tuple[str, str, str]] = set()
        self._running = Gauge(_RUNNING.name, _RUNNING.help, _RUNNING.labels, registry=self.registry)
        self._api_requests = self._counter(_API_REQUESTS)
        self._api_seconds = self._histogram(_API_SECONDS)
        self._slurm_requests = self._counter(_SLURM_REQUESTS)
        self._slurm_seconds = self._histogram(_SLURM_SECONDS)
        self._config_seconds = self._histogram(_CONFIG_SECONDS)
        self._reviews = self._counter(_REVIEWS)
        self._review_seconds = self._histogram(_REVIEW_SECONDS)
        self._stalls = self._counter(_STALLS)
        Gauge(_BUILD.name, _BUILD.help, _BUILD.labels, registry=self.registry).labels(version).set(1)

    def watch_queue(self, kind: str, queue: CountedQueue) -> None:
        """Show this queue under `kind`."""
        self._scraped.queues[kind] = queue

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
        """Where to ask for CONDITION, CONDITION_CHANGED, WORKERS or CERTIFICATE_EXPIRY."""
        self._scraped.asked[entry.name] = samples

    def reconcile_started(self, kind: str) -> None:
        self._running.labels(kind).inc()

    def reconcile_fault(self, kind: str, namespace: str, name: str) -> None:
        """A reconcile of that object met an error that nobody foresaw."""
        place = (kind, namespace, name)
        if place not in self._fault_places and len(self._fault_places) >= MOST_FAULT_PLACES:
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

    def slurm_request(self, method: str, endpoint: str, code: str, seconds: float) -> None:
        """One request to slurmrestd; `endpoint` is the path without names, so that labels stay few."""
        self._slurm_requests.labels(method, endpoint, code).inc()
        self._slurm_seconds.labels(method, endpoint).observe(seconds)

    def config_applied(self, method: str, seconds: float) -> None:
        """A configuration took effect, by `method` (live, reconfigure)."""
        self._config_seconds.labels(method).observe(seconds)

    def reviewed(self, kind: str, result: str, seconds: float) -> None:
        """The admission server gave an answer."""
        self._reviews.labels(kind, result).inc()
        self._review_seconds.labels(kind).observe(seconds)

    def loop_stalled(self) -> None:
        self._stalls.inc()

    def text(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        return generate_latest(self.registry)

    def _counter(self, entry: MetricEntry) -> Counter:
        return Counter(entry.name, entry.help, entry.labels, registry=self.registry)

    def _histogram(self, entry: MetricEntry) -> Histogram:
        return Histogram(entry.name, entry.help, entry.labels, buckets=entry.buckets, registry=self.registry)
