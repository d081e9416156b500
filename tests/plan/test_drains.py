"""Who is drained, for which reason, and whose drain is left alone."""

from __future__ import annotations

import pytest
from tests.plan.small_cluster import OURS, Cluster, of_type

from slurm_operator.build import labels
from slurm_operator.plan.actions import Delete, Drain, PatchMetadata, Undrain, UpdateNodes
from slurm_operator.plan.nodeset import plan_nodeset
from slurm_operator.slurm.policy import BACK_IN_SERVICE_REASON


def test_a_cordoned_kubernetes_node_drains_its_slurm_node_with_the_given_reason(cluster: Cluster) -> None:
    kube = cluster.kube_node(metadata={"annotations": {labels.NODE_CORDON_REASON: "swap\nthe fan"}}, unschedulable=True)
    world = cluster.world(cluster.nodeset(), [cluster.pod("w-0")], cluster.slurm(cluster.node("w-0")), [kube])
    assert [action.reason for action in of_type(plan_nodeset(world), Drain)] == ["swap the fan"]


@pytest.mark.parametrize("key", [labels.POD_CORDON, labels.OLD_POD_CORDON], ids=["new key", "old key"])
def test_a_users_pod_cordon_drains_and_stays(cluster: Cluster, key: str) -> None:
    pod = cluster.pod("w-0", annotations={key: "true"})
    world = cluster.world(cluster.nodeset(), [pod], cluster.slurm(cluster.node("w-0")))
    plan = plan_nodeset(world)
    assert [action.nodes for action in of_type(plan, Drain)] == [("w-0",)]
    assert of_type(plan, PatchMetadata) == []
    drained = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason=f"{OURS}Pod (ns/w-0) was cordoned"))
    again = plan_nodeset(cluster.world(cluster.nodeset(), [pod], drained))
    assert [*of_type(again, Drain), *of_type(again, Undrain), *of_type(again, Delete)] == []


def test_a_drain_of_ours_is_lifted_when_its_cause_is_gone(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason=f"{OURS}Pod (ns/w-0) was cordoned"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm))
    assert [action.nodes for action in of_type(plan, Undrain)] == [("w-0",)]


def test_a_drain_of_an_admin_is_never_touched(cluster: Cluster) -> None:
    kube = cluster.kube_node(unschedulable=True)
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason="bad memory"))
    for nodes in ([kube], [cluster.kube_node()]):
        plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm, nodes))
        assert [*of_type(plan, Drain), *of_type(plan, Undrain), *of_type(plan, UpdateNodes)] == []


@pytest.mark.parametrize(
    "reason",
    [
        "bad memory",
        "Not responding to the service processor",
        "Not responding : Kill task failed",
        f"{BACK_IN_SERVICE_REASON} : Kill task failed",
    ],
)
def test_a_reason_of_an_admin_on_a_node_that_is_not_drained_is_not_overwritten(cluster: Cluster, reason: str) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", reason=reason))
    world = cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0")], slurm)
    assert of_type(plan_nodeset(world), Drain) == []


@pytest.mark.parametrize(
    "reason", ["", "Not responding", BACK_IN_SERVICE_REASON, f"{BACK_IN_SERVICE_REASON} : Not responding"]
)
def test_a_node_that_is_down_only_because_its_slurmd_is_silent_is_drained(cluster: Cluster, reason: str) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", reason=reason))
    world = cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0")], slurm)
    assert [action.nodes for action in of_type(plan_nodeset(world), Drain)] == [("w-0",)]


def test_many_nodes_are_drained_in_one_call(cluster: Cluster) -> None:
    kube = cluster.kube_node(metadata={"annotations": {labels.NODE_CORDON_REASON: "x"}}, unschedulable=True)
    pods = [cluster.pod(f"w-{number}") for number in range(3)]
    slurm = cluster.slurm(*(cluster.node(f"w-{number}") for number in range(3)))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=3), pods, slurm, [kube]))
    assert [action.nodes for action in of_type(plan, Drain)] == [("w-0", "w-1", "w-2")]
