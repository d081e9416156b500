"""One document of YAML: a limit is met before the memory is spent."""

from __future__ import annotations

import pytest
from tests.cli.yaml_text import problems, values

from slurm_operator.cli import yaml_document
from slurm_operator.cli.manifests import Manifest, parse
from slurm_operator.cli.places import Problem

pytestmark = pytest.mark.usefixtures("parser")


def billion_laughs() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    return "\n".join(lines + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(billion_laughs(), "aliases repeat more than 200000 values", id="billion laughs"),
        pytest.param("a: " + "[" * 101, "nested deeper than 100 levels", id="brackets"),
        pytest.param("- " * 100_000, "nested deeper than 100 levels", id="dashes"),
        pytest.param("{a: " * 5000, "nested deeper than 100 levels", id="braces"),
        pytest.param(
            f"a: &x {'[' * 60}{']' * 60}\nb: {'[' * 60}*x{']' * 60}", "nested deeper than 100 levels by alias *x",
            id="depth by alias",
        ),
    ],
)  # fmt: skip
def test_a_bomb_is_refused(text: str, message: str) -> None:
    (found,) = problems(text)
    assert message in found


def test_a_document_after_a_bomb_is_read() -> None:
    found = list(parse(f"{'[' * 200}\n---\na: 1\n".encode(), "f"))
    assert [type(one) for one in found] == [Problem, Manifest]


def test_nesting_up_to_the_limit_is_read() -> None:
    assert len(values(f"a: {'[' * 99}{']' * 99}")) == 1


def test_more_values_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_document, "MAX_YAML_VALUES", 10)
    assert problems("a: [1, 2, 3, 4, 5, 6, 7, 8]") == ["1:26 more than 10 values in one document: split it"]


def test_an_aliased_object_is_a_copy() -> None:
    (value,) = values("a: &x {b: [1]}\nc: *x\n")
    value["a"]["b"].append(2)
    assert value["c"] == {"b": [1]}
