"""An error that nobody foresaw: it is said on its object, and on no other; nothing claims what was not done."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import small
from tests.kube_runtime.loop.quiet import NeverQuietError

from slurm_operator.reconcile import nodeset


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A world whose judge may see the fault that a test plants, and nothing else."""
    made = World()
    await made.open()
    yield made
    await made.close()
    assert [each for each in made.judge.violations if "ZeroDivisionError" not in each] == []


def status(world: World, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = world.custom(kind, name)["status"]
    return found


async def with_fault(world: World, seconds: float) -> None:
    # A key that fails is never quiet.
    with contextlib.suppress(NeverQuietError):
        await world.run_for(seconds)


def broken_plan(_: object) -> object:
    raise ZeroDivisionError("secret text of an error")


async def test_an_unexpected_error_is_a_condition_an_event_and_a_metric_on_its_object(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await small(world, 2)
    before = status(world, "NodeSet", "compute")
    monkeypatch.setattr(nodeset, "plan_nodeset", broken_plan)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 3}})
    await with_fault(world, 30.0)
    found = world.verdicts("NodeSet", "compute")
    assert found["Degraded"] == ("True", "InternalError")
    assert found["Ready"] == ("Unknown", "InternalError")
    now = status(world, "NodeSet", "compute")
    assert (
        now["observedGeneration"]
        == before["observedGeneration"]
        < world.custom("NodeSet", "compute")["metadata"]["generation"]
    )
    assert now["readyReplicas"] == before["readyReplicas"]
    messages = [each["message"] for each in now["conditions"] if each["type"] == "Degraded"]
    assert "fault " in messages[0]
    assert "secret text" not in str(now)
    events = [each for each in world.stored("events") if each["reason"] == "InternalError"]
    assert len(events) == 1
    # Those beside it are as ready as before.
    assert world.verdicts("Controller", "slurm")["Ready"][0] == "True"


async def test_after_the_fault_the_object_is_reconciled_and_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await small(world, 2)
    with monkeypatch.context() as broken:
        broken.setattr(nodeset, "plan_nodeset", broken_plan)
        await world.patch("NodeSet", "compute", {"spec": {"replicas": 3}})
        await with_fault(world, 5.0)
        assert len(world.pods()) == 2
    await world.run_for(400.0)
    assert world.verdicts("NodeSet", "compute")["Ready"][0] == "True"
    assert status(world, "NodeSet", "compute")["observedGeneration"] == 2
