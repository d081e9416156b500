"""What one NodeSet, one namespace or one bad answer costs the others and Slurm, also where there are many of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from itertools import count

import pytest
from tests.campaigns import rig
from tests.campaigns.rig import World
from tests.campaigns.scenarios import REF, small
from tests.plan.small_cluster import Cluster, of_type

from kube_runtime.times import parse_time
from slurm_operator.build import labels
from slurm_operator.plan import nodeset as plan
from slurm_operator.plan.actions import PatchPodConditions
from slurm_operator.plan.nodeset import MAX_CONDITIONS_BESIDE, plan_nodeset
from slurm_operator.reconcile import nodeset as reconcile
from slurm_operator.reconcile.nodeset import NodeSets
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply


@pytest.fixture
async def two_namespaces(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """An empty cluster with an operator that serves two namespaces by name: the usual one, and `tenant`."""
    monkeypatch.setattr(rig, "SETTINGS", replace(rig.SETTINGS, namespaces=(rig.NAMESPACE, "tenant")))
    made = World()
    await made.open()
    await made.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "tenant"}})
    yield made
    await made.close()
    # The judge knows of one namespace; here the operator reads another one too.
    assert [each for each in made.judge.violations if not each.startswith("I7: GET ")] == []


@pytest.mark.parametrize("is_stuck", [False, True], ids=["watches that are up to date", "a watch that is stuck"])
async def test_a_watch_of_one_namespace_blocks_no_scale_in_in_another(two_namespaces: World, is_stuck: bool) -> None:
    world = two_namespaces
    await small(world, 3)
    assert world.operator is not None
    here, there = world.operator.observer.pods
    assert (here.namespace, there.namespace) == (rig.NAMESPACE, "tenant")
    if is_stuck:
        # It brings nothing any more, not even the last thing that the operator wrote there.
        world.operator.sources.want(set(world.operator.sources._tasks) - {"Pod/tenant"})
        there.expect(str(int(here.resource_version) + 10**6))
    # The second scale-in waits for what was written in the first.
    for replicas in (2, 1):
        await world.patch("NodeSet", "compute", {"spec": {"replicas": replicas}})
        await world.run_for(300.0)
    assert sorted(world.pods()) == ["compute-0"]


async def test_a_deleted_nodeset_that_waits_for_a_job_does_not_read_whole_lists_each_second(world: World) -> None:
    await small(world, 40)
    for _ in range(40):
        world.slurm.submit(100_000.0)
    await world.run_for(30.0)
    await world.delete("NodeSet", "compute")
    await world.run_for(30.0)
    whole: Counter[str] = Counter()
    heard = world.line.on_call

    def see(sending: Sending, go: Callable[[], Reply]) -> Reply:
        if sending.label in ("GET nodes", "GET jobs") and "update_time" not in dict(sending.query):
            whole[sending.label] += 1
        return heard(sending, go)

    world.line.on_call = see
    await world.run_for(60.0)
    assert whole["GET nodes"] <= 12
    assert whole["GET jobs"] <= 12


def test_every_worker_is_called_registered_some_time_beside_others_that_get_and_lose_jobs(cluster: Cluster) -> None:
    cr = cluster.nodeset(replicas=40)
    said: dict[str, list[str]] = {f"w-{number}": ["Idle"] if number < 30 else [] for number in range(40)}
    written: set[str] = set()
    for turn in range(200):
        busy = "ALLOCATED" if turn % 2 == 0 else "IDLE"
        nodes = [cluster.node(f"w-{number}", busy if number < 30 else "IDLE") for number in range(40)]
        pods = [cluster.pod(name, states=states) for name, states in said.items()]
        # One worker waits to be drained in each reconcile.
        pods[39] = cluster.pod("w-39", states=["Idle"], annotations={labels.POD_CORDON: "true"})
        plan = plan_nodeset(cluster.world(cr, pods, cluster.slurm(*nodes)))
        for action in of_type(plan, PatchPodConditions):
            written.add(action.seen.name)
            types = [str(each["type"]) for each in action.conditions]
            said[action.seen.name] = [each.removeprefix("SlurmNodeState") for each in types if "State" in each]
    assert not {f"w-{number}" for number in range(30, 39)} - written


async def test_conditions_come_between_workers_that_move_once_a_second_however_often_one_looks(world: World) -> None:
    """A roll of two hundred looked four times a second, and waited each time for conditions of four pods."""
    await small(world, 20)
    world.cluster.starts = lambda _: False
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 21}})
    await world.run_for(5.0)
    world.arm()
    for turn in range(20):
        for node in world.slurm.nodes.values():
            node.flags ^= {"MAINTENANCE"}
        world.slurm.touch("nodes")
        await world.patch("NodeSet", "compute", {"metadata": {"annotations": {"turn": str(turn)}}})
        await world.run_for(0.1)
    written = sum("Pod/status" in each for each in world.trace)
    assert 0 < written <= 3 * MAX_CONDITIONS_BESIDE


async def test_answers_that_are_cut_off_somewhere_else_each_time_make_no_status_at_every_look(world: World) -> None:
    await small(world, 1)
    for number in range(4):
        await world.create("NodeSet", f"set{number}", {**REF, "replicas": 1})
    await world.run()
    heard, lengths = world.line.on_call, count(300)

    def cut_off(sending: Sending, go: Callable[[], Reply]) -> Reply:
        reply = heard(sending, go)
        if sending.label != "GET nodes":
            return reply
        return Reply(reply.status, reply.content_type, reply.body[: next(lengths)])

    world.line.on_call = cut_off
    await world.run_for(60.0)
    world.arm()
    await world.run_for(300.0)
    assert len(world.trace) <= 20


async def test_batches_of_new_workers_follow_each_other_while_slurm_lists_its_nodes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await small(world, 1)
    send = world.line.send

    async def slow(sending: Sending, token: str) -> Reply:
        if sending.label == "GET nodes":
            await world.clock.sleep(9.0)
        return await send(sending, token)

    for module in (plan, reconcile):
        monkeypatch.setattr(module, "MAX_PODS_AT_ONCE", 3)
    monkeypatch.setattr(world.line, "send", slow)
    await world.run_for(10.0)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 10}})
    asked_at = world.clock.now()
    await world.run_for(10.0)
    workers = [each["metadata"] for each in world.stored("pods") if each["metadata"]["name"].startswith("compute")]
    last = max(parse_time(each["creationTimestamp"]) or asked_at for each in workers)
    # The first batch waits three seconds for Slurm, the others do not.
    assert (len(workers), (last - asked_at).total_seconds() < 5.0) == (10, True)
    await world.run_for(60.0)
    world.arm()
    await world.run_for(120.0)
    assert [each for each in world.trace if "Pod" in each] == []


async def test_nothing_is_remembered_of_nodesets_that_go_while_slurm_is_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await small(world, 1)
    assert world.operator is not None
    nodesets: NodeSets = world.operator.controllers["NodeSet"]._reconcile.reconcile  # type: ignore[attr-defined]
    send = world.line.send
    going: list[asyncio.Task[None]] = []

    async def slow(sending: Sending, token: str) -> Reply:
        if sending.label in ("GET nodes", "GET node", "GET jobs/state"):
            await world.clock.sleep(1.0)
        return await send(sending, token)

    async def go_at_once(name: str) -> None:
        await world.patch("NodeSet", name, {"metadata": {"finalizers": None}})
        await world.delete("NodeSet", name)

    def let_go(name: str) -> None:
        going.append(asyncio.get_running_loop().create_task(go_at_once(name)))

    for number in range(10):
        name = f"short{number}"
        await world.create("NodeSet", name, {**REF, "replicas": 1})
        await world.run_for(15.0)
        with monkeypatch.context() as patch:
            patch.setattr(world.line, "send", slow)
            world.clock.call_later(1.5, partial(let_go, name))
            # Its neighbour asks Slurm while it goes.
            await world.patch("NodeSet", "compute", {"metadata": {"annotations": {"x": str(number)}}})
            await world.run_for(30.0)
    await world.run_for(60.0)
    await asyncio.gather(*going)
    there = {each["metadata"]["uid"] for each in world.stored("nodesets.slinky.slurm.net")}
    for remembered in (nodesets.asked, nodesets.settled, nodesets.hosts, nodesets.written, nodesets.confirm_first):
        assert not remembered.keys() - there
