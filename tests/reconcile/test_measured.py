"""What a scrape tells of resources and calls is what their statuses and answers say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.campaigns.rig import World
from tests.campaigns.scenarios import small
from tests.campaigns.sidecar import REFUSED

from kube_runtime.client.client import Call
from kube_runtime.client.objects import PODS, ObjectMeta, RawObject
from kube_runtime.client.requests import discovery, get, list_page
from slurm_operator.metrics import OperatorMetrics
from slurm_operator.reconcile.measured import (
    came_into_force,
    condition_times,
    conditions,
    kube_calls,
    measure,
    slurm_calls,
    workers,
)
from slurm_operator.slurm.client import Observation

Sample = tuple[str, dict[str, str], float]


def raw(status: Any, name: str = "slurm") -> RawObject:
    return RawObject(ObjectMeta(name=name, namespace="a"), json.dumps({"status": status}).encode())


def condition(type_: str, status: str, reason: str) -> dict[str, str]:
    time = "2026-05-01T00:00:10Z"
    return {"type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": time}


def scraped(metrics: OperatorMetrics, name: str) -> list[Sample]:
    families = text_string_to_metric_families(metrics.text().decode())
    return [(each.name, each.labels, each.value) for family in families for each in family.samples if each.name == name]


def test_every_condition_of_every_resource_is_a_sample() -> None:
    items = [
        ("Controller", raw({"conditions": [condition("Ready", "True", "AllReady")]})),
        ("Token", raw({"conditions": [condition("Ready", "Unknown", "Retrying")]}, "ci")),
    ]
    assert list(conditions(items)) == [
        (("Controller", "a", "slurm", "Ready", "True", "AllReady"), 1.0),
        (("Token", "a", "ci", "Ready", "Unknown", "Retrying"), 1.0),
    ]
    assert next(iter(condition_times(items))) == (("Controller", "a", "slurm", "Ready"), 1777593610.0)


@pytest.mark.parametrize(
    "status",
    [{}, {"conditions": None}, {"conditions": [{"type": "Ready"}]}, "ready", None],
    ids=["not visited yet", "null", "without a status", "a text", "no status at all"],
)
def test_a_status_in_another_form_spoils_no_scrape(status: Any) -> None:
    assert list(conditions([("NodeSet", raw(status))])) == []


def test_workers_are_counted_by_state() -> None:
    status = {"desired": 4, "replicas": 3, "readyReplicas": 2, "slurmDown": 1, "conditions": []}
    found = {labels[2]: value for labels, value in workers([raw(status, "compute")])}
    assert found == {
        "desired": 4,
        "present": 3,
        "ready": 2,
        "available": 0,
        "updated": 0,
        "idle": 0,
        "allocated": 0,
        "down": 1,
        "drain": 0,
    }
    assert list(workers([raw(None)])) == []


CONFIG = {"hash": "b", "milliseconds": 340}
LIVE = {"way": "Live", "milliseconds": 12, "time": "2026-05-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ({"config": {"hash": "a"}}, {"config": CONFIG}, [("reconfigure", 340)]),
        ({"config": CONFIG}, {"config": CONFIG}, []),
        ({"config": CONFIG}, {"config": {**CONFIG, "hash": "c", "milliseconds": None}}, []),
        ({}, {"lastApply": LIVE}, [("live", 12)]),
        ({"lastApply": LIVE}, {"lastApply": {**LIVE, "milliseconds": 9}}, [("live", 9)]),
        ({"lastApply": LIVE}, {"lastApply": LIVE}, []),
        ({}, {"lastApply": {**LIVE, "way": "Reconfigure"}}, []),
    ],
    ids=[
        "a new configuration",
        "the same one",
        "one that came with a restart",
        "a first live change",
        "two within a second",
        "no change",
        "one that came with the configuration",
    ],
)
def test_what_came_into_force_is_told_once(before: Any, now: Any, told: list[tuple[str, int]]) -> None:
    assert list(came_into_force(raw(before), raw(now))) == told


def test_calls_are_counted_without_names_of_objects() -> None:
    metrics = OperatorMetrics()
    report, observe = kube_calls(metrics), slurm_calls(metrics)
    report(Call(get(PODS, "slurm", "compute-0"), 200, 0.1))
    report(Call(list_page(PODS), 403, 0.1))
    report(Call(discovery(PODS), 0, 0.1))
    observe(Observation("GET slurmdb jobs", "SlurmTimeout", 12.0))
    assert scraped(metrics, "slurm_operator_api_requests_total") == [
        ("slurm_operator_api_requests_total", {"verb": "get", "resource": "pods", "code": "200"}, 1.0),
        ("slurm_operator_api_requests_total", {"verb": "list", "resource": "pods", "code": "403"}, 1.0),
        ("slurm_operator_api_requests_total", {"verb": "discovery", "resource": "pods", "code": "none"}, 1.0),
    ]
    ((_, labels, value),) = scraped(metrics, "slurm_operator_slurm_requests_total")
    assert (labels, value) == ({"method": "GET", "endpoint": "slurmdb jobs", "code": "SlurmTimeout"}, 1.0)


async def test_a_scrape_tells_how_a_cluster_is_and_how_long_its_configuration_took(world: World) -> None:
    await small(world, 2)
    metrics = OperatorMetrics()
    assert world.operator is not None
    measure(metrics, world.operator.observer, lambda: True)
    await world.patch("Controller", "slurm", {"spec": {"extraConf": "MinJobAge=301\n"}})
    await world.run()
    await world.patch("Controller", "slurm", {"spec": {"extraConf": REFUSED}})
    await world.run()
    told = {
        (labels["kind"], labels["type"]): (labels["status"], labels["reason"])
        for _, labels, _ in scraped(metrics, "slurm_operator_condition")
    }
    assert told["Controller", "ConfigValid"] == ("False", "SlurmRefused")
    assert told["NodeSet", "SlurmReachable"] == ("True", "Answering")
    states = {labels["state"]: value for _, labels, value in scraped(metrics, "slurm_operator_workers")}
    assert (states["desired"], states["ready"], states["idle"]) == (2, 2, 2)
    ((_, labels, value),) = scraped(metrics, "slurm_operator_config_apply_seconds_count")
    assert (labels, value) == ({"method": "reconfigure"}, 1.0)


async def test_a_standby_times_nothing(world: World) -> None:
    await small(world, 1)
    metrics = OperatorMetrics()
    assert world.operator is not None
    measure(metrics, world.operator.observer, lambda: False)
    await world.patch("Controller", "slurm", {"spec": {"extraConf": "MinJobAge=301\n"}})
    await world.run()
    assert scraped(metrics, "slurm_operator_config_apply_seconds_count") == []
    assert scraped(metrics, "slurm_operator_leader") == [("slurm_operator_leader", {}, 0.0)]
