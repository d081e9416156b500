"""Who is replaced next when the template has changed: never more than may be missing."""

from __future__ import annotations

from tests.plan.small_cluster import Cluster, of_type

from slurm_operator.build import labels
from slurm_operator.plan.actions import Delete, Drain
from slurm_operator.plan.leaving import UPDATE
from slurm_operator.plan.nodeset import plan_nodeset


def test_an_update_drains_no_more_than_may_be_missing(cluster: Cluster) -> None:
    pods = [cluster.pod(f"w-{number}", hash_="old") for number in range(8)]
    slurm = cluster.slurm(*(cluster.node(f"w-{number}") for number in range(8)))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=8), pods, slurm))
    assert sum(len(action.nodes) for action in of_type(plan, Drain)) == 2


def test_missing_workers_count_against_the_update(cluster: Cluster) -> None:
    pods = [cluster.pod(f"w-{number}", hash_="old") for number in range(6)]
    slurm = cluster.slurm(*(cluster.node(f"w-{number}") for number in range(6)))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=8), pods, slurm))
    assert of_type(plan, Drain) == []


def test_workers_already_chosen_for_the_update_are_counted_and_kept(cluster: Cluster) -> None:
    chosen = {labels.CONDEMNED: UPDATE}
    pods = [cluster.pod(f"w-{n}", hash_="old", annotations=chosen if n < 2 else None) for n in range(8)]
    slurm = cluster.slurm(*(cluster.node(f"w-{number}") for number in range(8)))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=8), pods, slurm))
    drained = [name for action in of_type(plan, Drain) for name in action.nodes]
    assert sorted(drained) == ["w-0", "w-1"]


def test_on_delete_waits_for_people(cluster: Cluster) -> None:
    cr = cluster.nodeset(replicas=1, updateStrategy={"type": "OnDelete"})
    world = cluster.world(cr, [cluster.pod("w-0", hash_="old")], cluster.slurm(cluster.node("w-0")))
    assert [*of_type(plan_nodeset(world), Drain), *of_type(plan_nodeset(world), Delete)] == []
