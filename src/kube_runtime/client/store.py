"""The objects of one kind, by name and by index, in memory; pure.

`cache` is the only writer. Objects are frozen, so what a reader got stays true for the moment it was read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic

from kube_runtime.client.objects import T

log = logging.getLogger(__name__)

Key = tuple[str, str]
Change = tuple[T | None, T | None]
Index = Callable[[T], Iterable[str]]


def key_of(item: T) -> Key:
    """(namespace, name); the namespace is empty for kinds that have none."""
    return item.metadata.namespace, item.metadata.name


@dataclass(slots=True)
class Store(Generic[T]):
    """Objects and their indexes."""

    indexes: Mapping[str, Index[T]] = field(default_factory=dict)
    _objects: dict[Key, T] = field(default_factory=dict)
    _indexed: dict[str, dict[str, dict[Key, T]]] = field(default_factory=dict)
    # By index and value, and for all objects: the tuple that was last asked for, while it is still true.
    _tuples: dict[str, dict[str, tuple[T, ...]]] = field(default_factory=dict)
    _items: tuple[T, ...] | None = None

    def __post_init__(self) -> None:
        self._indexed = {name: {} for name in self.indexes}
        self._tuples = {name: {} for name in self.indexes}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> T | None:
        """One object."""
        return self._objects.get(key)

    def items(self) -> tuple[T, ...]:
        """All objects; the same tuple until one of them changes."""
        if self._items is None:
            self._items = tuple(self._objects.values())
        return self._items

    def by_index(self, name: str, value: str) -> tuple[T, ...]:
        """The objects that an index function gave this value for; the same tuple until one of them changes."""
        known = self._tuples[name].get(value)
        if known is None:
            held = self._indexed[name].get(value)
            if held is None:
                return ()
            known = self._tuples[name][value] = tuple(held.values())
        return known

    def put(self, item: T) -> Iterator[Change[T]]:
        """Keep an object; the changes that this was.

        Another uid under the same name is another object: its predecessor was deleted, seen or not.
        """
        key = key_of(item)
        old = self._objects.get(key)
        if old is not None and old.metadata.uid != item.metadata.uid:
            yield from self.drop(key)
            old = None
        if old is not None and old.metadata.resource_version == item.metadata.resource_version:
            return
        self._unindex(key, old)
        self._objects[key] = item
        self._items = None
        self._index(key, item)
        yield old, item

    def drop(self, key: Key) -> Iterator[Change[T]]:
        """Forget an object."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._items = None
            self._unindex(key, old)
            yield old, None

    def replace(self, items: Iterable[T], keep: frozenset[Key] = frozenset()) -> Iterator[Change[T]]:
        """Become exactly this list; objects that are not in it, nor in `keep`, were deleted while nobody looked."""
        listed = {key_of(item): item for item in items}
        for key in [key for key in self._objects if key not in listed and key not in keep]:
            yield from self.drop(key)
        for item in listed.values():
            yield from self.put(item)

    def _index(self, key: Key, item: T) -> None:
        for name, function in self.indexes.items():
            for value in _values(function, item):
                self._indexed[name].setdefault(value, {})[key] = item
                self._tuples[name].pop(value, None)

    def _unindex(self, key: Key, old: T | None) -> None:
        if old is None:
            return
        for name, function in self.indexes.items():
            for value in _values(function, old):
                held = self._indexed[name].get(value)
                self._tuples[name].pop(value, None)
                if held is not None:
                    held.pop(key, None)
                    if not held:
                        del self._indexed[name][value]


def _values(function: Index[T], item: T) -> tuple[str, ...]:
    """An index that stumbles over one object leaves that one out, and keeps the others."""
    try:
        return tuple(function(item))
    except Exception:
        log.exception("an index failed on %s/%s", *key_of(item))
        return ()
