"""The little JSONPath of our printer columns: `.status.conditions[?(@.type=="Ready")].status`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

_STEP = re.compile(r"""\.(?P<name>[A-Za-z0-9_]+)|\[\?\(@\.(?P<key>[A-Za-z0-9_]+)=="(?P<value>[^"]*)"\)\]""")
Step = Callable[[Any], list[Any]]


def find(obj: Any, path: str) -> list[Any]:
    """Every value that the path names; a path of any other form names none."""
    values = [obj]
    for step in _steps(path):
        values = [found for value in values for found in step(value)]
    return values


@cache
def _steps(path: str) -> tuple[Step, ...]:
    found = list(_STEP.finditer(path))
    if "".join(match[0] for match in found) != path:
        return (lambda _: [],)
    return tuple(_named(match["name"]) if match["name"] else _chosen(match["key"], match["value"]) for match in found)


def _named(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _chosen(key: str, wanted: str) -> Step:
    def step(value: Any) -> list[Any]:
        items = value if isinstance(value, list) else []
        return [item for item in items if isinstance(item, dict) and item.get(key) == wanted]

    return step
