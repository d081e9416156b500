"""The little JSONPath that printer columns are written in: `.spec.a[0]['b\\.c'].d[?(@.type=="Ready")].status`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

_STEP = re.compile(
    r"""
      \.\.?(?P<name>(?:\\.|[^.\[\]\\])+)
    | \[(?P<index>-?\d+)\]
    | \[(?P<all>\*)\]
    | \['(?P<quoted>(?:\\.|[^'\\])*)'\]
    | \["(?P<double>(?:\\.|[^"\\])*)"\]
    | \[\?\(\s*@\.?(?P<left>[^=!<>\s]*)\s*(?P<op>==|!=)\s*(?P<right>"[^"]*"|'[^']*'|[^)\s]+)\s*\)\]
    """,
    re.VERBOSE,
)
Step = Callable[[Any], list[Any]]


def find(obj: Any, path: str) -> list[Any]:
    """Every value that the path names; an unreadable path names none."""
    values = [obj]
    for step in _steps(path):
        values = [found for value in values for found in step(value)]
    return values


@cache
def _steps(path: str) -> tuple[Step, ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if not text.startswith((".", "[")):
        text = f".{text}"
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return (lambda _: [],)
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["index"] is not None:
        return _indexed(int(match["index"]))
    if match["all"] or match["name"] == "*":
        return _every
    if match["op"]:
        return _filtered(match["left"], match["op"] == "==", match["right"].strip("\"'"))
    return _named(re.sub(r"\\(.)", r"\1", match["name"] or match["quoted"] or match["double"] or ""))


def _named(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _indexed(index: int) -> Step:
    def step(value: Any) -> list[Any]:
        return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []

    return step


def _every(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _filtered(left: str, equal: bool, right: str) -> Step:
    def step(value: Any) -> list[Any]:
        items = value if isinstance(value, list) else []
        return [item for item in items if (_text(find(item, left) if left else [item]) == right) == equal]

    return step


def _text(values: list[Any]) -> str:
    if not values:
        return ""
    value = values[0]
    return str(value).lower() if isinstance(value, bool) else str(value)
