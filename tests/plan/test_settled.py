"""Who needs no look: a worker is settled until something that it was judged on has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.plan.small_cluster import OURS, Cluster, of_type

from kube_runtime.client.objects import Pod
from slurm_operator.build import labels
from slurm_operator.plan.actions import Create
from slurm_operator.plan.keys import KeyState
from slurm_operator.plan.nodeset import plan_nodeset
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.plan.settled import NONE_SETTLED, Settled, settled_after, unjudged
from slurm_operator.status import nodeset as status

SPEC = {"replicas": 3}
Change = Callable[[Cluster, NodeSetWorld], NodeSetWorld]


def at_rest(cluster: Cluster) -> NodeSetWorld:
    """Three workers for which there is nothing to do."""
    pods = [_pod(cluster, f"w-{number}") for number in range(3)]
    slurm = cluster.slurm(*(cluster.node(f"w-{number}") for number in range(3)))
    return cluster.world(cluster.nodeset(**SPEC), pods, slurm)


def _pod(cluster: Cluster, name: str, **fields: Any) -> Pod:
    made = cluster.pod(name, **{"states": ["Idle"], **fields})
    of_cluster = {**made.metadata.labels, labels.CLUSTER: "slurm"}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=of_cluster))


def names(settled: Settled) -> list[str]:
    """Who is settled."""
    return sorted(row.pod.metadata.name for row in settled.rows.values())


def test_workers_for_which_there_is_nothing_to_do_are_settled(cluster: Cluster) -> None:
    assert names(settled_after(at_rest(cluster))) == ["w-0", "w-1", "w-2"]


def test_nobody_is_looked_at_again_while_nothing_changes(cluster: Cluster) -> None:
    first = at_rest(cluster)
    again = replace(first, settled_before=settled_after(first))
    assert again.unsettled == ()
    assert plan_nodeset(again) == plan_nodeset(first)
    assert status.fields(again) == status.fields(first)
    assert status.drafts(again) == status.drafts(first)


def test_the_same_workers_are_the_same_value_with_all_that_was_computed(cluster: Cluster) -> None:
    world = at_rest(cluster)
    before = settled_after(world)
    assert replace(world, settled_before=before).settled is before


def with_pod(cluster: Cluster, world: NodeSetWorld, **fields: Any) -> NodeSetWorld:
    return replace(world, pods=(*world.pods[:2], _pod(cluster, "w-2", **fields)))


def with_node(cluster: Cluster, world: NodeSetWorld, *states: str, **fields: Any) -> NodeSetWorld:
    some = [cluster.node("w-2", *states, **fields)]
    return replace(world, slurm=_slurm(cluster, world, some))


def _slurm(cluster: Cluster, world: NodeSetWorld, third: list[Any], **fields: Any) -> Any:
    others = [world.slurm.by_name[f"w-{number}"] for number in range(2)]
    return cluster.slurm(*others, *third, **fields)


def cordoned(cluster: Cluster, world: NodeSetWorld) -> NodeSetWorld:
    return replace(world, nodes={"k1": cluster.kube_node("k1", unschedulable=True)})


def with_job(cluster: Cluster, world: NodeSetWorld) -> NodeSetWorld:
    return replace(world, slurm=_slurm(cluster, world, [world.slurm.by_name["w-2"]], jobs=[cluster.job(1, "w-2")]))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda c, w: with_pod(c, w, ready=False), id="its pod is not ready"),
        pytest.param(lambda c, w: with_pod(c, w, phase="Failed"), id="its pod has failed"),
        pytest.param(lambda c, w: with_pod(c, w, terminating=True), id="its pod is being deleted"),
        pytest.param(lambda c, w: with_pod(c, w, hash_="older"), id="it is of an older template"),
        pytest.param(lambda c, w: with_pod(c, w, annotations={labels.POD_CORDON: "true"}), id="it was cordoned"),
        pytest.param(lambda c, w: with_pod(c, w, annotations={labels.CONDEMNED: "update"}), id="it was chosen to go"),
        pytest.param(lambda c, w: with_pod(c, w, states=["Mixed"]), id="its conditions are not true"),
        pytest.param(lambda c, w: with_pod(c, w, owner="else"), id="another controls it"),
        pytest.param(lambda c, w: with_node(c, w, "DOWN"), id="its node is down"),
        pytest.param(lambda c, w: with_node(c, w, "IDLE", "DRAIN", reason=OURS + "x"), id="a drain of ours is to end"),
        pytest.param(lambda c, w: with_node(c, w, "ALLOCATED"), id="its node is busy and its pod is not protected"),
        pytest.param(lambda c, w: with_node(c, w, comment="somebody's"), id="its record has another comment"),
        pytest.param(lambda c, w: replace(w, slurm=_slurm(c, w, [])), id="Slurm has lost its node"),
        pytest.param(with_job, id="a job runs on its node until a time that its pod does not say"),
    ],
)
def test_one_of_whom_something_has_changed_is_looked_at(cluster: Cluster, change: Change) -> None:
    world = at_rest(cluster)
    changed = replace(change(cluster, world), settled_before=settled_after(world))
    assert [worker.name for worker in changed.unsettled] == ["w-2"]
    assert names(settled_after(changed)) == ["w-0", "w-1"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(cordoned, id="their Kubernetes node was cordoned"),
        pytest.param(lambda c, w: replace(w, cr=c.nodeset(**SPEC, minReadySeconds=9)), id="the spec has changed"),
        pytest.param(lambda c, w: replace(w, slurm=c.blind()), id="Slurm cannot be asked"),
        pytest.param(lambda _, w: replace(w, deleting=True), id="the NodeSet is being deleted"),
        pytest.param(lambda _, w: replace(w, key=KeyState("old", "new")), id="the key changes"),
        pytest.param(lambda c, w: replace(w, cr=c.nodeset(replicas=1)), id="somebody has to be chosen to go"),
    ],
)
def test_everybody_is_looked_at_when_it_concerns_all(cluster: Cluster, change: Change) -> None:
    world = at_rest(cluster)
    changed = replace(change(cluster, world), settled_before=settled_after(world))
    assert len(changed.unsettled) == 3


def test_those_that_stay_are_not_looked_at_once_the_others_are_chosen(cluster: Cluster) -> None:
    world = at_rest(cluster)
    chosen = _pod(cluster, "w-2", annotations={labels.CONDEMNED: "scale-in"})
    changed = replace(
        world,
        cr=cluster.nodeset(replicas=2),
        pods=(*world.pods[:2], chosen),
        settled_before=settled_after(world),
    )
    assert [worker.name for worker in changed.unsettled] == ["w-2"]


def test_more_workers_are_made_on_numbers_that_no_settled_worker_holds(cluster: Cluster) -> None:
    world = at_rest(cluster)
    more = replace(world, cr=cluster.nodeset(replicas=5), settled_before=settled_after(world))
    made = [each.desired["metadata"]["name"] for each in of_type(plan_nodeset(more), Create)]
    assert (len(more.unsettled), made) == (0, ["w-3", "w-4"])


def test_a_namesake_makes_both_of_them_be_looked_at(cluster: Cluster) -> None:
    world = at_rest(cluster)
    twin = _pod(cluster, "w-7", host="w-1")
    both = replace(world, pods=(*world.pods, twin), cr=cluster.nodeset(replicas=4), settled_before=settled_after(world))
    assert [worker.name for worker in both.unsettled] == ["w-1", "w-7"]


def test_a_busy_worker_whose_pod_says_so_is_settled_until_the_time_limit_changes(cluster: Cluster) -> None:
    start = int(cluster.now.timestamp())
    notes = {labels.POD_DEADLINE: "2030-01-01T13:00:00Z"}
    pod = _pod(cluster, "w-0", states=["Allocated"], annotations=notes)
    protected = {**pod.metadata.labels, labels.POD_PROTECT: "true"}
    pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=protected))
    job = cluster.job(1, "w-0", start_time=start, time_limit=60)
    node = cluster.node("w-0", "ALLOCATED")
    world = cluster.world(cluster.nodeset(), [pod], cluster.slurm(node, jobs=[job]))
    assert names(settled_after(world)) == ["w-0"]
    longer = cluster.slurm(node, jobs=[msgspec.structs.replace(job, time_limit=90)])
    assert replace(world, slurm=longer, settled_before=settled_after(world)).unsettled


@pytest.mark.parametrize("mode", [{"scalingMode": "DaemonSet"}, {"pinToNode": True}], ids=["DaemonSet", "pinned"])
def test_nobody_is_settled_where_workers_belong_to_nodes(cluster: Cluster, mode: dict[str, Any]) -> None:
    world = replace(at_rest(cluster), cr=cluster.nodeset(**SPEC, **mode))
    assert settled_after(world).rows == {}


def test_pods_are_judged_anew_when_they_changed_or_the_cluster_did(cluster: Cluster) -> None:
    world = at_rest(cluster)
    before = settled_after(world)
    other = cluster.nodeset(**SPEC)
    moved = msgspec.structs.replace(
        other, spec=msgspec.structs.replace(other.spec, controller_ref=type(other.spec.controller_ref)(name="else"))
    )
    again = (*world.pods[:2], _pod(cluster, "w-2"))
    assert unjudged(before, world.cr, world.pods) == []
    assert [pod.metadata.name for pod in unjudged(before, world.cr, again)] == ["w-2"]
    assert len(unjudged(before, moved, world.pods)) == 3
    assert len(unjudged(NONE_SETTLED, world.cr, world.pods)) == 3
