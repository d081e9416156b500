"""One worker as Kubernetes and Slurm describe it: may it go, before whom, and when its jobs end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.plan.small_cluster import OURS, Cluster, of_type

from slurm_operator.build import labels
from slurm_operator.plan.actions import Delete, Drain
from slurm_operator.plan.nodeset import plan_nodeset
from slurm_operator.plan.workers import workers


@pytest.mark.parametrize(
    ("states", "jobs", "goes"),
    [
        pytest.param(("IDLE", "DRAIN"), (), True, id="drained and idle: it goes"),
        pytest.param(("MIXED", "DRAIN"), (), False, id="draining with work: it waits"),
        pytest.param(("IDLE",), (), False, id="idle but not drained: it is drained first"),
        pytest.param(("IDLE", "DRAIN", "COMPLETING"), (), False, id="a job is completing: it waits"),
        pytest.param(("IDLE", "DRAIN"), ("SUSPENDED",), False, id="a suspended job holds it: it waits"),
        pytest.param(("SOMETHING_NEW", "DRAIN"), (), False, id="a state never heard of: it waits"),
        pytest.param(("DOWN", "DRAIN"), (), True, id="down, drained, no job: it goes"),
    ],
)
def test_a_surplus_worker_goes_only_when_slurm_says_so(
    cluster: Cluster, states: tuple[str, ...], jobs: tuple[str, ...], goes: bool
) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1")]
    slurm = cluster.slurm(
        cluster.node("w-0"),
        cluster.node("w-1", *states, reason=f"{OURS}x" if "DRAIN" in states else ""),
        jobs=[cluster.job(1, "w-1", state=state) for state in jobs],
    )
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), pods, slurm))
    assert [action.name for action in of_type(plan, Delete)] == (["w-1"] if goes else [])


def test_nothing_goes_while_slurm_cannot_be_asked(cluster: Cluster) -> None:
    pods = [cluster.pod(f"w-{number}") for number in range(3)]
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=0), pods, cluster.blind()))
    assert of_type(plan, Delete) == []


def test_a_node_missing_from_half_an_answer_is_not_gone(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0")], cluster.slurm(complete=False))
    assert of_type(plan_nodeset(world), Delete) == []


def test_a_worker_without_a_record_in_a_whole_answer_may_go(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0")], cluster.slurm())
    assert [action.uid for action in of_type(plan_nodeset(world), Delete)] == ["uid-w-0"]


def test_unknown_jobs_keep_a_drained_worker(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason=f"{OURS}x"))
    half = type(slurm)(slurm.nodes, cluster.blind().jobs)
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0")], half))
    assert of_type(plan, Delete) == []


@pytest.mark.parametrize(
    ("one", "other", "first"),
    [
        pytest.param({"node": ""}, {}, "w-0", id="unassigned before assigned"),
        pytest.param({"phase": "Pending", "ready": False}, {}, "w-0", id="pending before running"),
        pytest.param({"ready": False}, {}, "w-0", id="not ready before ready"),
        pytest.param({"annotations": {labels.POD_DELETION_COST: "-5"}}, {}, "w-0", id="lower cost first"),
        pytest.param({"annotations": {labels.POD_DELETION_COST: "+1"}}, {}, "w-1", id="an invalid cost is none"),
        pytest.param({"annotations": {labels.POD_CORDON: "true"}}, {}, "w-0", id="cordoned before not"),
        pytest.param({}, {}, "w-1", id="higher ordinal first"),
    ],
)
def test_the_documented_deletion_order(
    cluster: Cluster, one: dict[str, Any], other: dict[str, Any], first: str
) -> None:
    pods = [cluster.pod("w-0", **one), cluster.pod("w-1", **other)]
    drained = [cluster.node(name, "IDLE", "DRAIN", reason=f"{OURS}x") for name in ("w-0", "w-1")]
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), pods, cluster.slurm(*drained)))
    assert [action.name for action in of_type(plan, Delete)] == [first]


def test_the_worker_whose_jobs_end_first_goes_first(cluster: Cluster) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1")]
    slurm = cluster.slurm(
        cluster.node("w-0", "MIXED"),
        cluster.node("w-1", "MIXED"),
        jobs=[
            cluster.job(1, "w-0", start_time=0, time_limit=10),
            cluster.job(2, "w-1", start_time=0, time_limit=600),
        ],
    )
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), pods, slurm))
    assert [action.nodes for action in of_type(plan, Drain)] == [("w-0",)]


@pytest.mark.parametrize(
    ("written", "cost"),
    [
        ("-7", -7),
        ("2147483647", 2**31 - 1),
        ("2147483648", 0),
        ("9" * 5000, 0),
        ("-" + "9" * 5000, 0),
        ("5\n", 0),
        ("٣", 0),
    ],
    ids=["negative", "largest", "too large", "5000 digits", "5000 digits below zero", "a line break", "other digits"],
)
def test_a_deletion_cost_is_a_number_that_kubernetes_takes_or_none(cluster: Cluster, written: str, cost: int) -> None:
    """T13: int() of more than 4,300 digits is a ValueError, each time."""
    pod = cluster.pod("w-0", annotations={labels.POD_DELETION_COST: written})
    (worker,) = workers(cluster.nodeset(), [pod], cluster.slurm(cluster.node("w-0")), cluster.now)
    assert worker.cost == cost


def test_a_pod_whose_number_nobody_can_count_has_no_ordinal(cluster: Cluster) -> None:
    """T13."""
    pods = [cluster.pod(f"w-{number}") for number in ("9" * 200, "²", "3")]
    found = workers(cluster.nodeset(), pods, cluster.slurm(), cluster.now)
    assert [worker.ordinal for worker in found] == [None, None, 3]
