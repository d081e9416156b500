"""The items of a large JSON array, one after the other. In: the array's bytes. Out: the bytes of each item.

A decoder that splits an array as a whole needs some 65 bytes for each item, and a hostile array of 64 MiB has 32
million of them. So the array is walked in windows, and whoever has had enough items stops. Nothing of an item is kept
but its bytes. Called by `wire.py`; pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec

# Up to this size an array is split as a whole, which is faster.
SMALL_ARRAY_BYTES = 1024 * 1024
WINDOW_BYTES = 256 * 1024
# One job on 5,000 nodes is 4.6 MB.
LARGEST_ITEM_BYTES = 16 * 1024 * 1024

_BETWEEN = re.compile(r"[ \t\r\n,]*")
# What it builds is thrown away; objects already while it goes on.
_SCANNER = json.JSONDecoder(strict=False, object_hook=lambda _: None)


class ItemTooLarge(ValueError):
    """One item is larger than LARGEST_ITEM_BYTES."""


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
        elif size >= LARGEST_ITEM_BYTES:
            raise ItemTooLarge(f"an item has more than {LARGEST_ITEM_BYTES:,} bytes")
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
