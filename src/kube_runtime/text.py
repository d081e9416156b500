"""Foreign text, made safe to show or to count with, and lists that are too long to show.

In: text that somebody else wrote: an API server, Slurm, a user. Out: one line, lines, or a number; nothing raises.
Called wherever such text becomes a message, a condition or a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec

MAX_SHOWN_CHARACTERS = 300
_MAX_VALUE_CHARACTERS = 60
_DIGITS = re.compile(r"[0-9]{1,18}")


def whole_number(text: str) -> int | None:
    """The number that plain digits write; None for anything else, and for what no counter of ours can hold."""
    return int(text) if _DIGITS.fullmatch(text) else None


def printable(text: str, max_characters: int = MAX_SHOWN_CHARACTERS) -> str:
    """Foreign text as one line to show: no control or bidi characters, no half surrogates, of bounded length."""
    if not text:
        return ""
    # Python's `isprintable` leaves out exactly the categories that act instead of showing: Cc, Cf, Cs, Zl, Zp and more.
    plain = "".join(c if c.isprintable() else " " for c in text[: 4 * max_characters])
    line = " ".join(plain.split())
    return line if len(line) <= max_characters else line[: max_characters - 1] + "…"


def printable_lines(text: str) -> str:
    """Foreign text of many lines to show on a terminal: its lines and tabs stay, nothing else acts."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


def first_few(items: Sequence[object], most: int = 5) -> str:
    """`a, b, c`; of more than `most` items the first ones: `a, b and 3 more`."""
    named = ", ".join(map(str, items[:most]))
    return named if len(items) <= most else f"{named} and {len(items) - most} more"


def shown(value: object) -> str:
    """A value in a message: short, on one line, with control characters made visible."""
    text = (
        _repr(value)
        if not isinstance(value, str)
        else '"' + value[:_MAX_VALUE_CHARACTERS].encode("unicode_escape").decode() + '"'
    )
    return text if len(text) <= _MAX_VALUE_CHARACTERS else text[: _MAX_VALUE_CHARACTERS - 1] + "…"


def _repr(value: object) -> str:
    try:
        return _as_written(value) if isinstance(value, msgspec.Struct) else repr(value)
    except (ValueError, RecursionError):
        # Python writes no number of more than 4,300 digits.
        return "a value too long to show"


def _as_written(value: msgspec.Struct) -> str:
    """A typed value as it is written in a manifest, without fields that are not set."""
    plain = msgspec.to_builtins(value)
    return json.dumps({key: item for key, item in plain.items() if item is not None})
