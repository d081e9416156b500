"""Who may go now: the plan of a NodeSet never lets a worker go without Slurm's own word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.plan.small_cluster import OURS, Cluster, of_type

from kube_runtime.client import objects
from slurm_operator.build import labels
from slurm_operator.plan.actions import Create, Delete, DeleteNodes, Drain, PatchMetadata, Plan, Undrain
from slurm_operator.plan.duplicates import Rival
from slurm_operator.plan.leaving import SCALE_IN, UPDATE
from slurm_operator.plan.nodeset import MAX_PODS_AT_ONCE, finalizer_removal, kept_by_slurm, plan_nodeset
from slurm_operator.plan.workers import READ_ONCE
from slurm_operator.slurm.model import Node


def pods_created(plan: Plan) -> list[str]:
    """The names of the pods that a plan makes."""
    return [each.desired["metadata"]["name"] for each in of_type(plan, Create) if each.desired["kind"] == "Pod"]


# Creation


def test_missing_workers_are_made_on_the_lowest_free_ordinals(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(replicas=4), [cluster.pod("w-1")], cluster.slurm(cluster.node("w-1")))
    assert pods_created(plan_nodeset(world)) == ["w-0", "w-2", "w-3"]


def test_workers_are_made_while_slurm_cannot_be_asked(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(replicas=2), (), cluster.blind())
    assert pods_created(plan_nodeset(world)) == ["w-0", "w-1"]


def test_a_worker_that_is_being_deleted_keeps_its_ordinal_until_it_is_gone(cluster: Cluster) -> None:
    pods = [cluster.pod("w-0", terminating=True), cluster.pod("w-1")]
    world = cluster.world(cluster.nodeset(replicas=2), pods, cluster.slurm(cluster.node("w-1")))
    assert pods_created(plan_nodeset(world)) == []


def test_claims_come_before_the_pods_that_use_them(cluster: Cluster) -> None:
    claim = {"metadata": {"name": "scratch"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1, volumeClaimTemplates=[claim])))
    kinds = [action.desired["kind"] for action in plan.actions if isinstance(action, Create)]
    assert kinds == ["PersistentVolumeClaim", "Pod"]


def test_a_claim_that_is_there_is_not_made_again(cluster: Cluster) -> None:
    claim = {"metadata": {"name": "scratch"}, "spec": {}}
    world = cluster.world(cluster.nodeset(replicas=1, volumeClaimTemplates=[claim]), claims=frozenset({"scratch-w-0"}))
    assert [each.desired["kind"] for each in of_type(plan_nodeset(world), Create)] == ["Pod"]


def test_a_stale_record_is_deleted_before_its_successor_registers(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", "NOT_RESPONDING"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), (), slurm))
    assert [action.nodes for action in of_type(plan, DeleteNodes)] == [("w-0",)]


def test_a_record_in_a_reservation_keeps_no_worker_from_being_made(cluster: Cluster) -> None:
    """Slurm refuses to delete it, and would refuse at every try."""
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", "MAINTENANCE", "RESERVED"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), (), slurm))
    assert of_type(plan, DeleteNodes) == []
    assert pods_created(plan) == ["w-0"]


def test_the_record_of_a_node_with_a_job_is_left_alone(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", "NOT_RESPONDING"), jobs=[cluster.job(1, "w-0")])
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), (), slurm))
    assert of_type(plan, DeleteNodes) == []
    assert pods_created(plan) == ["w-0"]


# Marks


def test_a_busy_worker_is_protected_and_an_idle_one_is_not(cluster: Cluster) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1")]
    slurm = cluster.slurm(cluster.node("w-0", "ALLOCATED"), cluster.node("w-1"), jobs=[cluster.job(1, "w-0")])
    patches = of_type(plan_nodeset(cluster.world(cluster.nodeset(replicas=2), pods, slurm)), PatchMetadata)
    assert [(patch.name, dict(patch.labels)) for patch in patches] == [("w-0", {labels.POD_PROTECT: "true"})]


def test_protection_stays_while_nobody_can_say_whether_it_is_busy(cluster: Cluster) -> None:
    pod = cluster.pod("w-0", annotations={labels.POD_DEADLINE: "2030-01-01T13:00:00Z"})
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [pod], cluster.blind()))
    assert of_type(plan, PatchMetadata) == []


def test_a_deadline_is_written_once_and_taken_away_when_idle(cluster: Cluster) -> None:
    start = int(cluster.now.timestamp())
    busy = cluster.slurm(cluster.node("w-0", "MIXED"), jobs=[cluster.job(1, "w-0", start_time=start, time_limit=60)])
    pod = cluster.pod("w-0")
    patches = of_type(plan_nodeset(cluster.world(cluster.nodeset(), [pod], busy)), PatchMetadata)
    assert patches[0].annotations[labels.POD_DEADLINE] == "2030-01-01T13:00:00Z"
    marked = cluster.pod("w-0", annotations={labels.POD_DEADLINE: "2030-01-01T13:00:00Z"})
    idle = cluster.world(cluster.nodeset(), [marked], cluster.slurm(cluster.node("w-0")))
    assert of_type(plan_nodeset(idle), PatchMetadata)[0].annotations == {labels.POD_DEADLINE: None}


def test_a_settled_world_needs_nothing(cluster: Cluster) -> None:
    pod = cluster.pod("w-0", states=["Idle"])
    world = cluster.world(cluster.nodeset(), [pod], cluster.slurm(cluster.node("w-0")))
    plan = plan_nodeset(world)
    assert [action for action in plan.actions if type(action).__name__ != "Apply"] == []
    assert plan.requeue_after == 5.0


def test_without_slurm_it_looks_again_often_only_while_somebody_is_to_go(cluster: Cluster) -> None:
    cr = cluster.nodeset(replicas=1)
    staying = cluster.world(cr, [cluster.pod("w-0")], cluster.blind())
    assert plan_nodeset(staying).requeue_after == 5.0
    condemned = cluster.pod("w-1", annotations={labels.CONDEMNED: "scale-in"})
    assert plan_nodeset(cluster.world(cr, [cluster.pod("w-0"), condemned], cluster.blind())).requeue_after == 1.0


def test_a_ready_worker_that_slurm_does_not_know_is_made_anew(cluster: Cluster) -> None:
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], cluster.slurm()))
    assert [action.name for action in of_type(plan, Delete)] == ["w-0"]


@pytest.mark.parametrize("answer", ["blind", "half"])
def test_a_ready_worker_stays_when_slurm_has_not_said_that_it_is_unknown(cluster: Cluster, answer: str) -> None:
    slurm = cluster.blind() if answer == "blind" else cluster.slurm(complete=False)
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm))
    assert of_type(plan, Delete) == []


@pytest.mark.parametrize(
    ("slurm", "goes"),
    [
        pytest.param(("DOWN", ()), True, id="no job holds its node: it goes"),
        pytest.param(("DOWN", (1,)), False, id="a job still holds its node: it waits"),
    ],
)
def test_a_failed_pod_goes_once_its_jobs_are_dealt_with(
    cluster: Cluster, slurm: tuple[str, tuple[int, ...]], goes: bool
) -> None:
    word = cluster.slurm(cluster.node("w-0", slurm[0]), jobs=[cluster.job(each, "w-0") for each in slurm[1]])
    pod = cluster.pod("w-0", phase="Failed", ready=False)
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [pod], word))
    assert bool(of_type(plan, Delete)) is goes


# Deletion


def test_a_deleted_nodeset_drains_first(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "MIXED"), jobs=[cluster.job(1, "w-0", partition="w")])
    world = cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm, deleting=True)
    plan = plan_nodeset(world)
    assert [action.nodes for action in of_type(plan, Drain)] == [("w-0",)]
    assert of_type(plan, Delete) == []
    assert pods_created(plan) == []
    assert finalizer_removal(world) is None


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUSPENDED", "COMPLETING"])
def test_a_deleted_nodeset_waits_for_a_job_of_its_partition_that_has_not_ended(cluster: Cluster, state: str) -> None:
    slurm = cluster.slurm(jobs=[cluster.job(4, state=state, partition="w,other")])
    world = cluster.world(cluster.nodeset(), (), slurm, deleting=True)
    assert "4" in str(kept_by_slurm(world))
    assert finalizer_removal(world) is None


def test_a_deleted_nodeset_says_which_jobs_can_never_run_and_what_helps(cluster: Cluster) -> None:
    waits = cluster.job(33, state="PENDING", partition="w")
    slurm = cluster.slurm(
        jobs=[waits, cluster.job(4, "w-0", partition="w"), cluster.job(35, state="PENDING", partition="w,x")]
    )
    said = str(kept_by_slurm(cluster.world(cluster.nodeset(), (), slurm, deleting=True)))
    assert said == (
        "jobs are in partition w: 4, 35; 1 job waits in partition w and can never run there: 33; move each to another "
        "partition (scontrol update jobid=33 partition=..., again while Slurm says that a resource is temporarily "
        "unavailable) or cancel it (scancel 33)"
    )


def test_a_deleted_nodeset_whose_slurm_was_read_once_does_not_say_that_the_jobs_are_not_available(
    cluster: Cluster,
) -> None:
    slurm = replace(cluster.slurm(), jobs_before=READ_ONCE)
    world = cluster.world(cluster.nodeset(), (), slurm, deleting=True)
    assert kept_by_slurm(world) == (
        "Slurm's jobs and nodes have been read once; they are read again before anything is removed"
    )
    assert finalizer_removal(world) is None


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "TIMEOUT", "NODE_FAIL"])
def test_a_deleted_nodeset_does_not_wait_for_a_job_that_slurm_only_remembers(cluster: Cluster, state: str) -> None:
    slurm = cluster.slurm(jobs=[cluster.job(4, state=state, partition="w")])
    world = cluster.world(cluster.nodeset(), (), slurm, deleting=True)
    assert kept_by_slurm(world) is None
    assert finalizer_removal(world) is not None


@pytest.mark.parametrize("stays", [True, False], ids=["one that stays", "one that is being deleted too"])
def test_a_deleted_nodeset_leaves_the_partition_to_another_of_its_name(cluster: Cluster, stays: bool) -> None:
    other = cluster.nodeset(template={"spec": {"hostname": "w-"}})
    gone = "" if stays else "2030-01-01T11:59:00Z"
    other = msgspec.structs.replace(
        other, metadata=msgspec.structs.replace(other.metadata, name="twin", uid="twin", deletion_timestamp=gone)
    )
    slurm = cluster.slurm(jobs=[cluster.job(4, state="PENDING", partition="w")])
    world = cluster.world(cluster.nodeset(), (), slurm, deleting=True, rivals=(Rival(other),))
    assert (finalizer_removal(world) is not None) is stays


def test_a_deleted_nodeset_is_let_go_when_nothing_is_left(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(), (), cluster.slurm(), deleting=True)
    patch = finalizer_removal(world)
    assert patch is not None
    assert patch.finalizers == ()
    assert patch.resource_version == "7"


@pytest.mark.parametrize("forced", [False, True], ids=["waits", "forced by annotation"])
def test_a_deleted_nodeset_waits_for_slurms_word_unless_forced(cluster: Cluster, forced: bool) -> None:
    annotations = {labels.FORCE_DELETE: "true"} if forced else {}
    world = cluster.world(cluster.nodeset(annotations=annotations), (), cluster.blind(), deleting=True)
    assert (finalizer_removal(world) is not None) is forced


@pytest.mark.parametrize(
    ("policy", "why", "owner"),
    [
        pytest.param({"whenScaled": "Delete"}, SCALE_IN, ["Pod"], id="scaled in: the claim goes with the pod"),
        pytest.param({"whenScaled": "Delete"}, UPDATE, [], id="updated: the claim stays"),
        pytest.param({"whenDeleted": "Delete"}, SCALE_IN, ["NodeSet"], id="only the NodeSet takes it along"),
        pytest.param({}, SCALE_IN, [], id="retained"),
    ],
)
def test_a_claim_dies_only_with_a_real_scale_in(
    cluster: Cluster, policy: dict[str, str], why: str, owner: list[str]
) -> None:
    template = {"metadata": {"name": "scratch"}, "spec": {}}
    cr = cluster.nodeset(
        replicas=0 if why == SCALE_IN else 1,
        volumeClaimTemplates=[template],
        persistentVolumeClaimRetentionPolicy=policy,
    )
    pod = cluster.pod("w-0", hash_="old", annotations={labels.CONDEMNED: why})
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason=f"{OURS}x"))
    earlier = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "name": "w", "uid": "left-over"}
    made_for = labels.selector(labels.WORKER, "w")
    raw = {"metadata": {"uid": "c", "resourceVersion": "1", "labels": made_for, "ownerReferences": [earlier]}}
    claim = objects.decode_hook(objects.RawObject, raw)
    live = {("v1", "PersistentVolumeClaim", "ns", "scratch-w-0"): claim}
    plan = plan_nodeset(cluster.world(cr, [pod], slurm, live=live, claims=frozenset({"scratch-w-0"})))
    patches = [each for each in of_type(plan, PatchMetadata) if each.kind == "PersistentVolumeClaim"]
    assert [[reference["kind"] for reference in patch.owners or ()] for patch in patches] == [owner]


@pytest.mark.parametrize(
    ("minutes", "shown"),
    [
        pytest.param(2982616 * 1440, "9999-12-31T23:59:59Z", id="eight thousand years"),
        pytest.param(2**63 - 1, "9999-12-31T23:59:59Z", id="the largest number that is read"),
        pytest.param(60, "2030-01-01T13:00:00Z", id="an hour"),
    ],
)
def test_a_deadline_that_no_calendar_has_is_written_as_no_end(cluster: Cluster, minutes: int, shown: str) -> None:
    """T2: `sbatch -t 2982616-00:00:00` stopped every reconcile of its NodeSet."""
    job = cluster.job(1, "w-0", start_time=int(cluster.now.timestamp()), time_limit=minutes)
    slurm = cluster.slurm(cluster.node("w-0", "MIXED"), jobs=[job])
    world = cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm)
    patches = of_type(plan_nodeset(world), PatchMetadata)
    assert patches[0].annotations[labels.POD_DEADLINE] == shown


def test_ten_thousand_workers_are_created_in_steps_so_that_each_reconcile_ends(cluster: Cluster) -> None:
    made = pods_created(plan_nodeset(cluster.world(cluster.nodeset(replicas=10_000), (), cluster.slurm())))
    assert made == [f"w-{number}" for number in range(MAX_PODS_AT_ONCE)]
    there = [cluster.pod(name) for name in made]
    made = pods_created(plan_nodeset(cluster.world(cluster.nodeset(replicas=10_000), there, cluster.slurm())))
    assert made == [f"w-{number}" for number in range(MAX_PODS_AT_ONCE, 2 * MAX_PODS_AT_ONCE)]


def test_a_large_deletion_is_one_drain_and_marks_nobody(cluster: Cluster) -> None:
    names = [f"w-{number}" for number in range(3000)]
    slurm = cluster.slurm(*(cluster.node(name) for name in names))
    pods = [cluster.pod(name) for name in names]
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=3000), pods, slurm, deleting=True))
    assert not of_type(plan, PatchMetadata)
    (drain,) = of_type(plan, Drain)
    assert len(drain.nodes) == 3000


def test_a_large_update_is_one_drain_and_other_marks_are_written_in_steps(cluster: Cluster) -> None:
    names = [f"w-{number}" for number in range(3000)]
    # Each has a deadline to lose, too.
    pods = [cluster.pod(name, hash_="old", annotations={labels.POD_DEADLINE: "2030-01-01T13:00:00Z"}) for name in names]
    slurm = cluster.slurm(*(cluster.node(name) for name in names))
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=3000, updateStrategy=strategy), pods, slurm))
    patches = of_type(plan, PatchMetadata)
    (drain,) = of_type(plan, Drain)
    assert (len(patches), len(drain.nodes)) == (MAX_PODS_AT_ONCE, 3000)
    assert not any(labels.CONDEMNED in each.annotations for each in patches)


def test_a_large_scale_in_of_busy_workers_is_drained_at_once_and_marked_in_steps(cluster: Cluster) -> None:
    names = [f"w-{number}" for number in range(3000)]
    slurm = cluster.slurm(*(cluster.node(name, "MIXED") for name in names))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=0), [cluster.pod(name) for name in names], slurm))
    (drain,) = of_type(plan, Drain)
    assert (len(drain.nodes), len(of_type(plan, PatchMetadata))) == (3000, MAX_PODS_AT_ONCE)


FOREIGN_DRAIN = {"states": ("IDLE", "DRAIN"), "reason": "a person's"}


@pytest.mark.parametrize(
    ("node", "is_marked", "is_drained"),
    [
        pytest.param({"states": ("IDLE",)}, False, True, id="idle: the drain says it"),
        pytest.param({"states": ("MIXED",)}, True, True, id="busy: it waits, perhaps for days"),
        pytest.param(FOREIGN_DRAIN, True, False, id="drained by a person: that reason stays"),
        pytest.param({"states": ("DOWN",), "reason": "disk"}, True, False, id="down for a person's reason"),
        pytest.param(None, True, False, id="without a record"),
    ],
)
def test_a_choice_is_written_down_in_one_place(
    cluster: Cluster, node: dict[str, Any] | None, is_marked: bool, is_drained: bool
) -> None:
    """By one drain for many workers; on the pod where no drain can say it, or where it has to last."""
    states = () if node is None else node["states"]
    listed = [] if node is None else [cluster.node("w-0", *states, reason=node.get("reason", ""))]
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0")], cluster.slurm(*listed)))
    marked = [each for each in of_type(plan, PatchMetadata) if each.annotations.get(labels.CONDEMNED) == SCALE_IN]
    assert (bool(marked), bool(of_type(plan, Drain))) == (is_marked, is_drained)


def drained_for(cluster: Cluster, name: str, why: str, nodeset: str = "ns/w") -> Node:
    reason = f"{OURS}Pod of NodeSet ({nodeset}) is pending termination for {why}"
    return cluster.node(name, "IDLE", "DRAIN", reason=reason)


def test_a_choice_that_a_drain_keeps_is_kept(cluster: Cluster) -> None:
    """By the numbers, w-1 would go first."""
    pods, slurm = [cluster.pod("w-0"), cluster.pod("w-1")], (drained_for(cluster, "w-0", SCALE_IN), cluster.node("w-1"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), pods, cluster.slurm(*slurm)))
    assert [each.name for each in of_type(plan, Delete)] == ["w-0"]
    assert not of_type(plan, Drain)
    assert not of_type(plan, PatchMetadata)


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(("w-0", SCALE_IN, "ns/other"), id="another NodeSet's worker had this record"),
        pytest.param(("w-0", "key rotation", "ns/w"), id="a rotation writes down more than its choice"),
        pytest.param(("w-0", "fun", "ns/w"), id="no reason of ours"),
    ],
)
def test_a_drain_that_says_no_choice_of_this_nodeset_keeps_none(cluster: Cluster, node: tuple[str, str, str]) -> None:
    pods, slurm = [cluster.pod("w-0"), cluster.pod("w-1")], (drained_for(cluster, *node), cluster.node("w-1"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), pods, cluster.slurm(*slurm)))
    assert [each.nodes for each in of_type(plan, Drain)] == [("w-1",)]
    assert [each.nodes for each in of_type(plan, Undrain)] == [("w-0",)]


def test_a_scale_in_that_is_taken_back_undrains_and_writes_no_pod(cluster: Cluster) -> None:
    pods, slurm = [cluster.pod("w-0"), cluster.pod("w-1")], (cluster.node("w-0"), drained_for(cluster, "w-1", SCALE_IN))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=2), pods, cluster.slurm(*slurm)))
    assert [each.nodes for each in of_type(plan, Undrain)] == [("w-1",)]
    assert not of_type(plan, PatchMetadata)


def test_a_worker_that_fails_during_a_scale_in_is_replaced_at_once(cluster: Cluster) -> None:
    """Those that are going hold numbers of their own, and nobody is made in their place."""
    going = [cluster.pod(f"w-{number}", terminating=True) for number in (3, 4, 5)]
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=3), [cluster.pod("w-0"), cluster.pod("w-2"), *going]))
    assert pods_created(plan) == ["w-1"]
