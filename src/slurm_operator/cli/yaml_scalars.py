"""What a scalar of YAML stands for: the values that kubectl gives it (sigs.k8s.io/yaml over go-yaml 2). Pure.

In: the text of a scalar, and its tag. Out: a value of JSON; ValueError for one that JSON cannot say. Called by
`cli/yaml_document.py`. `yes`, `on` and `y` are booleans, `0644` is octal, `1_000` is a number, `1e3` is 1000,
timestamps stay text.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

_INTEGER: Final = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
CORE_TAG: Final = "tag:yaml.org,2002:"
_CONSTANTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}


def resolved(text: str) -> Any:
    """Give a plain scalar the value that kubectl gives it; ValueError for numbers that JSON cannot say."""
    if text in _CONSTANTS:
        return _json_number(value) if isinstance(value := _CONSTANTS[text], float) else value
    if text[0] not in "+-.0123456789":
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    if _INTEGER.fullmatch(digits) and (integer := _integer(digits)) is not None:
        return integer
    if _FLOAT.fullmatch(digits) and math.isfinite(number := float(digits)):
        return _json_number(number)
    return text


def _integer(digits: str) -> int | None:
    """Read an integer of at most 64 bits, with or without sign; anything longer is no integer to Go."""
    body = digits.lstrip("+-")
    octal = len(body) > 1 and body[0] == "0" and body[1].isdigit()
    if len(body) > 70:
        return None
    number = int(digits, 8) if octal else int(digits, 0)
    top = 2**63 if body != digits else 2**64
    return number if -(2**63) <= number < top else None


def _json_number(number: float) -> int | float:
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a number that Kubernetes takes: put it in quotes to make it text")
    return int(number) if number.is_integer() and abs(number) < 2**63 else number


def tagged(text: str, tag: str) -> Any:
    """Read a scalar with an explicit tag; LookupError for a tag that is not of the core."""
    name = tag.removeprefix(CORE_TAG)
    if name in ("str", "!", "timestamp"):
        return text
    wanted = {"int": (int,), "float": (float, int), "bool": (bool,), "null": (type(None),)}[name]
    value = resolved(text)
    if not isinstance(value, wanted) or (isinstance(value, bool) and name != "bool"):
        raise ValueError(f"{text!r} is not of the type that its tag !!{name} says")
    return value


def type_name(value: Any) -> str:
    """What a value is called in a sentence."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case _:
            return "text"
