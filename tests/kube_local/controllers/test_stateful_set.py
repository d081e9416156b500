"""StatefulSets on the embedded API server: pods in order, claims, roll-outs, revisions, status."""

from __future__ import annotations

from typing import Any

SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 3
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "image:1"}]
"""
CLAIMS = """
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
DONE = {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3}


async def test_pods_come_in_order_with_stable_names_and_labels(cluster: Any) -> None:
    await cluster.apply(SET)
    status = await cluster.status("StatefulSet", "web", **DONE, observedGeneration=1)
    pods = await cluster.list("Pod")
    assert [pod["metadata"]["name"] for pod in pods] == ["web-0", "web-1", "web-2"]
    assert pods[1]["metadata"]["labels"] == {
        "app": "web",
        "statefulset.kubernetes.io/pod-name": "web-1",
        "apps.kubernetes.io/pod-index": "1",
        "controller-revision-hash": status["updateRevision"],
    }
    assert (pods[1]["spec"]["hostname"], pods[1]["spec"]["subdomain"]) == ("web-1", "web")
    assert status["currentRevision"] == status["updateRevision"] == (await cluster.names("ControllerRevision"))[0]
    versions = [int(pod["metadata"]["resourceVersion"]) for pod in pods]
    assert versions == sorted(versions)


async def test_an_unready_pod_holds_back_its_successors(cluster: Any) -> None:
    cluster.kubelets.broken = lambda pod: pod["metadata"]["name"] == "web-1"
    await cluster.apply(SET)
    await cluster.status("StatefulSet", "web", replicas=2, readyReplicas=1)
    await cluster.quiet()
    assert await cluster.names("Pod") == ["web-0", "web-1"]


async def test_parallel_pods_wait_for_nobody(cluster: Any) -> None:
    cluster.kubelets.broken = lambda pod: pod["metadata"]["name"] == "web-0"
    await cluster.apply(SET.replace("replicas: 3", "replicas: 3\n  podManagementPolicy: Parallel"))
    await cluster.status("StatefulSet", "web", replicas=3, readyReplicas=2)


async def test_every_ordinal_has_its_claim_and_finds_it_again(cluster: Any) -> None:
    await cluster.apply(SET + CLAIMS)
    await cluster.status("StatefulSet", "web", **DONE)
    claims = {one["metadata"]["name"]: one for one in await cluster.list("PersistentVolumeClaim")}
    assert sorted(claims) == ["data-web-0", "data-web-1", "data-web-2"]
    assert all(one["status"]["phase"] == "Bound" for one in claims.values())
    await cluster.delete("Pod", "web-1")
    first = (await cluster.there("StatefulSet", "web"))["metadata"]["uid"]
    await cluster.status("StatefulSet", "web", **DONE)
    volumes = (await cluster.there("Pod", "web-1"))["spec"]["volumes"]
    assert volumes[0]["persistentVolumeClaim"]["claimName"] == "data-web-1"
    kept = await cluster.there("PersistentVolumeClaim", "data-web-1")
    assert kept["metadata"]["uid"] == claims["data-web-1"]["metadata"]["uid"]
    assert first == (await cluster.there("StatefulSet", "web"))["metadata"]["uid"]


async def test_a_scale_in_takes_the_highest_number_and_leaves_its_claim(cluster: Any) -> None:
    await cluster.apply(SET + CLAIMS)
    await cluster.status("StatefulSet", "web", **DONE)
    await cluster.client.scale(cluster.plane.world.caches.stateful_sets.resource, "web", 1, "test")
    await cluster.status("StatefulSet", "web", replicas=1, readyReplicas=1)
    assert await cluster.names("Pod") == ["web-0"]
    assert len(await cluster.list("PersistentVolumeClaim")) == 3


def _image(pod: dict[str, Any]) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def _new_image(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


async def test_a_rolling_update_reaches_every_pod_and_keeps_two_revisions(cluster: Any) -> None:
    await cluster.apply(SET)
    before = await cluster.status("StatefulSet", "web", **DONE)
    await cluster.patch("StatefulSet", "web", _new_image("image:2"))
    after = await cluster.status("StatefulSet", "web", **DONE, observedGeneration=2)
    assert {_image(pod) for pod in await cluster.list("Pod")} == {"image:2"}
    assert after["currentRevision"] == after["updateRevision"] != before["updateRevision"]
    assert len(await cluster.list("ControllerRevision")) == 2


async def test_going_back_finds_the_old_revision_and_gives_it_the_newest_number(cluster: Any) -> None:
    await cluster.apply(SET)
    first = await cluster.status("StatefulSet", "web", **DONE)
    await cluster.patch("StatefulSet", "web", _new_image("image:2"))
    await cluster.status("StatefulSet", "web", **DONE, observedGeneration=2)
    await cluster.patch("StatefulSet", "web", _new_image("image:1"))
    again = await cluster.status("StatefulSet", "web", **DONE, observedGeneration=3)
    assert again["updateRevision"] == first["updateRevision"]
    numbers = {one["metadata"]["name"]: one["revision"] for one in await cluster.list("ControllerRevision")}
    assert numbers[first["updateRevision"]] == 3


async def test_a_finished_pod_is_replaced(cluster: Any) -> None:
    await cluster.apply(SET)
    await cluster.status("StatefulSet", "web", **DONE)
    before = await cluster.there("Pod", "web-2")
    await cluster.patch("Pod", "web-2", {"status": {"phase": "Failed"}}, "status")

    async def replaced() -> bool:
        pod = await cluster.get("Pod", "web-2")
        return pod is not None and pod["metadata"]["uid"] != before["metadata"]["uid"]

    await cluster.until(replaced)


async def test_orphaned_pods_are_adopted_by_a_new_set(cluster: Any) -> None:
    await cluster.apply(SET)
    await cluster.status("StatefulSet", "web", **DONE)
    before = {pod["metadata"]["uid"] for pod in await cluster.list("Pod")}
    await cluster.delete("StatefulSet", "web", propagation="Orphan")

    async def gone() -> bool:
        return await cluster.get("StatefulSet", "web") is None

    await cluster.until(gone)
    await cluster.apply(SET)
    await cluster.status("StatefulSet", "web", **DONE)
    assert {pod["metadata"]["uid"] for pod in await cluster.list("Pod")} == before


async def test_a_claim_that_went_with_its_pod_is_made_again(cluster: Any) -> None:
    await cluster.apply(SET.replace("replicas: 3", "replicas: 1") + CLAIMS)
    await cluster.status("StatefulSet", "web", readyReplicas=1)
    before = await cluster.there("PersistentVolumeClaim", "data-web-0")
    await cluster.delete("PersistentVolumeClaim", "data-web-0")
    await cluster.delete("Pod", "web-0")

    async def anew() -> bool:
        claim = await cluster.get("PersistentVolumeClaim", "data-web-0")
        pod = await cluster.get("Pod", "web-0")
        other = claim is not None and claim["metadata"]["uid"] != before["metadata"]["uid"]
        return other and pod is not None and pod["status"]["phase"] == "Running"

    await cluster.until(anew)


async def test_a_quiet_world_is_not_written_to(cluster: Any) -> None:
    await cluster.apply(SET + CLAIMS)
    await cluster.status("StatefulSet", "web", **DONE)
    await cluster.quiet()
    before = cluster.server.store.revision
    for controller, cache in (("statefulsets", "stateful_sets"), ("claims", "claims"), ("volumes", "volumes")):
        for item in getattr(cluster.plane.world.caches, cache).items():
            cluster.plane.controllers[controller].add(_key(item))
    await cluster.quiet()
    assert cluster.server.store.revision == before


def _key(item: Any) -> Any:
    from kube_runtime.loop.queue import Key

    return Key(item.metadata.namespace, item.metadata.name)
