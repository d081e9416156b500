"""What a PromQL expression names: metrics with their matchers, and the labels that it groups by.

In: an expression. Out: `Reading`. No parser: strings, ranges and groupings are cut out, and what is left of words is
metrics. promtool holds the syntax; this holds the names. Used by `test_monitoring.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)?\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_FUNCTION = re.compile(r"\b[a-z_]\w*\s*(?=\()")
_RANGE = re.compile(r"\[[^\]]*\]")
_WORD = re.compile(r"(?<![\w.])[a-zA-Z_:][\w:]*")
_AND_OR = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan"})


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label."""

    metric: str
    label: str
    operator: str
    value: str

    @property
    def values(self) -> list[str]:
        """Each value that it names; none where a variable stands for it."""
        if "$" in self.value:
            return []
        return self.value.split("|") if "~" in self.operator else [self.value]


@dataclass(frozen=True, slots=True)
class Reading:
    """What an expression names."""

    metrics: frozenset[str]
    matchers: tuple[Matcher, ...]
    grouped_by: frozenset[str]


def read(expression: str) -> Reading:
    """Take an expression apart."""
    matchers = tuple(
        Matcher(metric, *parts)
        for metric, inside in _SELECTOR.findall(expression)
        for parts in _MATCHER.findall(inside)
    )
    bare = _RANGE.sub(" ", _SELECTOR.sub(r"\1 ", expression))
    grouped = frozenset(label.strip() for inside in _GROUPING.findall(bare) for label in inside.split(","))
    left = _FUNCTION.sub(" ", _GROUPING.sub(" ", bare))
    return Reading(frozenset(_WORD.findall(left)) - _AND_OR, matchers, grouped)
