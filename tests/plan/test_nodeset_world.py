"""What one reconcile of a NodeSet sees: its workers, judged once, and names that somebody else has."""

from __future__ import annotations

import msgspec
import pytest
from tests.plan.small_cluster import Cluster

from slurm_operator.build import labels
from slurm_operator.build.nodeset import WorkerIdentity
from slurm_operator.plan import placement
from slurm_operator.plan.actions import Create
from slurm_operator.plan.duplicates import Rival
from slurm_operator.plan.nodeset import plan_nodeset
from slurm_operator.plan.nodeset_world import has_enough, held_back
from slurm_operator.plan.workers import NodeSnapshot
from slurm_operator.slurm.model import Unknown


def test_workers_are_judged_once(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(), [cluster.pod("w-0")], cluster.slurm(cluster.node("w-0")))
    assert world.unsettled[0] is world.unsettled[0]


def test_a_worker_whose_host_name_another_nodeset_has_is_told_so(cluster: Cluster) -> None:
    cr = cluster.nodeset()
    meta = msgspec.structs.replace(cr.metadata, name="first", uid="first")
    rival = Rival(msgspec.structs.replace(cr, metadata=meta), frozenset({"w-0"}))
    slurm = cluster.slurm(cluster.node("w-0", comment='{"nodeSetUID": "first"}'))
    world = cluster.world(cr, [cluster.pod("w-0"), cluster.pod("w-1")], slurm, rivals=(rival,))
    assert [(worker.name, worker.rival) for worker in world.unsettled] == [("w-0", "NodeSet first"), ("w-1", "")]


@pytest.mark.parametrize("spec", [{"nodeSelector": "x"}, {"tolerations": 5}, {"affinity": ["x"]}], ids=str)
def test_a_neighbour_whose_template_is_nonsense_stops_nobody_else(cluster: Cluster, spec: dict[str, object]) -> None:
    cr = cluster.nodeset(scalingMode="DaemonSet", template={"spec": spec})
    other = msgspec.structs.replace(cr, metadata=msgspec.structs.replace(cr.metadata, name="other", uid="other"))
    pods, nodes = [cluster.pod("w-0")], [cluster.kube_node("k1")]
    world = cluster.world(cluster.nodeset(), pods, cluster.slurm(cluster.node("w-0")), nodes, rivals=(Rival(other),))
    assert [(worker.name, worker.rival) for worker in world.unsettled] == [("w-0", "")]


@pytest.mark.parametrize("half", ["nodes", "jobs"])
def test_half_an_answer_is_blind(cluster: Cluster, half: str) -> None:
    slurm = cluster.slurm(cluster.node("w-0"))
    missing = Unknown("no answer")
    seen = NodeSnapshot(missing, slurm.jobs) if half == "nodes" else NodeSnapshot(slurm.nodes, missing)
    assert not cluster.world(cluster.nodeset(), (), slurm).is_blind
    assert cluster.world(cluster.nodeset(), (), seen).is_blind


def test_of_two_new_workers_with_one_host_name_only_the_first_is_made(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(scalingMode="DaemonSet"))
    first, second = WorkerIdentity(node="k9.rack1"), WorkerIdentity(node="k9.rack2")
    assert held_back(world, [first, second]) == {second.name(world.cr): f"pod {first.name(world.cr)}"}


def test_a_kubernetes_node_may_name_its_worker(cluster: Cluster) -> None:
    node = cluster.kube_node("k1.example.org", metadata={"annotations": {labels.HOSTNAME_OVERRIDE: "gpu7"}})
    cr = cluster.nodeset(scalingMode="DaemonSet")
    assert placement.daemon_worker(node).hostname(cr) == "gpu7"
    assert placement.daemon_worker(cluster.kube_node("k1.example.org")).hostname(cr) == "k1"


@pytest.mark.parametrize(
    ("replicas", "enough"), [(0, True), (2, True), (3, False), (4, False)], ids=["none", "as asked", "marked", "more"]
)
def test_enough_workers_are_seen_without_judging_any(cluster: Cluster, replicas: int, enough: bool) -> None:
    """Beside two workers: one that goes, and one that was chosen to go, which a larger number takes back."""
    pods = [
        *(cluster.pod(f"w-{number}", ready=False) for number in range(2)),
        cluster.pod("w-2", annotations={labels.CONDEMNED: "scale-in"}),
        cluster.pod("w-3", terminating=True),
    ]
    cr = cluster.nodeset(replicas=replicas)
    plan = plan_nodeset(cluster.world(cr, pods, cluster.blind()))
    assert has_enough(cr, pods) is enough
    assert not (enough and any(isinstance(each, Create) for each in plan.actions))


def test_nobody_knows_at_a_glance_how_many_nodes_want_a_worker(cluster: Cluster) -> None:
    assert not has_enough(cluster.nodeset(scalingMode="DaemonSet"), [cluster.pod("w-0")])
