"""How deeply a value is nested, found without recursion.

In: any JSON value. Out: whether it is nested too deeply, or its parts. Called before a value that somebody else
wrote is walked.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


def is_nested_deeper(value: object, levels: int) -> bool:
    """Whether a value holds mappings or lists below so many levels."""
    level = [value]
    for _ in range(levels):
        level = [part for each in level for part in parts(each) if isinstance(part, dict | list | tuple)]
        if not level:
            return False
    return True


def parts(value: Any) -> Collection[Any]:
    """The values that a mapping or a list holds directly."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
