"""The items of a large JSON array, one after the other. In: bytes. Out: the bytes of each item.

A decoder that splits an array as a whole needs some 65 bytes for each item, and a hostile array of 64 MiB has 32
million of them. So an array that is there is walked in windows (`items`), and one that is still on its way is split as
it comes (`ListStream`), so that the whole of it is never held. Whoever has had enough items stops. Called by `wire.py`;
pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from enum import Enum

import msgspec

# Up to this size an array is split as a whole, which is faster.
SMALL_ARRAY_BYTES = 1024 * 1024
WINDOW_BYTES = 256 * 1024
# One job on 5,000 nodes is 4.6 MB.
MAX_ITEM_BYTES = 16 * 1024 * 1024
# All that a response has beside its list, each key of it counted with what it costs to keep.
MAX_REST_BYTES = 1024 * 1024
KEY_BYTES = 64

_BETWEEN = re.compile(r"[ \t\r\n,]*")
_WHITE = b" \t\r\n"
_COLON = re.compile(r"[ \t\r\n]*:")
# What it builds is thrown away; objects already while it goes on.
_SCANNER = json.JSONDecoder(strict=False, object_hook=lambda _: None)


class ItemTooLarge(ValueError):
    """One item is larger than MAX_ITEM_BYTES."""


def items(array: msgspec.Raw | bytes) -> Iterator[bytes | msgspec.Raw]:
    """Each item of a valid JSON array; ValueError when it is none, RecursionError when it is nested too deeply."""
    view = memoryview(array)
    if bytes(view[:1]) != b"[":
        raise ValueError("expected a list")
    if len(view) <= SMALL_ARRAY_BYTES:
        yield from msgspec.json.decode(view, type=list[msgspec.Raw])
        return
    yield from _walked(view)


def _walked(view: memoryview) -> Iterator[bytes]:
    at, size = 1, WINDOW_BYTES
    while at < len(view):
        # One character for each byte: what structures JSON is ASCII, and positions stay the same.
        window = str(view[at : at + size], "latin-1")
        is_last = at + size >= len(view)
        used = 0
        for begin, end in _in_window(window, is_last=is_last):
            yield bytes(view[at + begin : at + end])
            used = end
        if is_last:
            return
        if used:
            at, size = at + used, WINDOW_BYTES
        elif size >= MAX_ITEM_BYTES:
            raise ItemTooLarge(f"an item has more than {MAX_ITEM_BYTES:,} bytes")
        else:
            size *= 2


def _in_window(window: str, *, is_last: bool) -> Iterator[tuple[int, int]]:
    """Where the items that end within a window begin and end."""
    at = 0
    while True:
        between = _BETWEEN.match(window, at)
        begin = between.end() if between else at
        if window[begin : begin + 1] in ("", "]"):
            return
        try:
            _, end = _SCANNER.raw_decode(window, begin)
        except json.JSONDecodeError:
            if is_last:
                raise
            return
        if end == len(window) and not is_last:
            # A number may go on behind the window.
            return
        yield begin, end
        at = end


class _At(Enum):
    """Where a stream has got to in `{"list": [item, …], "key": value, …}`."""

    START = "before the object"
    KEY = "before a key"
    VALUE = "before a value"
    LIST = "in the list"
    END = "behind the object"


class ListStream:
    """Takes a JSON object piece by piece, and hands over each item of one list in it as soon as it has come."""

    def __init__(self, name: str, take: Callable[[bytes], None]) -> None:
        self.name = name
        self._take = take
        self._buffer = bytearray()
        # A value that has not come to its end is read again when twice as much of it is there.
        self._enough_bytes = 0
        self._at = _At.START
        self._key = ""
        self._rest: dict[str, bytes] = {}
        self._rest_bytes = 0

    def feed(self, piece: bytes) -> None:
        """The next piece; ValueError when it is no such object, RecursionError when it is nested too deeply."""
        self._buffer += piece if self._buffer else piece.lstrip(_WHITE)
        if len(self._buffer) >= self._enough_bytes:
            self._read()
        if len(self._buffer) > MAX_ITEM_BYTES:
            raise ItemTooLarge(f"an item has more than {MAX_ITEM_BYTES:,} bytes")

    def _read(self) -> None:
        # One character for each byte: what structures JSON is ASCII, and positions stay the same.
        text, used = self._buffer.decode("latin-1"), 0
        while (end := self._step(text, used)) is not None:
            used = end
        del self._buffer[:used]
        self._enough_bytes = 2 * len(self._buffer)

    def close(self) -> bytes:
        """The object without the items of its list; ValueError when it has not come to its end."""
        self._read()
        if self._at is not _At.END:
            raise ValueError("the object is not complete")
        return b"{" + b",".join(json.dumps(key).encode() + b":" + value for key, value in self._rest.items()) + b"}"

    def _step(self, text: str, at: int) -> int | None:
        """Where the next part ends; None when more has to come first."""
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if at >= len(text):
            return None
        match self._at:
            case _At.START:
                return self._enter(text[at] == "{", _At.KEY, at)
            case _At.KEY if text[at] == "}":
                return self._enter(True, _At.END, at)
            case _At.KEY:
                return self._read_key(text, at)
            case _At.VALUE if self._key == self.name and text[at] == "[":
                self._keep(b"[]")
                return self._enter(True, _At.LIST, at)
            case _At.LIST if text[at] == "]":
                return self._enter(True, _At.KEY, at)
            case _At.VALUE | _At.LIST:
                return self._read_value(text, at)
            case _:
                raise ValueError("something follows the object")

    def _enter(self, is_right: bool, then: _At, at: int) -> int:
        if not is_right:
            raise ValueError("expected an object")
        self._at = then
        return at + 1

    def _read_key(self, text: str, at: int) -> int | None:
        end = _end_of_value(text, at)
        colon = _COLON.match(text, end) if end is not None else None
        if end is None or colon is None:
            return None
        self._key, self._at = str(json.loads(text[at:end], strict=False)), _At.VALUE
        return colon.end()

    def _read_value(self, text: str, at: int) -> int | None:
        end = _end_of_value(text, at)
        if end is None:
            return None
        value = bytes(self._buffer[at:end])
        if self._at is _At.LIST:
            self._take(value)
        else:
            self._keep(value)
            self._at = _At.KEY
        return end

    def _keep(self, value: bytes) -> None:
        if self._key == self.name and self._key in self._rest:
            raise ValueError(f"{self.name} comes twice")
        self._rest[self._key] = value
        # Counted as they come: a sum over all of them for each would take hours for a million.
        self._rest_bytes += KEY_BYTES + len(self._key) + len(value)
        if self._rest_bytes > MAX_REST_BYTES:
            raise ItemTooLarge(f"there are more than {MAX_REST_BYTES:,} bytes beside the list")


def _end_of_value(text: str, at: int) -> int | None:
    try:
        _, end = _SCANNER.raw_decode(text, at)
    except json.JSONDecodeError:
        return None
    # A number may go on.
    return None if end == len(text) else end
