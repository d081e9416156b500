"""The language of slurm.conf and its sister files, read as Slurm reads it.

In: the text of a file and the texts that it may include. Out: a Document of entries, each with its place, and the
findings about what Slurm would refuse or misread. The linter, the builder's merge of extraConf and the partition
planner call this. Any text is welcome: nothing raises, every problem is a finding.

How Slurm reads: a physical line ends at an unescaped `#`; a line that ends in a backslash goes on in the next one; then
every backslash is dropped and the character after it kept. A line holds one `Key=Value`, or one record
(`PartitionName=p Nodes=a State=UP`), or `Include file` at its very start. Keys know no case. A value is one word, or
quoted; quotes do not protect `#`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Literal

import msgspec

from slurm_operator.slurm import conf_ascii

Severity = Literal["error", "warning"]

RECORDS = frozenset({"nodename", "nodeset", "partitionname", "downnodes", "frontendname", "poweraction"})
MAX_INCLUDE_DEPTH = 10
MAX_INCLUDES = 200
MAX_UNSAFE_LINES = 20
# A text of a megabyte takes ten as a document.
KEPT_DOCUMENTS = 8

_SPACE = " \t\n\v\f\r"
_PAIR = re.compile(
    r"[ \t\n\v\f\r]*+([A-Za-z0-9_.]++)[ \t\n\v\f\r]*+([-*+/]?)=([ \t\n\v\f\r]*+)"
    r'(?:"([^"]*+)"(?=[ \t\n\v\f\r]|\Z)|([^ \t\n\v\f\r]++))'
)
_KEY_ALONE = re.compile(r"[ \t\n\v\f\r]*+([A-Za-z0-9_.]++)[ \t\n\v\f\r]*+[-*+/]?=[ \t\n\v\f\r]*+\Z")
_LOOKS_LIKE_PAIR = re.compile(r"[A-Za-z][A-Za-z0-9_.]*=")
_ESCAPE = re.compile(r"\\.?", re.DOTALL)
_BEFORE_COMMENT = re.compile(r"(?:[^#\\]|\\(?:.|\Z))*+", re.DOTALL)
# A backslash may hide the word, or part it over two lines.
_MAY_INCLUDE = re.compile(r"include|\\", re.IGNORECASE)
_UNSAFE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\ufffd\ud800-\udfff]|\r(?!\Z)")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, where, and what to write instead. `code` is stable."""

    file: str
    line: int
    column: int
    severity: Severity
    code: str
    message: str
    expected: str | None = None
    suggestion: str | None = None
    # File and line of another entry that the message names as `file:line`.
    other: tuple[str, int] | None = None
    # Where its reader wrote it, when that is another place than the file and line.
    place: str = ""

    def __str__(self) -> str:
        where = self.place or f"{self.file}:{self.line}:{self.column}"
        return f"{where}: {self.severity}: {self.without_place}"

    @property
    def without_place(self) -> str:
        """For whoever did not write this line."""
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        expected = f" (expected {self.expected})" if self.expected else ""
        return f"{self.message}{expected}{hint}"


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One `Key=Value` with its place; a record carries the other pairs of its line as attributes."""

    key: str
    value: str
    file: str
    line: int
    column: int
    value_column: int
    operator: str = ""
    attributes: tuple[Entry, ...] = ()

    def attribute(self, key: str) -> Entry | None:
        """The attribute of a record; the last one counts."""
        wanted = key.lower()
        return next((pair for pair in reversed(self.attributes) if pair.key.lower() == wanted), None)


class Document(msgspec.Struct, frozen=True):
    """All entries in the order in which Slurm sees them, included files in place."""

    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...]

    def get(self, key: str) -> str | None:
        """The value that Slurm would use: the last one."""
        wanted = key.lower()
        return next((entry.value for entry in reversed(self.entries) if entry.key.lower() == wanted), None)

    def all(self, key: str) -> Iterator[Entry]:
        """Every entry or record with this key, in order."""
        wanted = key.lower()
        return (entry for entry in self.entries if entry.key.lower() == wanted)


def parse(
    text: str,
    *,
    file: str = "slurm.conf",
    includes: Mapping[str, str] | None = None,
    records: frozenset[str] = RECORDS,
) -> Document:
    """Read a file; `includes` maps file names to texts, `records` names (lower case) the keys of record lines."""
    if not _MAY_INCLUDE.search(text):
        return _alone(text, file, records)
    return _read(text, file, includes or {}, records)


@lru_cache(maxsize=KEPT_DOCUMENTS)
def _alone(text: str, file: str, records: frozenset[str]) -> Document:
    """A file that includes none: one reconcile reads the same text several times, and the next one once more."""
    return _read(text, file, {}, records)


def _read(text: str, file: str, includes: Mapping[str, str], records: frozenset[str]) -> Document:
    reader = _Reader(includes, records)
    reader.read(text, file)
    return Document(tuple(reader.entries), tuple(reader.findings))


def shorten(text: str, limit: int = 200) -> str:
    """A message must stay readable, however long the name or value that it quotes."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def unsafe_characters(text: str, file: str) -> Iterator[Finding]:
    """Control characters and text that was not UTF-8: one finding a line, and a bound, for binary rubbish."""
    if not _UNSAFE.search(text):
        return
    found = ((number, unsafe) for number, raw in enumerate(text.split("\n"), 1) if (unsafe := _UNSAFE.search(raw)))
    for number, unsafe in islice(found, MAX_UNSAFE_LINES):
        code, message = _unsafe_problem(unsafe.group())
        yield Finding(
            file=file,
            line=number,
            column=unsafe.start() + 1,
            severity="error",
            code=code,
            message=message,
        )


class _Line:
    """A logical line: its text after comments, continuations and escapes, and where each part came from."""

    __slots__ = ("breaks", "file", "text")

    def __init__(self, text: str, file: str, breaks: list[tuple[int, int, int]]) -> None:
        self.text = text
        self.file = file
        self.breaks = breaks  # (offset in text, line, column), ascending, the first offset is 0

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1, of an offset."""
        start, line, column = self.breaks[0]
        if len(self.breaks) > 1:
            after = bisect_right(self.breaks, offset, key=lambda broken: broken[0])
            start, line, column = self.breaks[after - 1]
        return line, column + offset - start


class _Reader:
    """Walks a file and what it includes; collects entries and findings."""

    def __init__(self, includes: Mapping[str, str], records: frozenset[str]) -> None:
        self.includes = includes
        self.records = records
        self.entries: list[Entry] = []
        self.findings: list[Finding] = []
        self.open_files: list[str] = []
        self.included = 0

    def read(self, text: str, file: str) -> None:
        self.open_files.append(file)
        self.findings.extend(unsafe_characters(text, file))
        for line in self._logical_lines(text, file):
            if line.text[:7].lower() == "include" and line.text[7:8].strip(_SPACE) == "":
                self._include(line)
            else:
                self._pairs(line)
        self.open_files.pop()

    def _report(self, line: _Line, offset: int, code: str, message: str, *, suggestion: str | None = None) -> None:
        number, column = line.place(offset)
        self.findings.append(
            Finding(
                file=line.file,
                line=number,
                column=column,
                severity="error",
                code=code,
                message=shorten(message),
                suggestion=suggestion,
            )
        )

    def _logical_lines(self, text: str, file: str) -> Iterator[_Line]:
        pending: list[tuple[int, str]] = []
        for number, raw in enumerate(text.split("\n"), 1):
            kept = self._without_comment(raw, file, number) if "#" in raw else raw
            if "\\" in kept or pending:
                kept, continues = _continuation(kept)
                pending.append((number, kept))
                if continues:
                    continue
                line = _join(pending, file)
                pending = []
            else:
                line = _Line(kept, file, [(0, number, 1)])
            if line.text.strip(_SPACE):
                yield line
        if pending:
            yield _join(pending, file)

    def _without_comment(self, raw: str, file: str, number: int) -> str:
        before = _BEFORE_COMMENT.match(raw)
        end = before.end() if before else 0
        if end < len(raw) and raw.count('"', 0, end) % 2:
            self._report(
                _Line(raw, file, [(0, number, 1)]),
                end,
                "HashInQuotes",
                "Slurm ends the line at '#', quotes do not protect it",
                suggestion="\\#",
            )
        return raw[:end]

    def _pairs(self, line: _Line) -> None:
        first = _PAIR.match(line.text)
        if first is None:
            self._not_a_pair(line)
            return
        attributes: list[Entry] = []
        end = first.end()
        if first[1].lower() in self.records:
            while pair := _PAIR.match(line.text, end):
                attributes.append(self._entry(line, pair))
                end = pair.end()
        self.entries.append(self._entry(line, first, tuple(attributes)))
        self._nothing_follows(line, end)

    def _entry(self, line: _Line, pair: re.Match[str], attributes: tuple[Entry, ...] = ()) -> Entry:
        key, operator, gap, quoted, bare = pair.groups()
        value = bare if quoted is None else quoted
        number, column = line.place(pair.start(1))
        value_at = pair.end(3)
        if gap and bare and _LOOKS_LIKE_PAIR.match(bare):
            self._report(line, value_at, "EmptyValue", f"{key} has no value: Slurm takes {bare} for it")
        elif bare and '"' in bare:
            self._report(line, value_at, "UnbalancedQuote", f"the quotes of {key} do not enclose its whole value")
        return Entry(key, value, line.file, number, column, line.place(value_at)[1], operator, attributes)

    def _nothing_follows(self, line: _Line, end: int) -> None:
        rest = line.text[end:].strip(_SPACE)
        if not rest:
            return
        offset = line.text.index(rest, end)
        if odd := conf_ascii.odd(rest):
            self._not_ascii(line, offset, odd)
        elif alone := _KEY_ALONE.match(rest):
            self._report(line, offset, "EmptyValue", f"{alone[1]} has no value")
        else:
            message = f"Slurm cannot read the rest of the line: {shorten(rest, 60)}"
            self._report(line, offset, "TrailingText", message)

    def _not_a_pair(self, line: _Line) -> None:
        parts = line.text.split()
        if odd := conf_ascii.odd(line.text):
            self._not_ascii(line, 0, odd)
        elif alone := _KEY_ALONE.match(line.text):
            self._report(line, alone.start(1), "EmptyValue", f"{alone[1]} has no value")
        elif parts[:1] and parts[0].lower() == "include":
            self._report(line, 0, "IndentedInclude", "Include must stand at the start of its line")
        else:
            offset = len(line.text) - len(line.text.lstrip(_SPACE))
            self._report(line, offset, "NotAPair", "this line is not of the form Key=Value")

    def _not_ascii(self, line: _Line, offset: int, odd: conf_ascii.Odd) -> None:
        """What keeps a line from being read, named; without it the rest would be called unreadable."""
        column = line.place(offset + odd.offset)[1]
        message = f"{odd.describe(column - odd.offset)}, and Slurm cannot read the line"
        number, _ = line.place(offset + odd.offset)
        self.findings.append(
            Finding(
                file=line.file,
                line=number,
                column=column,
                severity="error",
                code="NotAscii",
                message=shorten(message),
                expected=odd.advice(),
            )
        )

    def _include(self, line: _Line) -> None:
        parts = line.text[7:].split(maxsplit=1)
        if not parts:
            self._report(line, 0, "MissingInclude", "Include names no file")
            return
        written = parts[0]
        offset = line.text.index(written, 7)
        self._nothing_follows(line, offset + len(written))
        name = self._included_name(written)
        if problem := self._include_problem(written, name):
            self._report(line, offset, *problem)
            return
        self.included += 1
        self.read(self.includes[name], name)

    def _included_name(self, written: str) -> str:
        """The key of the file in the mapping: Slurm looks beside slurm.conf, and puts the cluster for %c."""
        cluster = Document(tuple(self.entries), ()).get("ClusterName") if "%c" in written else None
        name = written.replace("%c", cluster.lower()) if cluster else written
        return name if name in self.includes else name.rpartition("/")[2]

    def _include_problem(self, written: str, name: str) -> tuple[str, str] | None:
        if name in self.open_files:
            return "CyclicInclude", f"{written} includes itself: {' -> '.join([*self.open_files, name])}"
        if name not in self.includes:
            return "MissingInclude", f"included file {written} is missing; slurmctld would wait for it for 60 s"
        if len(self.open_files) > MAX_INCLUDE_DEPTH:
            return "IncludeTooDeep", f"files are included more than {MAX_INCLUDE_DEPTH} deep"
        if self.included >= MAX_INCLUDES:
            return "TooManyIncludes", f"more than {MAX_INCLUDES} files are included"
        return None


def _continuation(kept: str) -> tuple[str, bool]:
    """The line without the backslash that continues it, and whether there was one."""
    body = kept.rstrip(_SPACE)
    backslashes = len(body) - len(body.rstrip("\\"))
    return (body[:-1], True) if backslashes % 2 else (kept, False)


def _join(pending: list[tuple[int, str]], file: str) -> _Line:
    """One logical line out of physical ones; a backslash goes, what it protected stays."""
    pieces: list[str] = []
    breaks: list[tuple[int, int, int]] = []
    length = 0
    for number, kept in pending:
        starts = [0, *(escape.start() + 1 for escape in _ESCAPE.finditer(kept))]
        ends = [*(start - 1 for start in starts[1:]), len(kept)]
        for start, end in zip(starts, ends, strict=True):
            breaks.append((length, number, start + 1))
            pieces.append(kept[start:end])
            length += end - start
    return _Line("".join(pieces), file, breaks)


def _unsafe_problem(character: str) -> tuple[str, str]:
    if character == "\ufeff":
        return "ByteOrderMark", "a byte order mark; Slurm reads it as part of the key"
    if character >= "\ud800":
        return "BadEncoding", "this is not UTF-8 text"
    return "ControlCharacter", f"control character U+{ord(character):04X}"
