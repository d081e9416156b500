"""Every block of Helm values on the pages, rendered by the real helm and read by the checker."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.docs.yaml_blocks import Form, Shown, shown, takers
from tests.real.helm.command import Helm

from slurm_operator.cli.check import check
from slurm_operator.cli.world import load

VALUES = [each for each in shown() if each.form is Form.VALUES]


@pytest.mark.parametrize("block", VALUES, ids=[str(each) for each in VALUES])
def test_values_of_a_page_come_to_resources_that_are_right(helm: Helm, tmp_path: Path, block: Shown) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(block.block.text)
    for chart in takers(block.content):
        rendered = helm.template(chart, "-f", str(values)).stdout
        assert list(yaml.safe_load_all(rendered))
        if chart == "slurm":
            made = tmp_path / "made.yaml"
            made.write_text(rendered)
            world = load((str(made),))
            errors = [each for each in [*world.findings, *check(world, None)] if each.severity == "error"]
            assert [str(each) for each in errors] == []
