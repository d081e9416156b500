"""From measured steps, floors and the audit log to figures, and from figures to bars.

In: the steps of one round. Out: one flat mapping for `-o json`, and the table of those figures that have a bar.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.scaling.audit import AuditLog, most_within
from bench.scaling.floors import Floor
from bench.scaling.objects import Json
from bench.scaling.steps import OURS, Step

# Writes that are sent a second apart do not arrive exactly so.
STATUS_WINDOW_SECONDS = 0.9
IDLE_SECONDS = 120.0
# The Go operator, which drains nothing, rolled 200 in 16.1 s where its own floor was 20.4 s for 1,000 creations.
GO_ROLL_RATIO = 16.1 / 20.4
# The same beside what a bare client needed there to make 1,000 pods Ready and to delete them, 23.5 and 10.6 s where
# 1,000 creations took 19.0: a machine that is quick to create need not be quick to bring up.
GO_ROLL_MOVES_RATIO = 16.1 / (0.2 * (23.5 + 10.6) * 20.4 / 19.0)

# A shorter wait is not noticed by a person; the largest of fifty such waits is chance.
UNNOTICED_SECONDS = 0.1
# What a reader of the JSON may count on; None where it was not measured.
ALWAYS = (
    *(
        "exist_ratio",
        "ready_ratio",
        "status_ratio",
        "requests_per_pod",
        "slurm_writes_per_pod",
        "cpu_seconds",
        "rss_mb",
    ),
    *("in_ratio", "in_requests_per_pod", "roll_requests_per_pod", "idle_cpu_seconds", "idle_writes"),
)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so many do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def latency_ratio(seconds: float, reference: float) -> float:
    """How much longer something takes than the reference; what nobody notices counts as that long."""
    return round(seconds / max(reference, UNNOTICED_SECONDS), 3)


@dataclass(frozen=True, slots=True)
class FloorSeconds:
    """What a bare client needed: until all exist, all are Ready, all are gone; each of every floor."""

    exist: tuple[float, ...]
    ready: tuple[float, ...]
    gone: tuple[float, ...]


def floor_seconds(log: AuditLog, floors: Sequence[Floor]) -> FloorSeconds:
    """The floors by the audit log."""
    exist, ready, gone = [], [], []
    for each in floors:
        began, left = each.created_since, each.deleted_since
        exist.append(_last(log.created(each.namespace, began, left), began))
        ready.append(_last(log.ready(each.namespace, began, left), began))
        # Then the rest is removed all at once, by no kubelet.
        gone.append(_last(log.gone(each.namespace, left, float("inf")), left))
    return FloorSeconds(tuple(exist), tuple(ready), tuple(gone))


def lost_moments(steps: Mapping[str, Step], floors: Sequence[Floor], log: AuditLog) -> list[str]:
    """Pods of which the audit log does not have every moment: a last one that is missing would flatter the figures."""
    counted: list[tuple[str, int, int]] = []
    for floor in floors:
        name, began, left = floor.namespace, floor.created_since, floor.deleted_since
        counted += [
            (f"{name}: created", len(log.created(name, began, left)), floor.created),
            (f"{name}: Ready", len(log.ready(name, began, left)), floor.created),
            (f"{name}: gone", len(log.gone(name, left, float("inf"))), floor.deleted),
        ]
    for step in steps.values():
        window = (OURS, step.since, step.settled)
        if step.name in ("out", "roll"):
            counted.append((f"{step.name}: created", len(log.created(*window)), step.workers))
            counted.append((f"{step.name}: Ready", len(log.ready(*window)), step.workers))
        if step.name in ("in", "roll", "delete"):
            counted.append((f"{step.name}: gone", len(log.gone(*window)), step.workers))
    return [f"{what}: {count} of {all_} pods are in the audit log" for what, count, all_ in counted if count < all_]


def _last(moments: Sequence[float], since: float) -> float:
    """Seconds until the last of them."""
    return max(moments, default=since) - since


def figures(steps: Mapping[str, Step], floors: FloorSeconds | None, log: AuditLog, pods: int) -> Json:
    """Everything that a round has measured."""
    found: Json = {"pods": pods}
    if floors is not None:
        found |= {
            "floor_seconds": round(statistics.mean(floors.exist), 2),
            "floor_ready_seconds": round(statistics.mean(floors.ready), 2),
            "floor_gone_seconds": round(statistics.mean(floors.gone), 2),
            "floor_seconds_before_and_after": [round(each, 2) for each in floors.exist],
            "floor_ready_seconds_before_and_after": [round(each, 2) for each in floors.ready],
            "floor_gone_seconds_before_and_after": [round(each, 2) for each in floors.gone],
        }
    makers = {
        "out": _out,
        "idle": _idle,
        "config": _config,
        "leader": _leader,
        "drain-all": _drain_all,
        "in": _in,
        "roll": _roll,
        "config-of-few": _config,
        "delete": _delete,
    }
    for name, step in steps.items():
        found |= makers[name](step, log, found)
    if "out" in steps and "idle" in steps:
        # What was put off until after the operator had seemed at rest.
        found["writes_put_off"] = log.writes(steps["out"].settled, steps["idle"].since)
    if "config_p99_seconds" in found and "config_of_few_p99_seconds" in found:
        found["config_p99_ratio"] = latency_ratio(found["config_p99_seconds"], found["config_of_few_p99_seconds"])
    if steps:
        found["rss_mb"] = found["peak_megabytes"] = round(max(step.peak_megabytes for step in steps.values()), 1)
    return found


def _common(step: Step, log: AuditLog, prefix: str) -> Json:
    asked = log.between(step.since, step.settled)
    return {
        f"{prefix}cpu_seconds": round(step.cpu_seconds, 2),
        f"{prefix}requests": len(asked),
        f"{prefix}requests_per_pod": round(len(asked) / max(1, step.workers), 3),
        f"{prefix}requests_by_kind": log.by_kind(step.since, step.settled),
        f"{prefix}slurm_requests": step.slurm["total"],
        f"{prefix}slurm_requests_by_kind": step.slurm["requests"],
        f"{prefix}slurm_writes": step.slurm["writes"],
        f"{prefix}slurm_writes_per_pod": round(step.slurm["writes"] / max(1, step.workers), 3),
        f"{prefix}slurm_megabytes": round(step.slurm["sent_bytes"] / 1e6, 2),
        f"{prefix}rss_mb_after": round(step.rss_megabytes, 1),
        f"{prefix}settled_seconds": round(step.settled - step.since, 2),
    }


def _ratio(seconds: float, floors: Json, name: str) -> float | None:
    return round(seconds / floors[name], 3) if floors.get(name) else None


def _out(step: Step, log: AuditLog, floors: Json) -> Json:
    exist = _last(log.created(OURS, step.since, step.settled), step.since)
    ready = _last(log.ready(OURS, step.since, step.settled), step.since)
    status = step.more["status_at"] - step.since
    times = log.status_times(step.since, step.settled)
    return {
        **_common(step, log, ""),
        "seconds_until_all_exist": round(exist, 2),
        "seconds_until_all_ready": round(ready, 2),
        "seconds_until_status_says_ready": round(status, 2),
        "exist_ratio": _ratio(exist, floors, "floor_seconds"),
        "times_floor": _ratio(exist, floors, "floor_seconds"),
        "ready_ratio": _ratio(ready, floors, "floor_ready_seconds"),
        "status_ratio": _ratio(status, floors, "floor_ready_seconds"),
        "cpu_seconds_until_status": round(step.cpu_seconds_to_goal, 2),
        "status_writes": len(times),
        "status_writes_in_a_second": most_within(times, STATUS_WINDOW_SECONDS),
    }


def _idle(step: Step, log: AuditLog, _: Json) -> Json:
    return {
        "idle_seconds": round(step.ended - step.since, 1),
        "idle_cpu_seconds": round(step.cpu_seconds, 2),
        "idle_writes": log.writes(step.since, step.ended),
        "idle_requests": len(log.between(step.since, step.ended)),
        "idle_requests_by_kind": log.by_kind(step.since, step.ended),
        "idle_slurm_requests": step.slurm["total"],
        "idle_slurm_requests_by_kind": step.slurm["requests"],
        "idle_slurm_writes": step.slurm["writes"],
        "idle_slurm_megabytes": round(step.slurm["sent_bytes"] / 1e6, 2),
        "idle_rss_mb": round(step.rss_megabytes, 1),
    }


def _config(step: Step, log: AuditLog, _: Json) -> Json:
    prefix = f"{step.name.replace('-', '_')}_"
    seconds = step.more["seconds"]
    return {
        **_common(step, log, prefix),
        f"{prefix}changes": len(seconds),
        f"{prefix}p50_seconds": round(percentile(seconds, 0.5), 3),
        f"{prefix}p99_seconds": round(percentile(seconds, 0.99), 3),
    }


def _leader(step: Step, log: AuditLog, _: Json) -> Json:
    return {
        **_common(step, log, "leader_"),
        "leader_seconds": round(step.more["worked_at"] - step.since, 2),
        "leader_cpu_seconds_until_work": round(step.cpu_seconds_to_goal, 2),
        "leader_peak_mb": round(step.peak_megabytes, 1),
    }


def _drain_all(step: Step, log: AuditLog, _: Json) -> Json:
    return {
        **_common(step, log, "drain_all_"),
        "drain_all_seconds": round(step.more["drained_at"] - step.since, 2),
        "undrain_all_seconds": round(step.more["back_at"] - step.more["back_since"], 2),
    }


def _in(step: Step, log: AuditLog, floors: Json) -> Json:
    gone = _last(log.gone(OURS, step.since, step.settled), step.since)
    return {
        **_common(step, log, "in_"),
        "in_seconds": round(gone, 2),
        "in_ratio": _ratio(gone, floors, "floor_gone_seconds"),
        "in_records_seconds_after_pods": _records_after(step, gone),
        "in_undrained": step.more["gone_undrained"],
    }


def _records_after(step: Step, gone_seconds: float) -> float:
    """Seconds from the last pod to the last record; the API server knows of a pod before who watches it does."""
    return round(max(0.0, float(step.more["deleted_at"]) - step.since - gone_seconds), 2)


def _moves_seconds(floors: Json, pods: int) -> float:
    """How long a bare client takes to delete so many pods and to make as many Ready; its floor deletes nine of ten."""
    each = floors["floor_ready_seconds"] / floors["pods"] + floors["floor_gone_seconds"] / (0.9 * floors["pods"])
    return float(each * pods)


def _roll(step: Step, log: AuditLog, floors: Json) -> Json:
    seconds = _last(log.ready(OURS, step.since, step.settled), step.since)
    # As if the floor had been measured at 1,000.
    floor = floors["floor_seconds"] * 1000 / floors["pods"] if floors.get("floor_seconds") else None
    moves = _moves_seconds(floors, step.workers) if floor else None
    return {
        **_common(step, log, "roll_"),
        "roll_pods": step.workers,
        "roll_seconds": round(seconds, 2),
        "roll_ratio": round(seconds / floor, 3) if floor else None,
        "roll_moves_ratio": round(seconds / moves, 3) if moves else None,
        "roll_undrained": step.more["gone_undrained"],
    }


def _delete(step: Step, log: AuditLog, _: Json) -> Json:
    gone = _last(log.gone(OURS, step.since, step.settled), step.since)
    return {
        **_common(step, log, "delete_"),
        "delete_pods": step.workers,
        "delete_seconds": round(gone, 2),
        "delete_records_seconds_after_pods": _records_after(step, gone),
        "delete_undrained": step.more["gone_undrained"],
    }


# Bars


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure and the most that it may be; `is_worst` takes the worst round instead of the one in the middle."""

    figure: str
    text: str
    most: float
    is_worst: bool = True


def bars(pods: int, idle_seconds: float) -> list[Bar]:
    """The bars for a cluster of that size; below 1,000 workers there are none, since every run differs there."""
    if pods < 1000:
        return []
    large = pods >= 10_000
    idle = (2.0 if large else 0.5) * idle_seconds / IDLE_SECONDS
    shared = [
        Bar("requests_per_pod", "out: Kubernetes requests a pod", 2.1),
        Bar("slurm_writes_per_pod", "out: writes to slurmrestd a pod", 0.1),
        Bar("status_writes_in_a_second", "out: writes of one status in a second, the one that ends a wait included", 2),
        Bar("idle_cpu_seconds", "idle: CPU seconds", idle),
        Bar("idle_writes", "idle: writes", 0),
        Bar("idle_slurm_writes", "idle: writes to slurmrestd", 0),
        Bar("in_requests_per_pod", "in: Kubernetes requests a pod", 2.1),
        Bar("in_records_seconds_after_pods", "in: seconds from the last pod to the last record", 5),
        Bar("in_undrained", "in: workers that went undrained", 0),
        Bar("roll_requests_per_pod", "roll: Kubernetes requests a pod", 4.2),
        Bar("roll_undrained", "roll: workers that went undrained", 0),
        Bar("config_p99_ratio", "config: p99 of a change, as a multiple of that with 10 workers", 1.25, False),
    ]
    if large:
        return [
            Bar("exist_ratio", "out: all exist, as a multiple of the floor", 1.25, False),
            Bar("rss_mb", "largest resident set, MB", 350),
            *shared,
        ]
    return [
        Bar("exist_ratio", "out: all exist, as a multiple of the floor", 1.10, False),
        Bar("ready_ratio", "out: all Ready, as a multiple of the floor", 1.20, False),
        Bar("status_ratio", "out: status says Ready, as a multiple of the Ready floor", 1.30, False),
        Bar("cpu_seconds", "out: CPU seconds", 4),
        Bar("rss_mb", "largest resident set, MB", 160),
        Bar("in_ratio", "in: all gone, as a multiple of the floor", 1.5, False),
        Bar("roll_ratio", "roll of 200: seconds, as a multiple of the floor of 1,000", round(GO_ROLL_RATIO, 3), False),
        Bar("roll_moves_ratio", "roll: seconds, as a multiple of its own floor", round(GO_ROLL_MOVES_RATIO, 2), False),
        *shared,
    ]


def many_bars(clusters: int, nodesets: int, idle_seconds: float) -> list[Bar]:
    """The bars for many small clusters."""
    if clusters * nodesets < 1000:
        return []
    return [
        Bar("idle_cpu_seconds", "idle: CPU seconds", 2.0 * idle_seconds / IDLE_SECONDS),
        Bar("idle_writes", "idle: writes", 0),
        Bar("idle_slurm_writes", "idle: writes to slurmrestd", 0),
        Bar("rss_mb", "largest resident set, MB", 300),
        Bar("change_p99_ratio", "a change in one: p99, as a multiple of that of one alone", 1.25, False),
    ]


def missed(result: Mapping[str, object], held: Sequence[Bar]) -> list[str]:
    """Which bars were missed; a figure that was not measured misses none."""
    found = []
    for bar in held:
        value = result.get(bar.figure)
        if isinstance(value, int | float) and value > bar.most:
            found.append(f"{bar.figure} is {value}, the bar is {bar.most}")
    return found


def of_rounds(rounds: Sequence[Json], held: Sequence[Bar]) -> Json:
    """The round in the middle, with medians of ratios, and the worst of all else that has a bar."""
    key = "exist_ratio" if "exist_ratio" in rounds[0] else "pods"
    middle = sorted(rounds, key=lambda each: float(each.get(key) or 0))[(len(rounds) - 1) // 2]
    found = {**middle, **{name: None for name in ALWAYS if name not in middle}}
    for bar in held:
        values = [each[bar.figure] for each in rounds if isinstance(each.get(bar.figure), int | float)]
        if values:
            found[bar.figure] = max(values) if bar.is_worst else round(statistics.median(values), 3)
    # A step that did not get there in any round is not forgotten with that round.
    if failed := [text for each in rounds for text in each.get("failed", ())]:
        found["failed"] = failed
    if len(rounds) > 1:
        found["exist_ratio_of_each_round"] = [each.get("exist_ratio") for each in rounds]
    return found
