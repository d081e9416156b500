"""Invalid bytes and unreadable fields. In: the bytes of a response, or one item of a list. Out: what msgspec reads.

A job's name is whatever its user typed, and slurmrestd passes it on: bytes that are not UTF-8, half surrogates, control
characters, NaN. Valid input is only looked at; what is not valid is replaced, character by character. An item whose
bad field decides nothing gets that field's default; one whose bad field decides something is unreadable. Called by
`wire.py`; pure.
"""

from __future__ import annotations

import codecs
import functools
import re
from typing import Any, ClassVar, TypeVar

import msgspec

_CHUNK_BYTES = 1024 * 1024
# An escaped backslash and a whole pair stay; half a pair does not.
_SURROGATES = re.compile(rb"(\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F]..", re.DOTALL)
_STRINGS_AND_ODD_NUMBERS = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|-?(?:NaN|Infinity)', re.DOTALL)
_CONTROL_TO_SPACE = bytes(max(code, 32) for code in range(256))

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


class Item(msgspec.Struct, frozen=True):
    """An item of a list. Fields without a default, and those named here, make it unreadable when they are bad."""

    ESSENTIAL: ClassVar[frozenset[str]] = frozenset()


I = TypeVar("I", bound=Item)  # noqa: E741


def as_utf8(body: bytes) -> bytes:
    """The same bytes when they are valid UTF-8; otherwise with U+FFFD for each that is not."""
    if body.isascii() or _is_utf8(body):
        return body
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    ends = range(_CHUNK_BYTES, len(body) + _CHUNK_BYTES, _CHUNK_BYTES)
    return b"".join(decoder.decode(body[end - _CHUNK_BYTES : end], end >= len(body)).encode() for end in ends)


def _is_utf8(body: bytes) -> bool:
    # In pieces: one emoji would make a string four times as large as the body.
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _CHUNK_BYTES):
            decoder.decode(body[start : start + _CHUNK_BYTES], start + _CHUNK_BYTES >= len(body))
    except UnicodeDecodeError:
        return False
    return True


def mended(body: bytes) -> bytes:
    """JSON that could not be read, without what a careless writer leaves in it; the structure is not touched."""
    body = body.translate(_CONTROL_TO_SPACE)
    body = _SURROGATES.sub(lambda found: found[1] or b"\\ufffd", body)
    if b"NaN" in body or b"Infinity" in body:
        body = _STRINGS_AND_ODD_NUMBERS.sub(lambda found: found[1] or b"null", body)
    return body


def decode(raw: msgspec.Raw | bytes, kind: type[I]) -> I:
    """One item; raises one of UNREADABLE when a field that decides something is bad or missing."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except UNREADABLE:
        return _field_by_field(raw, kind)


def _field_by_field(raw: msgspec.Raw | bytes, kind: type[I]) -> I:
    given = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    values: dict[str, Any] = {}
    for each in _fields(kind):
        if each.encode_name not in given:
            continue
        try:
            values[each.name] = _value(given[each.encode_name], each.type)
        except UNREADABLE:
            if each.required or each.name in kind.ESSENTIAL:
                raise
    missing = [each.name for each in _fields(kind) if each.required and each.name not in values]
    if missing:
        raise msgspec.ValidationError(f"the item lacks {missing[0]}")
    return kind(**values)


@functools.cache
def _fields(kind: type[Item]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """They cost half a millisecond, and a hostile list has thousands of bad items."""
    return msgspec.structs.fields(kind)


def _value(raw: msgspec.Raw, kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Item):
        return decode(raw, kind)
    return msgspec.json.decode(raw, type=kind)
