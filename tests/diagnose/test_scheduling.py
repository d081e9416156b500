"""Why no Kubernetes node takes a pod."""

from __future__ import annotations

import pytest
from tests.diagnose.broken import (
    Case,
    Object,
    cluster,
    explains,
    pending,
)

from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts

CASES: dict[str, Case] = {
    "no room on any node": (
        "pod/compute-0",
        cluster(pending("compute-0", "0/3 nodes are available: 3 Insufficient cpu.")),
        "NotEnoughRoom",
    ),
    "taints": (
        "nodeset/compute",
        cluster(pending("compute-0", "0/1 nodes: 1 node(s) had untolerated taint {a: b}")),
        "Tainted",
    ),
    "no node with its labels": (
        "compute-0",
        cluster(pending("compute-0", "1 node(s) didn't match Pod's node affinity/selector")),
        "NoNodeFits",
    ),
    "all nodes cordoned": ("compute-0", cluster(pending("compute-0", "1 node(s) were unschedulable")), "NodesCordoned"),
}


@pytest.mark.parametrize(("target", "facts", "code"), CASES.values(), ids=CASES.keys())
def test_the_true_cause_is_named(target: str, facts: Facts, code: str) -> None:
    explains(target, facts, code)


OBJECTIONS = "0/3 nodes are available: 1 node(s) had untolerated taint(s) {rack: x}, 2 node(s) were unschedulable."
CLOSED = {"kind": "Node", "metadata": {"name": "closed", "labels": {"rack": "x"}}}
TAINT = {"key": "rack", "value": "x", "effect": "NoSchedule"}
CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("selector", "spec", "code"),
    [
        ({"gpu": "h100"}, {"taints": [TAINT]}, "NoNodeFits"),
        ({"rack": "x"}, {"taints": [TAINT]}, "Tainted"),
        ({"rack": "x"}, {"taints": [CORDON_TAINT], "unschedulable": True}, "NodesCordoned"),
        ({"rack": "x"}, {"taints": [CORDON_TAINT, TAINT], "unschedulable": True}, "Tainted"),
    ],
    ids=["no such label", "a taint", "a cordon", "a cordon and a taint"],
)
def test_only_nodes_that_a_pod_asks_for_keep_it_waiting(selector: Object, spec: Object, code: str) -> None:
    waiting_pod = pending("compute-0", OBJECTIONS, nodeSelector=selector)
    answer = explained(cluster(waiting_pod, {**CLOSED, "spec": spec}), "pod/compute-0")
    assert isinstance(answer, Cause)
    assert answer.code == code


def test_a_taint_is_told_with_the_node_that_has_it() -> None:
    waiting_pod = pending("compute-0", OBJECTIONS, nodeSelector={"rack": "x"})
    answer = explained(cluster(waiting_pod, {**CLOSED, "spec": {"taints": [TAINT]}}), "pod/compute-0")
    assert isinstance(answer, Cause)
    assert answer.sentence.endswith("does not tolerate: closed (rack=x:NoSchedule)")


def test_a_pod_without_room_is_told_by_how_much() -> None:
    requests = [{"requests": {"memory": "900Ti", "cpu": "500m"}}, {"requests": {"cpu": "64"}}, {}]
    containers = [{"name": str(index), "resources": each} for index, each in enumerate(requests)]
    big = {"kind": "Node", "metadata": {"name": "machine-a"}, "status": {"allocatable": {"memory": "8178892Ki"}}}
    message = "0/1 nodes are available: 1 Insufficient memory, 1 Insufficient cpu."
    answer = explained(cluster(pending("compute-0", message, containers=containers), big), "pod/compute-0")
    assert isinstance(answer, Cause)
    assert answer.sentence.endswith(
        "no node has enough free memory and cpu: it asks for 900Ti of memory, and the largest node has 7.8Gi in all; "
        "64.5 of cpu, and the largest node has 0 in all"
    )
