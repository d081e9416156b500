"""What the page of differences says of this program is so: its flags, events, metrics, conditions and chart values."""

from __future__ import annotations

import re

import yaml
from tests.charts.rendering import CHARTS, ROOT

from kube_runtime.loop.controller_runtime_metrics import CONTROLLER_RUNTIME_METRICS
from slurm_operator.build import labels
from slurm_operator.build.pods import restricted
from slurm_operator.cli.flags import WITHOUT_EFFECT
from slurm_operator.cli.main import main

PAGE = (ROOT / "docs" / "concepts" / "differences.md").read_text()


def row(start: str) -> str:
    """The row of a subject."""
    (found,) = (line for line in PAGE.splitlines() if line.startswith(f"| {start}"))
    return found


def test_every_flag_that_is_named_is_one() -> None:
    named = set(re.findall(r"`(--[a-z0-9-]+)`", PAGE))
    known = {option for each in main.commands["run"].params for option in each.opts}
    assert named
    assert named <= known
    assert set(WITHOUT_EFFECT) <= named, "a flag without effect is a difference"


def test_every_event_reason_is_named() -> None:
    source = (ROOT / "src/slurm_operator/plan").glob("*.py")
    made = {reason for path in source for reason in re.findall(r'RecordEvent\(\s*"(\w+)"', path.read_text())}
    reasons = made
    assert {"ScalingUp", "ScalingDown"} <= reasons
    assert [reason for reason in sorted(reasons) if reason not in row("event reasons")] == []


def test_the_controller_runtime_metrics_have_no_host() -> None:
    assert "without the label `host`" in row("metrics")
    assert not any("host" in each.labels for each in CONTROLLER_RUNTIME_METRICS)


def test_daemons_are_as_hardened_as_the_page_says() -> None:
    said = row("rights of slurmctld")
    assert "all capabilities dropped" in said
    assert restricted()["capabilities"] == {"drop": ["ALL"]}
    assert restricted()["allowPrivilegeEscalation"] is False


def test_old_forms_are_still_read() -> None:
    assert f"`{labels.OLD_POD_CORDON}`" in PAGE
    assert f"`{labels.OLD_COMPONENT}`" in PAGE


def test_every_old_value_that_is_named_is_explained_by_the_chart() -> None:
    retired = yaml.safe_load((CHARTS / "slurm" / "files" / "retired.yaml").read_text())
    named = re.findall(r"`([\w.*]+)`", row("values of earlier charts").split("|")[1])
    assert len(named) >= 3
    for value in named:
        kind, _, key = value.rpartition(".*.")
        assert key in retired[kind or "root"]


def test_the_defaults_of_the_chart_are_those_of_the_page() -> None:
    values = yaml.safe_load((CHARTS / "slurm" / "values.yaml").read_text())
    assert (
        row("`controller.inplaceReconfigure`")
        .rstrip(" |")
        .endswith(str(values["controller"]["inplaceReconfigure"]).lower())
    )
    assert values["slurmKey"]["keep"] is values["jwtKey"]["keep"] is True
