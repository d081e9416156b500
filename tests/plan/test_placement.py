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
from slurm_operator.plan.placement import may_stay, should_run


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
    assert pins(world, world.unsettled) == {"0": "k1"}


def test_nothing_is_pinned_that_nobody_asked_for(cluster: Cluster) -> None:
    cr = cluster.nodeset(replicas=1)
    world = cluster.world(cr, [cluster.pod("w-0")])
    assert pins(world, world.unsettled) == {}


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


RACK = {"metadata": {"labels": {"rack": "7"}}}
BY_NAME = {"key": "metadata.name", "operator": "In", "values": ["k1"]}


def requires(operator: str, *values: str, key: str = "rack") -> dict[str, Any]:
    return affinity({"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]})


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        pytest.param({}, True, id="asks for nothing"),
        pytest.param({"nodeSelector": {"rack": "7"}}, True, id="selector"),
        pytest.param({"nodeSelector": {"rack": "8"}}, False, id="selector of another"),
        pytest.param(requires("In", "6", "7"), True, id="In"),
        pytest.param(requires("In", "6"), False, id="In others"),
        pytest.param(requires("NotIn", "7"), False, id="NotIn"),
        pytest.param(requires("NotIn", "7", key="none"), True, id="NotIn without the label"),
        pytest.param(requires("Exists"), True, id="Exists"),
        pytest.param(requires("DoesNotExist"), False, id="DoesNotExist"),
        pytest.param(requires("Gt", "6"), True, id="Gt"),
        pytest.param(requires("Gt", "7"), False, id="Gt the same"),
        pytest.param(requires("Lt", "8"), True, id="Lt"),
        pytest.param(requires("Lt", "many"), False, id="Lt no number"),
        pytest.param(requires("Like", "7"), False, id="no such operator"),
    ],
)
def test_a_node_is_selected_as_the_scheduler_would(cluster: Cluster, spec: dict[str, Any], fits: bool) -> None:
    node = cluster.kube_node("k1", **RACK)
    assert (should_run(spec, node), may_stay(spec, node)) == (fits, fits)


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        pytest.param(affinity({}), False, id="an empty term selects nothing"),
        pytest.param(affinity({}, {"matchFields": [BY_NAME]}), True, id="one that fits is enough"),
    ],
)
def test_one_term_of_an_affinity_is_enough(cluster: Cluster, spec: dict[str, Any], fits: bool) -> None:
    assert should_run(spec, cluster.kube_node("k1")) is fits


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param({"key": "gpu", "value": "yes"}, True, id="key and value"),
        pytest.param({"key": "gpu", "value": "no"}, False, id="another value"),
        pytest.param({"key": "gpu", "operator": "Exists"}, True, id="any value"),
        pytest.param({"operator": "Exists"}, True, id="everything"),
        pytest.param({"key": "gpu", "value": "yes", "effect": "NoExecute"}, False, id="another effect"),
        pytest.param({"value": "yes"}, False, id="no key"),
    ],
)
def test_a_taint_keeps_away_whoever_does_not_tolerate_it(
    cluster: Cluster, toleration: dict[str, str], tolerated: bool
) -> None:
    node = cluster.kube_node("k1", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    assert should_run({"tolerations": [toleration]}, node) is tolerated
    assert may_stay({"tolerations": [toleration]}, node)
