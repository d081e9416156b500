"""Hashes that tell when a daemon must see something new.

In: data of ConfigMaps and Secrets. Out: SHA-256 as hexadecimal text, the same that earlier releases wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

SHORT_CHARACTERS = 12


def of_map(data: Mapping[str, bytes] | Mapping[str, str]) -> str:
    """Hash of all values in the order of their keys; empty when there are none."""
    if not data:
        return ""
    return of_bytes(b"".join(_bytes(data[key]) for key in sorted(data)))


def of_text(text: str) -> str:
    """Hash of a text."""
    return of_bytes(text.encode())


def of_bytes(value: bytes) -> str:
    """Hash of bytes."""
    return sha256(value).hexdigest()


def short_hash(hash_: str) -> str:
    """As much of a hash as people read, and as a label holds."""
    return hash_[:SHORT_CHARACTERS]


def _bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value
