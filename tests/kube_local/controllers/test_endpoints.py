"""Services on the embedded API server: EndpointSlices follow the pods."""

from __future__ import annotations

from typing import Any

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web, labels: {team: hpc}}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: main}]
"""
PODS = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: image, ports: [{name: main, containerPort: 8080}]}]
"""


async def _endpoints(cluster: Any) -> dict[str, dict[str, Any]]:
    slices = await cluster.list("EndpointSlice", "kubernetes.io/service-name=web")
    return {one["targetRef"]["name"]: one for each in slices for one in each.get("endpoints") or ()}


async def _ready(cluster: Any, count: int) -> dict[str, dict[str, Any]]:
    async def counted() -> Any:
        found = await _endpoints(cluster)
        ready = [one for one in found.values() if one["conditions"]["ready"]]
        return (found,) if len(ready) == count else None

    found: dict[str, dict[str, Any]] = (await cluster.until(counted))[0]
    return found


async def test_ready_pods_stand_behind_a_service_by_address_name_and_port(cluster: Any) -> None:
    await cluster.apply(f"{SERVICE}---{PODS}")
    found = await _ready(cluster, 2)
    pod = await cluster.there("Pod", "web-0")
    assert found["web-0"]["addresses"] == [pod["status"]["podIP"]]
    assert (found["web-0"]["hostname"], found["web-0"]["nodeName"]) == ("web-0", pod["spec"]["nodeName"])
    (only,) = await cluster.list("EndpointSlice")
    assert only["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert only["metadata"]["labels"]["team"] == "hpc"


async def test_unready_pods_are_named_but_not_ready_unless_published(cluster: Any) -> None:
    cluster.kubelets.broken = lambda pod: pod["metadata"]["name"] == "web-1"
    await cluster.apply(f"{SERVICE}---{PODS}")
    await _ready(cluster, 1)

    async def both() -> Any:
        found = await _endpoints(cluster)
        return found if len(found) == 2 else None

    found = await cluster.until(both)
    assert found["web-1"]["conditions"] == {"ready": False, "serving": False, "terminating": False}
    await cluster.patch("Service", "web", {"spec": {"publishNotReadyAddresses": True}})
    await _ready(cluster, 2)


async def test_a_service_without_pods_has_one_empty_slice_and_loses_it_with_itself(cluster: Any) -> None:
    await cluster.apply(SERVICE)

    async def one() -> Any:
        return await cluster.list("EndpointSlice")

    (only,) = await cluster.until(one)
    assert not only.get("endpoints")
    await cluster.delete("Service", "web")

    async def none() -> bool:
        return not await cluster.list("EndpointSlice")

    await cluster.until(none)


async def test_a_changed_selector_changes_the_endpoints(cluster: Any) -> None:
    await cluster.apply(f"{SERVICE}---{PODS}")
    await _ready(cluster, 2)
    await cluster.patch("Service", "web", {"spec": {"selector": {"app": "other"}}})
    await _ready(cluster, 0)


async def test_a_deleted_slice_comes_back(cluster: Any) -> None:
    await cluster.apply(f"{SERVICE}---{PODS}")
    await _ready(cluster, 2)
    (name,) = await cluster.names("EndpointSlice")
    await cluster.delete("EndpointSlice", name)
    await _ready(cluster, 2)
