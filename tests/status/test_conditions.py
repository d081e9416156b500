"""Conditions as the Kubernetes API conventions ask for them."""

from __future__ import annotations

import pytest

from slurm_operator.api.meta import Condition
from slurm_operator.status.conditions import MAX_MESSAGE_CHARACTERS, READY, ConditionDraft, conditions, no, unknown, yes

BEFORE = Condition(type=READY, status="True", reason="Old", message="", last_transition_time="2029-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("statement", "time"),
    [
        pytest.param(yes(READY, "New", "x"), "2029-01-01T00:00:00Z", id="the same status keeps its time"),
        pytest.param(no(READY, "New", "x"), "2030-01-01T00:00:00Z", id="another status moves it"),
        pytest.param(unknown(READY, "New", "x"), "2030-01-01T00:00:00Z", id="unknown is another status"),
    ],
)
def test_a_time_moves_only_with_the_status(statement: ConditionDraft, time: str) -> None:
    (written,) = conditions([BEFORE], [statement], 3, "2030-01-01T00:00:00Z")
    assert (written["lastTransitionTime"], written["reason"], written["observedGeneration"]) == (time, "New", 3)


def test_conditions_are_sorted_and_messages_are_bounded() -> None:
    written = conditions([], [yes("B", "X", "y" * 5000), yes("A", "X", "")], 1, "now")
    assert [each["type"] for each in written] == ["A", "B"]
    assert len(written[1]["message"]) == MAX_MESSAGE_CHARACTERS
