"""Prometheus itself takes the alerts; each fires when it should, with the words it should, and is silent otherwise."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.charts import promtool
from tests.charts.rendering import CHARTS, HERE, golden

RULES = CHARTS / "slurm-operator" / "files" / "alerts.yaml"
GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
CASES: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "alert_cases.yaml").read_text())

needs_promtool = pytest.mark.skipif(promtool.find() is None, reason="there is no promtool (make helm-tools)")


def test_every_alert_has_a_case() -> None:
    assert list(CASES) == list(ALERTS)
    values = [each for case in CASES.values() for each in (case["fires"] | case["silent"]).values()]
    assert not [each for each in values if each.startswith("0x")], "promtool reads that as a number in base 16"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = promtool.find()
    assert program is not None
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=120)


@needs_promtool
def test_prometheus_takes_the_rules() -> None:
    done = run("check", "rules", str(RULES))
    assert (done.returncode, f"{len(ALERTS)} rules found" in done.stdout) == (0, True), done.stderr


@needs_promtool
def test_prometheus_takes_the_rules_as_the_chart_gives_them(tmp_path: Path) -> None:
    (rendered,) = (each for each in golden("slurm-operator", "monitoring") if each["kind"] == "PrometheusRule")
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rendered["spec"]))
    done = run("check", "rules", str(file))
    assert done.returncode == 0, done.stderr


@needs_promtool
def test_each_alert_fires_when_it_should_and_is_silent_otherwise(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [_short(group) for group in GROUPS]}))
    tests = [test for name, case in CASES.items() for test in (_fires(name, case), _silent(name, case))]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}))
    done = run("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def _short(group: dict[str, Any]) -> dict[str, Any]:
    """Without descriptions, which a case would have to repeat in full."""
    rules = [{**rule, "annotations": {"summary": rule["annotations"]["summary"]}} for rule in group["rules"]]
    return {**group, "rules": rules}


def _fires(name: str, case: dict[str, Any]) -> dict[str, Any]:
    labels = {**case["labels"], **ALERTS[name]["labels"]}
    return _test(name, case["fires"], case, [{"exp_labels": labels, "exp_annotations": {"summary": case["summary"]}}])


def _silent(name: str, case: dict[str, Any]) -> dict[str, Any]:
    return _test(name, case["silent"], case, [])


def _test(name: str, series: dict[str, str], case: dict[str, Any], expected: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": f"{name} {'fires' if expected else 'is silent'}",
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "alert_rule_test": [{"eval_time": case["after"], "alertname": name, "exp_alerts": expected}],
    }
