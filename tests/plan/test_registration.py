"""What Slurm's record of a worker says, and what is written to it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from tests.plan.small_cluster import OURS, Cluster, of_type

from kube_runtime.client import objects
from kube_runtime.client.objects import Pod
from kube_runtime.times import time_text
from slurm_operator.build import labels, nodeset
from slurm_operator.plan.actions import Delete, UpdateNodes
from slurm_operator.plan.nodeset import plan_nodeset
from slurm_operator.plan.registration import read_pod_info


def test_a_node_that_its_own_pod_left_down_is_taken_back(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", reason=nodeset.TERMINATING))
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm))
    assert [action.nodes for action in of_type(plan, UpdateNodes)] == [("w-0",)]


def test_a_node_that_an_admin_set_down_stays_down(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "DOWN", reason="admin"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], slurm))
    assert of_type(plan, UpdateNodes) == []


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
def test_a_comment_that_somebody_wrote_on_a_node_record_breaks_nothing(cluster: Cluster, comment: str) -> None:
    """T13: a comment is anybody's text."""
    assert all(isinstance(value, str) for value in read_pod_info(comment).values())
    lost = cluster.node("w-9", "DOWN", "NOT_RESPONDING", comment=comment)
    plan_nodeset(cluster.world(cluster.nodeset(), [cluster.pod("w-0")], cluster.slurm(cluster.node("w-0"), lost)))


def test_the_comments_of_a_thousand_workers_are_one_write(cluster: Cluster) -> None:
    names = [f"w-{number}" for number in range(1000)]
    slurm = cluster.slurm(*(cluster.node(name, comment="") for name in names))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1000), [cluster.pod(name) for name in names], slurm))
    (update,) = of_type(plan, UpdateNodes)
    assert update.nodes == tuple(names)
    assert read_pod_info(str(update.changes["comment"])) == {
        "namespace": "ns",
        "nodeSetName": "w",
        "nodeSetUID": "nodeset",
    }


def test_nodes_that_get_different_features_are_written_to_apart(cluster: Cluster) -> None:
    kube = [
        cluster.kube_node("k1", metadata={"annotations": {labels.FEATURES: "fast"}}),
        cluster.kube_node("k2", metadata={"annotations": {labels.FEATURES: "slow"}}),
    ]
    pods = [cluster.pod("w-0"), cluster.pod("w-1"), cluster.pod("w-2", node="k2")]
    slurm = cluster.slurm(*(cluster.node(f"w-{number}") for number in range(3)))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=3), pods, slurm, kube))
    assert [(update.nodes, update.changes["features"]) for update in of_type(plan, UpdateNodes)] == [
        (("w-0", "w-1"), ("k8s/fast",)),
        (("w-2",), ("k8s/slow",)),
    ]


def test_in_daemonset_mode_a_comment_names_the_kubernetes_node_with_which_the_record_goes(cluster: Cluster) -> None:
    cr = cluster.nodeset(scalingMode="DaemonSet")
    slurm = cluster.slurm(cluster.node("k1", comment=""))
    plan = plan_nodeset(cluster.world(cr, [cluster.pod("w-0", host="k1")], slurm, [cluster.kube_node("k1")]))
    (update,) = of_type(plan, UpdateNodes)
    info = read_pod_info(str(update.changes["comment"]))
    assert (info["podName"], info["node"]) == ("w-0", "k1")


def unready(cluster: Cluster, address: str) -> Pod:
    pod = cluster.pod("w-0", ready=False)
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, pod_ip=address))


def test_a_worker_that_registers_and_never_becomes_ready_has_its_record_marked_so_that_it_goes_with_it(
    cluster: Cluster,
) -> None:
    """U3: otherwise nobody knows whose the record is when the NodeSet is deleted."""
    slurm = cluster.slurm(cluster.node("w-0", comment="", address="10.0.0.7"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [unready(cluster, "10.0.0.7")], slurm))
    (update,) = of_type(plan, UpdateNodes)
    assert update.nodes == ("w-0",)
    assert update.changes.keys() == {"comment"}
    assert read_pod_info(str(update.changes["comment"]))["nodeSetUID"] == "nodeset"


@pytest.mark.parametrize(
    ("address", "states"),
    [("10.0.0.8", ("IDLE",)), ("", ("IDLE",)), ("10.0.0.7", ("DOWN",)), ("10.0.0.7", ("IDLE", "NOT_RESPONDING"))],
    ids=["another machine's", "no address", "down", "not responding"],
)
def test_a_record_that_an_unready_worker_has_not_made_is_not_marked(
    cluster: Cluster, address: str, states: tuple[str, ...]
) -> None:
    slurm = cluster.slurm(cluster.node("w-0", *states, comment="", address=address))
    plan = plan_nodeset(cluster.world(cluster.nodeset(), [unready(cluster, "10.0.0.7")], slurm))
    assert of_type(plan, UpdateNodes) == []


def test_a_worker_that_registers_while_its_nodeset_is_deleted_has_its_record_marked_too(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", comment="", address="10.0.0.7"))
    gone = msgspec.structs.replace(
        (cr := cluster.nodeset()),
        metadata=msgspec.structs.replace(cr.metadata, deletion_timestamp="2030-01-01T11:00:00Z"),
    )
    plan = plan_nodeset(cluster.world(gone, [unready(cluster, "10.0.0.7")], slurm))
    assert [update.changes.keys() for update in of_type(plan, UpdateNodes)] == [{"comment"}]


@pytest.mark.parametrize("going", ["scale-in", "deletion", "terminating"])
def test_the_record_of_a_worker_that_leaves_is_marked_too_so_that_it_goes_with_it(cluster: Cluster, going: str) -> None:
    """Its record was never written to, because Slurm did not answer from its start until it was scaled away."""
    pod = cluster.pod("w-0", terminating=going == "terminating")
    pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, pod_ip="10.0.0.7"))
    spec = {"replicas": 0} if going == "scale-in" else {}
    for comment, marked in (("", ["w-0"]), (None, [])):
        given = {} if comment is None else {"comment": comment}
        slurm = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason=OURS, address="10.0.0.7", **given))
        world = cluster.world(cluster.nodeset(**spec), [pod], slurm, deleting=going == "deletion")
        plan = plan_nodeset(world)
        assert [name for action in of_type(plan, UpdateNodes) for name in action.nodes] == marked
        kinds = [type(action) for action in plan.actions]
        if marked and Delete in kinds:
            assert kinds.index(UpdateNodes) < kinds.index(Delete)


@pytest.mark.parametrize(
    ("started", "is_marked"),
    [
        pytest.param(-3600, False, id="a slurmd of the machine itself"),
        pytest.param(None, False, id="a slurmd that does not say"),
        pytest.param(2, True, id="the worker's own"),
    ],
)
def test_on_the_network_of_its_machine_a_record_is_an_unready_workers_only_if_its_slurmd_is_no_older_than_the_container(
    cluster: Cluster, started: int | None, is_marked: bool
) -> None:
    """All slurmds of a machine have its address: the port of the machine's own keeps the worker from being ready."""
    began = cluster.now - timedelta(seconds=60)
    pod = unready(cluster, "10.0.0.7")
    container = {"name": "slurmd", "ready": False, "state": {"running": {"startedAt": time_text(began)}}}
    status = msgspec.structs.replace(
        pod.status, container_statuses=(msgspec.convert(container, objects.ContainerStatus),)
    )
    spec = msgspec.structs.replace(pod.spec, host_network=True, node_name="w-0")
    slurmd_start = int(began.timestamp()) + started if started is not None else 0
    record = cluster.node("w-0", comment="rack 7", address="10.0.0.7", slurmd_start_time=slurmd_start)
    world = cluster.world(
        cluster.nodeset(), [msgspec.structs.replace(pod, status=status, spec=spec)], cluster.slurm(record)
    )
    assert bool(of_type(plan_nodeset(world), UpdateNodes)) == is_marked
