"""No function of a planner or a reconciler takes more than six parameters: what belongs together is one value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

SOURCE = ROOT / "src/slurm_operator"
MAX_PARAMETERS = 6


def files() -> list[Path]:
    return sorted(path for folder in ("plan", "reconcile") for path in (SOURCE / folder).rglob("*.py"))


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    named = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in named if name not in ("self", "cls")]


def too_long(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and len(parameters(node)) > MAX_PARAMETERS:
            yield str(path.relative_to(SOURCE)), node.name


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_function_takes_at_most_six_parameters(path: Path) -> None:
    assert list(too_long(path)) == []
