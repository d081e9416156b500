"""One document of YAML, built from parser events without recursion: a limit is met before the memory is spent.

In: the events of PyYAML's parser. Out: the value with the place of each field in it, or what is wrong. Called by
`cli/manifests.py`. Stricter than kubectl on purpose: duplicate keys, keys that are not text, foreign tags and aliases
that blow up are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from yaml import events as parsed

from slurm_operator.cli.places import Place, Problem
from slurm_operator.cli.yaml_scalars import CORE_TAG, resolved, tagged, type_name

MAX_DEPTH_LEVELS: Final = 100
MAX_YAML_VALUES: Final = 1_000_000
MAX_ALIASED_VALUES: Final = 200_000
MAX_PROBLEMS_PER_DOCUMENT: Final = 20

_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_NOWHERE: Final = Place(0, 0)


@dataclass(frozen=True, slots=True)
class Node:
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
    merged: list[Node] = field(default_factory=list)


_NO_KEY: Final = object()
"""Stands for a key that was refused: its value is read and forgotten."""
_MERGE_KEY: Final = object()
_UNFINISHED: Final = Node(None, _NOWHERE)


class Document:
    """Builds one document out of the events of the parser; `given_up` says that it is too much."""

    def __init__(self, source: str, lines_before: int) -> None:
        self.problems: list[Problem] = []
        self.given_up = False
        self._source = source
        self._lines_before = lines_before
        self._open: list[_OpenList | _OpenObject] = []
        self._anchors: dict[str, Node] = {}
        self.root: Node | None = None
        self._nodes = 0
        self._aliased = 0

    def take(self, event: Any) -> None:
        """Go on with one more event."""
        if isinstance(event, parsed.CollectionEndEvent):
            self._close()
            return
        place = Place(self._lines_before + event.start_mark.line + 1, event.start_mark.column + 1)
        self._nodes += 1
        if self._nodes > MAX_YAML_VALUES:
            self._give_up(place, f"more than {MAX_YAML_VALUES} values in one document: split it")
        elif isinstance(event, parsed.ScalarEvent):
            self._scalar(event, place)
        elif isinstance(event, parsed.AliasEvent):
            self._alias(str(event.anchor), place)
        else:
            self._begin(event, place)

    def _begin(self, event: Any, place: Place) -> None:
        is_map = isinstance(event, parsed.MappingStartEvent)
        if event.tag not in (None, "!", CORE_TAG + ("map" if is_map else "seq")):
            self._refuse_tag(event.tag, place)
        if len(self._open) >= MAX_DEPTH_LEVELS:
            self._give_up(place, f"nested deeper than {MAX_DEPTH_LEVELS} levels")
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
        self._add(Node(done.value, place, done.size, done.height), done.anchor)

    def _scalar(self, event: Any, place: Place) -> None:
        top = self._open[-1] if self._open else None
        plain = event.tag is None and event.implicit[0]
        if isinstance(top, _OpenObject) and top.key is None and plain and event.value == "<<":
            top.key, top.key_place = _MERGE_KEY, place
        else:
            self._add(Node(self._scalar_value(event, place), place), event.anchor)

    def _scalar_value(self, event: Any, place: Place) -> Any:
        text: str = event.value
        tag = event.tag
        if not text.isascii() and _HALF_CHARACTER.search(text):
            self._refuse(place, "not valid YAML: an escape stands for half a character")
        if tag is None and not event.implicit[0]:
            return text
        try:
            return resolved(text) if tag is None else tagged(text, tag)
        except LookupError:
            self._refuse_tag(tag, place)
        except ValueError as error:
            self._refuse(place, str(error))
        return None

    def _alias(self, name: str, place: Place) -> None:
        node = self._anchors.get(name)
        if node is None:
            self._refuse(place, f"alias *{name} has no anchor &{name} before it")
            node = Node(None, place)
        elif node is _UNFINISHED:
            self._give_up(place, f"alias *{name} stands inside &{name} itself: this would never end")
            return
        self._aliased += node.size
        if self._aliased > MAX_ALIASED_VALUES:
            self._give_up(place, f"aliases repeat more than {MAX_ALIASED_VALUES} values: write them out or split it")
        elif len(self._open) + node.height > MAX_DEPTH_LEVELS:
            self._give_up(place, f"nested deeper than {MAX_DEPTH_LEVELS} levels by alias *{name}")
        else:
            self._add(Node(_copy(node.value), node.place, node.size, node.height), None)

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = node
        if not self._open:
            self.root = node
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

    def _set_key(self, parent: _OpenObject, node: Node) -> None:
        parent.key, parent.key_place = _NO_KEY, node.place
        if not isinstance(node.value, str):
            shown = "null" if node.value is None else type_name(node.value)
            self._refuse(node.place, f"a key is read as {shown}: put it in quotes to make it text")
        elif first := parent.inside.get(node.value):
            self._refuse(node.place, f"duplicate key {node.value!r}: it is already on line {first.line}")
        else:
            parent.key = node.value

    def _set_value(self, parent: _OpenObject, node: Node) -> None:
        key, parent.key = parent.key, None
        if key is _MERGE_KEY:
            parent.merged.append(node)
        elif isinstance(key, str):
            parent.value[key] = node.value
            parent.inside[key] = parent.key_place._replace(inside=node.place.inside)

    def _merge(self, into: _OpenObject, node: Node) -> None:
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
        self._refuse(place, f"tag {tag.replace(CORE_TAG, '!!')} is not allowed in a manifest: remove it")

    def _refuse(self, place: Place, message: str) -> None:
        if len(self.problems) < MAX_PROBLEMS_PER_DOCUMENT:
            self.problems.append(Problem(self._source, place.line, place.column, message))

    def _give_up(self, place: Place, message: str) -> None:
        self._refuse(place, message)
        self.given_up = True


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
