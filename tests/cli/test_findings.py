"""Findings as lines and as data."""

from __future__ import annotations

import pytest

from slurm_operator.api.problem import FieldProblem
from slurm_operator.cli import findings
from slurm_operator.cli.findings import Finding
from slurm_operator.cli.manifests import Manifest, parse
from slurm_operator.cli.places import Problem


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        (Finding("a.yaml", 3, 5, "error", "is wrong", path="spec.a"), "a.yaml:3: spec.a: is wrong"),
        (Finding("a.yaml", 3, 5, "warning", "is odd", path="spec.a"), "a.yaml:3: warning: spec.a: is odd"),
        (Finding("a.yaml", 3, 5, "error", "is no YAML"), "a.yaml:3: is no YAML"),
        (Finding("a.yaml", 0, 0, "error", "is not there"), "a.yaml: is not there"),
    ],
    ids=["field", "warning", "file", "no line"],
)
def test_a_finding_is_one_line(finding: Finding, line: str) -> None:
    assert str(finding) == line


def manifest(text: str) -> Manifest:
    """The one manifest of a text."""
    (found,) = parse(text.encode(), "a.yaml")
    assert isinstance(found, Manifest)
    return found


def test_a_field_is_found_at_its_line() -> None:
    value = manifest("kind: A\nmetadata: {name: b, namespace: c}\nspec:\n  x: 1\n")
    finding = findings.of_field(value, FieldProblem(("spec", "x"), "is wrong"), "Code")
    assert (finding.line, finding.object, finding.path, finding.code) == (4, "A c/b", "spec.x", "Code")
    assert findings.of_field(value, FieldProblem(("spec", "x"), "is wrong"), line_offset=2).line == 6


def test_a_field_that_is_not_there_is_found_at_its_parent() -> None:
    value = manifest("kind: A\nspec:\n  x: 1\n")
    assert findings.of_field(value, FieldProblem(("spec", "y"), "is required")).line in (2, 3)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("kind: A\nmetadata: {name: b}\n", "A b"),
        ("kind: A\nmetadata: {name: b, namespace: c}\n", "A c/b"),
        ("kind: A\nmetadata: []\n", "A ?"),
        ("metadata: {name: b}\n", "? b"),
    ],
)
def test_an_object_is_named_as_people_name_it(text: str, title: str) -> None:
    assert findings.title(manifest(text).value) == title


def test_a_problem_of_the_reader_keeps_its_place() -> None:
    finding = findings.of_problem(Problem("a.yaml", 2, 3, "is no YAML"))
    assert (str(finding), finding.column, finding.code) == ("a.yaml:2: is no YAML", 3, "Unreadable")
    assert finding.as_json()["severity"] == "error"


def test_errors_are_counted_without_warnings() -> None:
    assert findings.errors([Finding("a", 1, 1, "error", "x"), Finding("a", 1, 1, "warning", "y")]) == 1
