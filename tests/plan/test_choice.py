"""Which workers go: a choice that was made is kept, and none is made without Slurm's word."""

from __future__ import annotations

from dataclasses import replace

from tests.plan.small_cluster import OURS, Cluster, of_type

from slurm_operator.build import labels, revision
from slurm_operator.plan.actions import Delete, Drain, PatchMetadata, Undrain
from slurm_operator.plan.choice import outdated
from slurm_operator.plan.leaving import PLACEMENT, SCALE_IN
from slurm_operator.plan.nodeset import plan_nodeset


def test_a_choice_is_kept_though_another_would_be_made_today(cluster: Cluster) -> None:
    pods = [cluster.pod("w-0", annotations={labels.CONDEMNED: SCALE_IN}), cluster.pod("w-1")]
    slurm = cluster.slurm(cluster.node("w-0"), cluster.node("w-1"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), pods, slurm))
    assert [action.nodes for action in of_type(plan, Drain)] == [("w-0",)]


def test_scaling_out_again_takes_a_choice_back_and_undrains(cluster: Cluster) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1", annotations={labels.CONDEMNED: SCALE_IN})]
    slurm = cluster.slurm(cluster.node("w-0"), cluster.node("w-1", "MIXED", "DRAIN", reason=f"{OURS}scale-in"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=2), pods, slurm))
    assert [action.nodes for action in of_type(plan, Undrain)] == [("w-1",)]
    assert [dict(action.annotations) for action in of_type(plan, PatchMetadata)] == [{labels.CONDEMNED: None}]


def test_of_two_workers_on_one_node_the_better_one_stays(cluster: Cluster) -> None:
    pods = [
        cluster.pod("w-good", host="k1"),
        cluster.pod("w-bad", host="k1", ready=False, phase="Pending"),
    ]
    cr = cluster.nodeset(scalingMode="DaemonSet")
    plan = plan_nodeset(cluster.world(cr, pods, cluster.slurm(cluster.node("k1", "IDLE", "DRAIN", reason=f"{OURS}x"))))
    assert "w-good" not in [action.name for action in of_type(plan, Delete)]


def test_nobody_new_is_chosen_while_slurm_cannot_be_asked(cluster: Cluster) -> None:
    chosen = cluster.pod("w-0", annotations={labels.CONDEMNED: SCALE_IN})
    world = cluster.world(cluster.nodeset(replicas=0), [chosen, cluster.pod("w-1")], cluster.blind())
    assert list(world.choice.leaving) == ["w-0"]


def test_a_worker_that_stays_has_no_reason_to_go(cluster: Cluster) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1", annotations={labels.CONDEMNED: SCALE_IN})]
    world = cluster.world(cluster.nodeset(replicas=1), pods, cluster.slurm())
    assert [world.choice.why(worker) for worker in world.unsettled] == ["", SCALE_IN]


def test_workers_of_the_other_mode_go(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(replicas=1), [cluster.pod("w-0")], cluster.slurm(cluster.node("w-0")))
    assert not world.choice.leaving
    other = cluster.pod("w-0")
    other.metadata.labels[labels.SCALING_MODE] = "DaemonSet"
    again = cluster.world(cluster.nodeset(replicas=1), [other], cluster.slurm(cluster.node("w-0")))
    assert [why for _, why in again.choice.leaving.values()] == [PLACEMENT]


def test_files_that_changed_make_a_worker_old_unless_another_program_made_it(cluster: Cluster) -> None:
    ssh = {"enabled": True, "sssdConfRef": {"name": "sssd", "key": "conf"}}
    cr = cluster.nodeset(replicas=1, ssh=ssh)
    hash_ = revision.hash_of(cr)
    changed = {labels.SSHD_CONF_HASH: "old", labels.SLURM_KEY_HASH: "key"}
    old = cluster.pod("w-0", hash_=hash_, annotations=changed)
    foreign = cluster.pod("w-1", hash_=hash_, annotations={labels.SSHD_CONF_HASH: "old"})
    world = cluster.world(cr, [old, foreign], cluster.slurm())
    world = replace(world, refs=replace(world.refs, secrets={"sssd": {"conf": b"x"}}))
    assert [worker.name for worker in outdated(world, world.unsettled)] == ["w-0"]
