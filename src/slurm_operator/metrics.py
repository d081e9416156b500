"""What the operator counts and times beside its loop, under the names `slurm_operator_*`.

The metrics of the loop are also served under the names of controller-runtime and client-go, for existing alerts.

In: what happened. Out: text for Prometheus, and the catalogue that the reference page and the dashboards are held to.
Made by `cli/run.py` and `cli/webhook.py`; fed by `reconcile/measured.py` and the admission server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kube_runtime.loop.controller_runtime_metrics import CONTROLLER_RUNTIME_METRICS, ControllerRuntimeMetrics
from kube_runtime.loop.metrics import LOOP_METRICS, REQUEST_BUCKETS, MetricEntry, Metrics, entry
from slurm_operator import __version__
from slurm_operator.program import METRIC_PREFIX, NAME

_CONFIG_BUCKETS: Final = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 120)

_SLURM_REQUESTS = entry("slurm_requests_total", "counter", ("method", "endpoint", "code"), "Requests to slurmrestd.")
_SLURM_SECONDS = entry(
    "slurm_request_seconds",
    "histogram",
    ("method", "endpoint"),
    "How long requests to slurmrestd took.",
    REQUEST_BUCKETS,
)
_CONFIG_SECONDS = entry(
    "config_apply_seconds",
    "histogram",
    ("method",),
    "How long a change took to take effect: live, from seeing it to Slurm's response; reconfigure, the sidecar's part.",
    _CONFIG_BUCKETS,
)
CONDITION = entry(
    "condition",
    "gauge",
    ("kind", "namespace", "name", "type", "status", "reason"),
    "1 for each condition of each resource, as its status says now.",
)
CONDITION_CHANGED = entry(
    "condition_changed_timestamp_seconds",
    "gauge",
    ("kind", "namespace", "name", "type"),
    "When a condition last changed its status, in seconds since 1970.",
)
WORKERS = entry(
    "workers",
    "gauge",
    ("namespace", "nodeset", "state"),
    "Workers of a NodeSet: desired, present, ready, available, updated; in Slurm idle, allocated, down, drain.",
)
_REVIEWS = entry(
    "admission_reviews_total",
    "counter",
    ("kind", "result"),
    "Answers of the admission server by result: allowed, refused, malformed, failed, overloaded, timeout.",
)
_REVIEW_SECONDS = entry(
    "admission_review_seconds",
    "histogram",
    ("kind",),
    "How long the admission server took to answer.",
    REQUEST_BUCKETS,
)
CERTIFICATE_EXPIRY = entry(
    "certificate_expiry_timestamp_seconds",
    "gauge",
    (),
    "When the certificate that the admission server serves ends, in seconds since 1970.",
)

_ASKED: Final = (CONDITION, CONDITION_CHANGED, WORKERS, CERTIFICATE_EXPIRY)
_OWN: Final = (_SLURM_REQUESTS, _SLURM_SECONDS, _CONFIG_SECONDS, _REVIEWS, _REVIEW_SECONDS, *_ASKED)


def catalogue() -> tuple[MetricEntry, ...]:
    """Every metric that this program has, as scraped, in the order of the reference page."""
    own = (replace(each, name=METRIC_PREFIX + each.name) for each in (*LOOP_METRICS, *_OWN))
    return (*own, *CONTROLLER_RUNTIME_METRICS)


def controller_of(kind: str) -> str:
    """The name of a kind's controller in the Go operator."""
    return "token" if kind == "Token" else f"{kind.lower()}-controller"


class OperatorMetrics(Metrics):
    """The loop's metrics and the operator's own."""

    def __init__(self) -> None:
        super().__init__(METRIC_PREFIX, __version__, _ASKED)
        self.registry.register(ControllerRuntimeMetrics(self.sources(), NAME, controller_of))
        self._slurm_requests = self.counter(_SLURM_REQUESTS)
        self._slurm_seconds = self.histogram(_SLURM_SECONDS)
        self._config_seconds = self.histogram(_CONFIG_SECONDS)
        self._reviews = self.counter(_REVIEWS)
        self._review_seconds = self.histogram(_REVIEW_SECONDS)

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
