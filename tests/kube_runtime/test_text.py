"""Foreign text and values, as messages show them."""

from __future__ import annotations

import pytest

from kube_runtime.text import shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", '"plain"'),
        ("a\nb\x1b", '"a\\nb\\x1b"'),
        ("\ud800", '"\\ud800"'),
        (5, "5"),
        (True, "True"),
        (["a"], "['a']"),
        ("x" * 100, '"' + "x" * 58 + "…"),
    ],
    ids=["text", "control characters", "surrogate", "number", "boolean", "list", "long"],
)
def test_a_value_is_shown_short_and_on_one_line(value: object, text: str) -> None:
    assert shown(value) == text
