"""What Kubernetes adds to CEL, as far as rules of CRDs use it.

In: nothing. Out: functions by name, to be registered beside those of the CEL package: lists, regular expressions,
quantities, addresses, text formatting. A quantity travels through CEL as a map with one key. Called by `cel_rules`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d+)?")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_KEY = "$quantity"

Quantity = dict[str, str]


def quantity_value(text: str) -> Decimal:
    """The number behind `1.5Gi`. ValueError where it is no quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"not a quantity: {text!r}")
    number, unit = Decimal(match[1]), match[2] or ""
    if unit in _BINARY:
        return number * Decimal(1024) ** _BINARY[unit]
    if unit in _DECIMAL:
        return number.scaleb(_DECIMAL[unit])
    try:
        return number.scaleb(int(unit[1:])) if unit else number
    except InvalidOperation as error:
        raise ValueError(f"not a quantity: {text!r}") from error


def _quantity(text: str) -> Quantity:
    return {_KEY: str(quantity_value(text))}


def _number(value: Any) -> Decimal:
    return Decimal(value[_KEY]) if isinstance(value, dict) else Decimal(value)


def _is_quantity(text: str) -> bool:
    return _succeeds(quantity_value, text)


def _succeeds(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _compare(left: Quantity, right: Quantity) -> int:
    one, other = _number(left), _number(right)
    return (one > other) - (one < other)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _is_cidr(text: str) -> bool:
    return "/" in text and _succeeds(lambda value: ipaddress.ip_network(value, strict=False), text)


def _is_sorted(items: list[Any]) -> bool:
    return all(one <= other for one, other in pairwise(items))


def _index_of(where: Any, what: Any, start: int = 0) -> int:
    if isinstance(where, str):
        return where.find(what, start)
    return next((i for i, item in enumerate(where) if item == what), -1)


def _last_index_of(where: Any, what: Any) -> int:
    if isinstance(where, str):
        return where.rfind(what)
    return next((i for i in range(len(where) - 1, -1, -1) if where[i] == what), -1)


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _format(template: str, arguments: list[Any]) -> str:
    values = iter(arguments)

    def one(match: re.Match[str]) -> str:
        return "%" if match[0] == "%%" else _formatted(match, next(values))

    return re.sub(r"%%|%(\.\d+)?([sdfexXbo])", one, template)


def _formatted(match: re.Match[str], value: Any) -> str:
    precision, verb = match[1] or "", match[2]
    if verb == "s":
        return _shown(value)
    if verb in "fe":
        return format(float(value), f"{precision or '.6'}{verb}")
    if verb in "xX" and isinstance(value, str):
        text = value.encode().hex()
        return text.upper() if verb == "X" else text
    return format(int(value), verb)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(item)}" for key, item in sorted(value.items())) + "}"
    return str(value)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "isSorted": _is_sorted,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "find": _find,
    "findAll": _find_all,
    "format": _format,
    "isURL": _is_url,
    "isIP": lambda text: _succeeds(ipaddress.ip_address, text),
    "isCIDR": _is_cidr,
    "isQuantity": _is_quantity,
    "quantity": _quantity,
    "compareTo": _compare,
    "isGreaterThan": lambda one, other: _compare(one, other) > 0,
    "isLessThan": lambda one, other: _compare(one, other) < 0,
    "sign": lambda one: (_number(one) > 0) - (_number(one) < 0),
    "isInteger": lambda one: _number(one) == _number(one).to_integral_value(),
    "asInteger": lambda one: int(_number(one)),
    "asApproximateFloat": lambda one: float(_number(one)),
    "add": lambda one, other: {_KEY: str(_number(one) + _number(other))},
    "sub": lambda one, other: {_KEY: str(_number(one) - _number(other))},
}
