"""Conditions: true statements with a reason, in the form that the Kubernetes API conventions ask for.

In: the drafts of a kind's status module. Out: the `conditions` list, in which a time moves only when a status changes.
Every reason has a section in docs/reference/conditions.md. Called by `reconcile/report.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kube_runtime.text import printable
from slurm_operator.api.meta import Condition

READY = "Ready"
PROGRESSING = "Progressing"
DEGRADED = "Degraded"
SLURM_REACHABLE = "SlurmReachable"
CONFIG_VALID = "ConfigValid"
CONFIG_PUBLISHED = "ConfigPublished"
CONFIG_APPLIED = "ConfigApplied"
POD_FEATURES_KEPT = "PodFeaturesKept"

MAX_MESSAGE_CHARACTERS = 2048


class Truth(Enum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class ConditionDraft:
    """A condition before it gets its time and generation."""

    type: str
    truth: Truth
    reason: str
    message: str


def yes(type_: str, reason: str, message: str) -> ConditionDraft:
    """It is so."""
    return ConditionDraft(type_, Truth.TRUE, reason, message)


def no(type_: str, reason: str, message: str) -> ConditionDraft:
    """It is not so."""
    return ConditionDraft(type_, Truth.FALSE, reason, message)


def unknown(type_: str, reason: str, message: str) -> ConditionDraft:
    """Nobody can say now."""
    return ConditionDraft(type_, Truth.UNKNOWN, reason, message)


def conditions(
    before: Iterable[Condition], drafts: Iterable[ConditionDraft], generation: int, now: str
) -> list[dict[str, Any]]:
    """The conditions to write, sorted by type."""
    known = {condition.type: condition for condition in before}
    written = (_written(draft, known.get(draft.type), generation, now) for draft in drafts)
    return sorted(written, key=lambda condition: str(condition["type"]))


def _written(draft: ConditionDraft, before: Condition | None, generation: int, now: str) -> dict[str, Any]:
    same = before is not None and before.status == draft.truth.value
    return {
        "type": draft.type,
        "status": draft.truth.value,
        "reason": draft.reason,
        "message": printable(draft.message, MAX_MESSAGE_CHARACTERS),
        "lastTransitionTime": before.last_transition_time if before and same else now,
        "observedGeneration": generation,
    }
