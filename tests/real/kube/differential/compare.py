"""Compares two masked transcripts and names what is different.

In: the steps and the transcripts of two servers, the second one judged against the first. Out: the
differences that no accepted rule explains, at the first place where there are any. Called by `campaign.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.real.kube.differential.accepted import RULES, Difference, Situation
from tests.real.kube.differential.bodies import CLAIMS
from tests.real.kube.differential.mask import masked
from tests.real.kube.differential.play import Transcript
from tests.real.kube.differential.sequences import Step

ABSENT = "<absent>"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one sequence showed: nothing, or the first place where the servers part."""

    place: str
    differences: tuple[Difference, ...]
    used_rules: frozenset[str]


def differences(left: Any, right: Any, path: str = "") -> Iterator[Difference]:
    """Every leaf in which two JSON values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            yield from differences(left.get(key, ABSENT), right.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list):
        for number in range(max(len(left), len(right))):
            one = left[number] if number < len(left) else ABSENT
            other = right[number] if number < len(right) else ABSENT
            yield from differences(one, other, f"{path}[{number}]")
    elif left != right or type(left) is not type(right):
        yield Difference(path, left, right)


def judge(steps: list[Step], left: Transcript, right: Transcript) -> Verdict:
    """The first place with an unexplained difference; later ones may only follow from it."""
    per_object = any(step.settle and CLAIMS.plural not in step.path for step in steps)
    one, other = masked(left, per_object=per_object), masked(right, per_object=per_object)
    used: set[str] = set()
    for place in one:
        what, _, number = place.partition(" ")
        situation = Situation(place, steps[int(number)] if what != "end" else None, one[place], other[place])
        unexplained = []
        for difference in differences(one[place], other[place]):
            rule = next((rule for rule in RULES if rule.explains(situation, difference)), None)
            if rule is None:
                unexplained.append(difference)
            else:
                used.add(rule.name)
        if unexplained:
            return Verdict(place, tuple(unexplained), frozenset(used))
    return Verdict("", (), frozenset(used))
