"""Hashes as Kubernetes' own Go code writes them, so that names and labels agree with it.

In: JSON values, bytes or text. Out: Go's JSON, FNV-1, and text in letters that form no words. Called wherever a
ControllerRevision, a pod template or an EndpointSlice gets a name.
"""

from __future__ import annotations

import json
from typing import Any

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193


def go_json(value: Any) -> str:
    """Compact JSON with sorted keys and Go's escapes."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def fnv32(data_: bytes) -> int:
    """FNV-1, 32 bits."""
    result = _FNV_OFFSET
    for byte in data_:
        result = ((result * _FNV_PRIME) & 0xFFFFFFFF) ^ byte
    return result


def safe_encode(text: str) -> str:
    """Text in letters that cannot form words."""
    return "".join(ALPHABET[ord(sign) % len(ALPHABET)] for sign in text)
