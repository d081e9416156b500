"""Alerts and dashboards name only what is served, and every alert has its runbook."""

from __future__ import annotations

import json
import re
from typing import Any, get_args, get_type_hints

import pytest
import yaml
from tests.charts.promql import read
from tests.charts.rendering import CHARTS, HERE, ROOT
from tests.docs.pages import Page

from kube_runtime.loop.controller import Outcome
from kube_runtime.loop.controller_runtime_metrics import CONTROLLER_RUNTIME_METRICS
from slurm_operator.admission.review import ReviewResponse
from slurm_operator.api.kinds import KINDS
from slurm_operator.metrics import catalogue
from slurm_operator.reconcile.measured import STATES

FILES = CHARTS / "slurm-operator" / "files"
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
NAMES = [rule["alert"] for rule in ALERTS]
RUNBOOKS = Page(ROOT / "docs/guides/alerts.md")
CONDITIONS = Page(ROOT / "docs/reference/conditions.md")
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((FILES / "dashboards").glob("*.json"))}
SEVERITIES = {"critical", "warning", "info"}
# What Prometheus adds to every sample of a ServiceMonitor or PodMonitor.
OF_THE_TARGET = {"namespace", "pod"}


def served() -> dict[str, set[str]]:
    """Every sample's name with its labels: the operator's, the admission server's, slurmctld's."""
    found: dict[str, set[str]] = {}
    for entry in catalogue():
        labels = {*entry.labels, *OF_THE_TARGET}
        suffixes = ("_bucket", "_sum", "_count") if entry.type == "histogram" else ("",)
        found |= {entry.name + suffix: labels | ({"le"} if suffix == "_bucket" else set()) for suffix in suffixes}
    slurm: dict[str, list[str]] = yaml.safe_load((HERE / "slurm_metrics.yaml").read_text())
    return found | {name: {*labels, *OF_THE_TARGET} for name, labels in slurm.items()}


SERVED = served()


def condition_types() -> set[str]:
    """The conditions of the reference page's table."""
    return set(re.findall(r"^\| (\w+) \| ", CONDITIONS.prose, re.MULTILINE)) - {"condition"}


def reasons() -> set[str]:
    """The reasons that have a section."""
    return set(re.findall(r"^### (\w+)$", CONDITIONS.prose, re.MULTILINE))


VALUES: dict[tuple[str, str], set[str]] = {
    ("slurm_operator_condition", "kind"): {kind.name for kind in KINDS},
    ("slurm_operator_condition", "type"): condition_types(),
    ("slurm_operator_condition", "status"): {"True", "False", "Unknown"},
    ("slurm_operator_condition", "reason"): reasons(),
    ("slurm_operator_condition_changed_timestamp_seconds", "type"): condition_types(),
    ("slurm_operator_workers", "state"): set(STATES.values()),
    ("slurm_operator_reconcile_total", "result"): {outcome.value for outcome in Outcome},
    ("slurm_operator_admission_reviews_total", "result"): set(get_args(get_type_hints(ReviewResponse)["result"])),
}


def panels() -> list[tuple[str, dict[str, Any]]]:
    """Every panel with its dashboard and title."""
    return [
        (f"{name}: {panel['title']}", panel)
        for name, dashboard in DASHBOARDS.items()
        for panel in dashboard["panels"]
        if panel["type"] != "row"
    ]


PANELS = panels()
AUTOSCALE = Page(ROOT / "docs/guides/autoscale.md")
EXPRESSIONS = [
    *((rule["alert"], rule["expr"]) for rule in ALERTS),
    *((title, target["expr"]) for title, panel in PANELS for target in panel["targets"]),
    *(("the autoscaler's query", found) for found in re.findall(r"^ *query: (.+)$", AUTOSCALE.text, re.MULTILINE)),
]


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS, ids=[where for where, _ in EXPRESSIONS])
def test_every_name_in_a_query_is_served(where: str, expression: str) -> None:
    reading = read(expression)
    assert reading.metrics, where
    assert reading.metrics <= SERVED.keys()
    for matcher in reading.matchers:
        assert matcher.label in SERVED[matcher.metric], matcher
        known = VALUES.get((matcher.metric, matcher.label))
        assert known is None or set(matcher.values) <= known, matcher
    for metric in reading.metrics:
        assert reading.grouped_by <= SERVED[metric], metric


def test_a_name_that_nobody_serves_would_be_found() -> None:
    reading = read('sum by (kind, le) (rate(a_total{b="c|d",e=~"f|g"}[5m])) / on (x) max(z{h!="$i"} offset 5m) > 5e6')
    assert reading.metrics == {"a_total", "z"}
    assert reading.grouped_by == {"kind", "le", "x"}
    assert [(each.label, each.values) for each in reading.matchers] == [("b", ["c|d"]), ("e", ["f", "g"]), ("h", [])]


@pytest.mark.parametrize("rule", ALERTS, ids=NAMES)
def test_an_alert_says_how_bad_it_is_and_what_it_means(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in SEVERITIES
    assert {"summary", "description"} == rule["annotations"].keys()
    reading = read(rule["expr"])
    known = reading.grouped_by or set.intersection(*(SERVED[metric] for metric in reading.metrics))
    for text in rule["annotations"].values():
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= known
        assert not text.startswith(" ")
        assert "\n" not in text


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert re.findall(r"^### (\w+)$", RUNBOOKS.prose, re.MULTILINE) == NAMES
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("rule", ALERTS, ids=NAMES)
def test_a_runbook_says_what_it_means_the_first_command_the_causes_and_what_helps(rule: dict[str, Any]) -> None:
    _, _, rest = RUNBOOKS.text.partition(f"### {rule['alert']}\n")
    section = re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]
    assert f"({rule['labels']['severity']})" in section
    for part in ("**Means:**", "**Look first:**", "**Usual causes:**", "**What helps:**"):
        assert section.count(part) == 1, part
    first = section.partition("**Look first:**")[2].partition("**Usual causes:**")[0]
    assert re.search(r"`(kubectl|scontrol|sdiag|sinfo) [^`]+`", first)


@pytest.mark.parametrize(("title", "panel"), PANELS, ids=[title for title, _ in PANELS])
def test_a_legend_shows_labels_that_are_there(title: str, panel: dict[str, Any]) -> None:
    assert panel["description"].endswith("."), title
    for target in panel["targets"]:
        shown = set(re.findall(r"{{(\w+)}}", target.get("legendFormat", "")))
        assert shown <= read(target["expr"]).grouped_by


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=list(DASHBOARDS))
def test_panels_neither_overlap_nor_leave_the_page(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_every_metric_that_the_operator_serves_is_on_a_dashboard_or_in_an_alert() -> None:
    used = {metric for _, expression in EXPRESSIONS for metric in read(expression).metrics}
    bases = {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in used}
    # What is served once more under the names of other operators is for alerts and dashboards that people have.
    familiar = {entry.name for entry in CONTROLLER_RUNTIME_METRICS}
    assert {entry.name for entry in catalogue()} - bases - familiar == set()
