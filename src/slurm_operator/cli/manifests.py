"""Reads manifests the way kubectl does, and remembers where every field stands.

In: paths of files and directories, or `-` for standard input. Out: a stream of `Manifest` (one object, with the line
and column of each field) and `Problem` (what could not be read, and what to do). Nothing raises. Called by every
command that takes `-f`, and by those that take a file of flags or values. A document is built by `yaml_document.py`,
its scalars are read by `yaml_scalars.py`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import yaml
from yaml import events as parsed

from slurm_operator.cli.places import Place, Places, Problem
from slurm_operator.cli.yaml_document import Document, Node
from slurm_operator.cli.yaml_scalars import type_name

MAX_BYTES: Final = 16 * 1024 * 1024
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})

# After a syntax error the rest of the text is parsed anew; this bounds the work on a file full of them.
MAX_REPARSED: Final = 16 * MAX_BYTES

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SEPARATOR: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_SURROGATES: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_VISIBLE: Final = re.compile(r"\S")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object; `document` counts the documents of its source from 1."""

    source: str
    document: int
    value: dict[str, Any]
    places: Places


def read(paths: Iterable[str], stdin: BinaryIO | None = None) -> Iterator[Manifest | Problem]:
    """Read each path in turn: a file, all manifests below a directory in name order, or `-` for standard input."""
    for path in paths:
        if path == "-":
            yield from _read_stream(stdin or getattr(sys.stdin, "buffer", None), "<stdin>")
        elif Path(path).is_dir():
            yield from _read_directory(Path(path))
        else:
            yield from _read_file(Path(path))


def parse(data: bytes, source: str) -> Iterator[Manifest | Problem]:
    """Read the documents of one source that is already in memory."""
    for found in _roots(data, source):
        if isinstance(found, Problem):
            yield found
        else:
            yield from _objects(found.node.value, found.node.place, source, found.document)


def read_mapping(path: Path) -> dict[str, Any] | Problem:
    """The one mapping in a file that holds no manifest, such as flags or values; an empty file has an empty one."""
    source, data = str(path), _data(path)
    if isinstance(data, Problem):
        return data
    roots: list[Node] = []
    for found in _roots(data, source):
        if isinstance(found, Problem):
            return found
        if roots:
            return Problem(source, found.node.place.line, 1, "a second document: only one is read; remove it")
        roots.append(found.node)
    value: Any = roots[0].value if roots else {}
    return (
        value
        if isinstance(value, dict)
        else Problem(source, roots[0].place.line, 1, f"must be a mapping, not {type_name(value)}")
    )


def _read_directory(top: Path) -> Iterator[Manifest | Problem]:
    empty = True
    for found in _walk(top):
        empty = False
        if isinstance(found, Problem):
            yield found
        else:
            yield from _read_file(found)
    if empty:
        yield Problem(str(top), 0, 0, "no .yaml, .yml or .json file in or below this directory")


def _walk(directory: Path) -> Iterator[Path | Problem]:
    """Yield manifest files; hidden entries, pipes and linked directories (which may loop) are passed over."""
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        yield Problem(str(directory), 0, 0, _unreadable(error))
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            if not entry.is_symlink():
                yield from _walk(entry)
        elif entry.suffix.lower() in SUFFIXES and (entry.is_file() or not entry.exists()):
            yield entry


def _read_file(path: Path) -> Iterator[Manifest | Problem]:
    data = _data(path)
    if isinstance(data, Problem):
        yield data
    else:
        yield from parse(data, str(path))


def _data(path: Path) -> bytes | Problem:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        return Problem(str(path), 0, 0, _unreadable(error))


def _read_stream(stream: BinaryIO | None, source: str) -> Iterator[Manifest | Problem]:
    try:
        data = stream.read(MAX_BYTES + 1) if stream else None
    except (OSError, ValueError):
        data = None
    if data is None:
        yield Problem(source, 0, 0, "standard input is closed: pipe a manifest in, or name a file")
    else:
        yield from parse(data, source)


def _unreadable(error: OSError | ValueError) -> str:
    match error:
        case FileNotFoundError():
            return "no such file or directory: check the path, or give - to read standard input"
        case PermissionError():
            return "permission denied: check who may read it"
        case OSError():
            return f"cannot be read: {error.strerror or error}"
        case _:
            return "not a valid path"


def _decoded(data: bytes, source: str) -> str | Problem:
    if len(data) > MAX_BYTES:
        return Problem(source, 0, 0, f"larger than {MAX_BYTES >> 20} MB: split it into several files")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Problem(source, 1, 1, "UTF-16 text: save it as UTF-8")
    if (at := data.find(b"\0")) >= 0:
        return _problem_at(source, data[:at].decode("utf-8", "replace"), "NUL byte: this is not a text file")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        return _problem_at(source, before, f"byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8")
    if bad := _UNPRINTABLE.search(text):
        code = ord(bad.group())
        return _problem_at(source, text[: bad.start()], f"character U+{code:04X} is not allowed in YAML: remove it")
    return _SURROGATES.sub(_joined_surrogates, text) if text.lstrip()[:1] in ("{", "[") else text


def _problem_at(source: str, before: str, message: str) -> Problem:
    return Problem(source, before.count("\n") + 1, len(before) - before.rfind("\n"), message)


def _joined_surrogates(found: re.Match[str]) -> str:
    """JSON writes characters beyond U+FFFF as two escapes, which YAML does not know."""
    pair = bytes.fromhex(found.group(2) + found.group(3))
    return found.group(1) + pair.decode("utf-16-be")


@dataclass(frozen=True, slots=True)
class _Root:
    """What one document holds."""

    document: int
    node: Node


def _roots(data: bytes, source: str) -> Iterator[_Root | Problem]:
    text = _decoded(data, source)
    if isinstance(text, Problem):
        yield text
    else:
        yield from _documents(text, source)


def _documents(text: str, source: str) -> Iterator[_Root | Problem]:
    number, start, lines, budget = 0, 0, 0, MAX_REPARSED
    while start >= 0:
        end = _json_end(text, start) if start else len(text)
        budget -= end - start
        if budget < 0:
            yield _problem_at(source, text[:start], "too many broken documents: fix the ones above first")
            return
        chunk = _Chunk(text, start, end, source, number, lines)
        yield from chunk.results()
        lines += text.count("\n", start, max(start, chunk.resume))
        number, start = chunk.number, chunk.resume


def _json_end(text: str, start: int) -> int:
    """Find the end of one JSON object of several in a row, so that the rest is not parsed again and again."""
    if text.startswith("{", start):
        with suppress(ValueError, RecursionError):
            return json.JSONDecoder().raw_decode(text, start)[1]
    return len(text)


class _Chunk:
    """The text from one place on, up to its end or to the first syntax error; `resume` is where to go on, or -1."""

    def __init__(self, text: str, start: int, end: int, source: str, number: int, lines: int) -> None:
        following = _VISIBLE.search(text, end)
        self.number = number
        self.resume = following.start() if following else -1
        self._text = text
        self._start = start
        self._end = end
        self._source = source
        self._lines = lines

    def results(self) -> Iterator[_Root | Problem]:
        document = Document(self._source, self._lines)
        try:
            for event in yaml.parse(self._text[self._start : self._end], Loader=_LOADER):
                if isinstance(event, (parsed.NodeEvent, parsed.CollectionEndEvent)):
                    document.take(event)
                elif isinstance(event, parsed.DocumentEndEvent):
                    self.number += 1
                    yield from _of_document(document, self.number)
                    document = Document(self._source, self._lines)
                if document.given_up:
                    yield from document.problems
                    self._skip(self._index(event.start_mark))
                    return
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML's own scanner leaks the last two
            yield from document.problems
            yield from self._failed(error)

    def _failed(self, error: Exception) -> Iterator[Problem]:
        at = self._index(getattr(error, "problem_mark", None) or getattr(error, "context_mark", None))
        if at > self._start and "document start" in str(error) and self._text.startswith("{", at):
            self.resume = at  # JSON objects one after the other, as kubectl takes them
            return
        self._skip(at)
        yield _problem_at(self._source, self._text[:at], self._explained(error, at))

    def _index(self, mark: Any) -> int:
        return min(self._start + (mark.index if mark else 0), len(self._text))

    def _skip(self, at: int) -> None:
        """Leave this document: go on at the next separator, if there is one."""
        self.number += 1
        following = _SEPARATOR.search(self._text, max(at, self._start + 1))
        self.resume = following.start() if following else -1

    def _explained(self, error: Exception, at: int) -> str:
        if self._text.startswith("\t", at):
            return "a tab cannot indent YAML: use spaces"
        if not isinstance(error, yaml.MarkedYAMLError):
            return f"not valid YAML: {error}".splitlines()[0]
        message = f"not valid YAML: {error.problem or 'unreadable'}"
        if error.context and error.context_mark:
            message += f" ({error.context} that starts on line {self._lines + error.context_mark.line + 1})"
        return message


def _of_document(document: Document, number: int) -> Iterator[_Root | Problem]:
    if document.problems:
        yield from document.problems
    elif document.root is not None and document.root.value is not None:
        yield _Root(number, document.root)


def _objects(value: Any, place: Place, source: str, number: int) -> Iterator[Manifest | Problem]:
    """Yield the object, or the items of a list such as `kubectl get -o yaml` prints."""
    if not isinstance(value, dict):
        message = f"is {type_name(value)}: a manifest is an object with apiVersion and kind"
        yield Problem(source, place.line, place.column, message)
        return
    kind = value.get("kind")
    if kind != "List" and not (isinstance(kind, str) and kind.endswith("List") and "items" in value):
        yield Manifest(source, number, value, Places(place))
        return
    items = value.get("items") or []
    at = place.step("items") or place
    if not isinstance(items, list):
        yield Problem(source, at.line, at.column, f"items of a {kind} must be a list, not {type_name(items)}")
        return
    for index, item in enumerate(items):
        typed = _with_type(item, value) if kind != "List" else item
        yield from _objects(typed, at.step(index) or at, source, number)


def _with_type(item: Any, around: dict[str, Any]) -> Any:
    """Items of a PodList need not say that they are Pods."""
    if not isinstance(item, dict):
        return item
    given = {"apiVersion": around.get("apiVersion"), "kind": str(around["kind"]).removesuffix("List")}
    return {**{name: text for name, text in given.items() if text}, **item}
