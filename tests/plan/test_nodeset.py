"""Who may go now: the plan of a NodeSet never lets a worker go without Slurm's own word."""

from __future__ import annotations

from typing import Any

import pytest

from kube_runtime.client import objects
from slurm_operator.build import labels, nodeset
from slurm_operator.plan.actions import Create, Delete, DeleteNode, Drain, PatchMetadata, Undrain, UpdateNode
from slurm_operator.plan.nodeset import plan_nodeset, release, still_named
from slurm_operator.plan.registration import read_pod_info
from slurm_operator.plan.workers import SCALE_IN, UPDATE, workers

OURS = "slurm-operator: "


def pods_created(plan: Any, of_type: Any) -> list[str]:
    """The names of the pods that a plan makes."""
    return [each.desired["metadata"]["name"] for each in of_type(plan, Create) if each.desired["kind"] == "Pod"]


# Creation


def test_missing_workers_are_made_on_the_lowest_free_ordinals(cluster: Any, of_type: Any) -> None:
    world = cluster.world(cluster.nodeset(replicas=4), [cluster.pod("w-1")], cluster.slurm(cluster.node("w-1")))
    assert pods_created(plan_nodeset(world), of_type) == ["w-0", "w-2", "w-3"]


def test_workers_are_made_while_slurm_cannot_be_asked(cluster: Any, of_type: Any) -> None:
    world = cluster.world(cluster.nodeset(replicas=2), (), cluster.blind())
    assert pods_created(plan_nodeset(world), of_type) == ["w-0", "w-1"]


def test_a_worker_that_is_being_deleted_keeps_its_ordinal_until_it_is_gone(cluster: Any, of_type: Any) -> None:
    pods = [cluster.pod("w-0", terminating=True), cluster.pod("w-1")]
    world = cluster.world(cluster.nodeset(replicas=2), pods, cluster.slurm(cluster.node("w-1")))
    assert pods_created(plan_nodeset(world), of_type) == []


def test_claims_come_before_the_pods_that_use_them(cluster: Any) -> None:
    claim = {"metadata": {"name": "scratch"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1, volumeClaimTemplates=[claim])))
    kinds = [action.desired["kind"] for action in plan.actions if isinstance(action, Create)]
    assert kinds == ["PersistentVolumeClaim", "Pod"]


def test_a_claim_that_is_there_is_not_made_again(cluster: Any, of_type: Any) -> None:
    claim = {"metadata": {"name": "scratch"}, "spec": {}}
    world = cluster.world(cluster.nodeset(replicas=1, volumeClaimTemplates=[claim]), claims=frozenset({"scratch-w-0"}))
    assert [each.desired["kind"] for each in of_type(plan_nodeset(world), Create)] == ["Pod"]


def test_a_stale_record_is_deleted_before_its_successor_registers(cluster: Any, of_type: Any) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", "NOT_RESPONDING"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), (), slurm))
    assert [action.node for action in of_type(plan, DeleteNode)] == ["w-0"]


def test_the_record_of_a_node_with_a_job_is_left_alone(cluster: Any, of_type: Any) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", "NOT_RESPONDING"), jobs=[cluster.job(1, "w-0")])
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), (), slurm))
    assert of_type(plan, DeleteNode) == []
    assert pods_created(plan, of_type) == ["w-0"]


# Scale-in


@pytest.mark.parametrize(
    ("states", "jobs", "goes"),
    [
        pytest.param(("IDLE", "DRAIN"), (), True, id="drained and idle: it goes"),
        pytest.param(("MIXED", "DRAIN"), (), False, id="draining with work: it waits"),
        pytest.param(("IDLE",), (), False, id="idle but not drained: it is drained first"),
        pytest.param(("IDLE", "DRAIN", "COMPLETING"), (), False, id="a job is completing: it waits"),
        pytest.param(("IDLE", "DRAIN"), ("SUSPENDED",), False, id="a suspended job holds it: it waits"),
        pytest.param(("SOMETHING_NEW", "DRAIN"), (), False, id="a state never heard of: it waits"),
        pytest.param(("DOWN", "DRAIN"), (), True, id="down, drained, no job: it goes"),
    ],
)
def test_a_surplus_worker_goes_only_when_slurm_says_so(
    cluster: Any, of_type: Any, states: tuple[str, ...], jobs: tuple[str, ...], goes: bool
) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1")]
    slurm = cluster.slurm(
        cluster.node("w-0"),
        cluster.node("w-1", *states, reason=f"{OURS}x" if "DRAIN" in states else ""),
        jobs=[cluster.job(1, "w-1", state=state) for state in jobs],
    )
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), pods, slurm))
    assert [action.name for action in of_type(plan, Delete)] == (["w-1"] if goes else [])


def test_nothing_goes_while_slurm_cannot_be_asked(cluster: Any, of_type: Any) -> None:
    pods = [cluster.pod(f"w-{number}") for number in range(3)]
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=0), pods, cluster.blind()))
    assert of_type(plan, Delete) == []


def test_a_node_missing_from_half_an_answer_is_not_gone(cluster: Any, of_type: Any) -> None:
    world = cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0")], cluster.slurm(complete=False))
    assert of_type(plan_nodeset(world), Delete) == []


def test_a_worker_without_a_record_in_a_whole_answer_may_go(cluster: Any, of_type: Any) -> None:
    world = cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0")], cluster.slurm())
    assert [action.uid for action in of_type(plan_nodeset(world), Delete)] == ["uid-w-0"]


def test_unknown_jobs_keep_a_drained_worker(cluster: Any, of_type: Any) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason=f"{OURS}x"))
    half = type(slurm)(slurm.nodes, cluster.blind().jobs)
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0")], half))
    assert of_type(plan, Delete) == []


def test_a_choice_is_kept_though_another_would_be_made_today(cluster: Any, of_type: Any) -> None:
    pods = [cluster.pod("w-0", annotations={labels.CONDEMNED: SCALE_IN}), cluster.pod("w-1")]
    slurm = cluster.slurm(cluster.node("w-0"), cluster.node("w-1"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), pods, slurm))
    assert [action.nodes for action in of_type(plan, Drain)] == [("w-0",)]


def test_scaling_out_again_takes_a_choice_back_and_undrains(cluster: Any, of_type: Any) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1", annotations={labels.CONDEMNED: SCALE_IN})]
    slurm = cluster.slurm(cluster.node("w-0"), cluster.node("w-1", "MIXED", "DRAIN", reason=f"{OURS}scale-in"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=2), pods, slurm))
    assert [action.nodes for action in of_type(plan, Undrain)] == [("w-1",)]
    assert [dict(action.annotations) for action in of_type(plan, PatchMetadata)] == [{labels.CONDEMNED: None}]


@pytest.mark.parametrize(
    ("one", "other", "first"),
    [
        pytest.param({"node": ""}, {}, "w-0", id="unassigned before assigned"),
        pytest.param({"phase": "Pending", "ready": False}, {}, "w-0", id="pending before running"),
        pytest.param({"ready": False}, {}, "w-0", id="not ready before ready"),
        pytest.param({"annotations": {labels.POD_DELETION_COST: "-5"}}, {}, "w-0", id="lower cost first"),
        pytest.param({"annotations": {labels.POD_DELETION_COST: "+1"}}, {}, "w-1", id="an invalid cost is none"),
        pytest.param({"annotations": {labels.POD_CORDON: "true"}}, {}, "w-0", id="cordoned before not"),
        pytest.param({}, {}, "w-1", id="higher ordinal first"),
    ],
)
def test_the_documented_deletion_order(
    cluster: Any, of_type: Any, one: dict[str, Any], other: dict[str, Any], first: str
) -> None:
    pods = [cluster.pod("w-0", **one), cluster.pod("w-1", **other)]
    drained = [cluster.node(name, "IDLE", "DRAIN", reason=f"{OURS}x") for name in ("w-0", "w-1")]
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), pods, cluster.slurm(*drained)))
    assert [action.name for action in of_type(plan, Delete)] == [first]


def test_the_worker_whose_jobs_end_first_goes_first(cluster: Any, of_type: Any) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1")]
    slurm = cluster.slurm(
        cluster.node("w-0", "MIXED"),
        cluster.node("w-1", "MIXED"),
        jobs=[
            cluster.job(1, "w-0", start_time=0, time_limit=10),
            cluster.job(2, "w-1", start_time=0, time_limit=600),
        ],
    )
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), pods, slurm))
    assert [action.nodes for action in of_type(plan, Drain)] == [("w-0",)]


# Cordon and drain


def test_a_cordoned_kubernetes_node_drains_its_slurm_node_with_the_given_reason(cluster: Any, of_type: Any) -> None:
    kube = cluster.kube_node(metadata={"annotations": {labels.NODE_CORDON_REASON: "swap\nthe fan"}}, unschedulable=True)
    world = cluster.world(cluster.nodeset(), [cluster.pod("w-0")], cluster.slurm(cluster.node("w-0")), [kube])
    assert [action.reason for action in of_type(plan_nodeset(world), Drain)] == ["swap the fan"]


@pytest.mark.parametrize("key", [labels.POD_CORDON, labels.OLD_POD_CORDON], ids=["new key", "old key"])
def test_a_users_pod_cordon_drains_and_stays(cluster: Any, of_type: Any, key: str) -> None:
    pod = cluster.pod("w-0", annotations={key: "true"})
    world = cluster.world(cluster.nodeset(), [pod], cluster.slurm(cluster.node("w-0")))
    plan = plan_nodeset(world)
    assert [action.nodes for action in of_type(plan, Drain)] == [("w-0",)]
    assert of_type(plan, PatchMetadata) == []
    drained = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason=f"{OURS}Pod (ns/w-0) was cordoned"))
    again = plan_nodeset(cluster.world(cluster.nodeset(), [pod], drained))
    assert [*of_type(again, Drain), *of_type(again, Undrain), *of_type(again, Delete)] == []


def test_a_drain_of_ours_is_lifted_when_its_cause_is_gone(cluster: Any, of_type: Any) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason=f"{OURS}Pod (ns/w-0) was cordoned"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm))
    assert [action.nodes for action in of_type(plan, Undrain)] == [("w-0",)]


def test_a_drain_of_an_admin_is_never_touched(cluster: Any, of_type: Any) -> None:
    kube = cluster.kube_node(unschedulable=True)
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason="bad memory"))
    for nodes in ([kube], [cluster.kube_node()]):
        plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm, nodes))
        assert [*of_type(plan, Drain), *of_type(plan, Undrain), *of_type(plan, UpdateNode)] == []


def test_a_reason_of_an_admin_on_a_node_that_is_not_drained_is_not_overwritten(cluster: Any, of_type: Any) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", reason="bad memory"))
    world = cluster.world(cluster.nodeset(replicas=0), [cluster.pod("w-0")], slurm)
    assert of_type(plan_nodeset(world), Drain) == []


def test_many_nodes_are_drained_in_one_call(cluster: Any, of_type: Any) -> None:
    kube = cluster.kube_node(metadata={"annotations": {labels.NODE_CORDON_REASON: "x"}}, unschedulable=True)
    pods = [cluster.pod(f"w-{number}") for number in range(3)]
    slurm = cluster.slurm(*(cluster.node(f"w-{number}") for number in range(3)))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=3), pods, slurm, [kube]))
    assert [action.nodes for action in of_type(plan, Drain)] == [("w-0", "w-1", "w-2")]


# Marks


def test_a_busy_worker_is_protected_and_an_idle_one_is_not(cluster: Any, of_type: Any) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1")]
    slurm = cluster.slurm(cluster.node("w-0", "ALLOCATED"), cluster.node("w-1"), jobs=[cluster.job(1, "w-0")])
    patches = of_type(plan_nodeset(cluster.world(cluster.nodeset(replicas=2), pods, slurm)), PatchMetadata)
    assert [(patch.name, dict(patch.labels)) for patch in patches] == [("w-0", {labels.POD_PROTECT: "true"})]


def test_protection_stays_while_nobody_can_say_whether_it_is_busy(cluster: Any, of_type: Any) -> None:
    pod = cluster.pod("w-0", annotations={labels.POD_DEADLINE: "2030-01-01T13:00:00Z"})
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [pod], cluster.blind()))
    assert of_type(plan, PatchMetadata) == []


def test_a_deadline_is_written_once_and_taken_away_when_idle(cluster: Any, of_type: Any) -> None:
    start = int(cluster.now.timestamp())
    busy = cluster.slurm(cluster.node("w-0", "MIXED"), jobs=[cluster.job(1, "w-0", start_time=start, time_limit=60)])
    pod = cluster.pod("w-0")
    patches = of_type(plan_nodeset(cluster.world(cluster.nodeset(), [pod], busy)), PatchMetadata)
    assert patches[0].annotations[labels.POD_DEADLINE] == "2030-01-01T13:00:00Z"
    marked = cluster.pod("w-0", annotations={labels.POD_DEADLINE: "2030-01-01T13:00:00Z"})
    idle = cluster.world(cluster.nodeset(), [marked], cluster.slurm(cluster.node("w-0")))
    assert of_type(plan_nodeset(idle), PatchMetadata)[0].annotations == {labels.POD_DEADLINE: None}


def test_a_settled_world_needs_nothing(cluster: Any, of_type: Any) -> None:
    pod = cluster.pod("w-0", states=["Idle"])
    world = cluster.world(cluster.nodeset(), [pod], cluster.slurm(cluster.node("w-0")))
    plan = plan_nodeset(world)
    assert [action for action in plan.actions if type(action).__name__ != "Apply"] == []
    assert plan.requeue_after == 5.0


def test_without_slurm_it_looks_again_often_only_while_somebody_is_to_go(cluster: Any) -> None:
    cr = cluster.nodeset(replicas=1)
    staying = cluster.world(cr, [cluster.pod("w-0")], cluster.blind())
    assert plan_nodeset(staying).requeue_after == 5.0
    condemned = cluster.pod("w-1", annotations={labels.CONDEMNED: "scale-in"})
    assert plan_nodeset(cluster.world(cr, [cluster.pod("w-0"), condemned], cluster.blind())).requeue_after == 1.0


# Registration


def test_a_node_that_its_own_pod_left_down_is_taken_back(cluster: Any, of_type: Any) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", reason=nodeset.TERMINATING))
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm))
    assert [action.node for action in of_type(plan, UpdateNode)] == ["w-0"]


def test_a_node_that_an_admin_set_down_stays_down(cluster: Any, of_type: Any) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", reason="admin"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm))
    assert of_type(plan, UpdateNode) == []


def test_a_ready_worker_that_slurm_does_not_know_is_made_anew(cluster: Any, of_type: Any) -> None:
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], cluster.slurm()))
    assert [action.name for action in of_type(plan, Delete)] == ["w-0"]


@pytest.mark.parametrize("answer", ["blind", "half"])
def test_a_ready_worker_stays_when_slurm_has_not_said_that_it_is_unknown(
    cluster: Any, of_type: Any, answer: str
) -> None:
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
    cluster: Any, of_type: Any, slurm: tuple[str, tuple[int, ...]], goes: bool
) -> None:
    word = cluster.slurm(cluster.node("w-0", slurm[0]), jobs=[cluster.job(each, "w-0") for each in slurm[1]])
    pod = cluster.pod("w-0", phase="Failed", ready=False)
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [pod], word))
    assert bool(of_type(plan, Delete)) is goes


# Update


def test_an_update_drains_no_more_than_may_be_missing(cluster: Any, of_type: Any) -> None:
    pods = [cluster.pod(f"w-{number}", hash_="old") for number in range(8)]
    slurm = cluster.slurm(*(cluster.node(f"w-{number}") for number in range(8)))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=8), pods, slurm))
    assert sum(len(action.nodes) for action in of_type(plan, Drain)) == 2


def test_missing_workers_count_against_the_update(cluster: Any, of_type: Any) -> None:
    pods = [cluster.pod(f"w-{number}", hash_="old") for number in range(6)]
    slurm = cluster.slurm(*(cluster.node(f"w-{number}") for number in range(6)))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=8), pods, slurm))
    assert of_type(plan, Drain) == []


def test_workers_already_chosen_for_the_update_are_counted_and_kept(cluster: Any, of_type: Any) -> None:
    chosen = {labels.CONDEMNED: UPDATE}
    pods = [cluster.pod(f"w-{n}", hash_="old", annotations=chosen if n < 2 else None) for n in range(8)]
    slurm = cluster.slurm(*(cluster.node(f"w-{number}") for number in range(8)))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=8), pods, slurm))
    drained = [name for action in of_type(plan, Drain) for name in action.nodes]
    assert sorted(drained) == ["w-0", "w-1"]


def test_on_delete_waits_for_people(cluster: Any, of_type: Any) -> None:
    cr = cluster.nodeset(replicas=1, updateStrategy={"type": "OnDelete"})
    world = cluster.world(cr, [cluster.pod("w-0", hash_="old")], cluster.slurm(cluster.node("w-0")))
    assert [*of_type(plan_nodeset(world), Drain), *of_type(plan_nodeset(world), Delete)] == []


# DaemonSet mode


def test_each_matching_node_gets_one_worker_named_after_it(cluster: Any, of_type: Any) -> None:
    nodes = [
        cluster.kube_node("a.example.com"),
        cluster.kube_node("b", metadata={"annotations": {labels.HOSTNAME_OVERRIDE: "gpu7"}}),
        cluster.kube_node("tainted", taints=[{"key": "x", "effect": "NoSchedule"}]),
    ]
    plan = plan_nodeset(cluster.world(cluster.nodeset(scalingMode="DaemonSet"), (), cluster.slurm(), nodes))
    made = [each.desired for each in of_type(plan, Create) if each.desired["kind"] == "Pod"]
    assert [pod["spec"]["hostname"] for pod in made] == ["a", "gpu7"]


def test_a_worker_on_a_cordoned_node_stays_and_is_drained(cluster: Any, of_type: Any) -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    node = cluster.kube_node("k1", taints=[taint], unschedulable=True)
    pod = cluster.pod("w-x", node="k1", host="k1", hash_=None)
    cr = cluster.nodeset(scalingMode="DaemonSet")
    plan = plan_nodeset(cluster.world(cr, [pod], cluster.slurm(cluster.node("k1")), [node]))
    assert of_type(plan, Delete) == []
    assert [action.nodes for action in of_type(plan, Drain)] == [("k1",)]


def test_of_two_workers_on_one_node_the_better_one_stays(cluster: Any, of_type: Any) -> None:
    pods = [
        cluster.pod("w-good", host="k1"),
        cluster.pod("w-bad", host="k1", ready=False, phase="Pending"),
    ]
    cr = cluster.nodeset(scalingMode="DaemonSet")
    plan = plan_nodeset(cluster.world(cr, pods, cluster.slurm(cluster.node("k1", "IDLE", "DRAIN", reason=f"{OURS}x"))))
    assert "w-good" not in [action.name for action in of_type(plan, Delete)]


# Deletion


def test_a_deleted_nodeset_drains_first(cluster: Any, of_type: Any) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "MIXED"), jobs=[cluster.job(1, "w-0", partition="w")])
    world = cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm, deleting=True)
    plan = plan_nodeset(world)
    assert [action.nodes for action in of_type(plan, Drain)] == [("w-0",)]
    assert of_type(plan, Delete) == []
    assert pods_created(plan, of_type) == []
    assert release(world) is None


def test_a_deleted_nodeset_stays_in_slurm_conf_while_a_job_record_names_it(cluster: Any) -> None:
    slurm = cluster.slurm(jobs=[cluster.job(4, state="COMPLETED", partition="w")])
    world = cluster.world(cluster.nodeset(), (), slurm, deleting=True)
    assert "4" in str(still_named(world))
    assert release(world) is None


def test_a_deleted_nodeset_is_let_go_when_nothing_is_left(cluster: Any) -> None:
    world = cluster.world(cluster.nodeset(), (), cluster.slurm(), deleting=True)
    patch = release(world)
    assert patch is not None
    assert patch.finalizers == ()
    assert patch.resource_version == "7"


@pytest.mark.parametrize("forced", [False, True], ids=["waits", "forced by annotation"])
def test_a_deleted_nodeset_waits_for_slurms_word_unless_forced(cluster: Any, forced: bool) -> None:
    annotations = {labels.FORCE_DELETE: "true"} if forced else {}
    world = cluster.world(cluster.nodeset(annotations=annotations), (), cluster.blind(), deleting=True)
    assert (release(world) is not None) is forced


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
    cluster: Any, of_type: Any, policy: dict[str, str], why: str, owner: list[str]
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
    assert [[reference["kind"] for reference in patch.owners] for patch in patches] == [owner]


@pytest.mark.parametrize(
    ("minutes", "shown"),
    [
        pytest.param(2982616 * 1440, "9999-12-31T23:59:59Z", id="eight thousand years"),
        pytest.param(2**63 - 1, "9999-12-31T23:59:59Z", id="the largest number that is read"),
        pytest.param(60, "2030-01-01T13:00:00Z", id="an hour"),
    ],
)
def test_a_deadline_that_no_calendar_has_is_written_as_no_end(
    cluster: Any, of_type: Any, minutes: int, shown: str
) -> None:
    """T2: `sbatch -t 2982616-00:00:00` stopped every reconcile of its NodeSet."""
    job = cluster.job(1, "w-0", start_time=int(cluster.now.timestamp()), time_limit=minutes)
    slurm = cluster.slurm(cluster.node("w-0", "MIXED"), jobs=[job])
    world = cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm)
    patches = of_type(plan_nodeset(world), PatchMetadata)
    assert patches[0].annotations[labels.POD_DEADLINE] == shown


@pytest.mark.parametrize(
    ("written", "cost"),
    [
        ("-7", -7),
        ("2147483647", 2**31 - 1),
        ("2147483648", 0),
        ("9" * 5000, 0),
        ("-" + "9" * 5000, 0),
        ("5\n", 0),
        ("٣", 0),
    ],
    ids=["negative", "largest", "too large", "5000 digits", "5000 digits below zero", "a line break", "other digits"],
)
def test_a_deletion_cost_is_a_number_that_kubernetes_takes_or_none(cluster: Any, written: str, cost: int) -> None:
    """T13: int() of more than 4,300 digits is a ValueError, each time."""
    pod = cluster.pod("w-0", annotations={labels.POD_DELETION_COST: written})
    (worker,) = workers(cluster.nodeset(), [pod], cluster.slurm(cluster.node("w-0")), cluster.now)
    assert worker.cost == cost


def test_a_pod_whose_number_nobody_can_count_has_no_ordinal(cluster: Any) -> None:
    """T13."""
    pods = [cluster.pod(f"w-{number}") for number in ("9" * 200, "²", "3")]
    found = workers(cluster.nodeset(), pods, cluster.slurm(), cluster.now)
    assert [worker.ordinal for worker in found] == [None, None, 3]


@pytest.mark.parametrize(
    "comment",
    [
        "[" * 100_000,
        '{"namespace": ["ns"], "podName": {"a": 1}, "nodeSetUID": 7}',
        '{"node": 1e999}',
        "9" * 5000,
        "\ufffd",
    ],
    ids=["nested", "wrong types", "endless", "digits", "mended"],
)
def test_a_comment_that_somebody_wrote_on_a_node_record_breaks_nothing(cluster: Any, comment: str) -> None:
    """T13: a comment is anybody's text."""
    assert all(isinstance(value, str) for value in read_pod_info(comment).values())
    lost = cluster.node("w-9", "DOWN", "NOT_RESPONDING", comment=comment)
    plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], cluster.slurm(cluster.node("w-0"), lost)))
