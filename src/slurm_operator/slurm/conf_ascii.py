"""Characters that look like ASCII and are not: what a word processor, a web page or an input method leaves behind.

In: a word of a configuration file. Out: the first such character, its name and what to write instead. Slurm takes the
character as it is, so a quote encloses nothing, a space parts nothing and a dash joins no numbers. Called by `conf.py`
for keys and by `conf_lint.py` for values; comments may hold anything.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

_BY_ASCII: Final = {
    '"': "\u201c\u201d\u201e\u201f\u00ab\u00bb\u301d\u301e",
    "'": "\u2018\u2019\u201b\u2032\u2039\u203a",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63",
    " ": "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "": "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff",
    "...": "\u2026",
    ",": "\u3001\u201a\ufe50",
    ".": "\u3002\u2024",
    ":": "\u2236\ufe55",
    "/": "\u2044\u2215",
    "*": "\u2217\u00d7",
    "=": "\ufe66",
}
# Full-width forms of the printable ASCII characters stand in the same order.
LOOKALIKES: Final[dict[str, str]] = {
    **{chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F)},
    **{odd: plain for plain, odds in _BY_ASCII.items() for odd in odds},
}
_LOOKALIKE: Final = re.compile(f"[{re.escape(''.join(LOOKALIKES))}]")
_OTHER: Final = re.compile(r"[^\x00-\x7f]")
_PARTS_NOTHING: Final = frozenset((*_BY_ASCII[" "], *_BY_ASCII[""]))
_QUOTES: Final = frozenset(_BY_ASCII['"'])


class Odd(NamedTuple):
    """A character that is not ASCII, and where it stands from 0."""

    offset: int
    character: str

    @property
    def harms(self) -> bool:
        """Whether no value can mean it: a space that parts nothing, a quote that encloses nothing."""
        return self.character in _PARTS_NOTHING or self.character in _QUOTES

    def describe(self, column: int) -> str:
        """The character itself, its number and its name; `column` is where the text around it begins."""
        name = unicodedata.name(self.character, "without a name").lower()
        sight = f"{self.character} " if self.character.isprintable() and self.character not in _PARTS_NOTHING else ""
        return f"{sight}U+{ord(self.character):04X} ({name}) in column {column + self.offset} is not ASCII"

    def advice(self) -> str:
        """What to write instead."""
        if self.character not in LOOKALIKES:
            return "an ASCII character"
        plain = LOOKALIKES[self.character]
        return {"": "nothing in its place", " ": "a plain space"}.get(plain, plain)


def lookalike(text: str) -> Odd | None:
    """The first character that looks like an ASCII one."""
    found = None if text.isascii() else _LOOKALIKE.search(text)
    return Odd(found.start(), found[0]) if found else None


def odd(text: str) -> Odd | None:
    """The first lookalike, else the first character that is not ASCII."""
    if text.isascii():
        return None
    found = _OTHER.search(text)
    return lookalike(text) or (Odd(found.start(), found[0]) if found else None)
