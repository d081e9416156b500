"""Which node records are taken away: only those of this NodeSet, silent, without a pod and without a job."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.plan.small_cluster import Cluster, of_type

from kube_runtime.times import time_text
from slurm_operator.build.nodeset import TERMINATING
from slurm_operator.plan.actions import DeleteNodes
from slurm_operator.plan.nodeset import finalizer_removal, kept_by_slurm, plan_nodeset
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.plan.records import MAX_WAIT_SECONDS, defunct
from slurm_operator.plan.workers import NodeSnapshot
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import Node, Unknown

SILENT = ("DOWN", "NOT_RESPONDING")


def deleted(cluster: Cluster, slurm: NodeSnapshot, *pods: str, deleting: bool = False, **spec: Any) -> list[str]:
    there = [cluster.pod(name, terminating=True) for name in pods]
    world = cluster.world(cluster.nodeset(**spec), there, slurm, deleting=deleting)
    calls = [action.nodes for action in defunct(world, ()) if isinstance(action, DeleteNodes)]
    assert len(calls) <= 1
    return [name for names in calls for name in names]


@pytest.mark.parametrize(
    ("states", "reason", "goes"),
    [
        pytest.param(SILENT, "", True, id="silent and down"),
        pytest.param(("DOWN", "DRAIN"), TERMINATING, True, id="down by the last word of its pod"),
        pytest.param(("DOWN",), "", False, id="down, but heard"),
        pytest.param(("DOWN",), "broken fan", False, id="down by somebody"),
        pytest.param(("IDLE", "DRAIN"), TERMINATING, False, id="back in service since"),
        pytest.param(("IDLE", "NOT_RESPONDING"), "", False, id="silent, not yet down"),
        pytest.param((*SILENT, "COMPLETING"), "", False, id="a job is completing"),
        pytest.param(("DOWN", "RESERVED"), TERMINATING, False, id="in a reservation, so that Slurm would refuse"),
        pytest.param((*SILENT, "MAINTENANCE"), "", False, id="in a maintenance window"),
    ],
)
def test_only_a_record_whose_slurmd_has_ended_goes(
    cluster: Cluster, states: tuple[str, ...], reason: str, goes: bool
) -> None:
    assert deleted(cluster, cluster.slurm(cluster.node("w-3", *states, reason=reason))) == (["w-3"] if goes else [])


def test_all_of_them_go_in_one_call(cluster: Cluster) -> None:
    nodes = [cluster.node(f"w-{number}", *SILENT) for number in range(100)]
    assert len(deleted(cluster, cluster.slurm(*nodes))) == 100


def test_a_record_with_a_pod_or_a_job_stays(cluster: Cluster) -> None:
    record = cluster.node("w-3", *SILENT)
    assert deleted(cluster, cluster.slurm(record), "w-3") == []
    assert deleted(cluster, cluster.slurm(record, jobs=[cluster.job(1, "w-3", state="SUSPENDED")])) == []


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUSPENDED"])
def test_a_record_that_an_unfinished_job_requires_stays(cluster: Cluster, state: str) -> None:
    records = [cluster.node(name, *SILENT) for name in ("w-3", "w-4")]
    picky = cluster.job(34, state=state, required=HostList("w-[4-9]"))
    assert deleted(cluster, cluster.slurm(*records, jobs=[picky])) == ["w-3"]
    assert deleted(cluster, cluster.slurm(*records, jobs=[picky]), deleting=True) == ["w-3"]


def test_a_record_goes_once_the_job_that_required_it_is_over(cluster: Cluster) -> None:
    over = cluster.job(34, state="CANCELLED", required=HostList("w-4"))
    assert deleted(cluster, cluster.slurm(cluster.node("w-4", *SILENT), jobs=[over])) == ["w-4"]


def test_no_record_goes_while_it_cannot_be_read_which_nodes_a_job_requires(cluster: Cluster) -> None:
    job = cluster.job(34, state="PENDING", required=None)
    assert deleted(cluster, cluster.slurm(cluster.node("w-4", *SILENT), jobs=[job])) == []


def test_a_pod_that_is_recreated_keeps_a_record_that_a_job_requires(cluster: Cluster) -> None:
    picky = cluster.job(34, state="PENDING", required=HostList("w-0"))
    for jobs, gone in (([], [("w-0",)]), ([picky], [])):
        slurm = cluster.slurm(cluster.node("w-0", *SILENT), jobs=jobs)
        plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), (), slurm))
        assert [action.nodes for action in of_type(plan, DeleteNodes)] == gone


@pytest.mark.parametrize("late", [False, True])
def test_a_deleted_nodeset_waits_for_a_job_that_requires_its_node_and_says_what_helps(
    cluster: Cluster, late: bool
) -> None:
    world = leaving(cluster, cluster.node("w-0", *SILENT), late=late)
    picky = cluster.job(34, state="PENDING", partition="other", required=HostList("w-0"))
    world = replace(world, slurm=replace(world.slurm, jobs=(picky,)))
    assert finalizer_removal(world) is None
    assert kept_by_slurm(world) == (
        "job 34 requires node w-0, which goes with the NodeSet, so it can never run; let it run on other nodes "
        "(scontrol update jobid=34 reqnodelist=) or cancel it (scancel 34)"
    )


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
    spec: dict[str, Any] = {"scalingMode": "DaemonSet", **({"pruneSlurmNodeRecords": prune} if prune else {})}
    assert deleted(cluster, slurm, **spec) == (["x"] if goes else [])


def test_in_daemonset_mode_all_records_go_with_their_nodeset(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("k1", *SILENT))
    assert deleted(cluster, slurm, scalingMode="DaemonSet", deleting=True) == ["k1"]


LATE = timedelta(seconds=MAX_WAIT_SECONDS)


@pytest.mark.parametrize(
    ("record", "late", "waits"),
    [
        pytest.param(("DOWN", TERMINATING), False, True, id="it goes now"),
        pytest.param(("IDLE", ""), False, True, id="its slurmd may have ended without a word"),
        pytest.param(("IDLE", ""), True, False, id="its slurmd lives on"),
        pytest.param(("DOWN", TERMINATING), True, True, id="it goes now, after a long wait for jobs"),
    ],
)
def test_a_deleted_nodeset_waits_until_its_records_are_gone(
    cluster: Cluster, record: tuple[str, str], late: bool, waits: bool
) -> None:
    world = leaving(cluster, cluster.node("w-0", record[0], reason=record[1]), late=late)
    assert ("w-0" in (kept_by_slurm(world) or "")) is waits
    assert (finalizer_removal(world) is None) is waits


def test_a_deleted_nodeset_does_not_wait_for_the_end_of_a_reservation(cluster: Cluster) -> None:
    world = leaving(cluster, cluster.node("w-0", "DOWN", "RESERVED", reason=TERMINATING))
    assert finalizer_removal(world) is not None


@pytest.mark.parametrize("late", [False, True])
def test_a_deleted_nodeset_waits_for_a_slurmd_that_has_not_ended_though_not_for_ever(
    cluster: Cluster, late: bool
) -> None:
    world = leaving(cluster, cluster.node("w-0", "IDLE", "RESERVED"), late=late)
    assert (finalizer_removal(world) is None) is not late


def test_a_deleted_nodeset_does_not_wait_for_records_of_others(cluster: Cluster) -> None:
    assert finalizer_removal(leaving(cluster, cluster.node("x", *SILENT, comment=""))) is not None


def test_a_deleted_nodeset_waits_for_a_whole_list_of_records(cluster: Cluster) -> None:
    world = replace(leaving(cluster), slurm=cluster.slurm(complete=False))
    assert finalizer_removal(world) is None


def test_a_record_that_one_list_has_lost_is_waited_for(cluster: Cluster) -> None:
    before = cluster.slurm(cluster.node("w-0", *SILENT)).nodes
    world = leaving(cluster)
    assert finalizer_removal(replace(world, slurm=replace(world.slurm, nodes_before=before))) is None
    assert finalizer_removal(replace(world, slurm=replace(world.slurm, nodes_before=Unknown("x")))) is None
    assert finalizer_removal(world) is not None


def leaving(cluster: Cluster, *nodes: Node, late: bool = False) -> NodeSetWorld:
    """A NodeSet that is being deleted, without a pod."""
    cr = cluster.nodeset()
    since = time_text(cluster.now - (LATE if late else timedelta(seconds=5)))
    cr = msgspec.structs.replace(cr, metadata=msgspec.structs.replace(cr.metadata, deletion_timestamp=since))
    return cluster.world(cr, (), cluster.slurm(*nodes), deleting=True)
