"""Actions as data: a sentence for the log, and the very object that each was decided on."""

from __future__ import annotations

from typing import Any

import pytest

from kube_runtime.client.objects import ObjectMeta
from slurm_operator.plan.actions import (
    Action,
    Apply,
    Create,
    Delete,
    DeleteNodes,
    Drain,
    PatchMetadata,
    PatchSpec,
    Plan,
    RecordEvent,
    RequestRegistration,
    Undrain,
    UpdateNodes,
)

SEEN = ObjectMeta(namespace="ns", name="w-0", uid="u", resource_version="3")
POD: dict[str, Any] = {"kind": "Pod", "metadata": {"name": "w-0", "namespace": "ns"}}


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (Apply(POD, None), "apply Pod ns/w-0"),
        (Create(POD), "create Pod ns/w-0"),
        (Delete("v1", "Pod", SEEN, "it may go"), "delete Pod ns/w-0: it may go"),
        (PatchMetadata("v1", "Pod", SEEN), "patch metadata of Pod ns/w-0"),
        (PatchSpec("policy/v1", "Pod", SEEN, {"a": 1, "b": None}), "patch a, b of Pod ns/w-0"),
        (Drain(("w-0", "w-1"), "scale-in"), "drain w-[0-1]: scale-in"),
        (Undrain(("w-0",)), "undrain w-0"),
        (UpdateNodes(("w-0", "w-1"), {"comment": "x"}, "why"), "update nodes w-[0-1]: why"),
        (DeleteNodes(("w-0", "w-1"), "gone"), "delete node records w-[0-1]: gone"),
        (RequestRegistration(("w-0", "w-1"), "why"), "ask w-[0-1] to register again: why"),
        (RecordEvent("ScalingUp", "creating 2 workers"), "event ScalingUp: creating 2 workers"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_an_action_says_what_it_does(action: Action, said: str) -> None:
    assert str(action) == said


def test_an_action_on_an_object_carries_which_one() -> None:
    action = Delete("v1", "Pod", SEEN, "x")
    assert (action.namespace, action.name, action.uid) == ("ns", "w-0", "u")


@pytest.mark.parametrize(
    ("fields", "version"),
    [({"annotations": {"a": "b"}}, ""), ({"finalizers": ()}, "3"), ({"owners": ()}, "3")],
    ids=["an annotation", "finalizers", "owners"],
)
def test_a_list_is_replaced_only_on_the_version_that_was_read(fields: dict[str, Any], version: str) -> None:
    assert PatchMetadata("v1", "Pod", SEEN, **fields).resource_version == version


def test_a_plan_keeps_the_order_of_its_stages() -> None:
    first, second, third = Undrain(("a",)), Undrain(("b",)), Undrain(("c",))
    plan = Plan(((first, second), (third,)))
    assert plan.actions == (first, second, third)
    assert str(plan).splitlines() == ["undrain a", "undrain b", "undrain c"]
    assert str(Plan()) == "nothing to do"
