"""What a scalar of YAML stands for: what kubectl makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.yaml_text import values

from slurm_operator.cli.yaml_scalars import resolved

pytestmark = pytest.mark.usefixtures("parser")


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        *((word, True) for word in ("y", "Yes", "on", "TRUE", "!!bool yes")),
        *((word, False) for word in ("n", "no", "OFF", "False")),
        *((word, None) for word in ("", "~", "null", "NULL", '!!null ""')),
        *((word, word) for word in ("tRue", "nUll", "Noo", "0x", "1.2.3", "12:30", "v1", ".", "+", "=", "1e999")),
        *((word, word) for word in ("2001-01-01", "2001-12-14T21:59:43Z", "0x1ffffffffffffffff", "_1")),
        ('"yes"', "yes"), ("'1'", "1"), ("!!str 1", "1"), ("! 5", "5"), ("!!timestamp 2001-01-01", "2001-01-01"),
        ("0644", 420), ("0o17", 15), ("0b101", 5), ("-0x1F", -31), ("+1", 1), ("1_000", 1000), ("08", 8), ("00", 0),
        ('!!int "5"', 5), ("!!float 3", 3), ("1e3", 1000), ("1.0", 1), ("-0.0", 0), ("1.5", 1.5), (".5", 0.5),
        ("18446744073709551615", 18446744073709551615), ("-9223372036854775808", -(2**63)), ("0" * 80 + "7", 7),
        ("18446744073709551616", float(2**64)), ("+18446744073709551615", float(2**64)), ("1e20", 1e20),
    ],
)  # fmt: skip
def test_scalars_are_what_kubectl_makes_of_them(scalar: str, expected: Any) -> None:
    (value,) = values(f"a: {scalar}\n")
    assert value == {"a": expected}
    assert type(value["a"]) is type(expected)


@settings(deadline=None)
@given(st.text(alphabet="0123456789_.eExXbBoO+-yn~", min_size=1, max_size=8))
def test_a_plain_scalar_is_text_or_a_json_value(text: str) -> None:
    value = resolved(text)
    assert isinstance(value, str | int | float | None)
    assert not isinstance(value, str) or value == text
