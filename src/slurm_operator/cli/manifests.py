"""Reads manifests the way kubectl does, and remembers where every field stands.

In: paths of files and directories, or `-` for standard input. Out: a stream of `Manifest` (one object, with the line
and column of each field) and `Problem` (what could not be read, and what to do). Nothing raises. Called by every
command that takes `-f`.

Scalars follow the YAML that kubectl speaks (sigs.k8s.io/yaml over go-yaml 2): `yes`, `on` and `y` are booleans,
`0644` is octal, `1_000` is a number, `1e3` is 1000, timestamps stay text. Stricter than kubectl on purpose: duplicate
keys, keys that are not text, foreign tags and aliases that blow up are refused.

A document is built straight from parser events, without recursion: a limit is met before the memory is spent.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import yaml
from yaml import events as parsed

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 100
MAX_NODES: Final = 1_000_000
MAX_ALIASED_NODES: Final = 200_000
MAX_PROBLEMS_PER_DOCUMENT: Final = 20
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})

# After a syntax error the rest of the text is parsed anew; this bounds the work on a file full of them.
MAX_REPARSED: Final = 16 * MAX_BYTES

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SEPARATOR: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_SURROGATES: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_VISIBLE: Final = re.compile(r"\S")
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_INTEGER: Final = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CORE_TAG: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}


class Place(NamedTuple):
    """Where one value stands, and where the values inside it do; lines and columns count from 1."""

    line: int
    column: int
    inside: dict[str, Place] | list[Place] | None = None

    def step(self, step: str | int) -> Place | None:
        """Return the place of one field or item inside."""
        found: Place | None = None
        if isinstance(self.inside, dict) and isinstance(step, str):
            found = self.inside.get(step)
        elif isinstance(self.inside, list) and isinstance(step, int) and 0 <= step < len(self.inside):
            found = self.inside[step]
        return found


@dataclass(frozen=True, slots=True)
class Places:
    """Finds the key of a field in the text, or the nearest object around it when the field is missing."""

    root: Place

    def at(self, path: Iterable[str | int]) -> Place:
        """Return the place of a field."""
        place = self.root
        for step in path:
            found = place.step(step)
            if found is None:
                break
            place = found
        return place

    def line(self, path: Iterable[str | int]) -> int:
        """Return the line of a field, from 1."""
        return self.at(path).line

    def column(self, path: Iterable[str | int]) -> int:
        """Return the column of a field, from 1."""
        return self.at(path).column


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object; `document` counts the documents of its source from 1."""

    source: str
    document: int
    value: dict[str, Any]
    places: Places


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something could not be read; line 0 when that holds for the whole source."""

    source: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}" if self.line else self.source
        return f"{where}: {self.message}"


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
    text = _decoded(data, source)
    if isinstance(text, Problem):
        yield text
    else:
        yield from _documents(text, source)


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
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        yield Problem(str(path), 0, 0, _unreadable(error))
    else:
        yield from parse(data, str(path))


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


def _documents(text: str, source: str) -> Iterator[Manifest | Problem]:
    number, start, lines, budget = 0, 0, 0, MAX_REPARSED
    while start >= 0:
        end = _json_end(text, start) if start else len(text)
        budget -= end - start
        if budget < 0:
            yield _problem_at(source, text[:start], "too many broken documents: mend the ones above first")
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

    def results(self) -> Iterator[Manifest | Problem]:
        document = _Document(self._source, self._lines)
        try:
            for event in yaml.parse(self._text[self._start : self._end], Loader=_LOADER):
                if isinstance(event, (parsed.NodeEvent, parsed.CollectionEndEvent)):
                    document.take(event)
                elif isinstance(event, parsed.DocumentEndEvent):
                    self.number += 1
                    yield from document.results(self.number)
                    document = _Document(self._source, self._lines)
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


_NOWHERE: Final = Place(0, 0)


@dataclass(frozen=True, slots=True)
class _Node:
    """A finished value: how many values it holds with all aliases followed, and how deep it nests."""

    value: Any
    place: Place
    size: int = 1
    height: int = 0


@dataclass(slots=True)
class _OpenList:
    """A list whose end has not been read yet."""

    place: Place
    anchor: str | None
    value: list[Any] = field(default_factory=list)
    inside: list[Place] = field(default_factory=list)
    size: int = 1
    height: int = 1


@dataclass(slots=True)
class _OpenObject:
    """An object whose end has not been read yet; `key` waits for its value."""

    place: Place
    anchor: str | None
    value: dict[str, Any] = field(default_factory=dict)
    inside: dict[str, Place] = field(default_factory=dict)
    size: int = 1
    height: int = 1
    key: str | object | None = None
    key_place: Place = _NOWHERE
    merged: list[_Node] = field(default_factory=list)


_NO_KEY: Final = object()
"""Stands for a key that was refused: its value is read and forgotten."""
_MERGE_KEY: Final = object()
_UNFINISHED: Final = _Node(None, _NOWHERE)


class _Document:
    """Builds one document out of the events of the parser."""

    def __init__(self, source: str, lines_before: int) -> None:
        self.problems: list[Problem] = []
        self.given_up = False
        self._source = source
        self._lines_before = lines_before
        self._open: list[_OpenList | _OpenObject] = []
        self._anchors: dict[str, _Node] = {}
        self._root: _Node | None = None
        self._nodes = 0
        self._aliased = 0

    def take(self, event: Any) -> None:
        if isinstance(event, parsed.CollectionEndEvent):
            self._close()
            return
        place = Place(self._lines_before + event.start_mark.line + 1, event.start_mark.column + 1)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._give_up(place, f"more than {MAX_NODES} values in one document: split it")
        elif isinstance(event, parsed.ScalarEvent):
            self._scalar(event, place)
        elif isinstance(event, parsed.AliasEvent):
            self._alias(str(event.anchor), place)
        else:
            self._begin(event, place)

    def results(self, number: int) -> Iterator[Manifest | Problem]:
        root = self._root
        if self.problems:
            yield from self.problems
        elif root is not None and root.value is not None:
            yield from _objects(root.value, root.place, self._source, number)

    def _begin(self, event: Any, place: Place) -> None:
        is_map = isinstance(event, parsed.MappingStartEvent)
        if event.tag not in (None, "!", _CORE_TAG + ("map" if is_map else "seq")):
            self._refuse_tag(event.tag, place)
        if len(self._open) >= MAX_DEPTH:
            self._give_up(place, f"nested deeper than {MAX_DEPTH} levels")
            return
        if event.anchor:
            self._anchors[event.anchor] = _UNFINISHED
        self._open.append((_OpenObject if is_map else _OpenList)(place, event.anchor))

    def _close(self) -> None:
        done = self._open.pop()
        if isinstance(done, _OpenObject):
            for node in done.merged:
                self._merge(done, node)
        place = done.place._replace(inside=done.inside)
        self._add(_Node(done.value, place, done.size, done.height), done.anchor)

    def _scalar(self, event: Any, place: Place) -> None:
        top = self._open[-1] if self._open else None
        plain = event.tag is None and event.implicit[0]
        if isinstance(top, _OpenObject) and top.key is None and plain and event.value == "<<":
            top.key, top.key_place = _MERGE_KEY, place
        else:
            self._add(_Node(self._scalar_value(event, place), place), event.anchor)

    def _scalar_value(self, event: Any, place: Place) -> Any:
        text: str = event.value
        tag = event.tag
        if not text.isascii() and _HALF_CHARACTER.search(text):
            self._refuse(place, "not valid YAML: an escape stands for half a character")
        if tag is None and not event.implicit[0]:
            return text
        try:
            return resolved(text) if tag is None else _tagged(text, tag)
        except LookupError:
            self._refuse_tag(tag, place)
        except ValueError as error:
            self._refuse(place, str(error))
        return None

    def _alias(self, name: str, place: Place) -> None:
        node = self._anchors.get(name)
        if node is None:
            self._refuse(place, f"alias *{name} has no anchor &{name} before it")
            node = _Node(None, place)
        elif node is _UNFINISHED:
            self._give_up(place, f"alias *{name} stands inside &{name} itself: this would never end")
            return
        self._aliased += node.size
        if self._aliased > MAX_ALIASED_NODES:
            self._give_up(place, f"aliases repeat more than {MAX_ALIASED_NODES} values: write them out or split it")
        elif len(self._open) + node.height > MAX_DEPTH:
            self._give_up(place, f"nested deeper than {MAX_DEPTH} levels by alias *{name}")
        else:
            self._add(_Node(_copy(node.value), node.place, node.size, node.height), None)

    def _add(self, node: _Node, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = node
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if isinstance(parent, _OpenList):
            parent.value.append(node.value)
            parent.inside.append(node.place)
        elif parent.key is None:
            self._set_key(parent, node)
        else:
            self._set_value(parent, node)

    def _set_key(self, parent: _OpenObject, node: _Node) -> None:
        parent.key, parent.key_place = _NO_KEY, node.place
        if not isinstance(node.value, str):
            shown = "null" if node.value is None else _type_name(node.value)
            self._refuse(node.place, f"a key is read as {shown}: put it in quotes to make it text")
        elif first := parent.inside.get(node.value):
            self._refuse(node.place, f"duplicate key {node.value!r}: it is already on line {first.line}")
        else:
            parent.key = node.value

    def _set_value(self, parent: _OpenObject, node: _Node) -> None:
        key, parent.key = parent.key, None
        if key is _MERGE_KEY:
            parent.merged.append(node)
        elif isinstance(key, str):
            parent.value[key] = node.value
            parent.inside[key] = parent.key_place._replace(inside=node.place.inside)

    def _merge(self, into: _OpenObject, node: _Node) -> None:
        """Give an object the fields of others that it does not have itself: `<<: *defaults`."""
        parts = node.value if isinstance(node.value, list) else [node.value]
        for at, part in enumerate(parts):
            place = (node.place.step(at) or node.place) if isinstance(node.value, list) else node.place
            if not isinstance(part, dict):
                self._refuse(place, "<< takes an object, or a list of objects")
                continue
            for key, value in part.items():
                into.value.setdefault(key, value)
                into.inside.setdefault(key, place.step(key) or place)

    def _refuse_tag(self, tag: str, place: Place) -> None:
        self._refuse(place, f"tag {tag.replace(_CORE_TAG, '!!')} is not allowed in a manifest: remove it")

    def _refuse(self, place: Place, message: str) -> None:
        if len(self.problems) < MAX_PROBLEMS_PER_DOCUMENT:
            self.problems.append(Problem(self._source, place.line, place.column, message))

    def _give_up(self, place: Place, message: str) -> None:
        self._refuse(place, message)
        self.given_up = True


def _objects(value: Any, place: Place, source: str, number: int) -> Iterator[Manifest | Problem]:
    """Yield the object, or the items of a list such as `kubectl get -o yaml` prints."""
    if not isinstance(value, dict):
        message = f"is {_type_name(value)}: a manifest is an object with apiVersion and kind"
        yield Problem(source, place.line, place.column, message)
        return
    kind = value.get("kind")
    if kind != "List" and not (isinstance(kind, str) and kind.endswith("List") and "items" in value):
        yield Manifest(source, number, value, Places(place))
        return
    items = value.get("items") or []
    at = place.step("items") or place
    if not isinstance(items, list):
        yield Problem(source, at.line, at.column, f"items of a {kind} must be a list, not {_type_name(items)}")
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


def resolved(text: str) -> Any:
    """Give a plain scalar the value that kubectl gives it; ValueError for numbers that JSON cannot say."""
    if text in _WORDS:
        return _json_number(word) if isinstance(word := _WORDS[text], float) else word
    if text[0] not in "+-.0123456789":
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    if _INTEGER.fullmatch(digits) and (integer := _integer(digits)) is not None:
        return integer
    if _FLOAT.fullmatch(digits) and math.isfinite(number := float(digits)):
        return _json_number(number)
    return text


def _integer(digits: str) -> int | None:
    """Read an integer of at most 64 bits, with or without sign; anything longer is no integer to Go."""
    body = digits.lstrip("+-")
    octal = len(body) > 1 and body[0] == "0" and body[1].isdigit()
    if len(body) > 70:
        return None
    number = int(digits, 8) if octal else int(digits, 0)
    top = 2**63 if body != digits else 2**64
    return number if -(2**63) <= number < top else None


def _json_number(number: float) -> int | float:
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a number that Kubernetes takes: put it in quotes to make it text")
    return int(number) if number.is_integer() and abs(number) < 2**63 else number


def _tagged(text: str, tag: str) -> Any:
    """Read a scalar with an explicit tag; LookupError for a tag that is not of the core."""
    name = tag.removeprefix(_CORE_TAG)
    if name in ("str", "!", "timestamp"):
        return text
    wanted = {"int": (int,), "float": (float, int), "bool": (bool,), "null": (type(None),)}[name]
    value = resolved(text)
    if not isinstance(value, wanted) or (isinstance(value, bool) and name != "bool"):
        raise ValueError(f"{text!r} is not of the type that its tag !!{name} says")
    return value


def _type_name(value: Any) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case _:
            return "text"


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
