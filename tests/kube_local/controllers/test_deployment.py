"""Deployments and ReplicaSets on the embedded API server: roll-outs, scaling, status, history."""

from __future__ import annotations

from typing import Any

import pytest

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {team: hpc}}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "image:1"}]
"""
DONE = {"replicas": 4, "readyReplicas": 4, "availableReplicas": 4, "updatedReplicas": 4}
REVISION = "deployment.kubernetes.io/revision"


def _new_image(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


def _images(pods: list[dict[str, Any]]) -> set[str]:
    return {str(pod["spec"]["containers"][0]["image"]) for pod in pods}


def _condition(status: dict[str, Any], kind: str) -> tuple[str, str]:
    found = next(one for one in status["conditions"] if one["type"] == kind)
    return found["status"], found["reason"]


async def _complete(cluster: Any, generation: int) -> dict[str, Any]:
    async def done() -> Any:
        found = await cluster.there("Deployment", "web")
        said = found.get("status") or {}
        # Noting the revision raises the generation by one.
        complete = all(said.get(key) == value for key, value in DONE.items())
        return said if complete and said["observedGeneration"] >= generation else None

    found: dict[str, Any] = await cluster.until(done)
    return found


async def test_a_deployment_becomes_available_through_one_replica_set(cluster: Any) -> None:
    await cluster.apply(DEPLOYMENT)
    await _complete(cluster, 1)

    async def progressed() -> Any:
        said = (await cluster.there("Deployment", "web"))["status"]
        return said if _condition(said, "Progressing")[1] == "NewReplicaSetAvailable" else None

    status = await cluster.until(progressed)
    assert _condition(status, "Available") == ("True", "MinimumReplicasAvailable")
    (only,) = await cluster.list("ReplicaSet")
    hash_ = only["metadata"]["labels"]["pod-template-hash"]
    assert only["metadata"]["name"] == f"web-{hash_}"
    assert only["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": hash_}
    assert only["metadata"]["annotations"] == {
        "team": "hpc",
        REVISION: "1",
        "deployment.kubernetes.io/desired-replicas": "4",
        "deployment.kubernetes.io/max-replicas": "5",
    }
    pods = await cluster.list("Pod", f"pod-template-hash={hash_}")
    assert len(pods) == 4
    assert all(pod["metadata"]["generateName"] == f"web-{hash_}-" for pod in pods)
    assert (await cluster.there("Deployment", "web"))["metadata"]["annotations"][REVISION] == "1"


async def test_a_rolling_update_never_lacks_more_pods_than_allowed(cluster: Any) -> None:
    await cluster.apply(DEPLOYMENT)
    await _complete(cluster, 1)
    await cluster.patch("Deployment", "web", _new_image("image:2"))
    fewest, most = 4, 4

    async def done() -> bool:
        nonlocal fewest, most
        pods = [pod for pod in await cluster.list("Pod") if not pod["metadata"].get("deletionTimestamp")]
        ready = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        fewest, most = min(fewest, len(ready)), max(most, len(pods))
        return _images(pods) == {"image:2"} and len(ready) == 4

    await cluster.until(done)
    await _complete(cluster, 2)
    assert fewest >= 3
    assert most <= 5
    assert (await cluster.there("Deployment", "web"))["metadata"]["annotations"][REVISION] == "2"


async def test_recreate_waits_until_the_old_pods_are_gone(cluster: Any) -> None:
    await cluster.apply(DEPLOYMENT.replace("replicas: 4", "replicas: 4\n  strategy: {type: Recreate}"))
    await _complete(cluster, 1)
    mixed = False
    await cluster.patch("Deployment", "web", _new_image("image:2"))

    async def done() -> bool:
        nonlocal mixed
        images = _images(await cluster.list("Pod"))
        mixed |= len(images) > 1
        return images == {"image:2"}

    await cluster.until(done)
    await _complete(cluster, 2)
    assert not mixed


@pytest.mark.parametrize("replicas", [0, 2, 7], ids=["to nothing", "down", "up"])
async def test_scaling_changes_the_one_replica_set(cluster: Any, replicas: int) -> None:
    await cluster.apply(DEPLOYMENT)
    await _complete(cluster, 1)
    await cluster.client.scale(cluster.plane.world.caches.deployments.resource, "web", replicas, "test")
    wanted = replicas or None
    await cluster.status("Deployment", "web", replicas=wanted, availableReplicas=wanted, updatedReplicas=wanted)

    async def counted() -> bool:
        return len(await cluster.list("Pod")) == replicas

    await cluster.until(counted)
    assert len(await cluster.list("ReplicaSet")) == 1


async def test_a_broken_image_stops_the_roll_out_with_the_old_pods_serving(cluster: Any) -> None:
    await cluster.apply(DEPLOYMENT)
    await _complete(cluster, 1)
    cluster.kubelets.broken = lambda pod: pod["spec"]["containers"][0]["image"] == "broken"
    await cluster.patch("Deployment", "web", _new_image("broken"))
    await cluster.status("Deployment", "web", availableReplicas=3, updatedReplicas=2)
    await cluster.quiet()
    status = (await cluster.there("Deployment", "web"))["status"]
    assert _condition(status, "Available") == ("True", "MinimumReplicasAvailable")
    await cluster.patch("Deployment", "web", _new_image("image:1"))
    await _complete(cluster, 3)
    assert _images(await cluster.list("Pod")) == {"image:1"}


async def test_a_paused_deployment_does_not_roll(cluster: Any) -> None:
    await cluster.apply(DEPLOYMENT)
    await _complete(cluster, 1)
    await cluster.patch("Deployment", "web", {"spec": {"paused": True}})
    await cluster.patch("Deployment", "web", _new_image("image:2"))
    await cluster.quiet()
    assert _images(await cluster.list("Pod")) == {"image:1"}
    await cluster.patch("Deployment", "web", {"spec": {"paused": False}})
    await _complete(cluster, 4)
    assert _images(await cluster.list("Pod")) == {"image:2"}


async def test_history_is_kept_up_to_its_limit(cluster: Any) -> None:
    await cluster.apply(DEPLOYMENT.replace("replicas: 4", "replicas: 4\n  revisionHistoryLimit: 1"))
    for number in range(2, 5):
        generation = (await cluster.there("Deployment", "web"))["metadata"]["generation"]
        await _complete(cluster, generation)
        await cluster.patch("Deployment", "web", _new_image(f"image:{number}"))
    await _complete(cluster, 4)

    async def pruned() -> bool:
        return len(await cluster.list("ReplicaSet")) == 2

    await cluster.until(pruned)


async def test_a_deleted_deployment_takes_everything_along(cluster: Any) -> None:
    await cluster.apply(DEPLOYMENT)
    await _complete(cluster, 1)
    await cluster.delete("Deployment", "web")

    async def empty() -> bool:
        return not await cluster.list("Pod") and not await cluster.list("ReplicaSet")

    await cluster.until(empty)


async def test_a_deleted_pod_is_replaced_once(cluster: Any) -> None:
    await cluster.apply(DEPLOYMENT)
    await _complete(cluster, 1)
    gone = (await cluster.names("Pod"))[0]
    await cluster.delete("Pod", gone)

    async def replaced() -> bool:
        names = await cluster.names("Pod")
        return gone not in names and len(names) == 4

    await cluster.until(replaced)
    await cluster.quiet()
    assert len(await cluster.list("Pod")) == 4
