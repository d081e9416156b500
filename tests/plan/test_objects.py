"""Objects that simply should be there: applied in order, and what is left over is deleted after."""

from __future__ import annotations

from typing import Any

from kube_runtime.client import objects
from slurm_operator.plan.actions import Apply, Delete
from slurm_operator.plan.objects import Identity, identity, plan_objects


def service(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "ns"}}


def live(*names: str, **metadata: str) -> dict[Identity, objects.RawObject]:
    found = {}
    for name in names:
        raw = service(name)
        raw["metadata"] |= {"uid": f"uid-{name}", **metadata}
        found[identity(raw)] = objects.decode_hook(objects.RawObject, raw)
    return found


def test_all_that_is_desired_is_applied_in_order_before_anything_is_deleted() -> None:
    present = live("b", "old")
    plan = plan_objects([service("a"), service("b")], present, present)
    first, second, last = plan.stages
    assert [action.desired for action in (*first, *second) if isinstance(action, Apply)] == [service("a"), service("b")]
    assert [action.name for action in last if isinstance(action, Delete)] == ["old"]


def test_an_apply_is_compared_with_what_is_there() -> None:
    present = live("b")
    found = [action.live for action in plan_objects([service("a"), service("b")], present, {}).actions]  # type: ignore[union-attr]
    assert found == [None, present[identity(service("b"))]]


def test_what_is_there_but_not_owned_is_left() -> None:
    assert plan_objects([], live("other"), {}).actions == ()


def test_what_is_made_in_another_way_is_left() -> None:
    present = live("keys")
    assert plan_objects([], present, present, keep=frozenset(present)).actions == ()


def test_what_goes_already_is_not_deleted_again() -> None:
    present = live("old", deletionTimestamp="2030-01-01T00:00:00Z")
    assert plan_objects([], present, present).actions == ()
