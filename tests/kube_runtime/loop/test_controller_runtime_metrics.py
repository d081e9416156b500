"""Alerts that exist for controller-runtime find their names, labels and words here."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from kube_runtime.clock import VirtualClock
from kube_runtime.loop.controller_runtime_metrics import CONTROLLER_RUNTIME_METRICS, ControllerRuntimeMetrics
from kube_runtime.loop.metrics import Metrics
from kube_runtime.loop.queue import Queue

NODESETS = {"controller": "nodeset-controller"}
QUEUE = {"name": "nodeset-controller", **NODESETS}


def scraped() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    metrics, clock = Metrics("mine_"), VirtualClock()
    metrics.registry.register(
        ControllerRuntimeMetrics(metrics.sources(), "mine", lambda kind: f"{kind.lower()}-controller")
    )
    queue: Queue[str] = Queue(clock)
    metrics.watch_queue("NodeSet", queue)
    metrics.watch_leadership(lambda: True)
    queue.add("a")
    assert queue.take() == "a"
    queue.add("b")
    queue.retry("c")
    for result in ("ok", "requeue", "retry", "terminal", "error"):
        metrics.reconcile_started("NodeSet")
        metrics.reconcile_ended("NodeSet", result, 0.5)
    metrics.reconcile_started("NodeSet")
    metrics.api_request("list", "pods", "200", 0.1)
    metrics.api_request("watch", "pods", "200", None)
    metrics.api_request("apply", "pods", "500", 0.1)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def test_what_the_loop_did_is_told_in_the_familiar_words() -> None:
    found = scraped()
    for result, count in {"success": 1, "requeue_after": 1, "error": 3}.items():
        assert found["controller_runtime_reconcile_total", frozenset({**NODESETS, "result": result}.items())] == count
    for name, labels, value in (
        ("controller_runtime_reconcile_errors_total", NODESETS, 3),
        ("controller_runtime_terminal_reconcile_errors_total", NODESETS, 1),
        ("controller_runtime_reconcile_time_seconds_count", NODESETS, 5),
        ("controller_runtime_reconcile_time_seconds_sum", NODESETS, 2.5),
        ("controller_runtime_reconcile_time_seconds_bucket", {**NODESETS, "le": "+Inf"}, 5),
        ("controller_runtime_active_workers", NODESETS, 1),
        ("workqueue_depth", QUEUE, 1),
        ("workqueue_adds_total", QUEUE, 2),
        ("workqueue_retries_total", QUEUE, 1),
        ("workqueue_queue_duration_seconds_count", QUEUE, 1),
        ("workqueue_work_duration_seconds_count", QUEUE, 5),
        ("rest_client_requests_total", {"code": "200", "method": "GET"}, 2),
        ("rest_client_requests_total", {"code": "500", "method": "PATCH"}, 1),
        ("leader_election_master_status", {"name": "mine"}, 1),
    ):
        assert found[name, frozenset(labels.items())] == value, name


def test_every_familiar_metric_is_shown() -> None:
    names = {name.removesuffix("_count") for name, _ in scraped()}
    assert {each.name for each in CONTROLLER_RUNTIME_METRICS} <= names


async def test_a_queue_tells_how_long_a_key_waited() -> None:
    clock, waited = VirtualClock(), list[float]()
    queue: Queue[str] = Queue(clock)
    queue.on_wait = waited.append
    queue.add("a")
    clock.advance(3)
    assert queue.take() == "a"
    assert waited == [3]
