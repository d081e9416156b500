"""Drift under a whole operator: what counts as reverted, whose patience counts, and what no answer leaves as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import KEYS, small
from tests.reconcile.test_partition import SHORT, condition, conf, deaf, shape, with_partition

from kube_runtime.loop.controller import MIN_REQUEUE_SECONDS, Controller, Result
from kube_runtime.loop.queue import Key
from slurm_operator.plan.partition_memory import MAX_REVERTS, PATIENCE_SECONDS, WINDOW_SECONDS
from slurm_operator.slurm.errors import SlurmRejected
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

Hook = Callable[[Sending, Callable[[], Reply]], Reply]


def message(world: World, kind: str, name: str, type_: str) -> str:
    found = world.custom(kind, name)["status"]["conditions"]
    return next((str(each["message"]) for each in found if each["type"] == type_ and each["status"] != ""), "")


def change_by_hand(world: World, grace: int, name: str = "short") -> None:
    """What `scontrol update partitionname=short gracetime=7` does."""
    world.slurm.live_partitions.set({"name": name, "grace_time": grace})
    world.slurm.touch("partitions")


def refusing(world: World, end: str, method: str) -> Hook:
    """A Slurm that refuses one call and answers all others."""
    heard = world.line.on_call

    def on_call(sending: Sending, go: Callable[[], Reply]) -> Reply:
        if sending.method == method and sending.path.split("?")[0].rstrip("/").endswith(end):
            raise SlurmRejected("Invalid value for field (Slurm error 2123)", call=sending.label)
        return heard(sending, go)

    return on_call


def rereading(world: World) -> Hook:
    """A Slurm that puts back at a reconfigure what slurm.conf says, as before live partitions."""
    heard = world.line.on_call

    def on_call(sending: Sending, go: Callable[[], Reply]) -> Reply:
        reply = heard(sending, go)
        if sending.path.endswith("/reconfigure"):
            world.slurm.live_partitions.read(conf(world))
            world.slurm.touch("partitions")
        return reply

    return on_call


async def test_a_revert_that_slurm_refuses_is_not_counted_and_told_as_refused(world: World) -> None:
    """B1: after five refusals it said "reverted again and again, now left"."""
    await with_partition(world)
    before, heard = conf(world), world.line.on_call
    world.line.on_call = refusing(world, "partitions", "POST")
    change_by_hand(world, 7)
    await world.run_for(20.0 * MAX_REVERTS)
    assert condition(world, "InSync") == ("False", "RefusedBySlurm")
    assert "Invalid value for field" in message(world, "Partition", "short", "InSync")
    assert conf(world) == before
    world.line.on_call = heard
    await world.run_for(20.0)
    assert shape(world)["grace_time"] == 0
    assert condition(world, "InSync") == ("True", "InSync")


async def test_a_change_of_a_reported_partition_is_no_revert_of_its_drift(world: World) -> None:
    """B2: each change of a drifted partition counted as a revert, whatever its policy."""
    await with_partition(world, driftPolicy="Report")
    change_by_hand(world, 7)
    for tier in range(2, 2 + MAX_REVERTS):
        await world.patch("Partition", "short", {"spec": {"priorityTier": tier}})
        await world.run_for(12.0)
    assert condition(world, "InSync") == ("False", "Drifted")
    assert shape(world)["grace_time"] == 7
    await world.patch("Partition", "short", {"spec": {"driftPolicy": "Revert"}})
    await world.run_for(12.0)
    assert shape(world)["grace_time"] == 0


async def test_one_reconfigure_reverts_only_those_that_ask_for_it(old_slurm: World) -> None:
    """B2: a reconfigure for one partition marked every drifted one as reverted."""
    world = old_slurm
    await with_partition(world)
    await world.create("Partition", "watched", {**SHORT, "driftPolicy": "Report"})
    await world.run()
    # Slurm says yes and does nothing: the drift of both stays.
    change_by_hand(world, 7)
    change_by_hand(world, 8, "watched")
    await world.run_for(PATIENCE_SECONDS + 20.0 * MAX_REVERTS)
    assert world.slurm.reconfigures >= MAX_REVERTS
    assert condition(world, "InSync") == ("False", "DriftComesBack")
    assert condition(world, "InSync", "watched") == ("False", "Drifted")


async def test_a_partition_that_flaps_does_not_hold_up_the_revert_of_another(old_slurm: World) -> None:
    """B9: the reconfigure waited until every drift had lasted, also that of partitions that are only reported."""
    world = old_slurm
    await with_partition(world)
    await world.create("Partition", "watched", {**SHORT, "driftPolicy": "Report"})
    await world.create("Partition", "restless", SHORT)
    await world.run()
    world.line.on_call = rereading(world)
    change_by_hand(world, 7)
    for turn in range(20):
        change_by_hand(world, 10 + turn, "watched")
        change_by_hand(world, 10 + turn, "restless")
        await world.run_for(PATIENCE_SECONDS / 15)
    assert shape(world)["grace_time"] == 0
    assert condition(world, "InSync") == ("True", "InSync")


async def lose_slurm(world: World, seconds: float) -> None:
    heard = world.line.on_call
    world.line.on_call = deaf
    await world.run_for(seconds)
    world.line.on_call = heard


async def test_no_answer_does_not_make_the_patience_begin_anew(old_slurm: World) -> None:
    """B3: without an answer there seemed to be no drift, so that it began again with the next one."""
    world = old_slurm
    await with_partition(world)
    world.line.on_call = rereading(world)
    change_by_hand(world, 7)
    await world.run_for(PATIENCE_SECONDS - 30.0)
    since = world.custom("Partition", "short")["status"]["drift"][0]["since"]
    # Longer than an answer is shared, so that Slurm is asked and does not answer.
    await lose_slurm(world, 40.0)
    assert condition(world, "Ready") == ("Unknown", "SlurmUnreachable")
    assert world.custom("Partition", "short")["status"]["drift"][0]["since"] == since
    await world.run_for(60.0)
    assert shape(world)["grace_time"] == 0


async def test_no_answer_does_not_lift_what_was_given_up(world: World) -> None:
    """B3: ten minutes later one look without an answer was taken for peace."""
    await with_partition(world)
    for _ in range(MAX_REVERTS + 2):
        change_by_hand(world, 7)
        await world.run_for(12.0)
    assert condition(world, "InSync") == ("False", "DriftComesBack")
    await world.run_for(WINDOW_SECONDS)
    await lose_slurm(world, 60.0)
    await world.run_for(60.0)
    assert shape(world)["grace_time"] == 7
    assert condition(world, "InSync") == ("False", "DriftComesBack")


async def test_a_namesake_does_not_inherit_what_was_given_up(world: World) -> None:
    """B5: the notes of a Controller that was deleted were those of the next one of its name."""
    await with_partition(world)
    for _ in range(MAX_REVERTS + 2):
        change_by_hand(world, 7)
        await world.run_for(12.0)
    assert condition(world, "InSync") == ("False", "DriftComesBack")
    await world.delete("Controller", "slurm")
    await world.run()
    await world.create("Controller", "slurm", KEYS)
    await world.run()
    change_by_hand(world, 7)
    await world.run_for(12.0)
    assert shape(world)["grace_time"] == 0
    assert condition(world, "InSync") == ("True", "InSync")


async def test_no_answer_does_not_let_a_refused_line_into_the_file(world: World) -> None:
    """B3: a refusal was forgotten with the next answer that did not come, and the line was published."""
    await with_partition(world)
    heard = world.line.on_call
    world.line.on_call = refusing(world, "partitions", "POST")
    await world.patch("Partition", "short", {"spec": {"qos": "nosuch"}})
    await world.run_for(10.0)
    assert condition(world, "Applied") == ("False", "RefusedBySlurm")
    world.line.on_call = deaf
    await world.run_for(60.0)
    assert "nosuch" not in conf(world)
    # Another line is a new try, and the file takes it while Slurm cannot be asked.
    await world.patch("Partition", "short", {"spec": {"qos": "other"}})
    await world.run_for(60.0)
    assert "other" in conf(world)
    world.line.on_call = heard


async def test_no_list_of_nodes_does_not_empty_a_partition(world: World) -> None:
    """B3: hosts of a list that did not come were hosts that Slurm does not have."""
    await with_partition(world)
    await world.patch("Partition", "short", {"spec": {"nodes": "-compute-1"}})
    await world.run()
    assert shape(world)["node_sets"] == "compute-0"
    heard = world.line.on_call

    def without_nodes(sending: Sending, go: Callable[[], Reply]) -> Reply:
        return deaf(sending, go) if sending.path.rstrip("/").endswith("/nodes") else heard(sending, go)

    world.line.on_call = without_nodes
    await world.run_for(10.0)
    await world.patch("Partition", "short", {"spec": {"graceTime": 3}})
    await world.run_for(30.0)
    assert shape(world)["node_sets"] == "compute-0"
    assert condition(world, "Ready")[0] == "Unknown"


async def test_a_refused_reconfigure_names_the_partitions_that_it_was_for(old_slurm: World) -> None:
    """B4: it was told as "partition : …"."""
    world = old_slurm
    await with_partition(world)
    await world.create("Partition", "long", SHORT)
    await world.run()
    world.line.on_call = refusing(world, "/reconfigure", "GET")
    change_by_hand(world, 7)
    change_by_hand(world, 7, "long")
    await world.run_for(PATIENCE_SECONDS + 20.0 * MAX_REVERTS)
    told = message(world, "Controller", "slurm", "Degraded")
    assert told.startswith("partitions long, short: the reconfigure that would revert it failed: ")
    assert condition(world, "InSync") == ("False", "RefusedBySlurm")


async def test_no_wait_is_shorter_than_the_loop_keeps(old_slurm: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: a wait of 0.02 s was asked for, and 0.1 s kept."""
    asked: list[float] = []
    call: Any = Controller._call

    async def listening(self: Controller, key: Key) -> Result:
        result: Result = await call(self, key)
        asked.extend([result.requeue_after] if result.requeue_after is not None else [])
        return result

    world = old_slurm
    await small(world, 1)
    monkeypatch.setattr(Controller, "_call", listening)
    # A change that is not in force at once: it is looked for again soon.
    world.cluster.sidecar.is_silent = True
    await world.create("Partition", "short", SHORT)
    await world.run_for(5.0)
    world.cluster.sidecar.is_silent = False
    await world.run_for(20.0)
    await world.delete("Partition", "short")
    await world.run_for(20.0)
    assert MIN_REQUEUE_SECONDS in asked
    assert min(asked) >= MIN_REQUEUE_SECONDS


# What is told of a revert


def told(world: World, *reasons: str) -> list[tuple[str, str, str]]:
    found = [each for each in world.stored("events") if each["reason"] in (reasons or ("DriftReverted",))]
    return [(each["involvedObject"]["kind"], each["involvedObject"]["name"], each["message"]) for each in found]


def drain_by_hand(world: World, name: str) -> None:
    """What `scontrol update partitionname=compute state=drain` does."""
    world.slurm.live_partitions.set({"name": name, "partition": {"state": ["DRAIN"]}})
    world.slurm.touch("partitions")


@pytest.mark.parametrize(
    ("partition", "kind", "owner"),
    [
        pytest.param("compute", "NodeSet", "compute", id="NodeSet"),
        pytest.param("short", "Partition", "short", id="own"),
    ],
)
async def test_a_revert_is_one_event_on_the_resource_that_has_the_partition(
    world: World, partition: str, kind: str, owner: str
) -> None:
    """U4: it was changed back within five seconds, and nobody was told."""
    await with_partition(world)
    await world.run_for(60.0)
    assert told(world) == []
    drain_by_hand(world, partition)
    await world.run_for(60.0)
    assert shape(world, partition)["partition"]["state"] == ["UP"]
    ((about, name, note),) = told(world)
    assert (about, name) == (kind, owner)
    assert note.startswith(f"partition {partition}: somebody with scontrol or REST changed State from UP to DRAIN; ")


async def test_the_partition_of_extra_conf_is_told_on_its_controller(world: World) -> None:
    await with_partition(world)
    await world.patch("Controller", "slurm", {"spec": {"extraConf": "PartitionName=legacy Nodes=ALL"}})
    await world.run()
    drain_by_hand(world, "legacy")
    await world.run_for(30.0)
    ((about, name, note),) = told(world)
    assert (about, name) == ("Controller", "slurm")
    assert note.endswith("To change it for good: change its line in extraConf of Controller slurm")


async def test_before_live_partitions_the_reconfigure_that_reverts_is_told(old_slurm: World) -> None:
    world = old_slurm
    await with_partition(world)
    world.line.on_call = rereading(world)
    drain_by_hand(world, "compute")
    await world.run_for(PATIENCE_SECONDS / 2)
    assert told(world) == []
    await world.run_for(PATIENCE_SECONDS)
    assert shape(world, "compute")["partition"]["state"] == ["UP"]
    assert [each[:2] for each in told(world)] == [("NodeSet", "compute")]


async def test_whoever_insists_is_told_five_times_and_never_again(world: World) -> None:
    await with_partition(world)
    for turn in range(3 * MAX_REVERTS):
        change_by_hand(world, 7 + turn, "compute")
        await world.run_for(12.0)
    assert len(told(world)) == MAX_REVERTS - 1
    ((about, _, note),) = told(world, "DriftComesBack")
    assert about == "NodeSet"
    assert note.endswith("the next change will not be reverted")
    world.arm()
    await world.run_for(600.0)
    assert world.trace == []


async def test_a_drain_in_the_nodeset_is_live_and_no_drift(world: World) -> None:
    await with_partition(world)
    await world.patch("NodeSet", "compute", {"spec": {"partition": {"config": "Default=YES State=DRAIN"}}})
    await world.run_for(1.0)
    assert shape(world, "compute")["partition"]["state"] == ["DRAIN"]
    await world.run_for(30.0)
    assert shape(world, "compute")["partition"]["state"] == ["DRAIN"]
    assert told(world) == []


async def test_applied_and_insync_say_the_same_of_reported_drift(world: World) -> None:
    await with_partition(world, driftPolicy="Report")
    change_by_hand(world, 7)
    await world.run_for(12.0)
    assert condition(world, "Applied") == ("True", "ChangedSince")
    assert condition(world, "InSync") == ("False", "Drifted")
    assert told(world) == []


async def test_the_state_of_a_partition_is_slurms_own(world: World) -> None:
    """`kubectl get partitions` showed UP for one that Slurm did not have."""
    await with_partition(world)
    assert world.custom("Partition", "short")["status"]["state"] == "UP"
    await world.patch("Partition", "short", {"spec": {"state": "DRAIN"}})
    await world.run()
    assert world.custom("Partition", "short")["status"]["state"] == "DRAIN"
    await world.create("Partition", "lost", {**SHORT, "nodeSets": ["nosuch"]})
    await world.run()
    assert "state" not in world.custom("Partition", "lost")["status"]


async def test_a_comment_in_the_options_is_not_accepted(world: World) -> None:
    await with_partition(world, config="SuspendTime=60 # a minute")
    assert condition(world, "Accepted") == ("False", "InvalidSpec")
    assert condition(world, "Ready") == ("False", "InvalidSpec")
    assert "must not contain '#'" in message(world, "Partition", "short", "Accepted")


async def test_changes_of_a_partition_ask_for_no_list_of_nodes(world: World) -> None:
    """With ten thousand nodes such a list is 25 MB: only the polls read it, and nobody waits for them."""
    await with_partition(world)
    world.arm()
    for tier in (2, 3, 4):
        await world.patch("Partition", "short", {"spec": {"priorityTier": tier}})
        await world.run_for(0.5)
        assert shape(world)["priority"]["tier"] == tier
    assert "POST partitions" in world.calls
    assert world.calls.count("GET nodes") <= 1


async def test_what_the_polls_find_is_counted_all_the_same(world: World) -> None:
    await with_partition(world)
    cpus = world.custom("Partition", "short")["status"]["cpus"]
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 4}})
    await world.run()
    status = world.custom("Partition", "short")["status"]
    assert (status["nodes"], status["cpus"]) == (4, 2 * cpus)
