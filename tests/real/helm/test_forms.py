"""Every form of values renders to what the checker and Kubernetes' schemas take, or fails in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.charts.forms import Explained, Form, explained, forms
from tests.charts.test_cases import NATIVE
from tests.real.helm.command import Helm

from slurm_operator.cli.check import check
from slurm_operator.cli.world import load

FORMS = list(forms())
# What a set of values may leave to be made by others.
ELSEWHERE = ("is not in this namespace", "is not among the files")


def rendered(helm: Helm, form: Form | Explained, folder: Path, *, wanted: bool) -> tuple[str, str]:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(form.values))
    done = helm.template(form.chart, "-f", str(file), check=False)
    assert (done.returncode == 0) is wanted, done.stderr[-2000:]
    return done.stdout, done.stderr


@pytest.mark.parametrize("form", FORMS, ids=[f"{form.chart} {form.id}" for form in FORMS])
def test_a_form_renders_to_good_objects(helm: Helm, tmp_path: Path, form: Form) -> None:
    text, _ = rendered(helm, form, tmp_path, wanted=True)
    objects: list[dict[str, Any]] = [each for each in yaml.safe_load_all(text) if each]
    for each in objects:
        if each["apiVersion"] in NATIVE:
            kubernetes_validate.validate(each, "1.37", strict=True)
    made = tmp_path / "made.yaml"
    made.write_text(text)
    world = load((str(made),))
    found = [*world.findings, *check(world, None)] if form.chart == "slurm" else []
    assert [str(each) for each in found if not any(words in each.message for words in ELSEWHERE)] == []


@pytest.mark.parametrize("form", explained(), ids=[form.id for form in explained()])
def test_what_is_not_taken_is_explained(helm: Helm, tmp_path: Path, form: Explained) -> None:
    _, said = rendered(helm, form, tmp_path, wanted=False)
    assert form.words in said
