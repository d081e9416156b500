"""Budgets and the eviction subresource agree on how many pods may go."""

from __future__ import annotations

from typing import Any

import pytest

PODS = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 4
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: image}]}
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {selector: {matchLabels: {app: web}}, %s}
"""


@pytest.mark.parametrize(
    ("rule", "allowed", "desired", "expected"),
    [
        ("minAvailable: 3", 1, 3, 4),
        ("maxUnavailable: 1", 1, 3, 4),
        ("minAvailable: 30%", 2, 2, 4),
        ("maxUnavailable: 50%", 2, 2, 4),
        ("minAvailable: 2147483647", 0, 2147483647, 4),
    ],
)
async def test_a_budget_counts(cluster: Any, rule: str, allowed: int, desired: int, expected: int) -> None:
    await cluster.apply(f"{PODS}---{BUDGET % rule}")
    status = await cluster.status(
        "PodDisruptionBudget",
        "web",
        currentHealthy=4,
        disruptionsAllowed=allowed,
        desiredHealthy=desired,
        expectedPods=expected,
        observedGeneration=1,
    )
    (said,) = status["conditions"]
    assert (said["type"], said["status"]) == ("DisruptionAllowed", "True" if allowed else "False")


async def _evict(cluster: Any, name: str) -> Any:
    path = f"/api/v1/namespaces/test/pods/{name}/eviction"
    return await cluster.server.handle("POST", path, body={"kind": "Eviction", "metadata": {"name": name}})


async def test_an_eviction_spends_the_budget_and_a_new_pod_restores_it(cluster: Any) -> None:
    await cluster.apply(f"{PODS}---{BUDGET % 'minAvailable: 3'}")
    await cluster.status("PodDisruptionBudget", "web", disruptionsAllowed=1)
    cluster.kubelets.broken = lambda _: True
    assert (await _evict(cluster, "web-0")).status == 201
    await cluster.status("PodDisruptionBudget", "web", disruptionsAllowed=0, currentHealthy=3)
    assert (await _evict(cluster, "web-1")).status == 429

    async def came_back_unready() -> bool:
        pod = await cluster.get("Pod", "web-0")
        return pod is not None and not pod["metadata"].get("deletionTimestamp") and bool(pod["status"].get("podIP"))

    await cluster.until(came_back_unready)
    cluster.kubelets.broken = lambda _: False
    await cluster.delete("Pod", "web-0")
    status = await cluster.status("PodDisruptionBudget", "web", disruptionsAllowed=1, currentHealthy=4)
    assert not status.get("disruptedPods")


async def test_a_budget_that_cannot_be_counted_allows_nothing_and_says_why(cluster: Any) -> None:
    owner = "{apiVersion: example.com/v1, kind: Gadget, name: g, uid: u, controller: true}"
    await cluster.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: lone, labels: {app: web}, ownerReferences: "
        f"[{owner}]}}, spec: {{containers: [{{name: main, image: image}}]}}}}\n---{BUDGET % 'maxUnavailable: 1'}"
    )

    async def failed() -> Any:
        said = (await cluster.there("PodDisruptionBudget", "web"))["status"]
        return said if said.get("conditions") and said["conditions"][0]["reason"] == "SyncFailed" else None

    assert (await cluster.until(failed))["disruptionsAllowed"] == 0
