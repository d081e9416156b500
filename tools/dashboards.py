"""The dashboards of the operator's chart, out of a table of panels.

In: the tables below. Out: `files/dashboards/*.json` of the chart, in Grafana's form. Written by `tools/charts.py`, by
`make golden`. The names in the queries are held against what the programs serve by `tests/charts`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parents[1] / "deploy/charts/slurm-operator/files/dashboards"
WIDTH = 24
HEIGHT = 8
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture: each query with the legend of its lines."""

    title: str
    about: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: Literal["timeseries", "stat", "table"] = "timeseries"
    width: int = 8


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page of panels in rows."""

    uid: str
    title: str
    about: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    # Whether a namespace is chosen, and out of which metric's labels.
    namespaces_of: str = ""


def _latency(metric: str, by: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (
            f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket[5m])))",
            f"p{int(share * 100)} {{{{{by}}}}}",
        )
        for share in (0.5, 0.99)
    )


def _one(expression: str, legend: str = "") -> tuple[tuple[str, str], ...]:
    return ((expression, legend),)


_HEALTH = (
    Panel("Leader", "1 while one operator may write.", _one("sum(slurm_operator_leader)"), kind="stat", width=4),
    Panel(
        "Release",
        "Which release each pod runs.",
        _one("count by (version) (slurm_operator_build_info)", "{{version}}"),
        kind="stat",
        width=4,
    ),
    Panel(
        "Certificate ends in",
        "The admission server renews its own 30 days before.",
        _one("min(slurm_operator_certificate_expiry_timestamp_seconds) - time()"),
        unit="s",
        kind="stat",
        width=4,
    ),
    Panel(
        "Oldest cache",
        "Time since the operator last heard from the API server about a kind; about five minutes is the most.",
        _one("max by (kind) (slurm_operator_cache_age_seconds)", "{{kind}}"),
        unit="s",
        width=6,
    ),
    Panel(
        "Stalls of the event loop",
        "Each is in the log with its stack.",
        _one("sum(increase(slurm_operator_loop_stalls_total[1h]))", "within an hour"),
        width=6,
    ),
)
_WORK = (
    Panel(
        "Reconciles by result",
        "ok and requeue are good; retry comes again; terminal waits for a change; timeout and error are faults.",
        _one("sum by (result) (rate(slurm_operator_reconcile_total[5m]))", "{{result}}"),
        unit="ops",
    ),
    Panel(
        "Faults by resource",
        "Unexpected errors and reconciles that were cut off. The condition InternalError of the resource has the id.",
        _one(
            "sum by (kind, namespace, name) (increase(slurm_operator_reconcile_faults_total[15m]))",
            "{{kind}} {{namespace}}/{{name}}",
        ),
    ),
    Panel(
        "Time of a reconcile",
        "Half of them, and all but one of a hundred.",
        _latency("slurm_operator_reconcile_seconds", "kind"),
        unit="s",
    ),
    Panel(
        "Waiting and running",
        "Resources in the queue, and those that are worked on.",
        (
            ("sum by (kind) (slurm_operator_queue_depth)", "{{kind}} wait"),
            ("sum by (kind) (slurm_operator_reconcile_running)", "{{kind}} run"),
        ),
    ),
    Panel(
        "Time in the queue",
        "From the request to look at a resource until a worker takes it.",
        _latency("slurm_operator_queue_wait_seconds", "kind"),
        unit="s",
    ),
    Panel(
        "Asked for, and asked for again",
        "Requests to look at a resource before they are merged, and those that a failure put back.",
        (
            ("sum by (kind) (rate(slurm_operator_queue_adds_total[5m]))", "{{kind}}"),
            ("sum by (kind) (rate(slurm_operator_queue_retries_total[5m]))", "{{kind}} again"),
        ),
        unit="ops",
    ),
)
_DOORS = (
    Panel(
        "Requests to the API server",
        "By status; none is one without an answer.",
        _one("sum by (code) (rate(slurm_operator_api_requests_total[5m]))", "{{code}}"),
        unit="reqps",
    ),
    Panel(
        "Time of a request to the API server",
        "Watches are not counted.",
        _latency("slurm_operator_api_request_seconds", "verb"),
        unit="s",
    ),
    Panel(
        "Writes to the API server",
        "A world at rest has none.",
        _one(
            'sum by (verb, resource) (rate(slurm_operator_api_requests_total{verb!~"get|list|watch|discovery"}[5m]))',
            "{{verb}} {{resource}}",
        ),
        unit="reqps",
    ),
    Panel(
        "Rights that are missing",
        "None with the Roles that are shipped.",
        _one(
            "max by (verb, resource, namespace) (slurm_operator_missing_right) > 0",
            "{{verb}} {{resource}} {{namespace}}",
        ),
    ),
    Panel(
        "Requests to slurmrestd",
        "By call and result.",
        _one(
            "sum by (method, endpoint, code) (rate(slurm_operator_slurm_requests_total[5m]))",
            "{{method}} {{endpoint}} {{code}}",
        ),
        unit="reqps",
    ),
    Panel(
        "Time of a request to slurmrestd",
        "Half of them, and all but one of a hundred.",
        _latency("slurm_operator_slurm_request_seconds", "endpoint"),
        unit="s",
    ),
)
_ADMISSION = (
    Panel(
        "Reviews",
        "What the admission server said; failed and malformed are faults.",
        _one("sum by (result) (rate(slurm_operator_admission_reviews_total[5m]))", "{{result}}"),
        unit="reqps",
    ),
    Panel(
        "Time of a review",
        "API servers wait for it at each write of our kinds.",
        _latency("slurm_operator_admission_review_seconds", "kind"),
        unit="s",
    ),
)
_STATE = (
    Panel(
        "Not as it should be",
        "Conditions that say no, or that nobody can tell; the reason is a section of the documentation.",
        (
            (
                (
                    "max by (kind, namespace, name, type, status, reason)"
                    ' (slurm_operator_condition{namespace=~"$namespace",type!~"Progressing|Degraded",status!="True"})'
                ),
                "",
            ),
            (
                (
                    "max by (kind, namespace, name, type, status, reason)"
                    ' (slurm_operator_condition{namespace=~"$namespace",type="Degraded",status="True"})'
                ),
                "",
            ),
        ),
        kind="table",
        width=16,
    ),
    Panel(
        "On its way for",
        "How long something has been done or waited for.",
        _one(
            "time() - max by (kind, namespace, name)"
            ' (slurm_operator_condition_changed_timestamp_seconds{namespace=~"$namespace",type="Progressing"})'
            " and on (kind, namespace, name)"
            ' slurm_operator_condition{namespace=~"$namespace",type="Progressing",status="True"} == 1',
            "{{kind}} {{namespace}}/{{name}}",
        ),
        unit="s",
    ),
)
_WORKERS = (
    Panel(
        "Workers asked for and ready",
        "By NodeSet.",
        (
            (
                'max by (namespace, nodeset) (slurm_operator_workers{namespace=~"$namespace",state="desired"})',
                "{{namespace}}/{{nodeset}} asked for",
            ),
            (
                'max by (namespace, nodeset) (slurm_operator_workers{namespace=~"$namespace",state="ready"})',
                "{{namespace}}/{{nodeset}} ready",
            ),
        ),
    ),
    Panel(
        "Workers by Slurm state",
        "Of all NodeSets.",
        _one(
            "sum by (state) (max by (namespace, nodeset, state)"
            ' (slurm_operator_workers{namespace=~"$namespace",state=~"idle|allocated|down|drain"}))',
            "{{state}}",
        ),
    ),
    Panel(
        "Workers that wait to go",
        "More than are asked for: drained, and their jobs still run.",
        _one(
            'max by (namespace, nodeset) (slurm_operator_workers{namespace=~"$namespace",state="present"})'
            ' - max by (namespace, nodeset) (slurm_operator_workers{namespace=~"$namespace",state="desired"}) > 0',
            "{{namespace}}/{{nodeset}}",
        ),
    ),
)
_CONFIGURATION = (
    Panel(
        "Time into force",
        "live: a partition through slurmrestd. reconfigure: a configuration in the sidecar, with its trial.",
        _latency("slurm_operator_config_apply_seconds", "method"),
        unit="s",
        width=12,
    ),
    Panel(
        "Configuration in force for",
        "Since ConfigApplied last became true.",
        _one(
            "time() - max by (namespace, name)"
            ' (slurm_operator_condition_changed_timestamp_seconds{namespace=~"$namespace",type="ConfigApplied"})'
            " and on (namespace, name)"
            ' slurm_operator_condition{namespace=~"$namespace",type="ConfigApplied",status="True"} == 1',
            "{{namespace}}/{{name}}",
        ),
        unit="s",
        kind="stat",
        width=12,
    ),
)
_JOBS = (
    Panel(
        "Jobs",
        "Of the cluster.",
        (
            ('sum by (namespace) (slurm_jobs_running{namespace=~"$namespace"})', "{{namespace}} running"),
            ('sum by (namespace) (slurm_jobs_pending{namespace=~"$namespace"})', "{{namespace}} pending"),
            ('sum by (namespace) (slurm_jobs_hold{namespace=~"$namespace"})', "{{namespace}} held"),
            ('sum by (namespace) (slurm_jobs_completing{namespace=~"$namespace"})', "{{namespace}} completing"),
        ),
    ),
    Panel(
        "Jobs that wait, by partition",
        "What an autoscaler looks at.",
        _one(
            'sum by (namespace, partition) (slurm_partition_jobs_pending{namespace=~"$namespace"})',
            "{{namespace}} {{partition}}",
        ),
    ),
    Panel(
        "Ended badly",
        "Of the jobs that Slurm still remembers.",
        (
            ('sum by (namespace) (slurm_jobs_failed{namespace=~"$namespace"})', "{{namespace}} failed"),
            ('sum by (namespace) (slurm_jobs_timeout{namespace=~"$namespace"})', "{{namespace}} over their time"),
            ('sum by (namespace) (slurm_jobs_outofmemory{namespace=~"$namespace"})', "{{namespace}} out of memory"),
            ('sum by (namespace) (slurm_jobs_node_failed{namespace=~"$namespace"})', "{{namespace}} lost their node"),
        ),
    ),
)
_NODES = (
    Panel(
        "Nodes",
        "By state.",
        (
            ('sum by (namespace) (slurm_nodes_idle{namespace=~"$namespace"})', "{{namespace}} idle"),
            ('sum by (namespace) (slurm_nodes_alloc{namespace=~"$namespace"})', "{{namespace}} allocated"),
            ('sum by (namespace) (slurm_nodes_mixed{namespace=~"$namespace"})', "{{namespace}} mixed"),
            ('sum by (namespace) (slurm_nodes_down{namespace=~"$namespace"})', "{{namespace}} down"),
            ('sum by (namespace) (slurm_nodes_drain{namespace=~"$namespace"})', "{{namespace}} drain"),
        ),
    ),
    Panel(
        "CPUs in use",
        "Of those that jobs may have.",
        _one(
            'sum by (namespace) (slurm_node_cpus_alloc{namespace=~"$namespace"})'
            ' / sum by (namespace) (slurm_node_cpus_effective{namespace=~"$namespace"})',
            "{{namespace}}",
        ),
        unit="percentunit",
    ),
    Panel(
        "Memory in use",
        "Given to jobs, of what jobs may have.",
        _one(
            'sum by (namespace) (slurm_node_memory_alloc_bytes{namespace=~"$namespace"})'
            ' / sum by (namespace) (slurm_node_memory_effective_bytes{namespace=~"$namespace"})',
            "{{namespace}}",
        ),
        unit="percentunit",
    ),
)
_SCHEDULER = (
    Panel(
        "Pass over the queue",
        "The main scheduler and backfill, on average.",
        (
            ('max by (namespace) (slurm_sched_mean_cycle{namespace=~"$namespace"})', "{{namespace}} main"),
            ('max by (namespace) (slurm_bf_mean_cycle{namespace=~"$namespace"})', "{{namespace}} backfill"),
        ),
        unit="µs",
    ),
    Panel(
        "slurmctld's threads",
        "256 is the most; near it commands wait.",
        (
            ('max by (namespace) (slurm_server_thread_cnt{namespace=~"$namespace"})', "{{namespace}} server"),
            ('max by (namespace) (slurm_agent_queue_size{namespace=~"$namespace"})', "{{namespace}} messages to nodes"),
        ),
    ),
    Panel(
        "Records that wait for slurmdbd",
        "Zero while accounting keeps up.",
        _one('max by (namespace) (slurm_slurmdbd_queue_size{namespace=~"$namespace"})', "{{namespace}}"),
    ),
)

DASHBOARDS = {
    "operator": Dashboard(
        "slurm-operator",
        "Slurm operator",
        "The operator and its admission server.",
        (
            ("Health", _HEALTH),
            ("Work", _WORK),
            ("Kubernetes and slurmrestd", _DOORS),
            ("Admission", _ADMISSION),
        ),
    ),
    "clusters": Dashboard(
        "slurm-operator-clusters",
        "Slurm clusters",
        "What the operator says of each cluster, and what slurmctld says itself where its metrics are on.",
        (
            ("Resources", _STATE),
            ("Workers", _WORKERS),
            ("Configuration", _CONFIGURATION),
            ("Jobs, by slurmctld", _JOBS),
            ("Nodes, by slurmctld", _NODES),
            ("Scheduler, by slurmctld", _SCHEDULER),
        ),
        "slurm_operator_condition",
    ),
}


def files() -> dict[Path, str]:
    """Every file and its content."""
    return {
        FOLDER / f"{name}.json": json.dumps(shown(each), indent=1, ensure_ascii=False) + "\n"
        for name, each in DASHBOARDS.items()
    }


def shown(dashboard: Dashboard) -> Json:
    """A dashboard as Grafana takes it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["slurm"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": list(_variables(dashboard))},
        "panels": list(_panels(dashboard.rows)),
    }


def _variables(dashboard: Dashboard) -> Iterator[Json]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    if dashboard.namespaces_of:
        yield {
            "name": "namespace",
            "label": "Namespace",
            "type": "query",
            "datasource": SOURCE,
            "query": f"label_values({dashboard.namespaces_of}, namespace)",
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "current": {"text": "All", "value": "$__all"},
        }


def _panels(rows: Sequence[tuple[str, tuple[Panel, ...]]]) -> Iterator[Json]:
    number, top = 0, 0
    for title, panels in rows:
        number += 1
        yield {"id": number, "type": "row", "title": title, "gridPos": _place(0, top, WIDTH, 1), "panels": []}
        top, left = top + 1, 0
        for panel in panels:
            number += 1
            if left + panel.width > WIDTH:
                top, left = top + HEIGHT, 0
            yield {"id": number, "gridPos": _place(left, top, panel.width, HEIGHT), **_panel(panel)}
            left += panel.width
        top += HEIGHT


def _place(left: int, top: int, width: int, height: int) -> Json:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(panel: Panel) -> Json:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [_target(panel, at, *query) for at, query in enumerate(panel.queries)],
        **_looks(panel),
    }


def _target(panel: Panel, at: int, expression: str, legend: str) -> Json:
    target: Json = {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expression}
    if panel.kind == "table":
        return {**target, "format": "table", "instant": True}
    return {**target, "legendFormat": legend, "instant": panel.kind == "stat"}


def _looks(panel: Panel) -> Json:
    if panel.kind == "table":
        hidden = {
            "Time": True,
            "Value": True,
            **{f"Value #{chr(ord('A') + at)}": True for at in range(len(panel.queries))},
        }
        return {
            "transformations": [
                {"id": "merge", "options": {}},
                {"id": "organize", "options": {"excludeByName": hidden}},
            ]
        }
    if panel.kind == "stat":
        return {"options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "auto"}}
    return {"options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}}
