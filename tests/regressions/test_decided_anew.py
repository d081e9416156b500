"""A removal is decided anew where what it rests on has become old, or has changed, and is not held up by anything else.

Here writes and answers are slow, and somebody acts meanwhile: no job, no data and no drain is lost by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import CLAIMS, REF, small
from tests.campaigns.slurm_model import JobRecord, NodeRecord
from tests.reconcile.test_clusters import Slurm
from tests.regressions.test_at_rest import with_a_worker_that_never_starts

from kube_runtime.client.write import Write
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key
from slurm_operator.reconcile.clusters import Cluster
from slurm_operator.reconcile.nodeset import MAX_JOBS_AGE_SECONDS
from slurm_operator.slurm import job_records, policy
from slurm_operator.slurm.decision import Decision
from slurm_operator.slurm.errors import SlurmBudgetExceeded
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import Job
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

WITH_CLAIMS = {"volumeClaimTemplates": CLAIMS, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}


async def scale(world: World, replicas: int) -> None:
    await world.patch("NodeSet", "compute", {"spec": {"replicas": replicas}})


def once_before_write(world: World, verb: str, kind: str, meanwhile: Callable[[], Awaitable[None]]) -> list[str]:
    """The first such write has to wait for what happens meanwhile; the names of those that did."""
    assert world.operator is not None
    writer, happened = world.operator.writer, list[str]()
    heard = writer.before

    async def before(write: Write) -> None:
        if (write.verb, write.resource.kind) == (verb, kind) and not happened:
            happened.append(write.name)
            await meanwhile()
        await heard(write)

    writer.before = before
    return happened


def once_before_call(
    world: World, fits: Callable[[Sending], bool], meanwhile: Callable[[], Awaitable[None]]
) -> list[str]:
    """The first such call to Slurm has to wait for what happens meanwhile; the names of those that did."""
    send, happened = world.line.send, list[str]()

    async def slow(sending: Sending, token: str) -> Reply:
        if fits(sending) and not happened:
            happened.append(sending.label)
            await meanwhile()
        return await send(sending, token)

    world.line.send = slow  # type: ignore[method-assign]  # the model's own seam
    return happened


def is_drained(world: World, name: str) -> bool:
    node = world.slurm.nodes.get(name)
    return node is not None and "DRAIN" in node.flags


def put_to_work(world: World, name: str) -> None:
    """An admin lifts the drain of a node, and a job starts there."""
    world.slurm.admin_resume(name)
    job = world.slurm.jobs[world.slurm.submit(10_000.0)]
    job.state, job.nodes = "RUNNING", (name,)
    world.slurm.touch("nodes", "jobs")


def leave_record(world: World, name: str) -> None:
    """A node record whose slurmd and pod are long gone."""
    left: NodeRecord = replace(world.slurm.nodes["compute-1"], name=name, base="DOWN", flags={"NOT_RESPONDING"})
    world.slurm.nodes[name] = left
    world.slurm.touch("nodes")


def slurm_of(world: World) -> Cluster:
    """What the operator knows of the one Slurm that there is."""
    assert world.operator is not None
    cluster = world.operator.clusters.polled(Key("hpc", "slurm"))
    assert cluster is not None
    return cluster


def look_at_once(world: World) -> None:
    """The next reconcile asks Slurm, instead of going by what another one heard a moment ago."""
    slurm_of(world)._looks.expire()


def claims(world: World) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in world.stored("persistentvolumeclaims")}


# What is old


async def test_a_drain_that_an_admin_sets_while_pods_are_made_outlasts_the_resume(world: World) -> None:
    await small(world, 2)

    async def meanwhile() -> None:
        await world.clock.sleep(20.0)
        world.slurm.admin_drain("compute-0", "broken fan")

    happened = once_before_write(world, "create", "Pod", meanwhile)
    # The slurmd of compute-0 ended and is back: its node is to be resumed.
    world.slurm.stop_slurmd("compute-0", "slurm-operator: Pod is terminating")
    world.slurm.register("compute-0")
    look_at_once(world)
    world.judge.expect_loss = True
    await scale(world, 4)
    await world.run_for(90.0)
    assert happened
    assert is_drained(world, "compute-0")
    assert world.slurm.nodes["compute-0"].reason == "broken fan"


async def test_a_worker_stays_whose_node_got_a_job_while_earlier_writes_were_slow(world: World) -> None:
    await small(world, 2, **WITH_CLAIMS)

    async def meanwhile() -> None:
        await world.clock.sleep(30.0)
        put_to_work(world, "compute-1")

    happened = once_before_write(world, "patch", "PersistentVolumeClaim", meanwhile)
    await scale(world, 1)
    await world.run_for(120.0)
    assert happened
    assert not world.slurm.lost
    assert world.judge.violations == []


async def test_a_worker_goes_though_slurm_takes_long_to_list_its_jobs(world: World) -> None:
    """Each list took longer than an answer may be old, so that no worker ever went."""
    await small(world, 2)
    send = world.line.send

    async def slow(sending: Sending, token: str) -> Reply:
        if sending.label in ("GET jobs", "GET jobs/state", "GET job") and is_drained(world, "compute-1"):
            await world.clock.sleep(MAX_JOBS_AGE_SECONDS + 1.0)
        return await send(sending, token)

    world.line.send = slow  # type: ignore[method-assign]  # the model's own seam
    await scale(world, 1)
    await world.run_for(180.0)
    assert world.stored("pods", "compute-1") is None


@pytest.mark.parametrize("seconds", [pytest.param(10.0, id="for ten seconds"), pytest.param(20.0, id="for twenty")])
async def test_a_worker_stays_whose_node_got_a_job_while_partitions_were_read(world: World, seconds: float) -> None:
    await small(world, 2)
    await world.create("Partition", "fast", {**REF, "nodeSets": ["compute"]})
    await world.run_for(20.0)
    # What Slurm was asked since it said of this very node that it is drained.
    since: list[str] = []

    def comes_after_the_jobs(sending: Sending) -> bool:
        if sending.label in ("GET nodes", "GET node"):
            is_decided = sending.label == "GET node" and is_drained(world, "compute-1")
            since[:] = [sending.label] if is_decided else []
        elif sending.label == "GET partitions" and since[-1:] == ["GET jobs/state"]:
            return True
        elif since:
            since.append(sending.label)
            # Nobody has read partitions a moment ago.
            slurm_of(world)._partitions.expire()
        return False

    async def meanwhile() -> None:
        await world.clock.sleep(seconds)
        put_to_work(world, "compute-1")

    happened = once_before_call(world, comes_after_the_jobs, meanwhile)
    await scale(world, 1)
    await world.run_for(120.0)
    assert happened
    assert not world.slurm.lost


async def test_a_record_stays_that_a_job_requires_by_now(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await small(world, 2)
    slurm, shape, heard = world.slurm, world.slurm._job, world.line.on_call
    required: dict[int, str] = {}
    deleted: list[str] = []

    def with_required(job: JobRecord) -> dict[str, Any]:
        return shape(job) | {"required_nodes": required.get(job.job_id, "")}

    async def meanwhile() -> None:
        number = slurm.submit(100.0, "nowhere")
        slurm.jobs[number].state, slurm.jobs[number].nodes = "PENDING", ()
        required[number] = "compute-7"
        await world.clock.sleep(20.0)

    def see(sending: Sending, go: Callable[[], Reply]) -> Reply:
        if sending.method == "DELETE" and "/node/" in sending.path and "compute-7" in sending.path and happened:
            deleted.append(sending.path)
        return heard(sending, go)

    monkeypatch.setattr(slurm, "_job", with_required)
    world.line.on_call = see
    happened = once_before_write(world, "create", "Pod", meanwhile)
    leave_record(world, "compute-7")
    look_at_once(world)
    await scale(world, 3)
    await world.run_for(60.0)
    assert happened
    assert not deleted


async def test_a_suspended_job_that_moved_unseen_keeps_its_worker() -> None:
    """All nodes were listed for one that turned out to be busy: then no job was read for the others."""
    slurm = Slurm(10)
    suspended = Job(job_id=1, states=frozenset({"SUSPENDED"}), nodes=HostList("n3"), user="a", submit_time=5)
    slurm.held = {1: suspended}
    await slurm.cluster.node_snapshot()
    slurm.held[1] = Job(
        job_id=1, states=frozenset({"SUSPENDED"}), nodes=HostList("n2"), user="a", submit_time=9, restarts=1
    )
    slurm.put("n1", "ALLOCATED", "DRAIN")
    slurm.put("n2", "IDLE", "DRAIN")
    # A whole list is due.
    slurm.now += 100.0
    seen = await slurm.cluster.node_snapshot(Decision(frozenset({"n1"})))
    may = policy.may_remove(seen.view("n2"), seen.jobs)
    assert not (seen.fresh.covers(Decision(frozenset({"n2"}))) and isinstance(may, policy.Yes))


# What has changed


async def test_a_scale_in_that_was_taken_back_takes_no_worker_and_no_data(world: World) -> None:
    await small(world, 2, **WITH_CLAIMS)
    await world.run_for(60.0)
    before = claims(world)

    def asks_for_jobs(sending: Sending) -> bool:
        return is_drained(world, "compute-1") and sending.label == "GET jobs/state"

    async def meanwhile() -> None:
        await world.clock.sleep(5.0)
        await scale(world, 2)
        await world.clock.sleep(5.0)

    happened = once_before_call(world, asks_for_jobs, meanwhile)
    await scale(world, 1)
    await world.run_for(120.0)
    assert happened
    assert claims(world) == before


# What holds nothing up


async def with_jobs_that_no_decision_can_read(world: World, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """Slurm cannot give a list of its jobs, and these are more than are read one by one for a decision."""
    heard = world.line.on_call
    monkeypatch.setattr(job_records, "MAX_DECISION_RECORDS", 200)
    monkeypatch.setattr(world.slurm, "schedule", lambda: None)
    for _ in range(30):
        for _ in range(8):
            job = world.slurm.jobs[world.slurm.submit(10_000.0, "elsewhere")]
            job.state, job.nodes = state, (("far-away",) if state == "RUNNING" else ())
        world.slurm.touch("jobs")
        await world.run_for(5.5)

    def bounded(sending: Sending, go: Callable[[], Reply]) -> Reply:
        if sending.label == "GET jobs":
            raise SlurmBudgetExceeded("bytes", "more", sending.max_bytes, call=sending.label)
        return heard(sending, go)

    world.line.on_call = bounded


@pytest.mark.parametrize("has_leftover", [False, True], ids=["no record is left", "a record is left"])
async def test_a_scale_in_goes_on_beside_a_record_that_cannot_go(
    world: World, monkeypatch: pytest.MonkeyPatch, has_leftover: bool
) -> None:
    await small(world, 3)
    await with_jobs_that_no_decision_can_read(world, monkeypatch, "PENDING")
    if has_leftover:
        leave_record(world, "compute-7")
    await world.run_for(30.0)
    await scale(world, 1)
    await world.run_for(600.0)
    assert sorted(world.pods()) == ["compute-0"]
    assert ("compute-7" in world.slurm.nodes) == has_leftover


async def test_nobody_else_waits_for_a_record_that_cannot_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs that cannot be read for it are known to all others: these rest, and report them."""
    await small(world, 2)
    await world.create("NodeSet", "other", {**REF, "replicas": 2})
    await world.create("Partition", "fast", {**REF, "nodeSets": ["other"]})
    await with_jobs_that_no_decision_can_read(world, monkeypatch, "PENDING")
    await world.run_for(60.0)
    leave_record(world, "compute-7")
    await world.run_for(30.0)
    world.arm()
    seen, looks = statuses(world), looks_at(world, "NodeSet", "other")
    for _ in range(120):
        await world.run_for(0.5)
        assert statuses(world) == seen
    assert len(looks) <= 4
    assert [each for each in world.trace if not each.startswith("patch Event")] == []
    await world.patch("NodeSet", "other", {"spec": {"replicas": 1}})
    await world.run_for(20.0)
    assert sorted(world.pods("other")) == ["other-0"]
    assert "compute-7" in world.slurm.nodes


def statuses(world: World) -> tuple[object, ...]:
    """What is reported to those who have nothing to do with the record."""
    partition = world.custom("Partition", "fast")["status"]
    assert "pendingJobs" in partition
    return world.verdicts("NodeSet", "compute"), world.verdicts("NodeSet", "other"), partition


async def test_partitions_keep_their_counts_beside_one_that_cannot_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a job, whatever the others are that cannot be read for it."""
    await small(world, 2)
    for name in ("fast", "going"):
        await world.create("Partition", name, {**REF, "nodeSets": ["compute"]})
    await with_jobs_that_no_decision_can_read(world, monkeypatch, "PENDING")
    world.slurm.submit(10_000.0, "going")
    await world.run_for(60.0)
    await world.delete("Partition", "going")
    for _ in range(120):
        await world.run_for(0.5)
        assert "pendingJobs" in world.custom("Partition", "fast")["status"]
    assert "going" in world.slurm.live_partitions.shapes


def looks_at(world: World, kind: str, name: str) -> list[str]:
    """Grows with each reconcile of this resource."""
    assert world.operator is not None
    controller, found = world.operator.controllers[kind], list[str]()
    reconcile = controller._reconcile

    async def seen(key: Key) -> Result:
        found.extend([name] if key.name == name else [])
        return await reconcile(key)

    controller._reconcile = seen
    return found


@pytest.mark.parametrize("has_lost_one", [False, True], ids=["the others are known", "slurm has lost another"])
async def test_a_worker_that_may_go_does_not_wait_for_one_that_nobody_can_decide_about(
    world: World, monkeypatch: pytest.MonkeyPatch, has_lost_one: bool
) -> None:
    """Of that one Slurm has no record, so that any job that runs might be on it."""
    await with_a_worker_that_never_starts(world, 4)
    await with_jobs_that_no_decision_can_read(world, monkeypatch, "RUNNING")
    if has_lost_one:
        lose(world, "compute-0")
    await run_while_reachable(world, 120.0)
    await scale(world, 2)
    await run_while_reachable(world, 120.0)
    assert sorted(world.pods()) == ["compute-0", "compute-1", "compute-3"]


def lose(world: World, name: str) -> None:
    """Slurm forgets a node; its slurmd does not notice."""
    del world.slurm.nodes[name]
    world.slurm.touch("nodes")


async def run_while_reachable(world: World, seconds: float) -> None:
    for _ in range(int(2 * seconds)):
        await world.run_for(0.5)
        assert world.verdicts("NodeSet", "compute")["SlurmReachable"][0] == "True"


async def test_a_drain_that_does_not_take_is_not_sent_ten_times_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await small(world, 2)
    obey = world.slurm._set_state

    def obey_no_drain(node: NodeRecord, state: str) -> None:
        if state != "DRAIN":
            obey(node, state)

    monkeypatch.setattr(world.slurm, "_set_state", obey_no_drain)
    world.arm()
    await scale(world, 1)
    await world.run_for(60.0)
    assert Counter(world.calls)["POST nodes"] <= 70
