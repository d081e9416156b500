"""Slurm's word on a node as conditions of its pod: what Slurm did not say changes nothing."""

from __future__ import annotations

import pytest
from tests.plan.small_cluster import OURS, Cluster, of_type

from slurm_operator.plan import pod_conditions
from slurm_operator.plan.actions import PatchPodConditions, Undrain
from slurm_operator.plan.nodeset import MAX_CONDITIONS_BESIDE, is_at_rest, plan_nodeset
from slurm_operator.plan.workers import NO_LONGER_REGISTERED, NodeSnapshot, workers
from slurm_operator.slurm import policy
from slurm_operator.slurm.model import Node


def conditions(cluster: Cluster, slurm: NodeSnapshot, **pod: object) -> dict[str, tuple[str, str]] | None:
    """Status and message by type; None when nothing is written."""
    found = workers(cluster.nodeset(), [cluster.pod("w-0", **pod)], slurm, cluster.now)  # type: ignore[arg-type]
    for patch in pod_conditions.patches(found, cluster.now):
        assert isinstance(patch, PatchPodConditions)
        return {each["type"]: (each["status"], each["message"]) for each in patch.conditions}
    return None


def test_base_state_and_flags_become_conditions_with_slurms_reason(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "MIXED", "DRAIN", "DYNAMIC_NORM", reason="bad fan"))
    assert conditions(cluster, slurm) == {
        "SlurmNodeRegistered": ("True", "Slurm has a record of its node"),
        "SlurmNodeStateMixed": ("True", "bad fan"),
        "SlurmNodeStateDrain": ("True", "bad fan"),
    }


def test_a_reason_that_is_over_is_not_shown(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", reason="Not responding until slurmd registers"))
    assert conditions(cluster, slurm, states=["Idle"]) is None


@pytest.mark.parametrize(
    ("reason", "seconds", "said"),
    [
        pytest.param(policy.BACK_IN_SERVICE_REASON, 2, False, id="it was put back a moment ago"),
        pytest.param(policy.BACK_IN_SERVICE_REASON, 11, True, id="its slurmd should have registered by now"),
        pytest.param(policy.BACK_IN_SERVICE_REASON, -60, True, id="by a clock that is wrong"),
        pytest.param(policy.NOT_RESPONDING, 2, True, id="Slurm itself calls it silent"),
    ],
)
def test_a_node_that_was_put_back_may_be_silent_for_a_moment(
    cluster: Cluster, reason: str, seconds: int, said: bool
) -> None:
    at = int(cluster.now.timestamp()) - seconds
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", "NOT_RESPONDING", reason=reason, reason_at=at))
    found = conditions(cluster, slurm, states=["Idle"])
    assert ("SlurmNodeStateNotResponding" in (found or {})) == said
    world = cluster.world(cluster.nodeset(), [cluster.pod("w-0", states=["Idle"])], slurm)
    assert not is_at_rest(world, plan_nodeset(world))


def test_nothing_is_said_of_a_node_whose_state_is_changed_in_the_same_reconcile(cluster: Cluster) -> None:
    drained = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason=OURS + "x"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0", states=["Idle"])], drained))
    assert of_type(plan, Undrain)
    assert of_type(plan, PatchPodConditions) == []


def test_conditions_come_after_the_report(cluster: Cluster) -> None:
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], cluster.slurm(cluster.node("w-0"))))
    assert [type(each) for each in plan.after_report] == [PatchPodConditions]
    assert not any(isinstance(each, PatchPodConditions) for stage in plan.stages for each in stage)


@pytest.mark.parametrize(
    ("replicas", "states", "written"),
    [
        pytest.param(40, ["Allocated"], 40, id="nobody comes or goes"),
        pytest.param(41, ["Allocated"], MAX_CONDITIONS_BESIDE, id="one is created"),
        pytest.param(41, [], 40, id="one is created, but nothing was said of the others for an hour"),
    ],
)
def test_conditions_do_not_keep_workers_waiting_that_come_or_go(
    cluster: Cluster, replicas: int, states: list[str], written: int
) -> None:
    names = [f"w-{number}" for number in range(40)]
    slurm = cluster.slurm(*(cluster.node(name) for name in names))
    pods = [cluster.pod(name, states=states) for name in names]
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=replicas), pods, slurm))
    assert len(plan.after_report) == written


@pytest.mark.parametrize(
    ("replicas", "written"), [pytest.param(40, 40, id="nobody comes or goes"), pytest.param(41, 0, id="one is created")]
)
def test_conditions_were_written_a_moment_ago_and_more_do_not_keep_workers_waiting_now(
    cluster: Cluster, replicas: int, written: int
) -> None:
    names = [f"w-{number}" for number in range(40)]
    slurm = cluster.slurm(*(cluster.node(name) for name in names))
    world = cluster.world(
        cluster.nodeset(replicas=replicas), [cluster.pod(name) for name in names], slurm, may_describe=False
    )
    assert len(plan_nodeset(world).after_report) == written


def test_a_worker_of_whose_node_nothing_was_said_comes_first(cluster: Cluster) -> None:
    """Others whose state goes to and fro would keep it waiting for ever."""
    names = [f"w-{number}" for number in range(40)]
    slurm = cluster.slurm(*(cluster.node(name) for name in names))
    pods = [cluster.pod(name, states=[] if name == "w-39" else ["Allocated"]) for name in names]
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=41), pods, slurm))
    assert "w-39" in [each.seen.name for each in plan.after_report if isinstance(each, PatchPodConditions)]


def test_conditions_that_are_true_are_not_written_again(cluster: Cluster) -> None:
    assert conditions(cluster, cluster.slurm(cluster.node("w-0")), states=["Idle"]) is None


def test_a_time_stays_while_its_status_does(cluster: Cluster) -> None:
    pod = cluster.pod("w-0", states=["Idle"])
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN"))
    (patch,) = pod_conditions.patches(workers(cluster.nodeset(), [pod], slurm, cluster.now), cluster.now)
    assert isinstance(patch, PatchPodConditions)
    assert [each["lastTransitionTime"] for each in patch.conditions] == [
        "2030-01-01T11:00:00Z",
        "2030-01-01T11:00:00Z",
        "2030-01-01T12:00:00Z",
    ]


def test_silence_changes_nothing(cluster: Cluster) -> None:
    assert conditions(cluster, cluster.blind(), states=["Idle"]) is None


def test_a_record_that_is_gone_takes_its_states_with_it(cluster: Cluster) -> None:
    gone = conditions(cluster, cluster.slurm(), states=["Idle"])
    assert gone == {"SlurmNodeRegistered": ("False", NO_LONGER_REGISTERED)}


@pytest.mark.parametrize(("ready", "said"), [(True, True), (False, False)], ids=["ready", "starting"])
def test_a_worker_that_never_registered_says_so_once_it_is_ready(cluster: Cluster, ready: bool, said: bool) -> None:
    expected = {"SlurmNodeRegistered": ("False", "Slurm has no record of its node")}
    assert conditions(cluster, cluster.slurm(), ready=ready) == (expected if said else None)


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        (("IDLE",), ["IDLE"]),
        (("DRAIN", "DOWN", "NOT_RESPONDING"), ["DOWN", "DRAIN", "NOT_RESPONDING"]),
        (("PLANNED", "CLOUD"), ["UNKNOWN"]),
    ],
    ids=["a base state", "flags after it", "none that is known"],
)
def test_one_base_state_then_every_flag(states: tuple[str, ...], shown: list[str]) -> None:
    assert pod_conditions.states(Node(name="n", states=frozenset(states))) == shown


def test_an_endless_reason_leaves_room_for_the_pod(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason="x" * 2_000_000))
    found = conditions(cluster, slurm)
    assert found is not None
    assert max(len(message) for _, message in found.values()) == pod_conditions.MAX_MESSAGE_CHARACTERS


@pytest.mark.parametrize(
    ("states", "has_suspended_job", "is_written"),
    [
        pytest.param(("IDLE", "DRAIN"), False, False, id="idle: its pod goes in a moment"),
        pytest.param(("MIXED", "DRAIN"), False, True, id="busy: it may stay for days"),
        pytest.param(("IDLE", "DRAIN"), True, True, id="idle, but a suspended job holds it"),
    ],
)
def test_a_pod_that_is_about_to_go_gets_no_conditions(
    cluster: Cluster, states: tuple[str, ...], has_suspended_job: bool, is_written: bool
) -> None:
    jobs = [cluster.job(1, "w-0", state="SUSPENDED")] if has_suspended_job else []
    slurm = cluster.slurm(cluster.node("w-0", *states, reason=OURS), jobs=jobs)
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0", states=["Idle"])], slurm))
    assert bool(of_type(plan, PatchPodConditions)) is is_written
