"""Findings as people read them: the path, the value, the likely meaning."""

from __future__ import annotations

import pytest

from slurm_operator.api.problem import FieldProblem, Path, did_you_mean, errors, format_path


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "(root)"),
        (("spec",), "spec"),
        (("spec", "template", "spec", "containers", 0, "name"), "spec.template.spec.containers[0].name"),
        (("metadata", "labels", "app.kubernetes.io/name"), 'metadata.labels["app.kubernetes.io/name"]'),
        ((0, "a"), "[0].a"),
        (("a\nb",), '["a\\nb"]'),
        (("a\n",), '["a\\n"]'),
    ],
    ids=["root", "field", "list", "label", "index first", "line break", "line break at the end"],
)
def test_a_path_reads_as_people_write_it(path: Path, text: str) -> None:
    assert format_path(path) == text


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("replica", '; did you mean "replicas"?'),
        ("Replicas", '; did you mean "replicas"?'),
        ("scalingmode", '; did you mean "scalingMode"?'),
        ("zebra", ""),
    ],
)
def test_a_near_miss_is_named(word: str, hint: str) -> None:
    assert did_you_mean(word, ["replicas", "scalingMode"]) == hint


def test_warnings_do_not_refuse() -> None:
    wrong, odd = FieldProblem(("a",), "wrong"), FieldProblem(("b",), "odd", "warning")
    assert errors([wrong, odd]) == [wrong]
    assert str(wrong) == "a: wrong"
