"""The string formats that Kubernetes checks in custom resources.

In: a string. Out: whether it has the format. Called by `validation`. Formats that Kubernetes knows but nobody uses in a
cluster (book numbers, card numbers, colours) are accepted as they are.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Final
from urllib.parse import urlsplit

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_HOST = re.compile(r"[a-zA-Z0-9](-?[a-zA-Z0-9]{0,62})?|([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}")
_MAC = re.compile(r"([0-9a-f]{2}[:-]){5}([0-9a-f]{2}[:-]?[0-9a-f]{2}[:-]?)?[0-9a-f]{2}", re.IGNORECASE)
_EMAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+|.*<[^@\s<>]+@[^@\s<>]+>")
_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?")
_DURATION = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h|d|w|[a-z]+)\s*)+)", re.IGNORECASE)


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    return match is not None and _reads(datetime.fromisoformat)(f"{match[1]}T{match[2]}")


def _date(text: str) -> bool:
    return len(text) == 10 and _reads(date.fromisoformat)(text)


def _network(text: str) -> bool:
    return "/" in text and _reads(lambda value: ipaddress.ip_network(value, strict=False))(text)


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _short_name(text: str) -> bool:
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def _long_name(text: str) -> bool:
    return len(text) <= 253 and all(_LABEL.fullmatch(part) for part in text.split("."))


def _accept(_text: str) -> bool:
    return True


def _fully(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


# By name without dashes, as the API server compares them.
KNOWN_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "datetime": _date_time,
    "date": _date,
    "duration": _fully(_DURATION),
    "ipv4": _reads(ipaddress.IPv4Address),
    "ipv6": _reads(ipaddress.IPv6Address),
    "cidr": _network,
    "mac": _fully(_MAC),
    "hostname": lambda text: len(text) <= 253 and _HOST.fullmatch(text) is not None,
    "uri": _uri,
    "email": _fully(_EMAIL),
    "uuid": _fully(_UUID),
    "uuid3": _fully(_UUID),
    "uuid4": _fully(_UUID),
    "uuid5": _fully(_UUID),
    "byte": _byte,
    "password": _accept,
    "k8sshortname": _short_name,
    "k8slongname": _long_name,
    **dict.fromkeys(("bsonobjectid", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor"), _accept),
}
