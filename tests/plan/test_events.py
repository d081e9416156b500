"""What people are told of a NodeSet: once for each change, under the reasons of the Go operator."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
import pytest
from tests.plan.small_cluster import Cluster, of_type

from slurm_operator.build import labels
from slurm_operator.plan.actions import Delete, RecordEvent
from slurm_operator.plan.events import events
from slurm_operator.plan.leaving import SCALE_IN
from slurm_operator.plan.nodeset import plan_nodeset

SILENT = ("DOWN", "NOT_RESPONDING")


def two_workers(cluster: Cluster, annotations: Mapping[str, str] | None = None, **spec: object) -> list[str]:
    """The events of a plan with two idle workers."""
    pods = [cluster.pod(name, annotations=annotations) for name in ("w-0", "w-1")]
    world = cluster.world(cluster.nodeset(**spec), pods, cluster.slurm(cluster.node("w-0"), cluster.node("w-1")))
    return [str(each) for each in of_type(plan_nodeset(world), RecordEvent)]


def test_workers_that_are_chosen_to_go_are_told_of(cluster: Cluster) -> None:
    """C13: of the Go operator's reasons only ScalingUp appeared."""
    assert two_workers(cluster, replicas=1) == [
        "event ScalingDown: removing 1 worker, each when Slurm has drained its node"
    ]
    newer = {"image": "slurmd:newer"}
    assert two_workers(cluster, replicas=2, slurmd=newer) == [
        "event RollingUpdate: replacing 2 workers, each when Slurm has drained its node"
    ]


@pytest.mark.parametrize(
    ("replicas", "annotations"),
    [(2, {}), (0, {labels.CONDEMNED: SCALE_IN})],
    ids=["nothing to do", "chosen before"],
)
def test_nothing_is_told_twice(cluster: Cluster, replicas: int, annotations: dict[str, str]) -> None:
    assert two_workers(cluster, annotations, replicas=replicas) == []


@pytest.mark.parametrize(
    ("status", "told"),
    [
        pytest.param({}, True, id="a new NodeSet"),
        pytest.param({"desired": 1, "updatedReplicas": 1}, True, id="a scale-out"),
        pytest.param({"desired": 3, "updatedReplicas": 3}, True, id="a worker that was lost"),
        pytest.param({"desired": 3, "updatedReplicas": 1}, False, id="a scale-out or an update that goes on"),
    ],
)
def test_a_creation_is_told_of_once(cluster: Cluster, status: dict[str, int], told: bool) -> None:
    cr = cluster.nodeset(replicas=3)
    cr = msgspec.structs.replace(cr, status=msgspec.convert(status, type(cr.status)))
    plan = plan_nodeset(cluster.world(cr, [cluster.pod("w-0")], cluster.slurm(cluster.node("w-0"))))
    assert [str(each) for each in of_type(plan, RecordEvent)] == ["event ScalingUp: creating 2 workers"] * told


def test_the_next_step_of_a_rolling_update_is_not_told_of(cluster: Cluster) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1", hash_="old")]
    world = cluster.world(cluster.nodeset(replicas=2), pods, cluster.slurm(cluster.node("w-0"), cluster.node("w-1")))
    plan = plan_nodeset(world)
    assert [worker.name for worker, _ in world.choice.leaving.values()] == ["w-1"]
    assert of_type(plan, RecordEvent) == []


def test_a_record_that_is_pruned_is_told_of(cluster: Cluster) -> None:
    info = {"namespace": "ns", "podName": "w-3", "nodeSetUID": "nodeset"}
    slurm = cluster.slurm(cluster.node("w-3", *SILENT, comment=json.dumps(info)))
    told = of_type(plan_nodeset(cluster.world(cluster.nodeset(replicas=0), (), slurm)), RecordEvent)
    assert [str(each) for each in told] == [
        "event DefunctSlurmNodePruned: deleting 1 node record (w-3) of workers that are gone"
    ]


def test_workers_without_a_record_are_named_and_not_all(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(replicas=0), (), cluster.slurm())
    gone = [Delete("v1", "Pod", cluster.pod(f"w-{number}").metadata, "why") for number in range(7)]
    (told,) = events(world, 0, gone, ())
    assert (told.reason, told.warning) == ("SlurmNodeNotRegistered", True)
    assert "7 workers (w-0, w-1, w-2, w-3, w-4 and 2 more)" in told.message
