"""What the real helm makes of the values for monitoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.charts.rendering import CHARTS
from tests.docs.pages import Page
from tests.real.helm.command import Helm

DASHBOARDS = CHARTS / "slurm-operator" / "files" / "dashboards"
GUIDE = Page(CHARTS.parents[1] / "docs/guides/alerts.md")


def objects(helm: Helm, *settings: str) -> list[dict[str, Any]]:
    arguments = [part for setting in settings for part in ("--set", setting)]
    rendered = yaml.safe_load_all(helm.template("slurm-operator", *arguments).stdout)
    return [each for each in rendered if each]


def test_nothing_of_it_is_made_unless_asked_for(helm: Helm) -> None:
    kinds = {each["apiVersion"] for each in objects(helm)}
    assert "monitoring.coreos.com/v1" not in kinds
    assert not [each for each in objects(helm) if each["kind"] == "ConfigMap"]


def test_dashboards_reach_grafana_as_they_are(helm: Helm) -> None:
    settings = ("dashboards.enabled=true", "dashboards.namespace=grafana", "dashboards.labels.folder=hpc")
    maps = [each for each in objects(helm, *settings) if each["kind"] == "ConfigMap"]
    found = {name: json.loads(text) for each in maps for name, text in each["data"].items()}
    assert found == {path.name: json.loads(path.read_text()) for path in DASHBOARDS.glob("*.json")}
    for each in maps:
        assert each["metadata"]["namespace"] == "grafana"
        assert {"grafana_dashboard": "1", "folder": "hpc"}.items() <= each["metadata"]["labels"].items()


def test_without_an_address_a_runbook_is_named_by_its_place_in_the_project(helm: Helm) -> None:
    (rule,) = (each for each in objects(helm, "alerts.enabled=true") if each["kind"] == "PrometheusRule")
    for alert in (each for group in rule["spec"]["groups"] for each in group["rules"]):
        assert alert["annotations"]["runbook"] == f"docs/guides/alerts.md#{alert['alert'].lower()}"
        assert alert["annotations"]["runbook"].partition("#")[2] in GUIDE.anchors()


def test_an_operator_is_scraped_once(helm: Helm) -> None:
    both = objects(helm, "serviceMonitor.enabled=true", "podMonitor.enabled=true", "webhook.metricsPort=8080")
    monitors = [(each["kind"], each["metadata"]["name"]) for each in both if each["kind"].endswith("Monitor")]
    assert sorted(monitors) == [("PodMonitor", "slurm-operator-webhook"), ("ServiceMonitor", "slurm-operator")]
    alone = objects(helm, "podMonitor.enabled=true")
    assert [each["metadata"]["name"] for each in alone if each["kind"] == "PodMonitor"] == ["slurm-operator"]


WRONG = {
    "an alert that there is not": (
        ("alerts.enabled=true", "alerts.disabled={SlurmNope}"),
        'alerts.disabled names "SlurmNope", but there is no such alert (there are: SlurmOperatorAbsent, ',
    ),
    "monitors of nothing": (
        ("podMonitor.enabled=true", "operator.metricsPort=0"),
        "podMonitor.enabled needs an operator.metricsPort or a webhook.metricsPort that is not 0",
    ),
    "secure metrics without a token": (
        ("podMonitor.enabled=true", "operator.metricsSecure=true"),
        "podMonitor.tokenSecret.name is needed with metricsSecure",
    ),
}


@pytest.mark.parametrize(("settings", "words"), WRONG.values(), ids=list(WRONG))
def test_what_cannot_work_is_refused_with_words(helm: Helm, settings: tuple[str, ...], words: str) -> None:
    arguments = [part for setting in settings for part in ("--set", setting)]
    done = helm.template("slurm-operator", *arguments, check=False)
    assert done.returncode != 0
    assert words in done.stderr


def test_the_values_of_the_guide_bring_all_of_it(helm: Helm, tmp_path: Path) -> None:
    (block,) = (each for each in GUIDE.blocks() if each.title == "monitoring.yaml")
    file = tmp_path / block.title
    file.write_text(block.text)
    rendered = [each for each in yaml.safe_load_all(helm.template("slurm-operator", "-f", str(file)).stdout) if each]
    kinds = [each["kind"] for each in rendered]
    assert {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"} <= set(kinds)
