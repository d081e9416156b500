"""Lists that keep the very objects of the one before: whoever compares by identity sees at once what has changed.

In: a list, and the one that came before it. Out: the new list, with every object that was there before and is equal.
Called for nodes by `node_records.py`, for jobs by `reconcile/clusters.py`. Pure.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import TypeVar

A = TypeVar("A")


def kept(before: tuple[A, ...], now: tuple[A, ...], key: Callable[[A], Hashable]) -> tuple[A, ...]:
    """A list with the very objects of the one before where they are equal, and that very list if all are."""
    known = {key(each): each for each in before}
    items = tuple(other if (other := known.get(key(each))) == each and other is not None else each for each in now)
    is_same = len(items) == len(before) and all(map(operator.is_, items, before))
    return before if is_same else items
