"""Which change concerns whom: every reference counts, a heartbeat does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_runtime.client import objects
from kube_runtime.client.cache import Cache
from slurm_operator.api.meta import API_VERSION
from slurm_operator.build import labels
from slurm_operator.reconcile.observe import Observer, kubernetes_nodes
from slurm_operator.reconcile.operator import INDEXES, POD_INDEXES
from slurm_operator.reconcile.resources import OURS
from slurm_operator.reconcile.triggers import Triggers, daemon_changed, node_changed, referenced_names, spec_changed

REF = {"controllerRef": {"name": "slurm"}}
CORDON_TAINT = "node.kubernetes.io/unschedulable"


def test_every_reference_of_a_spec_is_found() -> None:
    spec = {
        "slurmKeyRef": {"name": "keys", "key": "slurm"},
        "configFileRefs": [{"name": "a"}, {"name": "b"}],
        "login": {"sssdConfRef": {"name": "sssd"}},
        "controllerRef": {"namespace": "x"},
        "name": "none",
        "extraConf": "Ref",
    }
    assert sorted(referenced_names(spec)) == ["a", "b", "keys", "sssd"]


def changed(**fields: Any) -> tuple[objects.RawObject, objects.RawObject]:
    meta = {"name": "a", "namespace": "ns", "uid": "u", "generation": 1}
    bodies = ({"metadata": meta}, {"metadata": {**meta, **fields}, "status": {"phase": "x"}})
    one, other = (objects.decode_hook(objects.RawObject, body) for body in bodies)
    return one, other


@pytest.mark.parametrize(
    "fields",
    [
        {"generation": 2},
        {"labels": {"a": "b"}},
        {"annotations": {"a": "b"}},
        {"finalizers": ["a"]},
        {"deletionTimestamp": "2030-01-01T00:00:00Z"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_more_than_a_status_wakes_others(fields: dict[str, Any]) -> None:
    assert spec_changed(*changed(**fields))


def test_a_status_wakes_nobody_else() -> None:
    assert not spec_changed(*changed(resourceVersion="9"))


# Kubernetes nodes: many write on them, and each change concerns few


def node(**raw: Any) -> objects.Node:
    metadata = {"name": "k1", "labels": {"rack": "a"}, **raw.pop("metadata", {})}
    return msgspec.convert({"metadata": metadata, **raw}, objects.Node)


def annotated(name: str, value: str = "x", **raw: Any) -> objects.Node:
    return node(metadata={"annotations": {name: value}}, **raw)


def labelled(**given: str) -> objects.Node:
    return node(metadata={"labels": {"rack": "a", **given}})


def tainted(effect: str, key: str = "example.org/out") -> objects.Node:
    return node(spec={"taints": [{"key": key, "effect": effect}]})


BEAT = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}]}
CORDONED: dict[str, Any] = {"spec": {"unschedulable": True}}


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        pytest.param(node(), node(status=BEAT), False, id="a heartbeat"),
        pytest.param(node(), annotated("example.org/x"), False, id="an annotation of somebody else"),
        pytest.param(node(), node(metadata={"resourceVersion": "9"}), False, id="a version"),
        pytest.param(node(), annotated(labels.NODE_CORDON_REASON), False, id="the reason of a cordon that is none"),
        pytest.param(node(), node(**CORDONED), True, id="a cordon"),
        pytest.param(node(**CORDONED), annotated(labels.NODE_CORDON_REASON, **CORDONED), True, id="its reason"),
        pytest.param(node(), annotated(labels.FEATURES), True, id="features"),
        pytest.param(node(), annotated(labels.TOPOLOGY), True, id="a place in the topology"),
        pytest.param(node(), annotated(labels.HOSTNAME_OVERRIDE), True, id="a host name"),
        pytest.param(node(), labelled(gpu="yes"), True, id="a label"),
        pytest.param(node(), tainted("NoSchedule"), True, id="a taint"),
        pytest.param(None, node(), True, id="it comes"),
        pytest.param(node(), None, True, id="it goes"),
    ],
)
def test_of_a_kubernetes_node_only_what_is_read_counts(
    before: objects.Node | None, after: objects.Node | None, changed: bool
) -> None:
    assert node_changed(before, after) is changed


DAEMON = {"scalingMode": "DaemonSet", "template": {"spec": {"nodeSelector": {"rack": "a"}}}}
PRUNING = {"scalingMode": "DaemonSet", "template": {"spec": {"nodeSelector": {"rack": "b"}}}}
PRUNING["pruneSlurmNodeRecords"] = "NodeNotFound"
PINNED = {"pinToNode": True, "template": {"spec": {"nodeSelector": {"rack": "a"}}}}
MALFORMED = {"scalingMode": "DaemonSet", "template": {"spec": {"nodeSelector": "rack=a"}}}
# By namespace and name: what it wants, where its pods are, and on which nodes its numbers belong.
NODESETS: dict[tuple[str, str], tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    ("a", "here"): ({}, ("k0", "k1"), ()),
    ("a", "elsewhere"): ({}, ("k2",), ()),
    ("b", "daemon"): (DAEMON, ("k1",), ()),
    ("b", "beside"): ({}, ("k2",), ()),
    ("c", "pinned"): (PINNED, ("k2",), ("k2", "k1")),
    ("c", "runs"): (PINNED, ("k1",), ()),
    ("d", "pruning"): (PRUNING, (), ()),
    ("e", "malformed"): (MALFORMED, (), ()),
}
ON_IT = {"here", "daemon", "runs"}
ALL_BUT_LOST = {"daemon", "beside", "pinned", "runs"}


def triggers() -> Triggers:
    nodesets: Cache[objects.RawObject] = Cache(None, OURS["NodeSet"], indexes=INDEXES)  # type: ignore[arg-type]
    pods: Cache[objects.Pod] = Cache(None, objects.PODS, indexes=POD_INDEXES)  # type: ignore[arg-type]
    for (namespace, name), (spec, places, home) in NODESETS.items():
        meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "1"}
        body = {"apiVersion": API_VERSION, "kind": "NodeSet", "metadata": meta, "spec": {**REF, **spec}}
        body["status"] = {"ordinalToNode": {str(number): place for number, place in enumerate(home)}}
        list(nodesets._store.put(objects.decode_hook(objects.RawObject, body)))
        owner = {"apiVersion": API_VERSION, "kind": "NodeSet", "name": name, "uid": meta["uid"], "controller": True}
        for number, place in enumerate(places):
            own = {"name": f"{name}-{number}", "namespace": namespace, "uid": f"{name}-{number}"}
            pod = {"metadata": {**own, "ownerReferences": [owner]}, "spec": {"nodeName": place}}
            list(pods._store.put(msgspec.convert(pod, objects.Pod)))
    return Triggers(Observer({"NodeSet": (nodesets,)}, (pods,)))


@pytest.mark.parametrize(
    ("before", "after", "woken"),
    [
        pytest.param(node(), node(status=BEAT), set(), id="a heartbeat: nobody"),
        pytest.param(node(), annotated("example.org/x"), set(), id="an annotation of somebody else: nobody"),
        pytest.param(node(), labelled(gpu="yes"), set(), id="a label that nobody selects: nobody"),
        pytest.param(node(), node(**CORDONED), ON_IT, id="a cordon: whoever has a worker there"),
        pytest.param(
            node(),
            node(spec={"unschedulable": True, "taints": [{"key": CORDON_TAINT, "effect": "NoSchedule"}]}),
            ON_IT,
            id="a cordon with its taint: whoever has a worker there",
        ),
        pytest.param(node(), annotated(labels.FEATURES), ON_IT, id="features: whoever has a worker there"),
        pytest.param(
            node(), labelled(rack="b"), {"daemon", "beside", "pinned", "runs", "pruning"}, id="a label: who selects it"
        ),
        pytest.param(
            node(), tainted("NoSchedule"), {"daemon", "beside"}, id="a taint for new pods: who would place one there"
        ),
        pytest.param(node(), tainted("NoExecute"), ALL_BUT_LOST, id="a taint for all: who would have one there"),
        pytest.param(
            node(), annotated(labels.HOSTNAME_OVERRIDE), {"daemon", "beside"}, id="a host name: who names workers by it"
        ),
        pytest.param(None, node(), ALL_BUT_LOST | {"here"}, id="it comes: whoever can be there, or is"),
        pytest.param(
            node(), None, ALL_BUT_LOST | {"here", "pruning"}, id="it goes: the same, and who has a record to delete"
        ),
    ],
)
def test_a_kubernetes_node_wakes_those_whom_its_change_concerns(
    before: objects.Node | None, after: objects.Node | None, woken: set[str]
) -> None:
    """One whose overlay nobody can read may be woken as well, and keeps none of the others asleep."""
    found = {key.name for key in triggers().users_of_kubernetes_node(before, after)}
    assert found - {"malformed"} == woken


def test_a_pod_that_stands_on_no_node_is_in_no_index_of_nodes() -> None:
    """A thousand pods that wait would be one list, made anew with each of them."""
    assert list(kubernetes_nodes(objects.Pod())) == []


def test_our_own_mark_on_slurmctlds_pod_does_not_wake_its_controller() -> None:
    def pod(phase: str = "Running", **metadata: Any) -> objects.Pod:
        return msgspec.convert({"metadata": {"name": "c-0", **metadata}, "status": {"phase": phase}}, objects.Pod)

    assert not daemon_changed(pod(), pod(annotations={"a": "b"}))
    assert daemon_changed(pod(), pod("Failed"))
    assert daemon_changed(pod(), pod(deletionTimestamp="2030-01-01T00:00:00Z"))
