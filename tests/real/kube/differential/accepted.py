"""The differences between the embedded API server and a real one that we accept, each with its reason.

In: a difference and the request that showed it. Out: whether a rule explains it. `compare.py` asks;
`docs/internals/embedded-differences.md` lists the same rules for people, and a test holds both together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.real.kube.differential.sequences import Step


@dataclass(frozen=True, slots=True)
class Difference:
    """One leaf: where, what the first server said, what the second said."""

    path: str
    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class Situation:
    """The place of a difference: the request, and both whole masked answers."""

    place: str
    step: Step | None
    left: dict[str, Any]
    right: dict[str, Any]

    def both_status(self, *codes: int) -> bool:
        """Whether both servers answered with the same one of these codes."""
        return self.left["status"] == self.right["status"] and self.left["status"] in codes


@dataclass(frozen=True, slots=True)
class Rule:
    """A named, documented exception."""

    name: str
    explains: Callable[[Situation, Difference], bool]


def problems_of(message: str) -> set[str]:
    """The problems in the text of a refused apply, one per line."""
    _, _, rest = message.partition("): ")
    return {line.strip() for line in rest.removeprefix("errors:").splitlines() if line.strip()}


def is_typed_patch_subset(situation: Situation, difference: Difference) -> bool:
    """The real server walks a Go map and stops at an undeclared field: it tells any one of several problems."""
    if difference.path != ".body.message" or not isinstance(difference.right, str):
        return False
    refused = str(difference.left).startswith("failed to create typed patch object")
    return refused and bool(problems_of(difference.left) & problems_of(difference.right))


DUMPED = (
    "pod updates may not change fields other than",
    "spec is immutable after creation except resources.requests",
)


def is_struct_dump(situation: Situation, difference: Difference) -> bool:
    """The refusal ends with a dump of two Go structs, which only Go can print."""
    both = (str(difference.left), str(difference.right))
    return situation.both_status(422) and any(all(start in text for text in both) for start in DUMPED)


def is_wording_of_broken_body(situation: Situation, difference: Difference) -> bool:
    """A body that cannot be decoded is described in the words of the decoder at hand."""
    broken = situation.step is not None and isinstance(situation.step.body, bytes)
    return broken and situation.both_status(400) and difference.path == ".body.message"


def is_column_description(situation: Situation, difference: Difference) -> bool:
    """The help texts of table columns are prose, and nobody's program reads them."""
    return re.fullmatch(r"\.body\.columnDefinitions\[\d+\]\.description", difference.path) is not None


def is_claim_rewrite(situation: Situation, difference: Difference) -> bool:
    """The first update of a claim gives it a new version even when nothing changes; later ones do not."""
    return all(str(value).startswith("<claim version ") for value in (difference.left, difference.right))


def is_body_of_bookmark(situation: Situation, difference: Difference) -> bool:
    """The object in a bookmark is an empty Go struct of the kind; only its metadata means something."""
    event = re.match(r"\.body\[(\d+)\]\.object\.(?!metadata\.(?:resourceVersion|annotations))", difference.path)
    if event is None or not situation.place.startswith("watch"):
        return False
    events = (situation.left["body"], situation.right["body"])
    return all(len(each) > int(event[1]) and each[int(event[1])]["type"] == "BOOKMARK" for each in events)


def is_patched_object_text(situation: Situation, difference: Difference) -> bool:
    """A strict patch is refused with the whole patched object as text, in the order of Go's fields."""
    ends = [str(value).rpartition("strict decoding error: ") for value in (difference.left, difference.right)]
    same_end = ends[0][1] and ends[0][2] == ends[1][2]
    return bool(same_end) and all("Invalid value: " in start for start, _, _ in ends) and situation.both_status(422)


RULES: tuple[Rule, ...] = (
    Rule("typed-patch-problems", is_typed_patch_subset),
    Rule("struct-dump", is_struct_dump),
    Rule("broken-body-wording", is_wording_of_broken_body),
    Rule("column-descriptions", is_column_description),
    Rule("claim-rewrite", is_claim_rewrite),
    Rule("bookmark-object", is_body_of_bookmark),
    Rule("patched-object-text", is_patched_object_text),
)
