"""Both helms make of every form of values what is kept of it, or fail in words.

What is kept is checked without a helm in `tests/charts/test_forms.py`; that it converges is shown beside it, and here
in `test_converging.py`.
"""

from __future__ import annotations

import pytest
from tests.charts.forms import Explained, Form, explained, forms
from tests.charts.rendered_forms import objects_of, own
from tests.real.helm.command import Helm

FORMS = list(forms())


@pytest.mark.parametrize("form", FORMS, ids=[f"{form.chart} {form.id}" for form in FORMS])
def test_a_form_renders_to_what_is_kept_of_it(helm: Helm, form: Form) -> None:
    assert own(helm.form(form).stdout) == objects_of(form)


@pytest.mark.parametrize("form", explained(), ids=[form.id for form in explained()])
def test_what_is_not_taken_is_explained(helm: Helm, form: Explained) -> None:
    done = helm.form(form, check=False)
    assert done.returncode != 0
    assert form.words in done.stderr
