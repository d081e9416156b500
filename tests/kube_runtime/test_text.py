"""Foreign text and values, as messages show them."""

from __future__ import annotations

import msgspec
import pytest

from kube_runtime.text import shown


class Reference(msgspec.Struct):
    name: str
    key: str
    optional: bool | None = None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", '"plain"'),
        ("a\nb\x1b", '"a\\nb\\x1b"'),
        ("\ud800", '"\\ud800"'),
        (5, "5"),
        (True, "True"),
        (["a"], "['a']"),
        (Reference(name="a", key="b"), '{"name": "a", "key": "b"}'),
        ("x" * 100, '"' + "x" * 58 + "…"),
    ],
    ids=["text", "control characters", "surrogate", "number", "boolean", "list", "struct", "long"],
)
def test_a_value_is_shown_short_and_on_one_line(value: object, text: str) -> None:
    assert shown(value) == text
