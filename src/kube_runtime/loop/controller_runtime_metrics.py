"""The metrics of the loop under the names that controller-runtime and client-go have for them.

In: the metrics that the loop keeps, read at each scrape, and the name of each kind's controller. Out: metric families
that existing alerts and dashboards know. Registered by a program beside its `Metrics`; nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from kube_runtime.loop.metrics import MetricEntry, Sources, entry

# By the loop's name for the result of a reconcile: controller-runtime's.
RESULTS: Final[Mapping[str, str]] = {"ok": "success", "requeue": "requeue_after"}
FAILED_RESULTS: Final = ("retry", "terminal", "timeout", "error")
METHODS: Final[Mapping[str, str]] = {
    "create": "POST",
    "delete": "DELETE",
    "apply": "PATCH",
    "patch": "PATCH",
    "post": "POST",
    "put": "PUT",
    "replace": "PUT",
    "update": "PUT",
}

_QUEUE = ("name", "controller")
RECONCILES = entry(
    "controller_runtime_reconcile_total",
    "counter",
    ("controller", "result"),
    "Reconciles by result: success, requeue_after, error.",
)
ERRORS = entry(
    "controller_runtime_reconcile_errors_total", "counter", ("controller",), "Reconciles that ended in an error."
)
TERMINAL = entry(
    "controller_runtime_terminal_reconcile_errors_total",
    "counter",
    ("controller",),
    "Reconciles that ended in an error that is not retried.",
)
SECONDS = entry(
    "controller_runtime_reconcile_time_seconds", "histogram", ("controller",), "How long each reconcile took."
)
ACTIVE = entry(
    "controller_runtime_active_workers", "gauge", ("controller",), "Reconciles of a controller that are running."
)
DEPTH = entry("workqueue_depth", "gauge", _QUEUE, "Objects in a controller's queue.")
ADDS = entry("workqueue_adds_total", "counter", _QUEUE, "Objects put into a controller's queue.")
RETRIES = entry("workqueue_retries_total", "counter", _QUEUE, "Objects put back into a controller's queue.")
WAITED = entry("workqueue_queue_duration_seconds", "histogram", _QUEUE, "How long objects waited in a queue.")
WORKED = entry(
    "workqueue_work_duration_seconds", "histogram", _QUEUE, "How long the work on an object of a queue took."
)
REQUESTS = entry(
    "rest_client_requests_total", "counter", ("code", "method"), "Requests to the API server by code and HTTP method."
)
LEADER = entry("leader_election_master_status", "gauge", ("name",), "1 while this process leads, otherwise 0.")
CONTROLLER_RUNTIME_METRICS: Final = (
    RECONCILES, ERRORS, TERMINAL, SECONDS, ACTIVE, DEPTH, ADDS, RETRIES, WAITED, WORKED, REQUESTS, LEADER,
)  # fmt: skip


class ControllerRuntimeMetrics(Collector):
    """Exports the loop's metrics under the names of controller-runtime."""

    def __init__(self, sources: Sources, program: str, controller_of: Callable[[str], str]) -> None:
        self._sources, self._program, self._controller_of = sources, program, controller_of

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        yield from self._reconciles()
        yield self._histogram(SECONDS, self._sources.reconcile_seconds)
        active = _gauge(ACTIVE)
        for kind, value in _by_kind(self._sources.running):
            active.add_metric([self._controller_of(kind)], value)
        yield active
        yield from self._queues()
        yield self._histogram(WAITED, self._sources.waits)
        yield self._histogram(WORKED, self._sources.reconcile_seconds)
        yield self._requests()
        leader = _gauge(LEADER)
        leader.add_metric([self._program], float(self._sources.leading()))
        yield leader

    def _reconciles(self) -> Iterator[Metric]:
        total, errors, terminal = _counter(RECONCILES), _counter(ERRORS), _counter(TERMINAL)
        by_result: dict[tuple[str, str], float] = {}
        bad: dict[str, float] = {}
        for sample in _samples(self._sources.reconciles, "_total"):
            name, result = self._controller_of(sample.labels["kind"]), sample.labels["result"]
            key = (name, RESULTS.get(result, "error"))
            by_result[key] = by_result.get(key, 0) + sample.value
            bad[name] = bad.get(name, 0) + (sample.value if result in FAILED_RESULTS else 0)
            if result == "terminal":
                terminal.add_metric([name], sample.value)
        for key, value in by_result.items():
            total.add_metric(key, value)
        for name, value in bad.items():
            errors.add_metric([name], value)
        yield from (total, errors, terminal)

    def _queues(self) -> Iterator[Metric]:
        depth, adds, retries = _gauge(DEPTH), _counter(ADDS), _counter(RETRIES)
        for kind, queue in self._sources.queues.items():
            name = self._controller_of(kind)
            depth.add_metric([name, name], len(queue))
            adds.add_metric([name, name], queue.adds)
            retries.add_metric([name, name], queue.retries)
        yield from (depth, adds, retries)

    def _histogram(self, shown: MetricEntry, source: MetricWrapperBase) -> Metric:
        family = Metric(shown.name, shown.help, "histogram")
        for sample in _samples(source):
            suffix = sample.name[sample.name.rindex("_") :]
            if suffix != "_created":
                name = self._controller_of(sample.labels["kind"])
                labels = {**dict.fromkeys(shown.labels, name), **{k: v for k, v in sample.labels.items() if k == "le"}}
                family.add_sample(shown.name + suffix, labels, sample.value)
        return family

    def _requests(self) -> Metric:
        counts: dict[tuple[str, str], float] = {}
        for sample in _samples(self._sources.api_requests, "_total"):
            key = (sample.labels["code"], METHODS.get(sample.labels["verb"], "GET"))
            counts[key] = counts.get(key, 0) + sample.value
        family = _counter(REQUESTS)
        for key, value in counts.items():
            family.add_metric(key, value)
        return family


def _samples(source: MetricWrapperBase, suffix: str = "") -> Iterator[Sample]:
    for family in source.collect():
        yield from (sample for sample in family.samples if sample.name.endswith(suffix))


def _by_kind(source: MetricWrapperBase) -> Iterator[tuple[str, float]]:
    return ((sample.labels["kind"], sample.value) for sample in _samples(source))


def _gauge(shown: MetricEntry) -> GaugeMetricFamily:
    return GaugeMetricFamily(shown.name, shown.help, labels=shown.labels)


def _counter(shown: MetricEntry) -> CounterMetricFamily:
    return CounterMetricFamily(shown.name.removesuffix("_total"), shown.help, labels=shown.labels)
