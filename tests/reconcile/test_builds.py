"""slurm.conf is built once in each reconcile of a Controller, whatever happens, and never in that of a Partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.campaigns.rig import World
from tests.reconcile.test_live_partitions import change_by_hand, refusing
from tests.reconcile.test_partition import condition, with_partition

from kube_runtime.loop.controller import Controller, Result
from kube_runtime.loop.queue import Key
from slurm_operator.build import partition

# How often slurm.conf was built in the reconcile that runs now.
_built: ContextVar[list[int]] = ContextVar("_built")


@dataclass
class Builds:
    """How often slurm.conf was built in each reconcile, by kind."""

    by_kind: dict[str, list[int]] = field(default_factory=dict)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    """Counts by what no build can do without: the acceptance of every partition."""
    found, call, acceptances = Builds(), Controller._call, partition.acceptances

    async def counting(self: Controller, key: Key) -> Result:
        _built.set([])
        try:
            return await call(self, key)
        finally:
            found.by_kind.setdefault(self.kind, []).append(len(_built.get()))

    def counted(*arguments: Any) -> Iterator[partition.Acceptance]:
        _built.get([]).append(1)
        return acceptances(*arguments)

    monkeypatch.setattr(Controller, "_call", counting)
    monkeypatch.setattr(partition, "acceptances", counted)
    return found


async def rest(world: World) -> None:
    await world.run_for(1200.0)


async def edit(world: World) -> None:
    await world.patch("Partition", "short", {"spec": {"maxTime": "02:00:00"}})
    await world.run()
    assert condition(world, "Applied") == ("True", "InSlurm")


async def drift(world: World) -> None:
    change_by_hand(world, 7)
    await world.run_for(12.0)
    assert condition(world, "InSync") == ("True", "InSync")


async def refuse(world: World) -> None:
    world.line.on_call = refusing(world, "partitions", "POST")
    await world.patch("Partition", "short", {"spec": {"qos": "nosuch"}})
    await world.run_for(5.0)
    assert condition(world, "Applied") == ("False", "RefusedBySlurm")


async def remove(world: World) -> None:
    await world.delete("Partition", "short")
    await world.run()
    assert world.custom("Partition", "short") is None


@pytest.mark.parametrize("happens", [rest, edit, drift, refuse, remove], ids=lambda each: str(each.__name__))
async def test_slurm_conf_is_built_once_for_a_controller_and_never_for_a_partition(
    world: World, builds: Builds, happens: Callable[[World], Any]
) -> None:
    await with_partition(world)
    builds.by_kind.clear()
    await happens(world)
    assert set(builds.by_kind["Controller"]) == {1}
    assert set(builds.by_kind["Partition"]) == {0}
