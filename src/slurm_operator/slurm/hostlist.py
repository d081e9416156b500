"""Slurm's host lists: `n[1-3,07]r[0-1],login` <-> names.

In: the text of a host list, or names. Out: names in Slurm's order, or the short text that `scontrol show hostlist`
prints for them. The linter, the partition builder and planner, the REST client and `kubectl slurm` call this; every
size is bounded, so a list that somebody typed can never eat the memory of the operator.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple

from slurm_operator.errors import Terminal

MAX_NAMES = 100_000

_SEPARATORS = re.compile(r"[, \t\r\n]*")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^, \t\r\n\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})", re.DOTALL)


class HostListError(Terminal):
    """A malformed or too long host list, with the column (from 1) of the first bad character."""

    reason: ClassVar[str] = "HostListInvalid"

    def __init__(self, text: str, column: int, problem: str) -> None:
        shown = text if len(text) <= 80 else text[:77] + "..."
        super().__init__(f"host list {shown!r}, column {column}: {problem}")
        self.text = text
        self.column = column
        self.problem = problem


class _Numbers(NamedTuple):
    """One number or range of a bracket, with the width that its first number was written in."""

    values: range
    width: int


class _Item(NamedTuple):
    """One item of a list: where it starts, its sign in an edit, its literals and brackets in turn, its size."""

    start: int
    sign: str
    pieces: list[str | list[_Numbers]]
    size: int

    def names(self) -> Iterator[str]:
        return map("".join, itertools.product(*map(_strings, self.pieces)))


def expand(text: str, *, limit: int = MAX_NAMES) -> list[str]:
    """All names of a host list, duplicates kept; HostListError if malformed or above `limit` names."""
    return [name for item in _items(text, limit) for name in item.names()]


def count(text: str, *, limit: int = MAX_NAMES) -> int:
    """How many names `expand` would give, and the same errors, without making the names."""
    return sum(item.size for item in _items(text, limit))


def compress(names: Iterable[str]) -> str:
    """The shortest text in the order given, as `scontrol show hostlist` writes it; padding is kept."""
    parts: list[str] = []
    for (prefix, numbered), group in itertools.groupby(map(_split, names), key=lambda split: split[:2]):
        numbers = [number for _, _, number in group]
        parts.extend([_ranged(prefix, numbers)] if numbered else [prefix] * len(numbers))
    return ",".join(parts)


def edit(current: Iterable[str], change: str) -> list[str]:
    """Apply `+a[1-2],-b3` to names; a change without any sign replaces them. Order kept, no duplicates."""
    items = list(_items(change, MAX_NAMES, signs="+-"))
    if not any(item.sign for item in items):
        return list(dict.fromkeys(name for item in items for name in item.names()))
    result = dict.fromkeys(current)
    for item in items:
        if item.sign == "+":
            result.update(dict.fromkeys(item.names()))
        elif item.sign == "-":
            for name in item.names():
                result.pop(name, None)
        else:
            raise HostListError(change, item.start + 1, "every item of an edit needs its sign, + or -")
    return list(result)


def _items(text: str, limit: int, signs: str = "") -> Iterator[_Item]:
    total, at = 0, _skip(text, 0)
    while at < len(text):
        start = at
        sign = text[at] if text[at] in signs else ""
        pieces, at = _pieces(text, at + len(sign))
        size = _size(pieces, limit)
        total += size
        if total > limit:
            raise HostListError(text, start + 1, f"the list has more than {limit} names")
        yield _Item(start, sign, pieces, size)
        at = _skip(text, at)


def _skip(text: str, at: int) -> int:
    separators = _SEPARATORS.match(text, at)
    return separators.end() if separators else at


def _pieces(text: str, at: int) -> tuple[list[str | list[_Numbers]], int]:
    """Literals and brackets of the item at `at`, in turn, and where the item ends."""
    start, pieces = at, list[str | list[_Numbers]]()
    while piece := _PIECE.match(text, at):
        inside, literal = piece.groups()
        pieces.append(literal if inside is None else _numbers(text, at + 1, inside))
        at = piece.end()
    if text[at : at + 1] == "[":
        raise HostListError(text, at + 1, "'[' is never closed")
    if text[at : at + 1] == "]":
        raise HostListError(text, at + 1, "']' without '['")
    if not pieces:
        raise HostListError(text, start + 1, "a name is missing")
    return pieces, at


def _numbers(text: str, at: int, inside: str) -> list[_Numbers]:
    """What stands in one bracket; `at` is where its inside starts."""
    numbers: list[_Numbers] = []
    for part in inside.split(","):
        bounds = _RANGE.fullmatch(part)
        if bounds is None:
            raise HostListError(text, at + 1, f"{part!r} is not a number or a range like 1-8")
        low, high = bounds[1], bounds[2] or bounds[1]
        if int(high) < int(low):
            raise HostListError(text, at + 1, f"range {part} runs backwards")
        numbers.append(_Numbers(range(int(low), int(high) + 1), len(low)))
        at += len(part) + 1
    return numbers


def _size(pieces: list[str | list[_Numbers]], limit: int) -> int:
    """How many names an item has; above `limit` the true number does not matter."""
    size = 1
    for piece in pieces:
        if not isinstance(piece, str):
            size *= sum(numbers.values.stop - numbers.values.start for numbers in piece)
        if size > limit:
            break
    return size


def _strings(piece: str | list[_Numbers]) -> list[str]:
    if isinstance(piece, str):
        return [piece]
    return [f"{number:0{numbers.width}d}" for numbers in piece for number in numbers.values]


def _split(name: str) -> tuple[str, bool, str]:
    """Prefix, whether a number follows, the number as written."""
    numbered = _NUMBERED.fullmatch(name)
    return (numbered[1], True, numbered[2]) if numbered else (name, False, "")


def _ranged(prefix: str, numbers: list[str]) -> str:
    if len(numbers) == 1:
        return prefix + numbers[0]
    ranges: list[list[str]] = []
    for number in numbers:
        if ranges and _follows(ranges[-1], number):
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return f"{prefix}[{','.join('-'.join(bounds) for bounds in ranges)}]"


def _follows(bounds: list[str], number: str) -> bool:
    """Does `number` continue the range, so that counting from its padded start gives it as written?"""
    following = int(bounds[-1]) + 1
    return number == f"{following:0{len(bounds[0])}d}"
