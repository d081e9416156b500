"""The scheduler on the embedded API server: binding, refusing with a reason, and trying again when that goes away."""

from __future__ import annotations

from typing import Any

from kube_local.controllers.objects import Node, NodeStatus, Pod, PodSpec, PodStatus
from kube_local.controllers.scheduler import Book
from kube_runtime.client.objects import ObjectMeta


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": spec.pop("labels", {})},
        "spec": {"containers": [{"name": "main", "image": "image", "resources": spec.pop("resources", {})}], **spec},
    }


async def _refusal(cluster: Any, name: str) -> str:
    async def refused() -> Any:
        conditions = (await cluster.there("Pod", name))["status"].get("conditions") or ()
        return next((one["message"] for one in conditions if one.get("reason") == "Unschedulable"), None)

    found: str = await cluster.until(refused)
    return found


async def _node(cluster: Any, name: str) -> str:
    async def bound() -> Any:
        return (await cluster.there("Pod", name))["spec"].get("nodeName")

    found: str = await cluster.until(bound)
    return found


async def test_equal_pods_spread_over_equal_nodes(cluster: Any) -> None:
    for number in range(4):
        await cluster.create(_pod(f"pod-{number}"))
    nodes = [await _node(cluster, f"pod-{number}") for number in range(4)]
    assert sorted(nodes) == ["node-0", "node-0", "node-1", "node-1"]


async def test_a_pod_that_fits_nowhere_is_told_why_and_placed_when_a_node_comes(cluster: Any) -> None:
    await cluster.create(_pod("large", resources={"requests": {"cpu": "12"}}))
    assert await _refusal(cluster, "large") == "0/2 nodes are available: 2 Insufficient cpu."
    await cluster.add_nodes("node-2", room={"cpu": "16"})
    assert await _node(cluster, "large") == "node-2"


async def test_room_is_given_back_when_a_pod_goes(cluster: Any) -> None:
    for name in ("first", "second"):
        await cluster.create(_pod(name, resources={"requests": {"cpu": "6"}}))
    await cluster.create(_pod("third", resources={"requests": {"cpu": "6"}}))
    assert "Insufficient cpu" in await _refusal(cluster, "third")
    freed = await _node(cluster, "first")
    await cluster.delete("Pod", "first")
    assert await _node(cluster, "third") == freed


async def test_a_cordoned_node_takes_nothing_until_it_is_uncordoned(cluster: Any) -> None:
    for name in ("node-0", "node-1"):
        await cluster.patch("Node", name, {"spec": {"unschedulable": True}})
    await cluster.quiet()
    await cluster.create(_pod("waiting"))
    assert await _refusal(cluster, "waiting") == "0/2 nodes are available: 2 node(s) were unschedulable."
    await cluster.patch("Node", "node-1", {"spec": {"unschedulable": None}})
    assert await _node(cluster, "waiting") == "node-1"


async def test_one_worker_per_node(cluster: Any) -> None:
    alone = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "slurmd"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    for number in range(3):
        await cluster.create(_pod(f"slurmd-{number}", labels={"app": "slurmd"}, affinity=alone))
    placed = [await _node(cluster, f"slurmd-{number}") for number in range(2)]
    assert sorted(placed) == ["node-0", "node-1"]
    assert "didn't match pod anti-affinity rules" in await _refusal(cluster, "slurmd-2")


async def test_a_gated_pod_waits_for_its_gate(cluster: Any) -> None:
    await cluster.create(_pod("gated", schedulingGates=[{"name": "example.com/gate"}]))
    await cluster.quiet()
    assert "nodeName" not in (await cluster.there("Pod", "gated"))["spec"]
    await cluster.patch("Pod", "gated", {"spec": {"schedulingGates": []}})
    await _node(cluster, "gated")


async def test_a_pod_waits_for_its_claim(cluster: Any) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    await cluster.create(_pod("user", volumes=volumes))
    assert await _refusal(cluster, "user") == '0/2 nodes are available: persistentvolumeclaim "data" not found.'
    await cluster.apply(
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, "
        "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"
    )
    await _node(cluster, "user")


async def test_another_scheduler_s_pods_are_left_alone(cluster: Any) -> None:
    await cluster.create(_pod("foreign", schedulerName="slurm-bridge"))
    await cluster.quiet()
    assert "nodeName" not in (await cluster.there("Pod", "foreign"))["spec"]


def test_the_book_keeps_pods_of_nodes_that_come_later_or_come_again() -> None:
    node = Node(metadata=ObjectMeta(name="late"), status=NodeStatus(allocatable={"cpu": "1", "pods": "10"}))
    pod = Pod(
        metadata=ObjectMeta(namespace="a", name="b"), spec=PodSpec(node_name="late"), status=PodStatus(phase="Running")
    )
    book = Book()
    book.note_pod(None, pod)
    book.note_node(None, node)
    assert book.rooms["late"].used["pods"] == 1
    book.note_node(node, None)
    book.note_node(None, node)
    assert list(book.rooms["late"].pods) == [("a", "b")]
    book.note_pod(pod, None)
    assert book.rooms["late"].used["pods"] == 0
