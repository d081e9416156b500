"""Generated files of the charts are fresh, values are documented, and schemas take and refuse what they should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.charts.rendering import CHARTS, NAMES, ROOT, cases, values_of
from tools import charts

FILES = charts.files()


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_a_file_is_not_stale(path: Path) -> None:
    assert path.read_text() == FILES[path], "run: make golden"


def test_no_definition_is_left_that_is_gone() -> None:
    shipped = {path.name for path in (CHARTS / "slurm-operator-crds" / "templates").glob("*.yaml")}
    assert shipped == {path.name for path in charts.CRDS.glob("*.yaml")}


@pytest.mark.parametrize("chart", NAMES)
def test_every_value_is_documented(chart: str) -> None:
    silent = [".".join(value.path) for value in _all(charts.values(chart)) if not value.text]
    assert silent == []


def _all(values: tuple[charts.Value, ...]) -> Iterator[charts.Value]:
    for value in values:
        yield value
        yield from _all(value.children)


def test_the_charts_are_in_lock_step() -> None:
    abouts = [yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text()) for chart in NAMES]
    assert len({about["version"] for about in abouts}) == 1
    assert {about["kubeVersion"] for about in abouts} == {">=1.29.0-0"}


@pytest.mark.parametrize(
    ("package", "chart"),
    [("0.1.0.dev0", "0.1.0-dev.0"), ("1.3.0", "1.3.0"), ("1.3.0rc1", "1.3.0-rc.1")],
    ids=["development", "release", "candidate"],
)
def test_a_version_is_written_as_helm_wants_it(package: str, chart: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "__version__", package)
    assert charts.chart_version() == chart


# Schemas


def schema(chart: str) -> jsonschema.Draft7Validator:
    content = json.loads((CHARTS / chart / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(content)
    return jsonschema.Draft7Validator(content)


@pytest.mark.parametrize("chart", NAMES)
def test_a_schema_takes_the_defaults(chart: str) -> None:
    defaults = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
    assert [error.message for error in schema(chart).iter_errors(defaults)] == []


@pytest.mark.parametrize(("chart", "case"), cases(), ids=["-".join(each) for each in cases()])
def test_a_schema_takes_the_values_of_a_case(chart: str, case: str) -> None:
    values = yaml.safe_load(values_of(chart, case).read_text())
    assert [error.message for error in schema(chart).iter_errors(values)] == []


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "a misspelt value": ("slurm", {"nodeset": {}}, "nodeset"),
    "a misspelt value of a node set": ("slurm", {"nodesets": {"a": {"replica": 3}}}, "replica"),
    "a number as text": ("slurm", {"nodesets": {"a": {"replicas": "3"}}}, "replicas"),
    "a list entry without a name": ("slurm", {"nodesets": [{"replicas": 3}]}, "name"),
    "a name that is none": ("slurm", {"nodesets": {"Big_Ones": {}}}, "Big_Ones"),
    "slurm.conf as a file": ("slurm", {"configFiles": {"slurm.conf": ""}}, "slurm.conf"),
    "a scaling mode that there is not": ("slurm", {"nodesetDefaults": {"scalingMode": "Deployment"}}, "Deployment"),
    "a cluster name that is too long": ("slurm", {"clusterName": "x" * 41}, "x" * 41),
    "a port that is none": ("slurm-operator", {"operator": {"metricsPort": 70000}}, "70000"),
    "a policy that there is not": ("slurm-operator", {"webhook": {"validating": {"failurePolicy": "Open"}}}, "Open"),
    "no worker at all": ("slurm-operator", {"operator": {"nodesetWorkers": 0}}, "0"),
}


@pytest.mark.parametrize(("chart", "values", "named"), WRONG.values(), ids=list(WRONG))
def test_a_schema_refuses(chart: str, values: dict[str, Any], named: str) -> None:
    errors = list(schema(chart).iter_errors(values))
    assert errors
    assert any(named in f"{error.message} {list(error.absolute_path)}" for error in errors)
