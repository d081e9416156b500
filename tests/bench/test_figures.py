"""Figures are taken from the audit log and the stand-in, and held against the bars of their size."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench.scaling import report
from bench.scaling.audit import AuditLog, AuditTail, most_within
from bench.scaling.figures import (
    Bar,
    bars,
    figures,
    floor_seconds,
    latency_ratio,
    lost_moments,
    many_bars,
    missed,
    of_rounds,
    percentile,
)
from bench.scaling.floors import Floor
from bench.scaling.steps import OURS, Step, difference

BEGIN = 1_000_000.0


def entry(
    seconds: float, verb: str, resource: str, agent: str, code: int = 200, namespace: str = OURS
) -> dict[str, Any]:
    """A line of the audit log."""
    at = datetime.fromtimestamp(BEGIN + seconds, UTC).isoformat().replace("+00:00", "Z")
    name, _, subresource = resource.partition("/")
    return {
        "verb": verb,
        "userAgent": agent,
        "objectRef": {"resource": name, "namespace": namespace, "subresource": subresource},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": at,
        "stageTimestamp": at,
    }


def log_of(folder: Path, *entries: dict[str, Any]) -> AuditLog:
    path = folder / "audit.log"
    path.write_bytes(b"\n".join(map(msgspec.json.encode, entries)))
    return AuditLog(path, "slurm-operator")


def step(name: str, workers: int, seconds: float, more: dict[str, Any] | None = None) -> Step:
    slurm = {"total": 12, "writes": 1, "sent_bytes": 2_000_000, "requests": {"GET nodes": 11, "POST nodes": 1}}
    return Step(name, workers, BEGIN, BEGIN + seconds, BEGIN + seconds, 1.0, 1.5, 90.0, 95.0, slurm, more or {})


def test_scale_out_is_compared_with_the_mean_of_the_floors(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        entry(-100, "create", "pods", "bench-client", 201, "before"),
        entry(-98, "patch", "pods/status", "bench-kubelet", 200, "before"),
        entry(-90, "delete", "pods", "bench-kubelet", 200, "before"),
        entry(6, "create", "pods", "slurm-operator/1", 201),
        entry(8, "patch", "pods/status", "bench-kubelet"),
        entry(9, "patch", "pods/status", "slurm-operator/1"),
        entry(9, "watch", "pods", "slurm-operator/1"),
    )
    floors = floor_seconds(log, [Floor("before", BEGIN - 104, 1, BEGIN - 95, 1)])
    found = figures({"out": step("out", 1, 10, {"status_at": BEGIN + 9})}, floors, log, 1)
    assert (found["exist_ratio"], found["ready_ratio"], found["status_ratio"]) == (6 / 4, round(8 / 6, 3), 9 / 6)
    assert found["requests_by_kind"] == {"create pods": 1, "patch pods/status": 1}
    assert (found["requests_per_pod"], found["slurm_writes_per_pod"]) == (2.0, 1.0)
    assert (found["cpu_seconds"], found["rss_mb"]) == (1.5, 95.0)


def test_scale_in_ends_with_the_last_kubelet_and_the_last_record(tmp_path: Path) -> None:
    log = log_of(tmp_path, entry(3, "delete", "pods", "slurm-operator/1"), entry(4, "delete", "pods", "bench-kubelet"))
    more = {"last_gone_at": BEGIN + 4, "deleted_at": BEGIN + 5.5, "gone": 9, "gone_undrained": 0}
    found = figures({"in": step("in", 9, 10, more)}, None, log, 10)
    assert (found["in_seconds"], found["in_records_seconds_after_pods"], found["in_ratio"]) == (4.0, 1.5, None)


def test_a_lease_is_no_write_of_an_idle_operator(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        entry(1, "update", "leases", "slurm-operator/1"),
        entry(2, "get", "pods", "slurm-operator/1"),
        entry(3, "patch", "pods", "bench"),
    )
    found = figures({"idle": step("idle", 10, 120)}, None, log, 10)
    assert (found["idle_writes"], found["idle_requests"], found["idle_seconds"]) == (0, 2, 120.0)


def test_a_partition_with_many_workers_is_compared_with_one_of_few(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    steps = {
        "config": step("config", 1000, 10, {"seconds": [0.02, 0.4]}),
        "config-of-few": step("config-of-few", 10, 10, {"seconds": [0.02, 0.2]}),
    }
    assert figures(steps, None, log, 1000)["config_p99_ratio"] == 2.0


@pytest.mark.parametrize(
    ("pods", "expected"),
    [(999, set()), (1000, {"ready_ratio", "in_ratio", "cpu_seconds"}), (10_000, {"exist_ratio", "rss_mb"})],
    ids=["too few to compare", "a thousand", "ten thousand"],
)
def test_each_size_has_its_bars(pods: int, expected: set[str]) -> None:
    held = {bar.figure for bar in bars(pods, 120)}
    assert expected <= held
    assert bool(held) == bool(expected)


def test_the_bar_of_rest_follows_its_length() -> None:
    idle = {bar.figure: bar.most for bar in bars(1000, 60)}
    assert idle["idle_cpu_seconds"] == 0.25


def test_many_small_clusters_have_bars_of_their_own() -> None:
    assert {bar.figure: bar.most for bar in many_bars(200, 5, 120)}["rss_mb"] == 300
    assert many_bars(3, 2, 120) == []


def test_only_what_was_measured_can_miss_its_bar() -> None:
    held = [Bar("a", "", 1), Bar("b", "", 1), Bar("c", "", 1)]
    assert missed({"a": 1, "b": 1.1, "c": None}, held) == ["b is 1.1, the bar is 1"]


def test_rounds_give_the_median_of_ratios_and_the_worst_of_costs() -> None:
    held = [Bar("exist_ratio", "", 2, is_worst=False), Bar("cpu_seconds", "", 2)]
    rounds = [{"exist_ratio": ratio, "cpu_seconds": cpu} for ratio, cpu in ((1.3, 1), (1.1, 5), (1.2, 2))]
    found = of_rounds(rounds, held)
    assert (found["exist_ratio"], found["cpu_seconds"]) == (1.2, 5)


def test_a_figure_that_was_not_measured_is_there_without_a_value() -> None:
    found = of_rounds([{"pods": 40, "exist_ratio": 1.2}], [])
    assert (found["exist_ratio"], found["in_ratio"], found["idle_writes"]) == (1.2, None, None)


def test_the_table_shows_each_figure_beside_its_bar() -> None:
    text = report.table({"a": 3, "kinds": {"GET nodes": 2}}, [Bar("a", "a figure", 2), Bar("b", "another", 1)])
    assert [line.split() for line in text.splitlines()[1:3]] == [
        ["a", "figure", "3", "2", "above"],
        ["another", "not", "measured", "1"],
    ]
    assert text.endswith("GET nodes 2")


@pytest.mark.parametrize(
    ("seconds", "reference", "expected"),
    [(0.3, 0.2, 1.5), (0.09, 0.01, 0.9)],
    ids=["longer than the reference", "both too short to notice"],
)
def test_a_latency_is_compared_with_what_a_person_notices(seconds: float, reference: float, expected: float) -> None:
    assert latency_ratio(seconds, reference) == expected


def test_percentiles_are_values_that_were_measured() -> None:
    assert [percentile([3.0, 1.0, 2.0], share) for share in (0.0, 0.5, 0.99)] == [1.0, 2.0, 3.0]


def test_the_most_status_writes_within_a_second_are_found() -> None:
    assert most_within([0.0, 0.5, 0.8, 3.0], 0.9) == 3


def test_requests_of_a_step_are_what_was_counted_meanwhile() -> None:
    before = {"total": 2, "requests": {"GET nodes": 2}}
    after = {"total": 5, "requests": {"GET nodes": 2, "POST nodes": 3}}
    assert difference(before, after) == {"total": 3, "requests": {"POST nodes": 3}}


def test_a_pod_that_the_audit_log_lacks_is_told(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        entry(-100, "create", "pods", "bench-client", 201, "before"),
        entry(-98, "patch", "pods/status", "bench-kubelet", 200, "before"),
        entry(1, "create", "pods", "slurm-operator/1", 201),
        entry(2, "patch", "pods/status", "bench-kubelet"),
    )
    floors = [Floor("before", BEGIN - 104, 1, BEGIN - 95, 1)]
    assert lost_moments({"out": step("out", 2, 10)}, floors, log) == [
        "before: gone: 0 of 1 pods are in the audit log",
        "out: created: 1 of 2 pods are in the audit log",
        "out: Ready: 1 of 2 pods are in the audit log",
    ]
    assert lost_moments({"out": step("out", 1, 10)}, [], log) == []


def test_a_log_that_is_still_written_is_read_once_and_by_whole_lines(tmp_path: Path) -> None:
    lines = [
        entry(1, "create", "pods", "slurm-operator/1"),
        entry(2, "update", "leases", "slurm-operator/1"),
        entry(3, "create", "pods", "bench"),
        entry(4, "get", "pods", "slurm-operator/1"),
        entry(5, "patch", "pods", "slurm-operator/1"),
    ]
    text = b"".join(msgspec.json.encode(each) + b"\n" for each in lines)
    path = tmp_path / "audit.log"
    tail = AuditTail(path, "slurm-operator")
    path.write_bytes(text[:-20])
    assert (tail.look(), tail.look()) == (1, 1)
    path.write_bytes(text)
    assert tail.look() == 2


def test_a_step_that_failed_in_any_round_is_told() -> None:
    rounds: list[dict[str, Any]] = [
        {"pods": 10, "exist_ratio": 1.0},
        {"pods": 10, "exist_ratio": 1.1, "failed": ["in did not get there"]},
    ]
    assert of_rounds(rounds, [])["failed"] == ["in did not get there"]


def test_what_is_written_after_rest_is_told_apart(tmp_path: Path) -> None:
    log = log_of(tmp_path, entry(15, "patch", "configmaps", "slurm-operator/1"))
    out, idle = step("out", 1, 10, {"status_at": BEGIN + 9}), step("idle", 1, 120)
    later = Step(**{name: getattr(idle, name) for name in Step.__slots__} | {"since": BEGIN + 30})
    assert figures({"out": out, "idle": later}, None, log, 1)["writes_put_off"] == 1
