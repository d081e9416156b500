"""Scale, eviction, binding and logs, and what is not served."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import web

from kube_local.apiserver import errors

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "x"}]},
}


async def running_pod(api: Any) -> None:
    await api.create(PODS, POD)
    await api.ok("POST", f"{PODS}/p/binding", {"target": {"name": "n1"}})
    await be(api, ready=True)


async def be(api: Any, *, ready: bool) -> None:
    """The pod runs, and is ready or not."""
    conditions = [{"type": "Ready", "status": str(ready)}]
    await api.merge(f"{PODS}/p/status", {"status": {"phase": "Running", "conditions": conditions}})


async def test_a_custom_kind_is_scaled_by_its_paths(widgets: Any) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"replicas": 1}}
    await widgets.create(WIDGETS, body)
    await widgets.merge(f"{WIDGETS}/w/status", {"status": {"replicas": 1, "selector": "app=w"}})
    scale = await widgets.ok("GET", f"{WIDGETS}/w/scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 1},
        {"replicas": 1, "selector": "app=w"},
    )
    scale["spec"]["replicas"] = 5
    assert (await widgets.ok("PUT", f"{WIDGETS}/w/scale", scale))["spec"] == {"replicas": 5}
    await widgets.fails(409, "PUT", f"{WIDGETS}/w/scale", scale)
    made = await widgets.ok("GET", f"{WIDGETS}/w")
    assert (made["spec"]["replicas"], made["metadata"]["generation"]) == (5, 2)
    assert made["metadata"]["managedFields"][-1].get("subresource") in {"scale", "status"}


async def test_a_deployment_shows_its_selector(api: Any) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.create(path, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
    scale = await api.merge(f"{path}/d/scale", {"spec": {"replicas": 0}})
    assert (scale["spec"], scale["status"]) == ({}, {"replicas": 0, "selector": "a=b"})
    assert (await api.ok("GET", f"{path}/d"))["spec"]["replicas"] == 0


@pytest.mark.parametrize(("replicas", "code"), [(-1, 422), ("two", 400), (True, 400)])
async def test_replicas_that_are_no_number_are_refused(widgets: Any, replicas: Any, code: int) -> None:
    await widgets.create(
        WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    )
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": replicas}}
    await widgets.fails(code, "PUT", f"{WIDGETS}/w/scale", body)


async def test_a_pod_is_bound_once(api: Any) -> None:
    await api.create(PODS, POD)
    await api.ok("POST", f"{PODS}/p/binding", {"target": {"kind": "Node", "name": "n1"}})
    pod = await api.ok("GET", f"{PODS}/p")
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["status"]["conditions"][0]["type"] == "PodScheduled"
    status = await api.fails(409, "POST", f"{PODS}/p/binding", {"target": {"name": "n2"}})
    assert 'pod p is already assigned to node "n1"' in status["message"]


async def budget(api: Any, allowed: int, *, healthy: int = 1, **spec: Any) -> None:
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    await api.create(BUDGETS, {**body, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}, **spec}})
    status = {"disruptionsAllowed": allowed, "desiredHealthy": 1, "currentHealthy": healthy, "observedGeneration": 1}
    status |= {"expectedPods": 1}
    await api.merge(f"{BUDGETS}/b/status", {"status": status})


async def test_a_budget_without_room_keeps_the_pod(api: Any) -> None:
    await running_pod(api)
    await budget(api, 0)
    status = await api.fails(429, "POST", f"{PODS}/p/eviction", {"kind": "Eviction", "metadata": {"name": "p"}})
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert "needs 1 healthy pods and has 1 currently" in status["details"]["causes"][0]["message"]
    assert "deletionTimestamp" not in (await api.ok("GET", f"{PODS}/p"))["metadata"]


async def test_a_budget_with_room_is_spent(api: Any) -> None:
    await running_pod(api)
    await budget(api, 1)
    await api.ok("POST", f"{PODS}/p/eviction", {"kind": "Eviction", "metadata": {"name": "p"}})
    assert (await api.ok("GET", f"{PODS}/p"))["metadata"]["deletionTimestamp"]
    spent = (await api.ok("GET", f"{BUDGETS}/b"))["status"]
    assert (spent["disruptionsAllowed"], list(spent["disruptedPods"])) == (0, ["p"])


@pytest.mark.parametrize(
    ("policy", "healthy", "goes"),
    [
        ({}, 1, True),
        ({}, 0, False),
        ({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 0, False),
        ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, True),
    ],
    ids=["the others are enough", "the others are too few", "said explicitly", "always"],
)
async def test_a_pod_that_is_not_ready_goes_by_the_budget_s_policy(
    api: Any, policy: dict[str, str], healthy: int, goes: bool
) -> None:
    await running_pod(api)
    await be(api, ready=False)
    await budget(api, 0, healthy=healthy, **policy)
    eviction = {"kind": "Eviction", "metadata": {"name": "p"}}
    if goes:
        await api.ok("POST", f"{PODS}/p/eviction", eviction)
    else:
        await api.fails(429, "POST", f"{PODS}/p/eviction", eviction)
    assert ("deletionTimestamp" in (await api.ok("GET", f"{PODS}/p"))["metadata"]) is goes


class Agent:
    """A node agent that knows one log."""

    def __init__(self) -> None:
        self.options: Mapping[str, str] = {}

    async def logs(self, pod: Mapping[str, Any], options: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Two lines, or none for a container that never ran before."""
        self.options = options
        if options.get("previous"):
            raise errors.bad_request("there was none")
        yield b"one\n"
        yield f"{pod['metadata']['name']}\n".encode()

    async def connect(self, request: web.Request, pod: Mapping[str, Any], subresource: str) -> web.StreamResponse:
        """Not used here."""
        raise NotImplementedError


async def test_logs_come_from_the_node_agent(api: Any) -> None:
    await api.create(PODS, POD)
    assert (await api.fails(503, "GET", f"{PODS}/p/log"))["reason"] == "ServiceUnavailable"
    agent = Agent()
    api.server.plug_in(agent)
    response = await api.send("GET", f"{PODS}/p/log", query={"tailLines": "2"})
    assert b"".join([chunk async for chunk in response.stream]) == b"one\np\n"
    assert agent.options == {"tailLines": "2", "container": "c"}
    status = await api.fails(400, "GET", f"{PODS}/p/log", query={"previous": "true"})
    assert status["message"] == "there was none"
    status = await api.fails(400, "GET", f"{PODS}/p/log", query={"container": "x"})
    assert status["message"] == "container x is not valid for pod p"


@pytest.mark.parametrize(
    "path", [f"{PODS}/p/ephemeralcontainers", f"{PODS}/p/attach", "/api/v1/namespaces/default/finalize"]
)
async def test_a_subresource_that_is_not_served_is_not_found(api: Any, path: str) -> None:
    await api.create(PODS, POD)
    assert (await api.fails(404, "GET", path))["reason"] == "NotFound"


async def test_a_collection_is_not_deleted_as_a_whole(api: Any) -> None:
    assert (await api.fails(405, "DELETE", PODS))["reason"] == "MethodNotAllowed"
