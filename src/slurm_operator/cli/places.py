"""Where things stand in a text, and what is wrong there.

Made by `cli/manifests.py` and `cli/yaml_document.py`; whoever finds something wrong with a field asks for its line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


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
class Problem:
    """Why something could not be read; line 0 when that holds for the whole source."""

    source: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}" if self.line else self.source
        return f"{where}: {self.message}"
