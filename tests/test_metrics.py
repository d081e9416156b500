"""Every metric is in the catalogue, under its prefix, and says what happened."""

from __future__ import annotations

from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from kube_runtime.clock import VirtualClock
from kube_runtime.loop.queue import Queue
from slurm_operator import __version__
from slurm_operator.metrics import CERTIFICATE_EXPIRY, CONDITION, CONDITION_CHANGED, WORKERS, OperatorMetrics, catalogue


def samples(metrics: OperatorMetrics) -> dict[tuple[str, frozenset[str]], float]:
    """Every sample by name and label values."""
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def at(name: str, *labels: str) -> tuple[str, frozenset[str]]:
    return name, frozenset(labels)


def used() -> OperatorMetrics:
    """OperatorMetrics into which everything has been reported once."""
    metrics = OperatorMetrics()
    queue: Queue[str] = Queue(VirtualClock())
    queue.add("a")
    queue.retry("b")
    metrics.watch_queue("NodeSet", queue)
    metrics.watch_cache("pods", lambda: 2.5)
    metrics.watch_leadership(lambda: True)
    metrics.reconcile_started("NodeSet")
    metrics.reconcile_ended("NodeSet", "ok", 0.2)
    metrics.reconcile_started("NodeSet")
    metrics.api_request("get", "pods", "200", 0.01)
    metrics.api_request("watch", "pods", "200", None)
    metrics.slurm_request("GET", "/nodes", "timeout", 10.0)
    metrics.config_applied("live", 0.3)
    metrics.watch(CONDITION, lambda: [(("Token", "a", "ci", "Ready", "False", "KeyChanged"), 1.0)])
    metrics.watch(CONDITION_CHANGED, lambda: [(("Token", "a", "ci", "Ready"), 12.0)])
    metrics.watch(WORKERS, lambda: [(("a", "compute", "idle"), 3.0)])
    metrics.watch(CERTIFICATE_EXPIRY, lambda: [((), 99.0)])
    metrics.reviewed("Partition", "refused", 0.002)
    metrics.loop_stalled()
    return metrics


def test_what_is_reported_is_what_is_scraped() -> None:
    found = samples(used())
    expected = {
        at("slurm_operator_queue_depth", "NodeSet"): 1,
        at("slurm_operator_queue_adds_total", "NodeSet"): 1,
        at("slurm_operator_queue_retries_total", "NodeSet"): 1,
        at("slurm_operator_reconcile_total", "NodeSet", "ok"): 1,
        at("slurm_operator_reconcile_running", "NodeSet"): 1,
        at("slurm_operator_reconcile_seconds_sum", "NodeSet"): 0.2,
        at("slurm_operator_cache_age_seconds", "pods"): 2.5,
        at("slurm_operator_api_requests_total", "watch", "pods", "200"): 1,
        at("slurm_operator_api_request_seconds_count", "get", "pods"): 1,
        at("slurm_operator_slurm_requests_total", "GET", "/nodes", "timeout"): 1,
        at("slurm_operator_slurm_request_seconds_bucket", "GET", "/nodes", "10.0"): 1,
        at("slurm_operator_config_apply_seconds_sum", "live"): 0.3,
        at("slurm_operator_condition", "Token", "a", "ci", "Ready", "False", "KeyChanged"): 1,
        at("slurm_operator_condition_changed_timestamp_seconds", "Token", "a", "ci", "Ready"): 12,
        at("slurm_operator_workers", "a", "compute", "idle"): 3,
        at("slurm_operator_certificate_expiry_timestamp_seconds"): 99,
        at("slurm_operator_admission_reviews_total", "Partition", "refused"): 1,
        at("slurm_operator_admission_review_seconds_count", "Partition"): 1,
        at("slurm_operator_build_info", __version__): 1,
        at("slurm_operator_leader"): 1,
        at("slurm_operator_loop_stalls_total"): 1,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert at("slurm_operator_api_request_seconds_count", "watch", "pods") not in found


def test_the_catalogue_is_exactly_what_is_served() -> None:
    served = {
        (family.name + ("_total" if family.type == "counter" else ""), family.type, family.documentation)
        for family in text_string_to_metric_families(used().text().decode())
        if not family.name.endswith("_created")
    }
    assert served == {(entry.name, entry.type, entry.help) for entry in catalogue()}


def test_the_labels_of_the_catalogue_are_those_served() -> None:
    labels = {entry.name.removesuffix("_total"): set(entry.labels) for entry in catalogue()}
    for family in text_string_to_metric_families(used().text().decode()):
        if family.name in labels:
            for sample in family.samples:
                assert set(sample.labels) - {"le"} == labels[family.name]


def test_two_programs_in_one_process_do_not_share_metrics() -> None:
    first, second = used(), OperatorMetrics()
    assert at("slurm_operator_loop_stalls_total") in samples(first)
    assert samples(second)[at("slurm_operator_loop_stalls_total")] == 0
    assert not any(family.name.startswith("slurm_operator") for family in REGISTRY.collect())


def test_a_process_that_takes_no_part_in_an_election_is_shown_as_not_leading() -> None:
    assert samples(OperatorMetrics())[at("slurm_operator_leader")] == 0
