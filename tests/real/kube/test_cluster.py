"""The real control plane itself: it starts, obeys, runs fake pods, collects garbage and leaves nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from tests.real.kube.cluster import Cluster, ClusterError, Processes, real_cluster
from tests.real.kube.fake_nodes import fake_nodes
from tests.real.kube.tools import kube_version

pytestmark = pytest.mark.real_kube
Json = dict[str, Any]


@pytest_asyncio.fixture
async def http(real_kube: Cluster) -> AsyncIterator[aiohttp.ClientSession]:
    """An administrator's session on the loop of the test."""
    async with real_kube.session() as session:
        yield session


def is_alive(pid: int) -> bool:
    """Whether a process, or its remains, are still there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(http: aiohttp.ClientSession, path: str, wanted: Callable[[int, Json], bool]) -> Json:
    """Poll one path until its answer is as wanted."""
    async with asyncio.timeout(60):
        while True:
            async with http.get(path) as answer:
                body = await answer.json()
                if wanted(answer.status, body):
                    return dict(body)
            await asyncio.sleep(0.1)


async def create(http: aiohttp.ClientSession, path: str, body: Json) -> Json:
    """Create one object or fail with the server's words."""
    async with http.post(path, json=body) as answer:
        assert answer.status == 201, await answer.text()
        return dict(await answer.json())


async def test_server_has_the_pinned_version(http: aiohttp.ClientSession) -> None:
    async with http.get("/version") as answer:
        assert (await answer.json())["gitVersion"] == f"v{kube_version()}"


async def test_stranger_is_refused(real_kube: Cluster) -> None:
    connector = aiohttp.TCPConnector(ssl=real_kube.ssl_context())
    async with (
        aiohttp.ClientSession(connector=connector) as stranger,
        stranger.get(f"{real_kube.url}/api/v1/pods", headers={"Authorization": "Bearer wrong"}) as answer,
    ):
        assert answer.status == 401


async def test_deployment_runs_on_fake_nodes_and_goes_with_its_owner(
    real_kube: Cluster, http: aiohttp.ClientSession
) -> None:
    labels = {"app": "fake"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "nothing"}], "terminationGracePeriodSeconds": 5},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "fake"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
    }
    base = "/apis/apps/v1/namespaces/default/deployments"
    pods = "/api/v1/namespaces/default/pods?labelSelector=app%3Dfake"
    async with fake_nodes(real_kube, 2) as kubelets:
        await create(http, base, deployment)
        await until(http, f"{base}/fake", lambda _, it: it["status"].get("readyReplicas") == 3)
        running = await until(http, pods, lambda _, it: len(it["items"]) == 3)
        assert len({pod["status"]["podIP"] for pod in running["items"]}) == 3
        async with http.delete(f"{base}/fake") as answer:
            assert answer.status == 200
        await until(http, pods, lambda _, it: not it["items"])
        assert kubelets.failures == []


async def test_a_part_that_dies_at_start_is_named_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"(?s)kube-apiserver ended with code \d+.*no-such-flag"):
        async with real_cluster(tmp_path, apiserver_flags=("--no-such-flag",)):
            pass


async def test_nothing_is_left_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    start = Processes.start

    def remember(self: Processes, name: str, arguments: list[str]) -> None:
        start(self, name, arguments)
        seen.append(self.running[-1][1].pid)

    monkeypatch.setattr(Processes, "start", remember)
    with pytest.raises(RuntimeError, match="the test broke"):
        async with real_cluster(tmp_path):
            raise RuntimeError("the test broke")
    assert len(seen) == 2
    assert not [pid for pid in seen if is_alive(pid)]
