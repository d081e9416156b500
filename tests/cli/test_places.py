"""Every field has a line and a column, through lists, aliases and merge keys."""

from __future__ import annotations

import pytest

from slurm_operator.cli.manifests import Manifest, parse
from slurm_operator.cli.places import Problem

pytestmark = pytest.mark.usefixtures("parser")

NODESET = """\
# a remark
kind: NodeSet
metadata:
  name: gpu
spec:
  template:
    spec:
      containers:
      - name: a
        env: [{name: A}, {name: B}]
      -
        name: b
"""


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        pytest.param((), 2, 1, id="the document"),
        pytest.param(("metadata",), 3, 1, id="a key with an object"),
        pytest.param(("metadata", "name"), 4, 3, id="a field"),
        pytest.param(("spec", "template", "spec", "containers", 0), 9, 9, id="an item"),
        pytest.param(("spec", "template", "spec", "containers", 0, "env", 1, "name"), 10, 27, id="in flow style"),
        pytest.param(("spec", "template", "spec", "containers", 1, "name"), 12, 9, id="in the second item"),
        pytest.param(("spec", "replicas"), 5, 1, id="a missing field: the object around it"),
        pytest.param(("spec", "template", "spec", "containers", 7, "name"), 8, 7, id="a missing item: its list"),
        pytest.param(("spec", "template", "spec", "containers", "x"), 8, 7, id="a field of a list"),
        pytest.param(("metadata", 0), 3, 1, id="an item of an object"),
        pytest.param(("kind", "x", "y"), 2, 1, id="a field of text"),
    ],
)
def test_every_field_has_a_place(path: tuple[str | int, ...], line: int, column: int) -> None:
    (found,) = parse(NODESET.encode(), "f.yaml")
    assert isinstance(found, Manifest)
    assert (found.places.line(path), found.places.column(path)) == (line, column)


def test_places_follow_aliases_and_merge_keys_to_the_text() -> None:
    (found,) = parse(b"a: &x\n  p: 1\nb: *x\nc:\n  <<: *x\n  <<: [{q: 1}]\n", "f.yaml")
    assert isinstance(found, Manifest)
    assert [found.places.line(path) for path in (("b", "p"), ("b",), ("c", "p"), ("c", "q"))] == [2, 3, 2, 6]


def test_a_problem_prints_as_path_line_message() -> None:
    assert str(Problem("f.yaml", 3, 7, "odd")) == "f.yaml:3: odd"
