"""A configuration on its way through the operator, with a small sidecar and a small Slurm, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Unpack

from tests.campaigns.rig import World
from tests.campaigns.scenarios import KEYS, NEW_KEY, REF, small
from tests.campaigns.sidecar import REFUSED

from kube_runtime.client import requests
from kube_runtime.client.objects import PODS
from kube_runtime.client.requests import LogOptions
from slurm_operator.build.verdicts import APPLIED, ROLLED_BACK
from slurm_operator.reconcile.config import LOG_TAIL_BYTES, reader


def conditions(world: World) -> dict[str, tuple[str, str]]:
    found = world.custom("Controller", "slurm")["status"]["conditions"]
    return {each["type"]: (each["status"], each["reason"]) for each in found if each["type"].startswith("Config")}


def published(world: World, name: str = "slurm-config") -> str:
    text: str = world.stored("configmaps", name)["data"]["slurm.conf"]
    return text


async def extra(world: World, text: str) -> None:
    await world.patch("Controller", "slurm", {"spec": {"extraConf": text}})


async def test_the_first_configuration_is_in_force_when_slurmctld_has_started(world: World) -> None:
    await small(world, 1)
    assert conditions(world) == {
        "ConfigValid": ("True", "Tried"),
        "ConfigPublished": ("True", "Published"),
        "ConfigApplied": ("True", "InForce"),
    }


async def test_a_change_is_published_after_slurm_has_taken_it(world: World) -> None:
    await small(world, 1)
    await extra(world, "MinJobAge=301\n")
    await world.run()
    assert "MinJobAge=301" in published(world)
    status = world.custom("Controller", "slurm")["status"]["config"]
    assert status["hash"] == world.cluster.sidecar.in_force
    assert "candidate" not in status


async def test_what_slurm_refuses_is_never_published_and_taken_back_without_a_trace(world: World) -> None:
    await small(world, 1)
    before, in_force = published(world), world.cluster.sidecar.in_force
    await extra(world, REFUSED)
    await world.run()
    assert (published(world), world.cluster.sidecar.in_force) == (before, in_force)
    assert conditions(world)["ConfigValid"] == ("False", "SlurmRefused")
    await extra(world, "")
    await world.run()
    assert conditions(world)["ConfigApplied"] == ("True", "InForce")


async def test_what_the_linter_refuses_does_not_even_become_a_candidate(world: World) -> None:
    await small(world, 1)
    before = published(world, "slurm-config-candidate")
    await extra(world, "Bogus=1\n")
    await world.run()
    assert published(world, "slurm-config-candidate") == before
    assert conditions(world)["ConfigValid"] == ("False", "LinterRefused")


async def test_a_last_good_configuration_outlives_a_new_operator_and_new_pods(world: World) -> None:
    await small(world, 1)
    before = published(world)
    await extra(world, REFUSED)
    await world.run()
    await world.stop_operator()
    await world.start_operator()
    await world.delete("Pod", "slurm-controller-0")
    await world.run()
    assert published(world) == before


async def test_a_verdict_of_a_newer_sidecar_is_unknown_until_one_is_understood(world: World) -> None:
    await small(world, 1)
    before, sidecar = published(world), world.cluster.sidecar
    sidecar.version = 3
    await extra(world, "MinJobAge=301\n")
    await world.run_for(30)
    assert published(world) == before
    assert conditions(world)["ConfigValid"] == ("Unknown", "VerdictNotUnderstood")
    assert conditions(world)["ConfigApplied"] == ("Unknown", "VerdictNotUnderstood")
    sidecar.say(sidecar.in_force, APPLIED, version=2)
    await world.run()
    assert "MinJobAge=301" in published(world)
    assert conditions(world)["ConfigApplied"] == ("True", "InForce")


async def test_a_sidecar_of_the_release_before_is_understood(world: World) -> None:
    world.cluster.sidecar.version = 1
    await small(world, 1)
    await extra(world, REFUSED)
    await world.run()
    assert conditions(world)["ConfigValid"] == ("False", "SlurmRefused")
    await extra(world, "MinJobAge=301\n")
    await world.run()
    assert "MinJobAge=301" in published(world)


async def test_pods_of_another_make_read_what_is_published(world: World) -> None:
    await small(world, 1)
    pod: Any = {"metadata": {"annotations": {"slinky.slurm.net/config-protocol": None}}}
    await world.patch("Pod", "slurm-controller-0", pod)
    await extra(world, "MinJobAge=302\n")
    await world.run()
    assert "MinJobAge=302" in published(world)
    assert conditions(world)["ConfigApplied"] == ("Unknown", "NotReported")


async def test_without_the_sidecar_there_is_no_candidate(world: World) -> None:
    await small(world, 1)
    await world.patch("Controller", "slurm", {"spec": {"inplaceReconfigure": False, "extraConf": "MinJobAge=303\n"}})
    await world.run()
    assert "MinJobAge=303" in published(world)
    assert world.stored("configmaps", "slurm-config-candidate") is None


async def test_a_partition_that_goes_while_it_is_still_tried_is_deleted_in_slurm_first(world: World) -> None:
    await small(world, 1)
    await extra(world, "PartitionName=short Nodes=compute\n")
    # The sidecar has taken it, and its word has not been heard.
    await world.run_for(0.2)
    await extra(world, "")
    await world.run()
    assert "short" not in world.slurm.partitions
    assert conditions(world)["ConfigApplied"] == ("True", "InForce")


async def test_a_quiet_world_is_not_written_to(world: World) -> None:
    await small(world, 1)
    before = world.server.store.revision
    await world.run_for(60)
    assert world.server.store.revision == before


async def readings(world: World, seconds: float) -> int:
    """How often the log of a pod is read within so many seconds."""
    before = len(world.cluster.sidecar.readings)
    await world.run_for(seconds)
    return len(world.cluster.sidecar.readings) - before


async def test_no_log_is_read_while_nothing_is_tried(world: World) -> None:
    await small(world, 1)
    assert await readings(world, 60.0) == 0


async def test_a_sidecar_that_stays_silent_is_listened_to_less_and_less(world: World) -> None:
    await small(world, 1)
    world.cluster.sidecar.is_silent = True
    await extra(world, "MinJobAge=304\n")
    assert 20 <= await readings(world, 5.0) <= 36
    assert 40 <= await readings(world, 55.0) <= 62
    assert 50 <= await readings(world, 600.0) <= 62
    world.cluster.sidecar.is_silent = False
    world.cluster.sidecar.look()
    await world.run_for(15.0)
    assert conditions(world)["ConfigApplied"] == ("True", "InForce")


async def test_the_log_of_a_pod_that_does_not_speak_is_never_read(world: World) -> None:
    await small(world, 1)
    pod: Any = {"metadata": {"annotations": {"slinky.slurm.net/config-protocol": None}}}
    await world.patch("Pod", "slurm-controller-0", pod)
    await extra(world, "MinJobAge=305\n")
    assert await readings(world, 30.0) == 0


async def test_while_a_key_goes_round_nothing_is_handed_over_or_reconfigured(world: World) -> None:
    await small(world, 1)
    world.slurm.submit(60.0)
    candidate = world.stored("configmaps", "slurm-config-candidate")["metadata"]["resourceVersion"]
    pod = world.stored("pods", "slurm-controller-0")["metadata"]["resourceVersion"]
    await world.patch("Secret", "slurm-key", {"data": {"slurm.key": NEW_KEY}})
    await world.run_for(5.0)
    await extra(world, "MinJobAge=306\n")
    await world.run_for(30.0)
    assert world.stored("configmaps", "slurm-config-candidate")["metadata"]["resourceVersion"] == candidate
    assert world.stored("pods", "slurm-controller-0")["metadata"]["resourceVersion"] == pod
    assert set(conditions(world).values()) == {("Unknown", "KeyRotation"), ("False", "KeyRotation")}
    assert await readings(world, 10.0) == 0
    await world.run_for(120.0)
    await world.run()
    assert "MinJobAge=306" in published(world)
    assert conditions(world)["ConfigApplied"] == ("True", "InForce")


def progressing(world: World) -> tuple[str, str]:
    found = world.custom("Controller", "slurm")["status"]["conditions"]
    return next((each["reason"], each["message"]) for each in found if each["type"] == "Progressing")


async def test_without_a_restapi_a_removed_partition_waits_and_says_why(world: World) -> None:
    await world.create("Controller", "slurm", {**KEYS, "extraConf": "PartitionName=short Nodes=ALL\n"})
    await world.run()
    await extra(world, "")
    await world.run()
    assert "PartitionName=short" in published(world)
    reason, message = progressing(world)
    assert reason == "WaitingForSlurm"
    assert "short" in message
    assert "there is no RestApi for Controller 'slurm'" in message
    await world.create("RestApi", "slurm", REF)
    await world.run()
    assert "PartitionName=short" not in published(world)
    assert progressing(world)[0] != "WaitingForSlurm"


async def test_a_removed_partition_names_the_jobs_that_it_waits_for(world: World) -> None:
    await small(world, 1)
    await extra(world, "PartitionName=short Nodes=compute\n")
    await world.run()
    job = world.slurm.submit(30.0, partition="short")
    await world.run_for(2.0)
    await extra(world, "")
    await world.run_for(5.0)
    assert progressing(world) == (
        "WaitingForJobs",
        f"slurm.conf keeps partitions until their jobs have ended: short: jobs {job}",
    )


async def test_the_daemons_are_counted_by_what_slurm_says_of_them(world: World) -> None:
    await small(world, 2)
    await world.run_for(10.0)
    found = world.custom("Controller", "slurm")["status"]["config"]["daemons"]
    assert {each["daemon"]: each["total"] for each in found}.items() >= {"slurmctld": 1, "slurmd": 2}.items()


async def test_partitions_are_kept_in_slurm_only_where_slurmrestd_can_change_them(
    world: World, old_slurm: World
) -> None:
    """The image names 26.05 in both; in the second one slurmrestd offers nothing newer than v0.0.42."""
    image = {"slurmctld": {"image": "ghcr.io/slinkyproject/slurmctld:26.05"}}
    for each in (world, old_slurm):
        await small(each, 1)
        await each.patch("Controller", "slurm", {"spec": image})
        await each.run()
    assert "ReconfigFlags=KeepPartInfo" in published(world)
    assert "KeepPartInfo" not in published(old_slurm)


async def test_a_drift_is_not_reverted_by_a_reconfigure_while_a_key_goes_round(old_slurm: World) -> None:
    await small(old_slurm, 1)
    old_slurm.slurm.submit(2_000.0)
    await old_slurm.patch("Secret", "slurm-key", {"data": {"slurm.key": NEW_KEY}})
    await old_slurm.run_for(5.0)
    before = old_slurm.slurm.reconfigures
    old_slurm.slurm.live_partitions.set({"name": "compute", "priority": {"tier": 7}})
    old_slurm.slurm.touch("partitions")
    await old_slurm.run_for(400.0)
    assert old_slurm.slurm.reconfigures == before


async def test_the_same_drift_is_reverted_by_one_when_no_key_goes_round(old_slurm: World) -> None:
    await small(old_slurm, 1)
    before = old_slurm.slurm.reconfigures
    old_slurm.slurm.live_partitions.set({"name": "compute", "priority": {"tier": 7}})
    old_slurm.slurm.touch("partitions")
    await old_slurm.run_for(400.0)
    assert old_slurm.slurm.reconfigures > before


async def test_a_partition_line_that_the_linter_refuses_is_told_and_stops_nothing(world: World) -> None:
    await small(world, 1)
    before = published(world)
    await extra(world, "PartitionName=odd Nodes=ALL State=WRONG MaxTime=" + "9" * 5000 + "\n")
    await world.run()
    assert conditions(world)["ConfigValid"] == ("False", "LinterRefused")
    assert published(world) == before
    assert "odd" not in world.slurm.live_partitions.shapes


async def test_an_odd_number_of_nudges_stops_nothing(world: World) -> None:
    await small(world, 1)
    annotations = {"slinky.slurm.net/config-candidate": "a/" + "9" * 5000}
    pod: Any = {"metadata": {"annotations": annotations}}
    await world.patch("Pod", "slurm-controller-0", pod)
    await extra(world, "MinJobAge=301\n")
    await world.run()
    assert "MinJobAge=301" in published(world)
    assert conditions(world)["ConfigApplied"] == ("True", "InForce")


async def test_no_more_of_a_log_is_read_than_verdicts_can_be() -> None:
    asked: dict[str, object] = {}

    class Logs:
        async def logs(self, *_: str, **options: Unpack[LogOptions]) -> AsyncIterator[str]:
            asked.update(options)
            yield "a line"

    assert await reader(Logs())("hpc", "slurm-controller-0", "reconfigure", 40) == ["a line"]
    request = requests.logs(PODS, "hpc", "slurm-controller-0", tail=40, limit_bytes=LOG_TAIL_BYTES)
    assert asked["limit_bytes"] == LOG_TAIL_BYTES
    assert ("limitBytes", str(LOG_TAIL_BYTES)) in request.query


async def test_a_candidate_that_is_tried_again_says_when_and_is_published_once_it_works(world: World) -> None:
    await small(world, 1)
    sidecar = world.cluster.sidecar
    sidecar.is_silent = True
    await extra(world, "MinJobAge=307\n")
    await world.run_for(1.0)
    hash_ = world.custom("Controller", "slurm")["status"]["config"]["candidate"]
    reason = "slurmctld does not answer any more; it is tried again at 2030-01-01T00:30:00Z (1 of 2)"
    sidecar.say(hash_, ROLLED_BACK, reason)
    await world.run_for(5.0)
    assert conditions(world)["ConfigApplied"] == ("False", "RolledBack")
    found = world.custom("Controller", "slurm")["status"]["conditions"]
    assert reason in next(each["message"] for each in found if each["type"] == "ConfigValid")
    assert "MinJobAge=307" not in published(world)
    sidecar.is_silent = False
    sidecar.look()
    await world.run_for(8.0)
    assert conditions(world)["ConfigApplied"] == ("True", "InForce")
    assert "MinJobAge=307" in published(world)
