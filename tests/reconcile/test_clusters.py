"""How often Slurm is asked, and how soon what it says is seen: virtual time, the real operator."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, cast

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import REF, small

from slurm_operator.plan.workers import NodeSnapshot
from slurm_operator.reconcile.clusters import Cluster, SlurmTarget
from slurm_operator.slurm import job_records
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.decision import EVERYTHING, Decision
from slurm_operator.slurm.errors import SlurmBudgetExceeded
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import (
    Absent,
    Job,
    JobState,
    JobView,
    Known,
    KnownJob,
    Node,
    NodeView,
    SlurmList,
    Unchanged,
    Unknown,
)
from slurm_operator.slurm.requests import Feature


async def many_nodesets(world: World, many: int) -> None:
    """So many NodeSets and four Partitions, at rest."""
    await small(world, 1)
    for number in range(many - 1):
        await world.create("NodeSet", f"set{number}", {**REF, "replicas": 1})
    for number in range(4):
        await world.create("Partition", f"part{number}", {**REF, "nodeSets": ["compute"]})
    await world.run(horizon=10.0)


async def test_twenty_idle_nodesets_ask_as_often_as_one(world: World) -> None:
    await many_nodesets(world, 20)
    world.arm()
    await world.run_for(60.0)
    calls = Counter(world.calls)
    assert calls["GET nodes"] <= 14
    assert calls["GET jobs/state"] <= 14
    assert calls["GET jobs"] == 0
    assert calls["GET partitions"] <= 14
    assert calls.total() <= 60
    assert world.trace == []


async def test_a_quiet_cluster_is_asked_for_all_it_has_every_five_seconds_and_no_more(world: World) -> None:
    await small(world, 1)
    world.arm()
    await world.run_for(60.0)
    calls = Counter(world.calls)
    assert calls["GET ping"] <= 3
    assert calls["GET partitions"] <= 13
    assert calls.total() <= 39


async def test_a_hand_on_the_partition_of_a_nodeset_is_seen_within_six_seconds(world: World) -> None:
    await small(world, 1)
    await world.patch("NodeSet", "compute", {"spec": {"partition": {"enabled": True}}})
    await world.run(horizon=10.0)
    for phase in (0.1, 1.3, 2.6, 3.9, 4.9):
        await world.run_for(phase)
        world.slurm.live_partitions.set({"name": "compute", "grace_time": 7})
        world.slurm.touch("partitions")
        shape = world.slurm.live_partitions.shapes["compute"]
        assert await seconds_until(world, lambda held=shape: held["grace_time"] == 0) <= 6.0


def state_condition(world: World, pod: str) -> list[str]:
    """What the pod's conditions say of its Slurm node."""
    held = world.stored("pods", pod)["status"]["conditions"]
    return [each["type"] for each in held if each["type"].startswith("SlurmNodeState") and each["status"] == "True"]


def is_seen_drained(world: World, nodeset: str) -> bool:
    """Whether both the pod and its NodeSet say so."""
    on_pod = "SlurmNodeStateDrain" in state_condition(world, f"{nodeset}-0")
    return on_pod and world.custom("NodeSet", nodeset)["status"].get("slurmDrain") == 1


def is_seen_back(world: World, nodeset: str) -> bool:
    """Whether neither says so any more."""
    on_pod = "SlurmNodeStateDrain" in state_condition(world, f"{nodeset}-0")
    return not on_pod and world.custom("NodeSet", nodeset)["status"].get("slurmDrain") == 0


async def seconds_until(world: World, holds: Any, limit: float = 20.0) -> float:
    began = world.clock.monotonic()
    while not holds():
        assert world.clock.monotonic() - began < limit
        await world.run_for(0.1)
    return world.clock.monotonic() - began


async def test_a_change_in_slurm_is_seen_within_six_seconds(world: World) -> None:
    await many_nodesets(world, 4)
    for phase in (0.1, 1.3, 2.6, 3.9, 4.9):
        for name in ("compute", "set2"):
            await world.run_for(phase)
            world.slurm.admin_drain(f"{name}-0")
            assert await seconds_until(world, partial(is_seen_drained, world, name)) <= 6.0
            world.slurm.admin_resume(f"{name}-0")
            assert await seconds_until(world, partial(is_seen_back, world, name)) <= 6.0


def is_seen_busy(world: World, pod: str, busy: int) -> bool:
    """Whether both the pod and its NodeSet say so."""
    word = "SlurmNodeStateAllocated" if busy else "SlurmNodeStateIdle"
    status = world.custom("NodeSet", "compute")["status"]
    return word in state_condition(world, pod) and status["slurmAllocated"] == busy


async def test_a_change_during_a_drain_is_seen_within_a_second_and_a_half(world: World) -> None:
    await small(world, 2)
    job = world.slurm.submit(1000.0)
    (busy,) = world.slurm.jobs[job].nodes
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 0}})
    await world.run_for(10.3)
    assert is_seen_busy(world, busy, 1)
    for phase in (0.1, 0.35, 0.6, 0.85):
        await world.run_for(2.0 + phase)
        world.slurm.suspend(job)
        assert await seconds_until(world, lambda: is_seen_busy(world, busy, 0)) <= 1.5
        await world.run_for(2.0 + phase)
        world.slurm.resume_job(job, 1000.0)
        assert await seconds_until(world, lambda: is_seen_busy(world, busy, 1)) <= 1.5
    assert busy in world.pods()
    world.slurm.end(job)
    await world.run()
    assert world.pods() == {}


async def test_a_worker_goes_by_a_word_asked_for_in_that_very_turn(world: World) -> None:
    await many_nodesets(world, 3)
    drained = {"metadata": {"annotations": {"nodeset.slinky.slurm.net/pod-cordon": "true"}}}
    await world.patch("Pod", "set1-0", drained)
    await world.run_for(20.0)
    assert "DRAIN" in world.slurm.nodes["set1-0"].flags
    # The node was drained and idle at the last look, which is some seconds old and another's. Now it has a job.
    await world.run_for(2.0)
    job = world.slurm.submit(1000.0, "set1")
    world.slurm.jobs[job].state, world.slurm.jobs[job].nodes = "RUNNING", ("set1-0",)
    world.slurm.touch("nodes", "jobs")
    await world.patch("NodeSet", "set1", {"spec": {"replicas": 0}})
    await world.run_for(20.0)
    assert "set1-0" in world.pods("set1")


async def test_right_before_a_drain_of_one_node_that_node_alone_is_looked_at(world: World) -> None:
    await small(world, 3)
    world.arm()
    cordon = {"metadata": {"annotations": {"nodeset.slinky.slurm.net/pod-cordon": "true"}}}
    await world.patch("Pod", "compute-1", cordon)
    await world.run_for(10.0)
    assert "DRAIN" in world.slurm.nodes["compute-1"].flags
    before = world.calls[: world.calls.index("POST nodes")]
    assert [call for call in before if call != "GET ping"][-1] == "GET node"


async def test_a_worker_that_goes_is_asked_for_by_name_and_no_list_of_jobs_is_read(world: World) -> None:
    await small(world, 3)
    job = world.slurm.submit(1000.0)
    (busy,) = world.slurm.jobs[job].nodes
    await world.run_for(10.0)
    world.arm()
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 2}})
    await world.run_for(20.0)
    calls = Counter(world.calls)
    assert calls["GET node"] > 0
    assert calls["GET jobs"] == 0
    assert len(world.pods()) == 2
    assert busy in world.pods()


async def test_a_drained_worker_under_a_suspended_job_stays_until_the_job_has_ended(world: World) -> None:
    await small(world, 2)
    job = world.slurm.submit(1000.0)
    (busy,) = world.slurm.jobs[job].nodes
    await world.run_for(10.0)
    world.slurm.suspend(job)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 0}})
    await world.run_for(300.0)
    assert list(world.pods()) == [busy]
    world.slurm.resume_job(job, 1.0)
    await world.run()
    assert world.pods() == {}


class Slurm:
    """Nodes and jobs of a cluster as a client gives them; what it is asked for, and how long a list takes."""

    def __init__(self, count: int, list_seconds: float = 0.0) -> None:
        self.now = 1000.0
        self.list_seconds = list_seconds
        self.records = {f"n{number}": Node(name=f"n{number}", states=frozenset({"IDLE"})) for number in range(count)}
        self.held: dict[int, Job] = {}
        self.asked: list[str] = []
        self.is_deaf_by_name = False
        self.has_states = self.has_list = True
        self.cluster = Cluster(cast("SlurmClient", self), SlurmTarget("http://x"), b"", lambda: self.now)

    def put(self, name: str, *states: str) -> None:
        self.records[name] = Node(name=name, states=frozenset(states))

    async def nodes(self, since: int | None = None) -> SlurmList[Node] | Unchanged:
        self.asked.append("nodes" if since is None else "nodes since")
        self.now += self.list_seconds
        return SlurmList(tuple(self.records.values()), complete=True, last_update=int(self.now))

    def nodes_due_in(self) -> float:
        return 0.0

    async def node(self, name: str) -> NodeView:
        if self.is_deaf_by_name:
            return Unknown("no route")
        self.asked.append(f"node {name}")
        return Known(self.records[name]) if name in self.records else Absent()

    async def job_states(self) -> SlurmList[JobState]:
        self.asked.append("states")
        if not self.has_states:
            raise SlurmBudgetExceeded("bytes", "more", 1, call="GET jobs/state")
        return SlurmList(tuple(JobState(job.job_id, job.states) for job in self.held.values()), complete=True)

    async def job(self, job_id: int) -> JobView:
        self.asked.append(f"job {job_id}")
        return KnownJob(self.held[job_id]) if job_id in self.held else Absent()

    async def jobs(self, _: int | None = None) -> SlurmList[Job]:
        self.asked.append("jobs")
        if not self.has_list:
            raise SlurmBudgetExceeded("bytes", "more", 1, call="GET jobs")
        return SlurmList(tuple(self.held.values()), complete=True, last_update=1)

    async def offers(self, _: Feature) -> bool:
        return False

    def questions(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


async def test_a_decision_about_few_of_many_nodes_asks_for_these_alone() -> None:
    slurm = Slurm(100)
    await slurm.cluster.node_snapshot()
    slurm.questions()
    slurm.put("n7", "IDLE", "DRAIN")
    slurm.put("n8", "ALLOCATED")
    seen = await slurm.cluster.node_snapshot(Decision(frozenset({"n7"})))
    assert slurm.questions() == ["node n7", "states"]
    assert isinstance(seen.nodes, SlurmList)
    assert (seen.view("n7"), seen.view("n8")) == (
        Known(slurm.records["n7"]),
        Known(Node(name="n8", states=frozenset({"IDLE"}))),
    )
    assert seen.nodes.complete
    assert len(seen.nodes.items) == 100
    assert seen.fresh == Decision(frozenset({"n7"}))


async def test_a_node_that_slurm_no_longer_has_leaves_the_snapshot_and_one_that_it_has_again_joins_it() -> None:
    slurm = Slurm(100)
    await slurm.cluster.node_snapshot()
    record = slurm.records.pop("n7")
    seen = await slurm.cluster.node_snapshot(Decision(frozenset({"n7"})))
    assert (seen.view("n7"), seen.absent) == (Absent(), frozenset({"n7"}))
    slurm.records["n7"] = record
    seen = await slurm.cluster.node_snapshot(Decision(frozenset({"n7"})))
    assert (seen.view("n7"), seen.absent) == (Known(record), frozenset())


async def test_a_decision_about_many_nodes_or_about_records_reads_the_list() -> None:
    slurm = Slurm(100)
    await slurm.cluster.node_snapshot()
    slurm.questions()
    many = frozenset(f"n{number}" for number in range(6))
    assert (await slurm.cluster.node_snapshot(Decision(many))).fresh.covers(Decision(many))
    assert slurm.questions()[0] == "nodes"
    assert (await slurm.cluster.node_snapshot(EVERYTHING)).fresh.covers(EVERYTHING)
    assert slurm.questions()[0] == "nodes"


async def test_before_a_record_goes_its_node_is_asked_for_and_all_jobs_also_those_that_wait() -> None:
    slurm = Slurm(100)
    slurm.held = {5: Job(job_id=5, states=frozenset({"PENDING"}), required=HostList("n3"))}
    await slurm.cluster.node_snapshot()
    slurm.questions()
    slurm.held[5] = Job(job_id=5, states=frozenset({"PENDING"}), required=HostList("n7"))
    seen = await slurm.cluster.node_snapshot(Decision(frozenset({"n7"}), every_job=True))
    assert slurm.questions() == ["node n7", "states", "job 5"]
    assert seen.jobs == (slurm.held[5],)


async def test_a_node_that_cannot_be_asked_for_by_name_is_looked_up_in_the_list() -> None:
    slurm = Slurm(100)
    await slurm.cluster.node_snapshot()
    slurm.questions()
    slurm.is_deaf_by_name = True
    seen = await slurm.cluster.node_snapshot(Decision(frozenset({"n7"})))
    assert slurm.questions() == ["nodes", "states"]
    assert isinstance(seen.view("n7"), Known)


async def test_the_jobs_of_a_node_are_read_only_once_the_node_is_quiet() -> None:
    slurm = Slurm(100)
    slurm.held = {
        1: Job(job_id=1, states=frozenset({"RUNNING"}), nodes=HostList("n7")),
        2: Job(job_id=2, states=frozenset({"SUSPENDED"}), nodes=HostList("n9")),
        3: Job(job_id=3, states=frozenset({"RUNNING"}), nodes=HostList("n3")),
    }
    slurm.put("n7", "ALLOCATED", "DRAIN")
    await slurm.cluster.node_snapshot()
    slurm.questions()
    await slurm.cluster.node_snapshot(Decision(frozenset({"n7"})))
    assert slurm.questions() == ["node n7", "states"]
    slurm.put("n7", "IDLE", "DRAIN")
    await slurm.cluster.node_snapshot(Decision(frozenset({"n7"})))
    assert slurm.questions() == ["node n7", "states", "job 1", "job 2"]
    del slurm.records["n7"]
    await slurm.cluster.node_snapshot(Decision(frozenset({"n7"})))
    # How many others have gone with it only the list can say.
    assert slurm.questions() == ["node n7", "nodes", "states", "job 1", "job 2", "job 3", "node n7"]


async def test_a_node_that_is_asked_for_by_name_is_no_poll_of_the_others() -> None:
    """Otherwise a drain that lasts for hours would keep changes of all other nodes unseen."""
    slurm = Slurm(100)
    await slurm.cluster.node_snapshot()
    before = slurm.cluster.seconds_since_list()
    slurm.questions()
    slurm.now += 5.0
    await slurm.cluster.node_snapshot(Decision(frozenset({"n7"})))
    assert "nodes" not in slurm.questions()
    assert slurm.cluster.seconds_since_list() >= before + 5.0


async def test_nodes_are_read_before_jobs() -> None:
    """A job that starts after the node was seen drained and idle cannot be on it; one from before is seen."""
    slurm = Slurm(100)
    for decides in (False, True):
        await slurm.cluster.node_snapshot(Decision(frozenset({"n7"}) if decides else frozenset()))
        asked = slurm.questions()
        assert asked.index("states") > max(n for n, each in enumerate(asked) if each.startswith("node"))


async def test_a_list_that_took_long_is_not_asked_for_at_every_poll() -> None:
    slurm = Slurm(10_000, list_seconds=10.0)
    asked, began = list[str](), slurm.now
    while slurm.now < began + 600.0:
        slurm.now += 5.0
        await slurm.cluster.poll()
        asked += slurm.questions()
    lists = sum(each.startswith("nodes") for each in asked)
    assert 10.0 * lists / (slurm.now - began) <= 0.2
    assert lists >= 8
    # Its jobs are asked for at every poll, and a decision does not wait.
    assert asked.count("states") > 90
    slurm.put("n7", "IDLE", "DRAIN")
    began = slurm.now
    seen = await slurm.cluster.node_snapshot(Decision(frozenset({"n7"})))
    assert (seen.view("n7"), slurm.now) == (Known(slurm.records["n7"]), began)


async def test_whoever_waits_for_something_is_answered_with_a_list_half_of_the_time() -> None:
    slurm = Slurm(10_000, list_seconds=10.0)
    began, lists = slurm.now, 0
    while slurm.now < began + 600.0:
        slurm.now += 1.0
        await slurm.cluster.node_snapshot(caller="a NodeSet")
        lists += sum(each.startswith("nodes") for each in slurm.questions())
    assert 0.4 <= 10.0 * lists / (slurm.now - began) <= 0.55


async def test_a_slow_list_now_and_then_does_not_count_as_silence() -> None:
    slurm = Slurm(10_000, list_seconds=10.0)
    for _ in range(100):
        slurm.now += 5.0
        await slurm.cluster.poll()
    assert slurm.cluster.patience_seconds > 10.0


async def test_right_before_a_write_about_few_of_many_nodes_these_alone_are_looked_at() -> None:
    slurm = Slurm(1_000)
    await slurm.cluster.node_snapshot()
    slurm.questions()
    names = tuple(f"n{number}" for number in range(40))
    assert [node.name for node in await slurm.cluster._node_records.read_now(names)] == list(names)
    assert sorted(slurm.questions()) == sorted(f"node {name}" for name in names)


# Who hears of a look


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    """A Slurm whose jobs are too many for one decision, and whose list of them cannot be had."""
    monkeypatch.setattr(job_records, "MAX_DECISION_RECORDS", 20)
    slurm = Slurm(100)
    slurm.held = {number: Job(job_id=number, states=frozenset({"RUNNING"})) for number in range(30)}
    slurm.has_list = False
    return slurm


async def known(slurm: Slurm, caller: str) -> NodeSnapshot:
    """A look that decides nothing, once all jobs are known."""
    seen = await slurm.cluster.node_snapshot(caller=caller)
    while seen.lacks_only_jobs:
        slurm.now += 1.0
        seen = await slurm.cluster.node_snapshot(caller=caller)
    return seen


async def test_jobs_that_cannot_be_read_for_a_decision_are_unknown_to_its_caller_alone(crowded: Slurm) -> None:
    before, told = await known(crowded, "one"), list[object]()
    crowded.cluster.changed = lambda *what: told.append(what)
    crowded.now += 1.0
    seen = await crowded.cluster.node_snapshot(EVERYTHING, caller="one")
    assert seen.lacks_only_jobs
    assert crowded.cluster.latest_snapshot() is not None
    assert (await crowded.cluster.node_snapshot(caller="two")).jobs == before.jobs
    assert (await crowded.cluster.node_snapshot(caller="one")).jobs == before.jobs
    assert told == []


async def test_what_was_read_without_its_jobs_decides_nothing_later(crowded: Slurm) -> None:
    await known(crowded, "one")
    del crowded.records["n8"]
    both, part = Decision(frozenset({"n7", "n8"})), Decision(frozenset({"n7"}))
    first = await crowded.cluster.node_snapshot(both)
    second = await crowded.cluster.node_snapshot(part, earlier=first)
    assert (first.lacks_only_jobs, second.lacks_only_jobs) == (True, False)
    assert (second.fresh.covers(part), second.fresh.covers(both)) == (True, False)


async def test_a_second_look_takes_nobody_back_behind_a_poll() -> None:
    slurm, n7 = Slurm(100), Decision(frozenset({"n7"}))
    first, told = await slurm.cluster.node_snapshot(n7, caller="one"), list[object]()
    slurm.now += 1.0
    slurm.put("n3", "IDLE", "DRAIN")
    await slurm.cluster.poll()
    slurm.cluster.changed = lambda *what: told.append(what)
    second = await slurm.cluster.node_snapshot(n7, caller="one", earlier=first)
    assert second.view("n3") == Known(Node(name="n3", states=frozenset({"IDLE"})))
    assert (await slurm.cluster.node_snapshot(caller="two")).view("n3") == Known(slurm.records["n3"])
    assert told == []


async def test_whoever_is_woken_finds_what_has_changed() -> None:
    slurm, found = Slurm(10), list[NodeView]()
    await slurm.cluster.node_snapshot()

    def wake(*_: object) -> None:
        latest = slurm.cluster.latest_snapshot()
        found.append(latest.view("n7") if latest is not None else Unknown("nothing"))

    slurm.cluster.changed = wake
    slurm.put("n7", "IDLE", "DRAIN")
    slurm.now += 10.0
    await slurm.cluster.poll()
    assert found == [Known(slurm.records["n7"])]


async def test_a_look_that_found_no_jobs_is_not_what_anybody_reports_by() -> None:
    slurm = Slurm(10)
    slurm.has_list = slurm.has_states = False
    assert (await slurm.cluster.node_snapshot(caller="one")).lacks_only_jobs
    assert slurm.cluster.latest_snapshot() is None
