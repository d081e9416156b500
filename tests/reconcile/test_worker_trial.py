"""slurmd tries a configuration before slurmctld gets it, with a small slurmd, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.campaigns.kubernetes import FATAL, REFUSED_BY_SLURMD
from tests.campaigns.rig import World
from tests.campaigns.scenarios import KEYS, REF, small

from slurm_operator.plan.worker_trial import LIMIT_SECONDS

GOOD = "UnkillableStepTimeout=200"


async def extra(world: World, text: str) -> None:
    await world.patch("Controller", "slurm", {"spec": {"extraConf": text}})


def published(world: World, name: str = "slurm-config") -> str:
    text: str = world.stored("configmaps", name)["data"]["slurm.conf"]
    return text


def condition(world: World, type_: str) -> tuple[str, str, str]:
    found = world.conditions("Controller", "slurm")[type_]
    return found["status"], found["reason"], found["message"]


def trials(world: World) -> list[dict[str, Any]]:
    return [each for each in world.stored("pods") if "-trial-" in each["metadata"]["name"]]


def leftovers(world: World) -> list[str]:
    there = [each["metadata"]["name"] for kind in ("pods", "configmaps") for each in world.stored(kind)]
    return [name for name in there if "-trial-" in name]


async def test_slurmctld_gets_what_slurmd_has_tried_and_nothing_is_left_over(world: World) -> None:
    await small(world, 1)
    await extra(world, GOOD)
    await world.run_for(1.0)
    assert len(trials(world)) == 1
    assert GOOD not in published(world, "slurm-config-candidate")
    assert condition(world, "ConfigValid")[:2] == ("Unknown", "Trying")
    await world.run()
    assert GOOD in published(world)
    assert condition(world, "ConfigValid")[:2] == ("True", "Tried")
    assert leftovers(world) == []


async def test_what_slurmd_refuses_reaches_no_slurmctld(world: World) -> None:
    await small(world, 1)
    before = published(world), published(world, "slurm-config-candidate"), world.cluster.sidecar.in_force
    await extra(world, REFUSED_BY_SLURMD)
    await world.run()
    after = published(world), published(world, "slurm-config-candidate"), world.cluster.sidecar.in_force
    assert after == before
    status, reason, message = condition(world, "ConfigValid")
    assert (status, reason) == ("False", "SlurmdRefused")
    assert FATAL in message
    assert "slurmd of NodeSet compute" in message
    assert condition(world, "Degraded")[:2] == ("True", "ConfigNotValid")


async def test_a_refusal_is_not_tried_again_until_it_changes_and_is_known_to_the_next_operator(world: World) -> None:
    await small(world, 1)
    await extra(world, REFUSED_BY_SLURMD)
    await world.run()
    before = world.server.store.revision
    await world.run_for(120)
    assert world.server.store.revision == before
    await world.stop_operator()
    await world.start_operator()
    await world.run()
    assert condition(world, "ConfigValid")[1] == "SlurmdRefused"
    assert sum(count for (_, name), count in world.cluster.creates.items() if "-trial-" in name) == 2
    await extra(world, "")
    await world.run()
    assert condition(world, "ConfigApplied")[:2] == ("True", "InForce")
    assert leftovers(world) == []


@pytest.mark.parametrize(
    "spec", [{"extraConf": "MinJobAge=301\n"}, {"extraConf": "PartitionName=short Nodes=compute\n"}], ids=str
)
async def test_a_change_that_does_not_touch_workers_takes_no_trial(world: World, spec: dict[str, str]) -> None:
    await small(world, 1)
    await world.patch("Controller", "slurm", {"spec": spec})
    await world.run()
    assert spec["extraConf"] in published(world)
    assert not [name for _, name in world.cluster.creates if "-trial-" in name]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {"slinky.slurm.net/config-check": "off"}}},
        {"spec": {"inplaceReconfigure": False}},
    ],
    ids=["the check is off", "there is no sidecar"],
)
async def test_where_nothing_is_tried_slurmd_is_not_either(world: World, change: dict[str, Any]) -> None:
    await small(world, 1)
    await world.patch("Controller", "slurm", change)
    await world.run()
    await extra(world, GOOD)
    await world.run()
    assert GOOD in published(world)
    assert not [name for _, name in world.cluster.creates if "-trial-" in name]


async def test_a_cluster_without_workers_has_nobody_to_try(world: World) -> None:
    await world.create("Controller", "slurm", KEYS)
    await world.create("RestApi", "slurm", REF)
    await world.run()
    await extra(world, GOOD)
    await world.run()
    assert not [name for _, name in world.cluster.creates if "-trial-" in name]
    assert GOOD in published(world)


async def test_a_nodeset_with_no_workers_is_tried_all_the_same(world: World) -> None:
    await small(world, 0)
    await extra(world, REFUSED_BY_SLURMD)
    await world.run()
    assert condition(world, "ConfigValid")[1] == "SlurmdRefused"


async def test_a_trial_that_never_starts_holds_nothing_for_ever_and_says_so(world: World) -> None:
    await small(world, 1)
    world.cluster.starts = lambda pod: "-trial-" not in pod["metadata"]["name"]
    await extra(world, GOOD)
    await world.run_for(LIMIT_SECONDS - 10)
    assert GOOD not in published(world, "slurm-config-candidate")
    await world.run_for(20)
    await world.run()
    assert GOOD in published(world)
    status, reason, message = condition(world, "ConfigValid")
    assert (status, reason) == ("True", "WorkersNotTried")
    assert "compute: no verdict within 60 s" in message
    assert [each["reason"] for each in world.stored("events")].count("WorkersNotTried") == 1
    assert leftovers(world) == []


async def test_a_trial_that_never_starts_is_not_begun_anew_by_lines_that_slurmd_does_not_read(world: World) -> None:
    await small(world, 1)
    world.cluster.starts = lambda pod: "-trial-" not in pod["metadata"]["name"]
    for number in range(5):
        await extra(world, f"{GOOD}\nMinJobAge={301 + number}\n")
        await world.run_for(LIMIT_SECONDS / 4)
    await world.run()
    assert GOOD in published(world)
    assert sum(count for (_, name), count in world.cluster.creates.items() if "-trial-" in name) == 2


async def test_a_trial_that_never_starts_is_not_begun_anew_by_the_next_operator(world: World) -> None:
    await small(world, 1)
    world.cluster.starts = lambda pod: "-trial-" not in pod["metadata"]["name"]
    await extra(world, GOOD)
    await world.run_for(LIMIT_SECONDS - 20)
    await world.stop_operator()
    await world.start_operator()
    await world.run_for(30)
    assert GOOD in published(world)


async def test_a_refusal_is_tried_again_if_another_line_changes(world: World) -> None:
    """slurmd parses every line: what it refused may be one that it does not act on."""
    await small(world, 1)
    world.cluster.trial_line = f'worker-trial version=1 stage=refused reason="{FATAL}"'
    await extra(world, f"{GOOD}\nMinJobAge=301\n")
    await world.run()
    assert condition(world, "ConfigValid")[1] == "SlurmdRefused"
    world.cluster.trial_line = ""
    await extra(world, f"{GOOD}\nMinJobAge=302\n")
    await world.run()
    assert condition(world, "ConfigValid")[1] == "Tried"
    assert leftovers(world) == []


async def test_it_stays_known_that_workers_were_not_tried_until_another_configuration_was(world: World) -> None:
    await small(world, 1)
    world.cluster.trial_line = "boom"
    await extra(world, GOOD)
    await world.run()
    await world.stop_operator()
    await world.start_operator()
    await world.run()
    assert condition(world, "ConfigValid")[1] == "WorkersNotTried"
    world.cluster.trial_line = ""
    await extra(world, "UnkillableStepTimeout=201\n")
    await world.run()
    assert condition(world, "ConfigValid")[1] == "Tried"


async def test_a_configuration_that_is_overtaken_leaves_no_pod(world: World) -> None:
    await small(world, 1)
    await extra(world, GOOD)
    await world.run_for(0.5)
    await extra(world, REFUSED_BY_SLURMD)
    await world.run_for(0.5)
    await extra(world, "MinJobAge=301\n")
    await world.run()
    assert "MinJobAge=301" in published(world)
    assert leftovers(world) == []


async def test_a_namespace_that_lets_no_trial_in_gets_its_configuration_and_the_reason(world: World) -> None:
    await small(world, 1)
    taken = {"spec": {"containers": [{"name": "x", "image": "x"}]}}
    world.cluster.starts = lambda pod: "-trial-" not in pod["metadata"]["name"]
    await extra(world, GOOD)
    await world.run_for(1.0)
    name = trials(world)[0]["metadata"]["name"]
    await extra(world, "")
    await world.run()
    # A pod of somebody else's has the name.
    path = "/api/v1/namespaces/hpc/pods"
    await world.ask("POST", path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **taken})
    await extra(world, GOOD)
    await world.run()
    assert GOOD in published(world)
    assert "the trial pod cannot be created" in condition(world, "ConfigValid")[2]
    assert leftovers(world) == [name]
