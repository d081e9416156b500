"""Which change concerns whom: every reference counts, a heartbeat does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_runtime.client import objects
from slurm_operator.reconcile.triggers import daemon_changed, node_changed, referenced_names, spec_changed


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


def test_a_heartbeat_of_a_node_concerns_no_worker() -> None:
    def node(**raw: Any) -> objects.Node:
        return msgspec.convert({"metadata": {"name": "k1"}, **raw}, objects.Node)

    beat = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}]}
    assert not node_changed(node(), node(status=beat))
    assert node_changed(node(), node(spec={"unschedulable": True}))
    assert node_changed(node(), node(metadata={"name": "k1", "labels": {"gpu": "yes"}}))


def test_our_own_mark_on_slurmctlds_pod_does_not_wake_its_controller() -> None:
    def pod(phase: str = "Running", **metadata: Any) -> objects.Pod:
        return msgspec.convert({"metadata": {"name": "c-0", **metadata}, "status": {"phase": phase}}, objects.Pod)

    assert not daemon_changed(pod(), pod(annotations={"a": "b"}))
    assert daemon_changed(pod(), pod("Failed"))
    assert daemon_changed(pod(), pod(deletionTimestamp="2030-01-01T00:00:00Z"))
