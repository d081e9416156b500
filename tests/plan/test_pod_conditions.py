"""Slurm's word on a node as conditions of its pod: what Slurm did not say changes nothing."""

from __future__ import annotations

import pytest
from tests.plan.small_cluster import OURS, Cluster, of_type

from slurm_operator.plan import pod_conditions
from slurm_operator.plan.actions import PatchPodConditions
from slurm_operator.plan.nodeset import plan_nodeset
from slurm_operator.plan.workers import NO_LONGER_REGISTERED, NodeSnapshot, workers
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
