"""ServiceMonitors where the cluster serves them, and nothing amiss where it does not."""

from __future__ import annotations

from typing import Any

from tests.campaigns.rig import World
from tests.campaigns.scenarios import KEYS, REF

from kube_runtime.clock import run_until_idle

METRICS = {"metrics": {"enabled": True, "serviceMonitor": {"enabled": True}}}
MONITORS = "servicemonitors.monitoring.coreos.com"


async def monitored(world: World) -> None:
    await world.create("Controller", "slurm", {**KEYS, **METRICS})
    await world.create("RestApi", "slurm", REF)
    await world.run()


def ready(world: World) -> Any:
    found = world.custom("Controller", "slurm")["status"]["conditions"]
    return next((each["status"], each["reason"]) for each in found if each["type"] == "Ready")


async def test_without_the_prometheus_operator_nothing_fails(world: World) -> None:
    await monitored(world)
    assert ready(world) == ("True", "AllReady")


async def test_one_that_is_installed_later_is_found(world: World) -> None:
    await monitored(world)
    await world.serve_monitors()
    assert world.operator is not None
    await world.operator.served.look()
    await run_until_idle()
    await world.run()
    (made,) = world.stored(MONITORS)
    assert made["metadata"]["ownerReferences"][0]["name"] == "slurm"
    world.arm()
    await world.run_for(60.0)
    assert world.trace == []


async def test_a_monitor_that_somebody_deletes_comes_back_and_goes_when_turned_off(world: World) -> None:
    await world.serve_monitors()
    await world.stop_operator()
    await world.start_operator()
    await monitored(world)
    (made,) = world.stored(MONITORS)
    name = made["metadata"]["name"]
    await world.ask("DELETE", f"/apis/monitoring.coreos.com/v1/namespaces/hpc/servicemonitors/{name}")
    await world.run()
    assert len(world.stored(MONITORS)) == 1
    await world.patch("Controller", "slurm", {"spec": {"metrics": {"serviceMonitor": {"enabled": False}}}})
    await world.run()
    assert world.stored(MONITORS) == []


async def test_a_kind_that_is_taken_away_stops_nobody(world: World) -> None:
    await world.serve_monitors()
    await world.stop_operator()
    await world.start_operator()
    await monitored(world)
    await world.ask("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{MONITORS}")
    await run_until_idle()
    assert world.operator is not None
    await world.operator.served.look()
    await world.patch("Controller", "slurm", {"spec": {"extraConf": "MinJobAge=301\n"}})
    await world.run()
    assert ready(world) == ("True", "AllReady")
    assert "ServiceMonitor" in world.operator.observer.unserved
