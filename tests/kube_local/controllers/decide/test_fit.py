"""Where a pod goes, and the sentence when it goes nowhere."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kube_local.controllers.decide.fit import Chosen, Nowhere, choose, needs_of, requests_of, room_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"


def node_affinity(**term: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def near(kind: str, key: str = HOST, **labels: str) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: [{"labelSelector": {"matchLabels": labels}, "topologyKey": key}]}}}


TAINTED = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    ("spec", "nodes", "answer"),
    [
        ({}, {"a": {}}, Chosen("a")),
        ({}, {}, Nowhere("no nodes available to schedule pods")),
        ({"nodeSelector": {"disk": "ssd"}}, {"a": {}, "b": {"labels": {"disk": "ssd"}}}, Chosen("b")),
        (
            {"nodeSelector": {"disk": "ssd"}},
            {"a": {}},
            Nowhere("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
        ),
        (node_affinity(matchFields=[expression("metadata.name", "In", "b")]), {"a": {}, "b": {}}, Chosen("b")),
        (
            node_affinity(matchExpressions=[expression("zone", "NotIn", "a")]),
            {"a": {}, "b": {"labels": {"zone": "b"}}},
            Chosen("b"),
        ),
        (
            node_affinity(matchExpressions=[expression("age", "Gt", "5")]),
            {"a": {"labels": {"age": "6"}}, "b": {}},
            Chosen("a"),
        ),
        (
            node_affinity(),
            {"a": {}},
            Nowhere("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
        ),
        ({}, {"a": TAINTED}, Nowhere("0/1 nodes are available: 1 node(s) had untolerated taint(s) {gpu: yes}.")),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, {"a": TAINTED}, Chosen("a")),
        ({"tolerations": [{"key": "gpu", "value": "yes"}]}, {"a": TAINTED}, Chosen("a")),
        ({"tolerations": [{"operator": "Exists"}]}, {"a": TAINTED}, Chosen("a")),
        (
            {"tolerations": [{"key": "gpu", "value": "no"}]},
            {"a": TAINTED, "b": {"unschedulable": True}},
            Nowhere(
                "0/2 nodes are available: 1 node(s) had untolerated taint(s) {gpu: yes}, 1 node(s) were unschedulable."
            ),
        ),
    ],
)
def test_nodes_are_chosen_by_what_the_pod_says(make: Any, spec: Any, nodes: Any, answer: Any) -> None:
    rooms = [room_of(make.node(name, **dict(more))) for name, more in nodes.items()]
    assert choose(needs_of(make.pod(**spec)), rooms) == answer


def asking(**requests: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"requests": requests}}]}


def test_requests_fill_a_node_and_both_shortages_are_named(make: Any) -> None:
    room = room_of(make.node("a"))
    room.put(needs_of(make.pod("first", **asking(cpu="3500m", memory="7Gi"))))
    answer = choose(needs_of(make.pod("second", **asking(cpu="1", memory="2Gi"))), [room])
    assert answer == Nowhere("0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.")
    room.drop(("ns", "first"))
    assert choose(needs_of(make.pod("second", **asking(cpu="1", memory="2Gi"))), [room]) == Chosen("a")


def test_a_node_has_only_so_many_pods(make: Any) -> None:
    room = room_of(make.node("a", {"pods": "1"}))
    room.put(needs_of(make.pod("first")))
    assert choose(needs_of(make.pod("second")), [room]) == Nowhere("0/1 nodes are available: 1 Too many pods.")


def test_init_containers_count_by_their_largest_and_sidecars_with_the_rest(make: Any) -> None:
    init = [
        {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
        {"name": "setup", "resources": {"requests": {"cpu": "2"}}},
    ]
    pod = make.pod(initContainers=init, **asking(cpu="1"))
    assert requests_of(pod) == {"cpu": Fraction(2100, 1000), "pods": 1}


ALONE = {**near("podAntiAffinity", app="slurmd"), "metadata": {"labels": {"app": "slurmd"}}}


def test_pods_that_want_to_be_alone_are_kept_apart_both_ways(make: Any) -> None:
    rooms = [room_of(make.node(name)) for name in ("a", "b")]
    rooms[0].put(needs_of(make.pod("first", **ALONE)))
    assert choose(needs_of(make.pod("second", **ALONE)), rooms) == Chosen("b")
    # One that minds nobody is still kept away from those who mind it.
    plain = make.pod("plain", metadata={"labels": {"app": "slurmd"}})
    assert choose(needs_of(plain), rooms) == Chosen("b")
    assert choose(needs_of(plain), rooms[:1]) == Nowhere(
        "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    )
    elsewhere = make.pod("other", metadata={"namespace": "other", "labels": {"app": "slurmd"}})
    assert isinstance(choose(needs_of(elsewhere), rooms[:1]), Chosen)


def test_apart_by_zone_reaches_across_nodes(make: Any) -> None:
    rooms = [room_of(make.node(name, labels={"zone": zone})) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))]
    apart = {**near("podAntiAffinity", "zone", app="ctl"), "metadata": {"labels": {"app": "ctl"}}}
    rooms[0].put(needs_of(make.pod("first", **apart)))
    assert choose(needs_of(make.pod("second", **apart)), rooms) == Chosen("c")


def test_company_is_found_and_the_first_of_a_group_starts_it(make: Any) -> None:
    together = {**near("podAffinity", app="web"), "metadata": {"labels": {"app": "web"}}}
    rooms = [room_of(make.node(name)) for name in ("a", "b")]
    assert choose(needs_of(make.pod("first", **together)), rooms) == Chosen("a")
    rooms[1].put(needs_of(make.pod("first", **together)))
    assert choose(needs_of(make.pod("second", **together)), rooms) == Chosen("b")
    lonely = make.pod("lonely", **near("podAffinity", app="db"))
    assert choose(needs_of(lonely), rooms) == Nowhere(
        "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    )
