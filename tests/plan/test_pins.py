"""Numbers that stay on their Kubernetes node: kept while the node fits, let go when it does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from slurm_operator.api.nodeset import NodeSet
from slurm_operator.plan.actions import Create
from slurm_operator.plan.nodeset import pins, plan_nodeset


def pinned(cluster: Any, known: dict[str, str], **spec: Any) -> NodeSet:
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
def test_a_pin_is_kept_while_its_node_fits(cluster: Any, of_type: Any, node: dict[str, Any], kept: bool) -> None:
    world = cluster.world(pinned(cluster, KEPT, replicas=1, **SSD), nodes=[cluster.kube_node("k1", **node)])
    assert pins(world) == (KEPT if kept else {})
    pod = next(each.desired for each in of_type(plan_nodeset(world), Create) if each.desired["kind"] == "Pod")
    assert ("nodeAffinity" in pod["spec"]["affinity"]) is kept


def test_a_pin_goes_with_its_node(cluster: Any) -> None:
    assert pins(cluster.world(pinned(cluster, {"0": "gone", "1": "k1"}, replicas=2))) == {"1": "k1"}


def test_a_running_worker_is_pinned_where_it_is_unless_that_does_not_fit(cluster: Any) -> None:
    cr = pinned(cluster, {}, replicas=2, **SSD)
    nodes = [cluster.kube_node("k1", metadata={"labels": {"disk": "ssd"}}), cluster.kube_node("k2")]
    world = cluster.world(cr, [cluster.pod("w-0", node="k1"), cluster.pod("w-1", node="k2")], nodes=nodes)
    assert pins(world, world.workers) == {"0": "k1"}


def test_nothing_is_pinned_that_nobody_asked_for(cluster: Any) -> None:
    cr = cluster.nodeset(replicas=1)
    world = cluster.world(cr, [cluster.pod("w-0")])
    assert pins(world, world.workers) == {}
