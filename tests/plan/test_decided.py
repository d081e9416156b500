"""Which plans of a NodeSet are never made by a word of Slurm that was asked for in another turn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.plan.small_cluster import Cluster

from kube_runtime.client.objects import ObjectMeta
from slurm_operator.build import labels
from slurm_operator.plan.actions import (
    Action,
    Apply,
    Create,
    Delete,
    DeleteNodes,
    DeleteReservation,
    Drain,
    PatchMetadata,
    PatchPodConditions,
    Plan,
    RecordEvent,
    RequestRegistration,
    SlurmAction,
    Undrain,
    UpdateNodes,
)
from slurm_operator.plan.decided import covered, decision
from slurm_operator.plan.keys import KeyState
from slurm_operator.plan.leaving import KEY, SCALE_IN
from slurm_operator.plan.nodeset import plan_nodeset
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.slurm.decision import EVERYTHING, NOTHING_DECIDED, Decision

SEEN = ObjectMeta(namespace="ns", name="w-0", uid="uid-w-0", resource_version="3")
POD = ("v1", "Pod", SEEN)
CLAIM = ("v1", "PersistentVolumeClaim", ObjectMeta(namespace="ns", name="scratch-w-0", uid="uid-c"))
NODESET = ("slinky.slurm.net/v1beta1", "NodeSet", ObjectMeta(namespace="ns", name="w", uid="nodeset"))


def decides(plan: Plan, world: NodeSetWorld) -> bool:
    return bool(decision(plan, world))


def new_pod(name: str) -> Create:
    return Create({"kind": "Pod", "metadata": {"name": name, "namespace": "ns"}, "spec": {"hostname": name}})


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(Delete(*POD, "it may go"), id="a worker is deleted"),
        pytest.param(Drain(("w-0",), "x"), id="a node is drained"),
        pytest.param(Undrain(("w-0",)), id="a node is undrained"),
        pytest.param(UpdateNodes(("w-0",), {"comment": "x", "features": "y"}, "x"), id="a node record is changed"),
        pytest.param(DeleteNodes(("w-0",), "x"), id="a node record is deleted"),
        pytest.param(RequestRegistration(("w-0",), "x"), id="a slurmd is asked to register"),
        pytest.param(DeleteReservation("r", "x"), id="a reservation is deleted"),
        pytest.param(PatchMetadata(*POD, annotations={labels.CONDEMNED: SCALE_IN}), id="a worker is condemned"),
        pytest.param(PatchMetadata(*POD, annotations={labels.CONDEMNED: None}), id="a worker is spared"),
        pytest.param(PatchMetadata(*POD, annotations={labels.RELEASED_FOR_KEY: "k"}), id="a worker is released"),
        pytest.param(PatchMetadata(*CLAIM, owners=({"uid": "uid-w-0"},)), id="a claim goes with its worker"),
        pytest.param(PatchMetadata(*NODESET, finalizers=()), id="a finalizer lets go"),
        pytest.param(new_pod("w-0"), id="a worker is made that Slurm still has a record of"),
    ],
)
def test_what_cannot_be_taken_back_needs_a_word_of_its_own(cluster: Cluster, action: Action) -> None:
    world = cluster.world(cluster.nodeset(replicas=1), [], cluster.slurm(cluster.node("w-0")))
    assert decides(Plan(((action,),)), world)


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(Apply({"kind": "Service", "metadata": {"name": "s"}}, None), id="an object is applied"),
        pytest.param(new_pod("w-9"), id="a worker is made that Slurm does not know"),
        pytest.param(PatchPodConditions(SEEN, ()), id="a condition is written"),
        pytest.param(UpdateNodes(("w-0",), {"comment": "x"}, "x"), id="a record gets the name of its worker"),
        pytest.param(PatchMetadata(*POD, labels={labels.POD_PROTECT: "true"}), id="a worker is protected"),
        pytest.param(PatchMetadata(*POD, annotations={labels.POD_DEADLINE: "x"}), id="a deadline is noted"),
        pytest.param(RecordEvent("ScalingUp", "x"), id="somebody is told"),
    ],
)
def test_what_is_only_said_may_share_one(cluster: Cluster, action: Action) -> None:
    world = cluster.world(cluster.nodeset(replicas=1), [], cluster.slurm(cluster.node("w-0")))
    assert not decides(Plan(((action,),)), world)


ABOUT_W0 = Decision(frozenset({"w-0"}))


@pytest.mark.parametrize(
    ("action", "needed"),
    [
        pytest.param(Delete(*POD, "it may go"), ABOUT_W0, id="a worker is deleted"),
        pytest.param(PatchMetadata(*POD, annotations={labels.CONDEMNED: SCALE_IN}), ABOUT_W0, id="one is condemned"),
        pytest.param(Drain(("w-0", "w-1"), "x"), Decision(frozenset({"w-0", "w-1"})), id="nodes are drained"),
        pytest.param(new_pod("w-0"), ABOUT_W0, id="a worker is made that Slurm still has a record of"),
        pytest.param(new_pod("w-9"), NOTHING_DECIDED, id="a worker is made that Slurm does not know"),
        pytest.param(
            DeleteNodes(("w-0",), "x"),
            Decision(frozenset({"w-0"}), every_job=True),
            id="a record may be one that a waiting job requires",
        ),
        pytest.param(
            PatchMetadata(*CLAIM, owners=({"kind": "Pod", "uid": "uid-w-0"},)),
            ABOUT_W0,
            id="a claim goes with one",
        ),
        pytest.param(
            PatchMetadata(*CLAIM, owners=({"kind": "Pod", "uid": "other"},)), EVERYTHING, id="it goes with a stranger"
        ),
        pytest.param(PatchMetadata(*CLAIM, owners=()), EVERYTHING, id="a claim goes with nobody"),
        pytest.param(PatchMetadata(*NODESET, finalizers=()), EVERYTHING, id="a finalizer may hold a partition"),
        pytest.param(DeleteReservation("r", "x"), EVERYTHING, id="a reservation may hold any node"),
        pytest.param(Delete(*CLAIM, "x"), EVERYTHING, id="what is no worker"),
        pytest.param(Delete("v1", "Pod", NODESET[2], "x"), EVERYTHING, id="a pod of no known worker"),
    ],
)
def test_a_decision_says_what_must_be_read(cluster: Cluster, action: Action, needed: Decision) -> None:
    pods = [cluster.pod("w-0"), cluster.pod("w-1")]
    world = cluster.world(cluster.nodeset(replicas=2), pods, cluster.slurm(cluster.node("w-0")))
    assert decision(Plan(((action,),)), world) == needed


def test_a_plan_needs_what_all_its_actions_need(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(replicas=1), [cluster.pod("w-0")], cluster.slurm(cluster.node("w-0")))
    plan = Plan(((Drain(("w-0",), "x"), DeleteNodes(("w-7",), "x")),))
    assert decision(plan, world) == Decision(frozenset({"w-0", "w-7"}), every_job=True)


def test_every_write_to_slurm_decides(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(replicas=1), [], cluster.slurm())
    for kind in SlurmAction.__args__:
        # Of its fields, only the names of nodes count.
        action = object.__new__(kind)
        if "nodes" in kind.__dataclass_fields__:
            object.__setattr__(action, "nodes", ("w-0",))
        assert decides(Plan(((action,),)), world)


def test_a_nodeset_that_is_let_go_decides(cluster: Cluster) -> None:
    world = cluster.world(cluster.nodeset(replicas=0), [], cluster.slurm(), deleting=True)
    assert decides(Plan(), world)


def test_a_worker_that_is_free_for_a_new_key_is_released_by_a_fresh_word(cluster: Cluster) -> None:
    marks = {labels.CONDEMNED: KEY, labels.SLURM_KEY_HASH: "old"}
    drained = cluster.node("w-0", "IDLE", "DRAIN", reason="slurm-operator: x")
    key = KeyState(in_force="old", current="new")
    pods = [cluster.pod("w-0", annotations=marks)]
    world = cluster.world(cluster.nodeset(replicas=1), pods, cluster.slurm(drained), key=key)
    plan = plan_nodeset(world)
    (patch,) = [each for each in plan.actions if isinstance(each, PatchMetadata)]
    assert patch.annotations == {labels.RELEASED_FOR_KEY: "new"}
    assert decides(plan, world)


def test_without_what_it_was_not_read_for_a_plan_does_the_rest(cluster: Cluster) -> None:
    """A list of jobs that fails holds up the records that are left over, not the drain beside them."""
    world = cluster.world(cluster.nodeset(replicas=1), [], cluster.slurm(cluster.node("w-0")))
    world = replace(world, slurm=replace(world.slurm, fresh=Decision(frozenset({"w-0"}))))
    drain, creation = Drain(("w-0",), "x"), new_pod("w-9")
    plan = Plan(((creation,), (drain,), (DeleteNodes(("w-0",), "x"),)))
    assert covered(plan, world).stages == ((creation,), (drain,))


@pytest.mark.parametrize(
    ("released", "key", "asks"),
    [
        pytest.param("", KeyState("old", "new"), True, id="it is not released yet"),
        pytest.param("older", KeyState("old", "new"), True, id="it was released for another key"),
        pytest.param("new", KeyState("old", "new"), False, id="it is released and waits"),
        pytest.param("new", KeyState("new", "new", rolled_out=False), False, id="slurmctld is being restarted"),
        pytest.param("new", KeyState("new", "new"), True, id="it goes now"),
    ],
)
def test_before_a_worker_without_a_record_goes_or_is_released_slurm_is_asked_for_its_node(
    cluster: Cluster, released: str, key: KeyState, asks: bool
) -> None:
    marks = {labels.CONDEMNED: KEY, labels.SLURM_KEY_HASH: "old", labels.RELEASED_FOR_KEY: released}
    pod = cluster.pod("w-0", ready=False, annotations={name: value for name, value in marks.items() if value})
    slurm = replace(cluster.slurm(), absent=frozenset(), fresh=NOTHING_DECIDED)
    world = cluster.world(cluster.nodeset(replicas=1), [pod], slurm, key=key)
    assert decision(plan_nodeset(world), world) == (ABOUT_W0 if asks else NOTHING_DECIDED)
    asked_a_moment_ago = replace(world, may_confirm=False)
    assert not decides(plan_nodeset(asked_a_moment_ago), asked_a_moment_ago)
