"""Slurm's host lists: `n[1-3,07]r[0-1],login` <-> names.

In: the text of a host list, or names. Out: names in Slurm's order, or the short text that `scontrol show hostlist`
prints for them. `HostList` keeps a list compressed and answers questions about it. The linter, the partition builder
and planner, the REST client and `kubectl slurm` call this; every size is bounded, so a list that somebody typed can
never eat the memory of the operator.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from kube_runtime.errors import Terminal

MAX_NAMES = 100_000
# A parsed range takes forty times the memory of its text: a list with more of them is parsed again when asked.
MAX_KEPT_RANGES = 8
MAX_NUMBER_DIGITS = 18
# Linux allows 64 characters, DNS 253.
MAX_NAME_CHARACTERS = 255

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

    def has(self, digits: str) -> bool:
        """Whether the range writes one of its numbers in exactly this way."""
        is_padded = digits[0] == "0" and digits != "0"
        fits = len(digits) == self.width or (len(digits) > self.width and not is_padded)
        return fits and int(digits) in self.values


class _Item(NamedTuple):
    """One item of a list: where it starts, its sign in an edit, its literals and brackets in turn, its size."""

    start: int
    sign: str
    pieces: list[str | list[_Numbers]]
    size: int

    def names(self) -> Iterator[str]:
        return map("".join, itertools.product(*map(_strings, self.pieces)))

    def has(self, name: str) -> bool:
        """Whether the name is one of the item's, found without making them."""
        first = self.pieces[0]
        if isinstance(first, str) and (len(self.pieces) == 1 or not name.startswith(first)):
            return name == first
        ends = {0}
        for piece in self.pieces:
            ends = {end for start in ends for end in _ends(piece, name, start)}
        return len(name) in ends

    @property
    def ranges(self) -> int:
        """How many literals and ranges there are to look at."""
        return sum(1 if isinstance(piece, str) else len(piece) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class HostList:
    """A host list that stays compressed; equal to another when it is written in the same way.

    HostListError when it is malformed or has more than MAX_NAMES names.
    """

    text: str = ""
    count: int = field(init=False, repr=False, compare=False)
    _ranges: int = field(init=False, repr=False, compare=False)
    _kept: tuple[_Item, ...] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        items = tuple(_items(self.text, MAX_NAMES))
        ranges = sum(item.ranges for item in items)
        object.__setattr__(self, "count", sum(item.size for item in items))
        object.__setattr__(self, "_ranges", ranges)
        object.__setattr__(self, "_kept", items if ranges <= MAX_KEPT_RANGES else None)

    @classmethod
    def of(cls, *names: str) -> HostList:
        """The list of these names."""
        return cls(compress(names))

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        return (name for item in self._parsed() for name in item.names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(item.has(name) for item in self._parsed())

    def within(self, known: Set[str]) -> frozenset[str]:
        """The names of the list that are known, by the shorter way: through the list, or through what is known."""
        if self.count <= len(known) * self._ranges:
            return frozenset(name for name in self if name in known)
        items = tuple(self._parsed())
        return frozenset(name for name in known if any(item.has(name) for item in items))

    def _parsed(self) -> Iterable[_Item]:
        return _items(self.text, MAX_NAMES) if self._kept is None else self._kept


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


def in_order(names: Iterable[str]) -> list[str]:
    """Names as people count them, each once: n9 before n10. `compress` makes the most of that order."""
    return sorted(set(names), key=_place)


def ranges(names: Iterable[str]) -> list[list[str]]:
    """Names in order, cut wherever `compress` would write a comma."""
    found: list[list[str]] = []
    for name in in_order(names):
        if found and _continues(found[-1], name):
            found[-1].append(name)
        else:
            found.append([name])
    return found


def _place(name: str) -> tuple[str, int, str]:
    prefix, _, number = _split(name)
    return prefix, len(number), number


def _continues(run: list[str], name: str) -> bool:
    (first, numbered, start), (prefix, _, number) = _split(run[0]), _split(name)
    return numbered and prefix == first and bool(number) and _follows([start, _split(run[-1])[2]], number)


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
        pieces, at = _pieces(text, at + len(sign), limit)
        size = _size(pieces, limit)
        total += size
        if total > limit:
            raise HostListError(text, start + 1, f"the list has more than {limit} names")
        yield _Item(start, sign, pieces, size)
        at = _skip(text, at)


def _skip(text: str, at: int) -> int:
    separators = _SEPARATORS.match(text, at)
    return separators.end() if separators else at


def _pieces(text: str, at: int, limit: int) -> tuple[list[str | list[_Numbers]], int]:
    """Literals and brackets of the item at `at`, in turn, and where the item ends."""
    start, pieces, length = at, list[str | list[_Numbers]](), 0
    while piece := _PIECE.match(text, at):
        inside, literal = piece.groups()
        length += 1 if inside is not None else len(literal)
        if length > MAX_NAME_CHARACTERS:
            raise HostListError(text, start + 1, f"a name is longer than {MAX_NAME_CHARACTERS} characters")
        pieces.append(literal if inside is None else _numbers(text, at + 1, inside, limit))
        at = piece.end()
    if text[at : at + 1] == "[":
        raise HostListError(text, at + 1, "'[' is never closed")
    if text[at : at + 1] == "]":
        raise HostListError(text, at + 1, "']' without '['")
    if not pieces:
        raise HostListError(text, start + 1, "a name is missing")
    return pieces, at


def _numbers(text: str, at: int, inside: str, limit: int) -> list[_Numbers]:
    """What stands in one bracket; `at` is where its inside starts."""
    numbers: list[_Numbers] = []
    if inside.count(",") >= limit:
        raise HostListError(text, at + 1, f"the list has more than {limit} names")
    for part in inside.split(","):
        bounds = _RANGE.fullmatch(part)
        if bounds is None:
            raise HostListError(text, at + 1, f"{part[:40]!r} is not a number or a range like 1-8")
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


def _ends(piece: str | list[_Numbers], name: str, start: int) -> Iterator[int]:
    """Where the piece may end when it begins at `start` of the name."""
    if isinstance(piece, str):
        if name.startswith(piece, start):
            yield start + len(piece)
        return
    for end in range(start + 1, min(len(name), start + MAX_NUMBER_DIGITS) + 1):
        digits = name[start:end]
        if not (digits.isascii() and digits.isdigit()):
            return
        if any(numbers.has(digits) for numbers in piece):
            yield end


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


EMPTY = HostList()
