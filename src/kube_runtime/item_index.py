"""Finds an item of a list by what tells its items apart, in a time that does not grow with the list.

In: a `Field` and the items of its list. Out: the position of the first item that is the same as another one. Called by
`strategic_merge`, whose lists a user may make as long as a resource can be.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import product
from typing import Any, Final, NamedTuple

Path = tuple[str | int, ...]
ListRule = Callable[[list[Any], list[Any], Path], list[Any]]
Slot = tuple[Hashable, ...]

_ANY: Final = object()
# JSON values without parts. Most values are such, and to ask them whether they are a Mapping is slow.
LEAVES: Final = (str, int, float, type(None))


class Field(NamedTuple):
    """How one field takes part in a merge."""

    type: Any = ""
    """Type of the value, or of each item of the list; empty for scalars and for plain objects."""
    merge: bool = False
    """The field is a list that is merged, not replaced."""
    key: str = ""
    """Field that tells the items of a merged list apart; empty for scalars."""
    also: tuple[tuple[str, str], ...] = ()
    """Further fields that tell items apart, each with the value it has when left out."""
    replaced: bool = False
    """The field is an object that is replaced, not merged."""
    rule: ListRule | None = None
    """How a list that is neither replaced nor merged by key is made of the base's and the patch's."""
    base_first: bool = False
    """The keyed list keeps the base's order."""


def frozen(value: Any) -> Hashable:
    """A form of a JSON value that is equal and hashes alike exactly where the value is equal."""
    if isinstance(value, LEAVES):
        return value
    if isinstance(value, Mapping):
        return frozenset((name, frozen(item)) for name, item in value.items())
    if isinstance(value, list):
        # A frozenset keeps its hash, a tuple works it out again at every level above. No mapping has the key None.
        return frozenset(((None, len(value)), *((at, frozen(item)) for at, item in enumerate(value))))
    return value  # type: ignore[no-any-return]


class ItemIndex:
    """The items of a list by what tells them apart: the whole item, or the merge key and what goes with it.

    A second key that an item leaves out, and that has no default, agrees with every value. So an item stands under its
    own value and under "any", and is looked for under its value and under none.
    """

    __slots__ = ("_field", "_slots", "_under")

    def __init__(self, field: Field, items: Iterable[Any] = ()) -> None:
        self._field = field
        self._under: dict[int, Slot] = {}
        self._slots: dict[Slot, list[int]] = {}
        for at, item in enumerate(items):
            self.put(at, item)

    def put(self, at: int, item: Any) -> None:
        """Take in an item, or one that has changed."""
        identity = self._identity(item)
        if identity is None or self._under.get(at) == identity:
            return
        self._under[at] = identity
        key, *others = identity
        for slot in product((key,), *((value, _ANY) for value in others)):
            heappush(self._slots.setdefault(slot, []), at)

    def find(self, wanted: Any) -> int | None:
        """Where the first item stands that is the same as this one."""
        if self._field.key and not isinstance(wanted, Mapping):
            return None
        key, *others = self._keys(wanted)
        slots = product((key,), *((_ANY,) if value == "" else (value, "") for value in others))
        found = (self._first(slot) for slot in slots)
        return min((at for at in found if at is not None), default=None)

    def _first(self, slot: Slot) -> int | None:
        heap = self._slots.get(slot)
        while heap:
            if self._stands_under(heap[0], slot):
                return heap[0]
            heappop(heap)
        return None

    def _stands_under(self, at: int, slot: Slot) -> bool:
        return all(value is _ANY or value == mine for value, mine in zip(slot, self._under[at], strict=True))

    def _identity(self, item: Any) -> Slot | None:
        if self._field.key and not (isinstance(item, Mapping) and self._field.key in item):
            return None
        return tuple(self._keys(item))

    def _keys(self, item: Any) -> Iterator[Hashable]:
        if not self._field.key:
            yield frozen(item)
            return
        yield frozen(item.get(self._field.key))
        for name, default in self._field.also:
            yield frozen(item.get(name) or default)
