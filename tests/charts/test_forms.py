"""Every form of values that the Go project documents is taken by the schemas; what is not taken gets to its words."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml
from tests.charts.forms import Explained, Form, explained, forms
from tests.charts.rendered_forms import groups, objects_of
from tests.charts.test_cases import NATIVE
from tools import charts

from slurm_operator.cli.check import check
from slurm_operator.cli.world import load

FORMS = list(forms())
# One form of each group: the others come to the same objects.
DISTINCT = [some[0] for chart in ("slurm", "slurm-operator") for some in groups(chart).values()]
# What a set of values may leave to be made by others, and what it would need to have an effect.
ELSEWHERE = ("is not in this namespace", "is not among the files", "reads this file only with GresTypes")
VALIDATORS = {chart: jsonschema.Draft7Validator(charts.schema(chart)) for chart in ("slurm", "slurm-operator")}


def test_there_are_as_many_as_people_have() -> None:
    assert len({(form.chart, form.id) for form in FORMS}) >= 500


@pytest.mark.parametrize("form", FORMS, ids=[f"{form.chart} {form.id}" for form in FORMS])
def test_a_schema_takes(form: Form) -> None:
    assert [error.message for error in VALIDATORS[form.chart].iter_errors(form.values)] == []


@cache
def check_schema(text: str) -> None:
    """Hold an object against Kubernetes' own schema; most forms have most objects in common."""
    value = json.loads(text)
    if value["apiVersion"] in NATIVE:
        kubernetes_validate.validate(value, "1.37", strict=True)


@pytest.mark.parametrize("form", DISTINCT, ids=[f"{form.chart} {form.id}" for form in DISTINCT])
def test_a_form_comes_to_objects_that_the_checker_and_the_schemas_of_kubernetes_take(
    form: Form, tmp_path: Path
) -> None:
    objects = objects_of(form)
    for each in objects:
        check_schema(json.dumps(each))
    made = tmp_path / "made.yaml"
    made.write_text(yaml.safe_dump_all(objects))
    world = load((str(made),))
    found = [*world.findings, *check(world, None)] if form.chart == "slurm" else []
    assert [str(each) for each in found if not any(words in each.message for words in ELSEWHERE)] == []


@pytest.mark.parametrize("form", explained(), ids=[form.id for form in explained()])
def test_a_schema_leaves_the_words_to_the_chart(form: Explained) -> None:
    """C9: a schema could only call them unknown."""
    assert [error.message for error in VALIDATORS[form.chart].iter_errors(form.values)] == []


def test_every_retired_value_has_a_sentence() -> None:
    for kind, table in charts.retired().items():
        for key, instead in table.items():
            assert len(instead) > 10, (kind, key)
