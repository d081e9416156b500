"""Every form of values that the Go project documents is taken by the schemas; what is not taken gets to its words."""

from __future__ import annotations

import jsonschema
import pytest
from tests.charts.forms import Explained, Form, explained, forms
from tools import charts

FORMS = list(forms())
VALIDATORS = {chart: jsonschema.Draft7Validator(charts.schema(chart)) for chart in ("slurm", "slurm-operator")}


def test_there_are_as_many_as_people_have() -> None:
    assert len({(form.chart, form.id) for form in FORMS}) >= 500


@pytest.mark.parametrize("form", FORMS, ids=[f"{form.chart} {form.id}" for form in FORMS])
def test_a_schema_takes(form: Form) -> None:
    assert [error.message for error in VALIDATORS[form.chart].iter_errors(form.values)] == []


@pytest.mark.parametrize("form", explained(), ids=[form.id for form in explained()])
def test_a_schema_leaves_the_words_to_the_chart(form: Explained) -> None:
    """C9: a schema could only call them unknown."""
    assert [error.message for error in VALIDATORS[form.chart].iter_errors(form.values)] == []


def test_every_retired_value_has_a_sentence() -> None:
    for kind, table in charts.retired().items():
        for key, instead in table.items():
            assert len(instead) > 10, (kind, key)
