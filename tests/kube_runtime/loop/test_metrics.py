"""The loop's metrics carry the prefix of the program that they are in, and no name of ours."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from kube_runtime.loop.metrics import LOOP_METRICS, Metrics, entry

JOBS = entry("jobs_total", "counter", ("kind",), "Jobs.")
ROOM = entry("room", "gauge", (), "Room.")


def names(metrics: Metrics) -> set[str]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {each.name + "_total" * (each.type == "counter") for each in families if not each.name.endswith("_created")}


def test_every_metric_has_the_prefix_of_its_program() -> None:
    assert names(Metrics("mine_", "1")) == {f"mine_{each.name}" for each in LOOP_METRICS}


def test_a_program_adds_its_own() -> None:
    metrics = Metrics("mine_", "1", (ROOM,))
    metrics.counter(JOBS).labels("a").inc()
    metrics.watch(ROOM, lambda: [((), 7.0)])
    assert names(metrics) >= {"mine_jobs_total", "mine_room"}
    assert "mine_room 7.0" in metrics.text().decode()
