"""Which Kubernetes nodes take a worker, and which keep one: of DaemonSet mode, and of numbers that are pinned."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.plan.small_cluster import Cluster, of_type

from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels
from slurm_operator.plan.actions import Create, Delete, Drain
from slurm_operator.plan.nodeset import pins, plan_nodeset


def pinned(cluster: Cluster, known: dict[str, str], **spec: Any) -> NodeSet:
    cr: NodeSet = cluster.nodeset(pinToNode=True, **spec)
    return msgspec.structs.replace(cr, status=msgspec.structs.replace(cr.status, ordinal_to_node=known))


SSD = {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}
KEPT = {"0": "k1"}


@pytest.mark.parametrize(
    ("node", "kept"),
    [
        pytest.param({"metadata": {"labels": {"disk": "ssd"}}}, True, id="fits"),
        pytest.param({"metadata": {"labels": {"disk": "hdd"}}}, False, id="no longer selected"),
        pytest.param({"metadata": {"labels": {"disk": "ssd"}}, "unschedulable": True}, True, id="cordoned"),
        pytest.param(
            {"metadata": {"labels": {"disk": "ssd"}}, "taints": [{"key": "x", "effect": "NoExecute"}]},
            False,
            id="drives pods out",
        ),
        pytest.param(
            {"metadata": {"labels": {"disk": "ssd"}}, "taints": [{"key": "x", "effect": "NoSchedule"}]},
            True,
            id="takes no new ones for a while",
        ),
    ],
)
def test_a_pin_is_kept_while_its_node_fits(cluster: Cluster, node: dict[str, Any], kept: bool) -> None:
    world = cluster.world(pinned(cluster, KEPT, replicas=1, **SSD), nodes=[cluster.kube_node("k1", **node)])
    assert pins(world) == (KEPT if kept else {})
    pod = next(each.desired for each in of_type(plan_nodeset(world), Create) if each.desired["kind"] == "Pod")
    assert ("nodeAffinity" in pod["spec"]["affinity"]) is kept


def test_a_pin_goes_with_its_node(cluster: Cluster) -> None:
    assert pins(cluster.world(pinned(cluster, {"0": "gone", "1": "k1"}, replicas=2))) == {"1": "k1"}


def test_a_running_worker_is_pinned_where_it_is_unless_that_does_not_fit(cluster: Cluster) -> None:
    cr = pinned(cluster, {}, replicas=2, **SSD)
    nodes = [cluster.kube_node("k1", metadata={"labels": {"disk": "ssd"}}), cluster.kube_node("k2")]
    world = cluster.world(cr, [cluster.pod("w-0", node="k1"), cluster.pod("w-1", node="k2")], nodes=nodes)
    assert pins(world, world.workers) == {"0": "k1"}


def test_nothing_is_pinned_that_nobody_asked_for(cluster: Cluster) -> None:
    cr = cluster.nodeset(replicas=1)
    world = cluster.world(cr, [cluster.pod("w-0")])
    assert pins(world, world.workers) == {}


def test_each_matching_node_gets_one_worker_named_after_it(cluster: Cluster) -> None:
    nodes = [
        cluster.kube_node("a.example.com"),
        cluster.kube_node("b", metadata={"annotations": {labels.HOSTNAME_OVERRIDE: "gpu7"}}),
        cluster.kube_node("tainted", taints=[{"key": "x", "effect": "NoSchedule"}]),
    ]
    plan = plan_nodeset(cluster.world(cluster.nodeset(scalingMode="DaemonSet"), (), cluster.slurm(), nodes))
    made = [each.desired for each in of_type(plan, Create) if each.desired["kind"] == "Pod"]
    assert [pod["spec"]["hostname"] for pod in made] == ["a", "gpu7"]


def test_a_worker_on_a_cordoned_node_stays_and_is_drained(cluster: Cluster) -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    node = cluster.kube_node("k1", taints=[taint], unschedulable=True)
    pod = cluster.pod("w-x", node="k1", host="k1", hash_=None)
    cr = cluster.nodeset(scalingMode="DaemonSet")
    plan = plan_nodeset(cluster.world(cr, [pod], cluster.slurm(cluster.node("k1")), [node]))
    assert of_type(plan, Delete) == []
    assert [action.nodes for action in of_type(plan, Drain)] == [("k1",)]
