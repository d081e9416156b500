"""What a NodeSet says of itself: counts and conditions out of one world."""

from __future__ import annotations

import pytest
from tests.plan.small_cluster import Cluster

from slurm_operator.plan.leaving import SCALE_IN
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.plan.workers import NodeSnapshot
from slurm_operator.slurm.model import Job, SlurmList, Unknown
from slurm_operator.status import nodeset


def said(world: NodeSetWorld) -> dict[str, tuple[str, str, str]]:
    found = nodeset.drafts(world)
    return {each.type: (each.truth.value, each.reason, each.message) for each in found}


def test_counts_follow_slurms_words(cluster: Cluster) -> None:
    pods = [cluster.pod(f"w-{number}") for number in range(4)]
    slurm = cluster.slurm(
        cluster.node("w-0", "ALLOCATED"),
        cluster.node("w-1", "MIXED", "DRAIN"),
        cluster.node("w-2", "DOWN"),
        cluster.node("w-3"),
    )
    world = cluster.world(cluster.nodeset(replicas=4), pods, slurm)
    fields = nodeset.fields(world)
    counts = {key: fields[key] for key in ("slurmIdle", "slurmAllocated", "slurmDown", "slurmDrain")}
    assert counts == {"slurmIdle": 1, "slurmAllocated": 2, "slurmDown": 1, "slurmDrain": 1}
    assert (fields["replicas"], fields["readyReplicas"], fields["desired"]) == (4, 4, 4)


@pytest.mark.parametrize(
    ("states", "jobs", "expected"),
    [
        pytest.param(("IDLE",), (), ("True", "AllReady"), id="registered and idle"),
        pytest.param(("DOWN",), (), ("True", "AllReady"), id="down is Degraded, and not for waiting"),
        pytest.param((), (), ("False", "WorkersNotReady"), id="not registered"),
    ],
)
def test_ready_says_whether_the_workers_are_there(
    cluster: Cluster, states: tuple[str, ...], jobs: tuple[Job, ...], expected: tuple[str, str]
) -> None:
    slurm = cluster.slurm(*([cluster.node("w-0", *states)] if states else []), jobs=jobs)
    assert said(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm))["Ready"][:2] == expected


@pytest.mark.parametrize(
    ("replicas", "message"),
    [(1, "1 worker is ready and registered"), (2, "2 workers are ready and registered")],
    ids=["one", "two"],
)
def test_numbers_and_words_agree(cluster: Cluster, replicas: int, message: str) -> None:
    names = [f"w-{number}" for number in range(replicas)]
    slurm = cluster.slurm(*(cluster.node(name) for name in names))
    world = cluster.world(cluster.nodeset(replicas=replicas), [cluster.pod(name) for name in names], slurm)
    assert said(world)["Ready"] == ("True", "AllReady", message)


@pytest.mark.parametrize("mode", ["StatefulSet", "DaemonSet"])
def test_a_worker_that_kubernetes_takes_down_does_not_count_although_it_is_still_ready(
    cluster: Cluster, mode: str
) -> None:
    pods = [cluster.pod("w-0", host="k1"), cluster.pod("w-1", host="k2", node="k2", terminating=True)]
    slurm = cluster.slurm(cluster.node("k1"), cluster.node("k2"))
    nodes = [cluster.kube_node("k1"), cluster.kube_node("k2")]
    found = said(cluster.world(cluster.nodeset(replicas=2, scalingMode=mode), pods, slurm, nodes))
    assert found["Ready"][:2] == ("False", "WorkersNotReady")
    assert "1 of 2 workers is ready" in found["Ready"][2]


def test_a_scale_in_is_over_when_its_pods_are_gone_and_nothing_is_wrong_meanwhile(cluster: Cluster) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1", terminating=True), cluster.pod("w-2", terminating=True)]
    # What the hook of a worker that ends says of its node.
    slurm = cluster.slurm(cluster.node("w-0"), cluster.node("w-1", "DOWN", "DRAIN"), cluster.node("w-2"))
    found = said(cluster.world(cluster.nodeset(replicas=1), pods, slurm))
    assert found["Ready"] == ("False", "WorkersNotReady", "2 workers are being taken down")
    assert found["Progressing"][:2] == ("True", "Working")
    assert found["Degraded"][:2] == ("False", "AsExpected")
    found = said(cluster.world(cluster.nodeset(replicas=1), pods[:1], slurm))
    assert found["Ready"] == ("True", "AllReady", "1 worker is ready and registered")


def test_a_blind_nodeset_is_neither_ready_nor_not(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(), [cluster.pod("w-0")], cluster.blind())
    assert said(world)["Ready"][:2] == ("Unknown", "SlurmUnreachable")
    assert said(world)["SlurmReachable"][:2] == ("False", "SlurmUnreachable")


def test_a_nodeset_without_slurms_word_on_the_jobs_says_which_half_is_missing(cluster: Cluster) -> None:
    half = NodeSnapshot(
        SlurmList((cluster.node("w-0"), cluster.node("w-1")), True, 1), Unknown("Slurm is silent on jobs")
    )
    world = cluster.world(cluster.nodeset(replicas=2), [cluster.pod("w-0"), cluster.pod("w-1")], half)
    found = said(world)
    # The workers are there and registered: that half is known.
    assert found["Ready"][:2] == ("True", "AllReady")
    told = "Slurm lists its nodes, but not its jobs: Slurm is silent on jobs; no worker is removed meanwhile"
    assert found["SlurmReachable"] == ("False", "JobsUnknown", told)
    assert found["Degraded"] == ("True", "JobsUnknown", told)


def test_a_worker_that_is_down_is_worse_than_unknown_jobs(cluster: Cluster) -> None:
    half = NodeSnapshot(SlurmList((cluster.node("w-0", "DOWN", reason="fan"),), True, 1), Unknown("silent"))
    world = cluster.world(cluster.nodeset(), [cluster.pod("w-0")], half)
    assert said(world)["Degraded"][:2] == ("True", "WorkersDown")


def test_a_worker_that_slurmctld_refuses_is_told(cluster: Cluster) -> None:
    node = cluster.node("w-0", "IDLE", "DRAIN", "INVALID_REG", reason="gres/gpu count reported lower than configured")
    world = cluster.world(cluster.nodeset(), [cluster.pod("w-0")], cluster.slurm(node))
    status, reason, message = said(world)["Degraded"]
    assert (status, reason) == ("True", "WorkersDown")
    assert "gres/gpu count reported lower than configured" in message


def test_a_blind_nodeset_chooses_nobody_and_says_so(cluster: Cluster) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1")]
    world = cluster.world(cluster.nodeset(replicas=1), pods, cluster.blind())
    assert "none is chosen before Slurm answers" in said(world)["Progressing"][2]
    kept = [cluster.pod("w-0"), cluster.pod("w-1", annotations={"nodeset.slinky.slurm.net/condemned": SCALE_IN})]
    world = cluster.world(cluster.nodeset(replicas=1), kept, cluster.blind())
    assert list(world.choice.leaving) == ["w-1"]


def test_what_a_worker_waits_for_is_named(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "ALLOCATED", "DRAIN"), jobs=[cluster.job(7, "w-0")])
    world = cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0")], slurm)
    assert "node w-0 has jobs: 7" in said(world)["Progressing"][2]


def test_a_nodeset_of_daemonset_mode_wants_one_worker_for_each_node_that_matches(cluster: Cluster) -> None:
    cr = cluster.nodeset(scalingMode="DaemonSet", template={"spec": {"nodeSelector": {"kind": "metal"}}})
    nodes = [cluster.kube_node("k1", metadata={"labels": {"kind": "metal"}}), cluster.kube_node("k2")]
    world = cluster.world(cr, (), cluster.slurm(), nodes)
    fields = nodeset.fields(world)
    assert (fields["desired"], fields["unavailableReplicas"]) == (1, 1)
