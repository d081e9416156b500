"""Sets of fields of one object: who owns what, as metadata.managedFields writes it down.

In: fieldsV1 documents and paths. Out: `FieldSet` values with the algebra that server-side apply needs. A path element
is kept in its written form (`f:name`, `k:{"name":"web"}`, `v:"finalizer"`, `i:0`), so that equal text means
equal element. Called by `typed_values` and `apply`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

Path = tuple[str, ...]

_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_RANK = {"f": 0, "k": 1, "v": 2, "i": 3}


def written(value: Any) -> str:
    """A JSON value as Go's encoder writes it inside a path element."""
    return _written_text(value) if isinstance(value, str) else _written(value)


@lru_cache(maxsize=4096)
def _written_text(value: str) -> str:
    return _written(value)


def _written(value: Any) -> str:
    return json.dumps(_whole(value), separators=(",", ":"), ensure_ascii=False, sort_keys=True).translate(_HTML)


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return value


def field(name: str) -> str:
    return "f:" + name


def item_by_keys(keys: dict[str, Any]) -> str:
    shown = (f"{written(name)}:{written(value)}" for name, value in sorted(keys.items()))
    return "k:{" + ",".join(shown) + "}"


def item_by_value(value: Any) -> str:
    return "v:" + written(value)


def parse_element(text: str) -> str | None:
    """The canonical form of a written element; None for a kind of element from the future. ValueError if malformed."""
    if len(text) < 2 or text[1] != ":":
        raise ValueError(f"not a path element: {text!r}")
    kind, rest = text[0], text[2:]
    if kind == "f":
        return text
    if kind == "k":
        keys = json.loads(rest)
        if not isinstance(keys, dict):
            raise ValueError(f"the keys of a list item must be an object: {text!r}")
        return item_by_keys(keys)
    if kind == "v":
        return item_by_value(json.loads(rest))
    if kind == "i":
        return f"i:{int(rest)}"
    return None


def element_text(element: str) -> str:
    """A path element as the messages of kube-apiserver show it."""
    kind, rest = element[0], element[2:]
    if kind == "f":
        return "." + rest
    if kind == "k":
        shown = (f"{name}={value_text(value)}" for name, value in sorted(json.loads(rest).items()))
        return "[" + ",".join(shown) + "]"
    if kind == "v":
        return f"[={value_text(json.loads(rest))}]"
    return f"[{rest}]"


def value_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def path_text(path: Path) -> str:
    """`.spec.containers[name="web"].image`"""
    return "".join(element_text(element) for element in path)


def _order(element: str) -> tuple[int, str]:
    return (_RANK[element[0]], element)


class FieldSet:
    """A tree of fields: `members` are owned here, `children` hold what is owned below. No child set is empty."""

    __slots__ = ("children", "members")

    def __init__(self, members: set[str] | None = None, children: dict[str, FieldSet] | None = None) -> None:
        self.members: set[str] = members if members is not None else set()
        self.children: dict[str, FieldSet] = children if children is not None else {}

    @classmethod
    def of(cls, *paths: Path) -> FieldSet:
        result = cls()
        for path in paths:
            result.insert(path)
        return result

    @classmethod
    def from_fields_v1(cls, document: Any) -> FieldSet:
        """Read a fieldsV1 document. ValueError if it is not one."""
        found, _ = cls._read(document)
        return found

    @classmethod
    def _read(cls, document: Any) -> tuple[FieldSet, bool]:
        if not isinstance(document, dict):
            raise ValueError(f"fieldsV1 must be made of objects, found {type(document).__name__}")  # noqa: TRY004
        result, is_member = cls(), False
        for key, value in document.items():
            if key == ".":
                is_member = True
                continue
            element = parse_element(key)
            if element is None:
                continue
            below, owned = cls._read(value)
            if owned:
                result.members.add(element)
            if below:
                result.children[element] = below
        return result, is_member or not result

    def to_fields_v1(self, include_self: bool = False) -> dict[str, Any]:
        document: dict[str, Any] = {".": {}} if include_self and self else {}
        for element in sorted(self.members | self.children.keys(), key=_order):
            below = self.children.get(element)
            document[element] = below.to_fields_v1(element in self.members) if below is not None else {}
        return document

    def __bool__(self) -> bool:
        return bool(self.members) or any(self.children.values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldSet):
            return NotImplemented
        return self.members == other.members and self.children == other.children

    __hash__ = None  # type: ignore[assignment]  # mutable while it is being built

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(path_text(path) for path in self.paths())})"

    def insert(self, path: Path) -> None:
        """Add one field; its parents are not added, and the whole object (an empty path) is never tracked."""
        if not path:
            return
        here = self
        for element in path[:-1]:
            here = here.children.setdefault(element, FieldSet())
        here.members.add(path[-1])

    def paths(self, prefix: Path = ()) -> Iterator[Path]:
        """Every member: those of this level first, in written order."""
        for element in sorted(self.members, key=_order):
            yield (*prefix, element)
        for element in sorted(self.children, key=_order):
            yield from self.children[element].paths((*prefix, element))

    def union(self, other: FieldSet) -> FieldSet:
        children = dict(self.children)
        for element, below in other.children.items():
            children[element] = children[element].union(below) if element in children else below
        return FieldSet(self.members | other.members, children)

    def intersection(self, other: FieldSet) -> FieldSet:
        children = {
            element: both
            for element, below in self.children.items()
            if element in other.children and (both := below.intersection(other.children[element]))
        }
        return FieldSet(self.members & other.members, children)

    def difference(self, other: FieldSet) -> FieldSet:
        """Without the members of `other`; a parent in `other` does not take its children along."""
        return self._without(other, recursive=False)

    def recursive_difference(self, other: FieldSet) -> FieldSet:
        """Without the members of `other` and everything below them."""
        return self._without(other, recursive=True)

    def _without(self, other: FieldSet, recursive: bool) -> FieldSet:
        children: dict[str, FieldSet] = {}
        for element, below in self.children.items():
            if recursive and element in other.members:
                continue
            left = below._without(other.children[element], recursive) if element in other.children else below
            if left:
                children[element] = left
        return FieldSet(self.members - other.members, children)
