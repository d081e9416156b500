"""What an object must look like to be judged; `test_migration.py` has what is said about one that does not."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_operator.diagnose.shapes import SHAPES, misfit

META = {"name": "a", "namespace": "b", "uid": "c", "labels": {"d": "e"}}


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    "more",
    [{}, {"status": {"x": []}}, dict.fromkeys(("spec", "data", "webhooks"))],
    ids=["bare", "with fields that nobody looks at", "with nulls"],
)
def test_an_object_with_nothing_wrong_fits(kind: str, more: dict[str, Any]) -> None:
    assert misfit(kind, {"metadata": META, **more}) == ""


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    "value",
    [{}, {"metadata": None}, {"metadata": []}, {"metadata": {**META, "name": "x" * 254, "namespace": "-A"}}],
    ids=["nothing", "null", "a list", "names that are none"],
)
def test_an_object_without_names_does_not(kind: str, value: dict[str, Any]) -> None:
    assert misfit(kind, value)
