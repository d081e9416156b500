"""A cause: one sentence, what it rests on, and the one command that comes next.

Made by the walks of this package, shown by `kubectl slurm`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace

from kube_runtime.text import printable


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something is not as it should be."""

    # Stable, for machines.
    code: str
    sentence: str
    command: str
    # From what was asked about down to this, each line a step.
    trail: tuple[str, ...] = ()
    # Somebody wants it this way: it answers the question, but nothing is wrong.
    chosen: bool = False
    # It is in progress and ends by itself: nothing is wrong either.
    waits: bool = False
    # What is at fault: several sentences may be about the same thing, which `doctor` names once.
    root: str = ""
    # Where `doctor` came upon it, such as "node compute-1"; it does not make another cause.
    seen_at: str = field(default="", compare=False)

    @property
    def wrong(self) -> bool:
        """Whether somebody should do something about it."""
        return not (self.chosen or self.waits)

    def under(self, step: str) -> Cause:
        """The same cause, reached from one step further up."""
        return replace(self, trail=(step, *self.trail))


@dataclass(frozen=True, slots=True)
class Fine:
    """Nothing is wrong with it."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """There is no such thing."""

    sentence: str
    command: str


Diagnosis = Cause | Fine | Unseen


def quoted(name: str) -> str:
    """A name that somebody else chose, quoted so that a shell takes it as one word and runs nothing in it."""
    # Never cut: half a list of nodes would be another list.
    return shlex.quote(printable(name, len(name) + 1))
