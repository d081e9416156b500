"""Which node records are taken away: only those of this NodeSet, silent, without a pod and without a job."""

from __future__ import annotations

import json

import pytest
from tests.plan.small_cluster import Cluster

from slurm_operator.plan.actions import DeleteNode
from slurm_operator.plan.records import defunct
from slurm_operator.plan.workers import NodeSnapshot
from slurm_operator.slurm.model import Unknown

SILENT = ("DOWN", "NOT_RESPONDING")


def deleted(cluster: Cluster, slurm: NodeSnapshot, *pods: str, **spec: str) -> list[str]:
    found = defunct(cluster.nodeset(**spec), slurm, pods, (), ("k1",))
    return [action.node for action in found if isinstance(action, DeleteNode)]


@pytest.mark.parametrize(
    ("states", "goes"),
    [
        (SILENT, True),
        (("DOWN",), False),
        (("IDLE", "NOT_RESPONDING"), False),
        ((*SILENT, "COMPLETING"), False),
    ],
    ids=["silent and down", "down, but heard", "silent, not yet down", "a job is completing"],
)
def test_only_a_silent_record_goes(cluster: Cluster, states: tuple[str, ...], goes: bool) -> None:
    assert deleted(cluster, cluster.slurm(cluster.node("w-3", *states))) == (["w-3"] if goes else [])


def test_a_record_with_a_pod_or_a_job_stays(cluster: Cluster) -> None:
    record = cluster.node("w-3", *SILENT)
    assert deleted(cluster, cluster.slurm(record), "w-3") == []
    assert deleted(cluster, cluster.slurm(record, jobs=[cluster.job(1, "w-3", state="SUSPENDED")])) == []


@pytest.mark.parametrize("key", ["namespace", "nodeSetUID"])
def test_a_record_of_somebody_else_stays(cluster: Cluster, key: str) -> None:
    info = {"namespace": "ns", "podName": "w-3", "nodeSetUID": "nodeset", key: "other"}
    record = cluster.node("w-3", *SILENT, comment=json.dumps(info))
    assert deleted(cluster, cluster.slurm(record)) == []


def test_nothing_goes_while_slurm_has_not_said_all(cluster: Cluster) -> None:
    known = cluster.slurm(cluster.node("w-3", *SILENT))
    assert deleted(cluster, cluster.blind()) == []
    assert deleted(cluster, NodeSnapshot(known.nodes, Unknown("no answer"))) == []


@pytest.mark.parametrize(
    ("node", "prune", "goes"),
    [
        ("gone", "NodeNotFound", True),
        ("k1", "NodeNotFound", False),
        ("", "NodeNotFound", False),
        ("gone", None, False),
    ],
    ids=["its Kubernetes node is gone", "its Kubernetes node is there", "its node is unknown", "nobody asked for it"],
)
def test_in_daemonset_mode_a_record_goes_with_its_kubernetes_node(
    cluster: Cluster, node: str, prune: str | None, goes: bool
) -> None:
    info = {"namespace": "ns", "podName": "w-x", "nodeSetUID": "nodeset", "node": node}
    slurm = cluster.slurm(cluster.node("x", *SILENT, comment=json.dumps(info)))
    spec = {"scalingMode": "DaemonSet", **({"pruneSlurmNodeRecords": prune} if prune else {})}
    assert deleted(cluster, slurm, **spec) == (["x"] if goes else [])
