"""Kubernetes quantities: how many cores and how many MiB a limit stands for, and how Kubernetes itself spells it.

In: a quantity as YAML gives it. Out: an exact fraction, whole cores and MiB (for what slurmd is told), or the canonical
text (for `build/revision.py`, which hashes what a Go program would have written).
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

# A longer one is none: int() of thousands of digits is refused by Python.
MAX_NUMBER_CHARACTERS = 64
_FORM = re.compile(r"^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?$")
_BINARY: dict[str, int] = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def parse(text: str | int | float) -> Fraction | None:
    """The exact value, or None when it is no quantity."""
    written = str(text).strip()
    # Longer ones are no quantity of anything, and Python refuses to read thousands of digits.
    match = _FORM.match(written) if len(written) <= MAX_NUMBER_CHARACTERS else None
    if not match:
        return None
    number, suffix = Fraction(match[1]), match[2] or ""
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    power: int = 10 ** abs(exponent)
    return number * power if exponent >= 0 else number / power


def whole_cores(text: str | int | float | None) -> int:
    """A CPU limit in whole cores, rounded up; 0 when there is none."""
    value = parse(text) if text is not None else None
    return -(-value.numerator // value.denominator) if value else 0


def mebibytes(text: str | int | float | None) -> int:
    """A memory limit in MiB, rounded down; 0 when there is none."""
    value = parse(text) if text is not None else None
    return int(value / 2**20) if value else 0


@lru_cache(maxsize=1024, typed=True)
def canonical(text: str | int | float) -> str:
    """The quantity as Kubernetes writes it: the largest suffix that leaves a whole number."""
    value = parse(text)
    if value is None:
        return str(text)
    match = _FORM.match(str(text).strip())
    suffix = (match[2] if match else None) or ""
    if suffix in _BINARY and value.denominator == 1 and abs(value) >= 1024:
        return _binary(value.numerator)
    mantissa, exponent = _thousands(value)
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    letters = {power: letter for letter, power in _DECIMAL.items()}
    return f"{mantissa}{letters[exponent]}"


def _binary(value: int) -> str:
    suffix = ""
    for each in _BINARY:
        if value % 1024:
            break
        value, suffix = value // 1024, each
    return f"{value}{suffix}"


def _thousands(value: Fraction) -> tuple[int, int]:
    # Below a billionth Kubernetes rounds up; above E there is no suffix.
    exponent = max(_DECIMAL.values())
    while exponent > -9 and (value / Fraction(10) ** exponent).denominator != 1:
        exponent -= 3
    mantissa = value / Fraction(10) ** exponent
    return (-(-mantissa.numerator // mantissa.denominator), exponent) if value else (0, 0)
