"""Quantities: what slurmd is told, and how Kubernetes spells them (the vectors come from apimachinery itself)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kube_runtime import quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", Fraction(1)),
        (2, Fraction(2)),
        ("1.5", Fraction(3, 2)),
        (0.25, Fraction(1, 4)),
        (".5", Fraction(1, 2)),
        ("100m", Fraction(1, 10)),
        ("1Ki", Fraction(1024)),
        ("1Ei", Fraction(2**60)),
        ("1k", Fraction(1000)),
        ("5n", Fraction(5, 10**9)),
        ("1e3", Fraction(1000)),
        ("1E-3", Fraction(1, 1000)),
        ("-2", Fraction(-2)),
        (" 4 ", Fraction(4)),
        ("many", None),
        ("", None),
        ("1 Gi", None),
        ("1e9999", None),
    ],
)
def test_a_quantity_is_read_exactly(text: Any, expected: Fraction | None) -> None:
    assert quantity.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "cores"),
    [(None, 0), ("0", 0), ("1", 1), ("15500m", 16), (0.1, 1), ("1m", 1), (8, 8), ("rubbish", 0)],
)
def test_cores_are_rounded_up(text: Any, cores: int) -> None:
    assert quantity.whole_cores(text) == cores


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [(None, 0), ("64Gi", 65536), ("1G", 953), ("1048575", 0), (1048576, 1), ("1.5Mi", 1), ("rubbish", 0)],
)
def test_memory_is_rounded_down(text: Any, mebibytes: int) -> None:
    assert quantity.mebibytes(text) == mebibytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (2, "2"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0", "0"),
        ("0Mi", "0"),
        ("0m", "0"),
        ("1024", "1024"),
        ("1000", "1k"),
        ("1000000", "1M"),
        ("1.25M", "1250k"),
        ("1.5", "1500m"),
        ("5.0", "5"),
        ("-1", "-1"),
        ("1u", "1u"),
        ("0.000000001", "1n"),
        ("1E", "1E"),
        ("1024Ki", "1Mi"),
        ("1536Ki", "1536Ki"),
        ("1000Ki", "1000Ki"),
        ("10Ki", "10Ki"),
        ("0.5Mi", "512Ki"),
        ("0.1Gi", "107374182400m"),
        ("1Ti", "1Ti"),
        ("1e3", "1e3"),
        ("100e3", "100e3"),
        ("12e6", "12e6"),
        ("2e-3", "2e-3"),
        ("1e-1", "100e-3"),
        ("1e0", "1"),
        ("2048Ei", "2048Ei"),
        ("rubbish", "rubbish"),
    ],
)
def test_the_spelling_of_kubernetes(text: Any, expected: str) -> None:
    assert quantity.canonical(text) == expected
