"""The dictionary of hostile values, and how one of them gets into a document.

In: a JSON document and a path in it. Out: the document's bytes with a hostile value at that path. The values are raw
bytes, since many of them are no JSON that a library would write. Used by the campaigns R7 (answers) and R8 (manifests).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]

MEGABYTE = 1_000_000
DEEP_LEVELS = 2000
LONG_DIGITS = 5000
# What stands for the value while the rest of a document is written.
_HOLE = "hole-41f0c2"
_HOLE_BYTES = json.dumps(_HOLE).encode()


@dataclass(frozen=True, slots=True)
class HostileValue:
    """One value: its stable name, and its bytes."""

    name: str
    raw: bytes
    # Host-list bombs are also tried in forty items at once.
    is_bomb: bool = False


def _text(name: str, text: str) -> HostileValue:
    return HostileValue(name, json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _raw(name: str, raw: bytes | str) -> HostileValue:
    return HostileValue(name, raw if isinstance(raw, bytes) else raw.encode())


NOT_UNICODE = (
    _raw("utf8-invalid", b'"\xff\xfe"'),
    _raw("utf8-cut", b'"ab\xe2\x82"'),
    _raw("utf8-overlong", b'"\xc0\xaf"'),
    _raw("surrogate-bytes", b'"\xed\xa0\x80"'),
    _raw("surrogate-high", r'"\ud800"'),
    _raw("surrogate-low", r'"a\udfffb"'),
    _raw("surrogates-swapped", r'"\udc00\ud800"'),
)
ODD_TEXTS = (
    _text("empty", ""),
    _text("space", " "),
    _raw("nul", r'"a\u0000b"'),
    _raw("nul-byte", b'"a\x00b"'),
    _raw("newline-byte", b'"a\nb"'),
    _text("newline", "a\nSlurmUser=root\n"),
    _text("carriage-return", "a\rSlurmUser=root"),
    _text("controls", "".join(map(chr, range(1, 32))) + "\x7f\x85"),
    _text("escape", "\x1b[2J\x1b]0;owned\x07\x1b[31m"),
    _text("bidi", "\u202egpj.exe\u2066\u2069"),
    _text("zero-width", "a\u200b\u200d\ufeffb"),
    _text("line-separator", "a\u2028SlurmUser=root\u2029b"),
    _text("combining", "a" + "\u0301" * 300),
    _text("astral", "\U0001f4a3\U0010ffff"),
    _text("noncharacter", "\uffff\ufdd0"),
    _text("unicode-digits", "\u0661\u0662\u0663"),
    _text("superscript-digit", "\u00b2"),
    _text("slurm-conf", "a NodeName=evil State=DOWN"),
    _text("comment", "a # b \\"),
    _text("shell", "$(reboot); `id` && rm -rf / #"),
    _text("quotes", "\"'\\"),
    _text("html", "<script>alert(1)</script>"),
    _text("json", '{"a": [1, 2'),
    _text("yaml", "a: &x [*x, *x]"),
    _text("template", "{service}{0.__class__}%s%n"),
    _text("path", "../../etc/shadow"),
    _text("sql", "'; DROP TABLE jobs; --"),
    _text("our-reason", "slurm-operator: deletion"),
    _text("option", "--help"),
    _text("kilobyte", "x" * 1024),
    _text("megabyte", "x" * MEGABYTE),
    _text("megabyte-wide", "\u20ac" * (MEGABYTE // 3)),
)
TIMES = (
    _text("year-10192", "10192-01-01T00:00:00Z"),
    _text("year-0", "0000-01-01T00:00:00Z"),
    _text("leap-second", "2026-06-30T23:59:60Z"),
    _text("no-zone", "2026-01-31T22:00:00"),
    _text("far-zone", "2026-01-31T22:00:00+23:59"),
    _text("lowercase-time", "2026-01-31t22:00:00z"),
    _text("february-31", "2026-02-31T22:00:00Z"),
    _text("year-9999", "9999-12-31T23:59:59.999999999-23:59"),
    _text("week-date", "2026-W05-6"),
)
NUMBERS = (
    _raw("zero", "0"),
    _raw("one", "1"),
    _raw("minus-one", "-1"),
    _raw("minus-zero", "-0"),
    _raw("minus-zero-float", "-0.0"),
    _raw("fraction", "0.5"),
    _raw("minus-fraction", "-1.5"),
    _raw("year-10192-seconds", "259443648000"),
    _raw("year-10192-minutes", "4294967040"),
    _raw("int31", str(2**31)),
    _raw("int32", str(2**32)),
    _raw("int63", str(2**63)),
    _raw("int64", str(2**64)),
    _raw("minus-int63", str(-(2**63) - 1)),
    _raw("no-value-32", str(2**32 - 2)),
    _raw("no-value-64", str(2**64 - 2)),
    _raw("ten-to-400", "1" + "0" * 400),
    _raw("exponent-999", "1e999"),
    _raw("exponent-308", "1.7e308"),
    _raw("minus-exponent-999", "-1e999"),
    _raw("tiny", "1e-999"),
    _raw("nan", "NaN"),
    _raw("infinity", "Infinity"),
    _raw("minus-infinity", "-Infinity"),
    _raw("digits-5000", "9" * LONG_DIGITS),
    _text("digits-text", "9" * LONG_DIGITS),
    _text("minus-digits-text", "-" + "9" * LONG_DIGITS),
    _text("number-text", "7"),
    _text("hexadecimal-text", "0x7f"),
    _text("underscore-text", "1_000"),
    _text("infinity-text", "inf"),
)
OTHER_TYPES = (
    _raw("null", "null"),
    _raw("true", "true"),
    _raw("false", "false"),
    _raw("list", "[]"),
    _raw("object", "{}"),
    _raw("list-of-null", "[null]"),
    _raw("list-of-lists", "[[], [[]]]"),
    _raw("list-of-objects", "[{}, {}]"),
    _raw("list-of-numbers", "[1, -1, 1e999]"),
    _raw("list-of-duplicates", json.dumps(["a"] * 50)),
    _raw("list-of-10000", "[" + ",".join(['"a"'] * 10_000) + "]"),
    _raw("object-of-null", '{"set": null, "infinite": null, "number": null, "name": null}'),
    _raw("duplicate-keys", '{"set": true, "set": false, "number": 1, "number": "x", "a": 1, "a": []}'),
    _raw("odd-keys", json.dumps({"": 1, "a\nb": 2, "\u202e": 3, "__class__": 4, "x" * 3000: 5})),
    _raw("object-of-5000", json.dumps({f"k{number}": number for number in range(5000)})),
    _raw("infinite-number", '{"set": true, "infinite": true, "number": -1}'),
    _raw("huge-number", '{"set": true, "infinite": false, "number": 9223372036854775807}'),
    _raw("fraction-number", '{"set": true, "infinite": false, "number": 1e300}'),
    _raw("year-10192-number", '{"set": true, "infinite": false, "number": 259443648000}'),
    _raw("minus-number", '{"set": true, "infinite": false, "number": -9223372036854775808}'),
    _raw("deep-list", "[" * DEEP_LEVELS + "]" * DEEP_LEVELS),
    _raw("deep-object", '{"a":' * DEEP_LEVELS + "1" + "}" * DEEP_LEVELS),
)
HOST_LISTS = (
    HostileValue("hosts-100000", b'"n[0-99999]"', is_bomb=True),
    HostileValue("hosts-product", b'"n[0-9][0-9][0-9][0-9][0-9]"', is_bomb=True),
    HostileValue("hosts-million", b'"n[0-9][0-9][0-9][0-9][0-9][0-9]"', is_bomb=True),
    HostileValue("hosts-huge", b'"n[0-999999999999999999]"', is_bomb=True),
    _text("hosts-open", "n[0-9"),
    _text("hosts-close", "n0-9]"),
    _text("hosts-nested", "n[[0-9]]"),
    _text("hosts-backwards", "n[9-0]"),
    _text("hosts-empty-bracket", "n[]"),
    _text("hosts-commas", "," * 5000),
    _text("hosts-many-brackets", "n" + "[0-1]" * 200),
    _text("hosts-unicode", "n[\u0661-\u0663]"),
)

VALUES: tuple[HostileValue, ...] = (*NOT_UNICODE, *ODD_TEXTS, *TIMES, *NUMBERS, *OTHER_TYPES, *HOST_LISTS)
BY_NAME = {value.name: value for value in VALUES}


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place of a document, inner ones and the document itself too."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*path, index))


def shown(path: Path) -> str:
    """A path as a part of a point's name."""
    return ".".join(str(step).replace("/", "~1") for step in path) or "-"


def at(document: Any, path: Path) -> Any:
    """What stands at a path; KeyError, IndexError or TypeError when there is no such place."""
    for step in path:
        document = document[step]
    return document


@dataclass(frozen=True, slots=True)
class Hollow:
    """A document as bytes with one hole."""

    before: bytes
    after: bytes

    def filled(self, value: HostileValue) -> bytes:
        """The document with a value in its hole."""
        return self.before + value.raw + self.after


def hollow(document: Any, path: Path) -> Hollow:
    """The document with a hole at that path."""
    before, _, after = json.dumps(replaced(document, path, _HOLE)).encode().partition(_HOLE_BYTES)
    return Hollow(before, after)


def repeated(document: Any, path: Path, value: HostileValue, times: int) -> bytes:
    """The document with the value at that path, and the item of the outermost list that it stands in so many times."""
    index = next(number for number, step in enumerate(path) if isinstance(step, int))
    outer, inner = path[:index], path[index + 1 :]
    items = list(at(document, outer))
    item = hollow(items.pop(int(path[index])), inner).filled(value)
    others = [json.dumps(each).encode() for each in items]
    return hollow(document, outer).filled(HostileValue("", b"[" + b",".join([*others, *[item] * times]) + b"]"))


def replaced(document: Any, path: Path, value: Any) -> Any:
    """A copy with another value at that path; mappings on the way are made when they are missing."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(document) if isinstance(document, list) else []
        items += [{}] * (step + 1 - len(items))
        items[step] = replaced(items[step], rest, value)
        return items
    held = document if isinstance(document, dict) else {}
    return {**held, step: replaced(held.get(step), rest, value)}
