"""What the drain of a leaving worker says, and what is read back from it."""

from __future__ import annotations

import pytest

from slurm_operator.plan.leaving import DELETION, KEY, PLACEMENT, SCALE_IN, UPDATE, drained_for, leaving_reason
from slurm_operator.slurm import policy
from slurm_operator.slurm.model import Node


def drained(reason: str, *states: str) -> Node:
    return Node(name="w-0", states=frozenset(states or ("IDLE", "DRAIN")), reason=reason)


@pytest.mark.parametrize("why", [SCALE_IN, UPDATE, DELETION, PLACEMENT])
def test_what_a_drain_says_is_read_back(why: str) -> None:
    assert drained_for(drained(policy.drain_reason(leaving_reason("ns/w", why))), "ns/w") == why


def test_what_slurmctld_adds_changes_nothing() -> None:
    reason = f"{policy.drain_reason(leaving_reason('ns/w', UPDATE))} : {policy.NOT_RESPONDING}"
    assert drained_for(drained(reason), "ns/w") == UPDATE


@pytest.mark.parametrize(
    ("node", "nodeset"),
    [
        pytest.param(drained(policy.drain_reason(leaving_reason("ns/w", KEY))), "ns/w", id="a rotation"),
        pytest.param(drained(policy.drain_reason(leaving_reason("ns/v", UPDATE))), "ns/w", id="another NodeSet"),
        pytest.param(drained(leaving_reason("ns/w", UPDATE)), "ns/w", id="a person who copied the words"),
        pytest.param(
            drained(policy.drain_reason(leaving_reason("ns/w", UPDATE)), "IDLE"), "ns/w", id="a drain that was lifted"
        ),
        pytest.param(
            drained(policy.drain_reason(leaving_reason("n" * 63 + "/" + "w" * 250, UPDATE))),
            "n" * 63 + "/" + "w" * 250,
            id="a reason that was cut off",
        ),
    ],
)
def test_nothing_is_read_from_any_other_reason(node: Node, nodeset: str) -> None:
    assert drained_for(node, nodeset) == ""
