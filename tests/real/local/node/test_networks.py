# ruff: noqa: ASYNC110, S108 - it looks until it is so, and /dev/shm is the pods' own
"""Virtual nodes, addresses, names and what the containers of a pod share."""

from __future__ import annotations

import asyncio

import aiohttp
from tests.real.local.node.rig import NEEDS, STAY, Api, sh

from kube_local.node.paths import Paths
from kube_runtime.client.objects import NODES

pytestmark = NEEDS


async def test_the_virtual_nodes_are_ready_and_say_what_they_have(api: Api) -> None:
    async with asyncio.timeout(30):
        while not await _is_node_ready(api, "local-1"):
            await asyncio.sleep(0.05)
    node = await api.client.get(NODES.raw(), "local-1")
    found = node.content()
    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "local-1"
    assert int(found["status"]["allocatable"]["cpu"]) >= 1


async def _is_node_ready(api: Api, name: str) -> bool:
    found = [node for node in (await api.client.list(NODES)).items if node.metadata.name == name]
    return any(one.type == "Ready" and one.status == "True" for node in found for one in node.status.conditions)


async def test_a_pod_gets_an_address_a_name_and_the_cluster_s_name_server(api: Api) -> None:
    pod = await api.ready(command=sh(STAY), hostname="worker-7", subdomain="workers", dnsConfig={"searches": ["x.y"]})
    address = pod["status"]["podIP"]
    assert (await api.run("p", "hostname")).strip() == "worker-7"
    assert f"{address}\tworker-7.workers.default.svc.cluster.local\tworker-7" in await api.run("p", "cat", "/etc/hosts")
    names = await api.run("p", "cat", "/etc/resolv.conf")
    assert f"nameserver {pod['status']['hostIP']}" in names
    assert "search default.svc.cluster.local svc.cluster.local cluster.local x.y" in names
    assert address in await api.run("p", "ip", "addr")


async def test_pods_reach_each_other_and_the_host_reaches_them(api: Api) -> None:
    page = sh(f"echo hello > /tmp/index.html; httpd -p 80 -h /tmp; {STAY}")
    one = await api.ready("one", command=page, readinessProbe={"tcpSocket": {"port": 80}})
    await api.ready("two", command=sh(STAY), nodeName="local-1")
    url = f"http://{one['status']['podIP']}/"
    assert await api.run("two", "wget", "-q", "-O", "-", url) == "hello\n"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert await answer.text() == "hello\n"


async def test_a_pod_may_use_the_hosts_network(api: Api) -> None:
    pod = await api.ready(command=sh(STAY), hostNetwork=True)
    assert pod["status"]["podIP"] == pod["status"]["hostIP"]
    assert Paths.of(api.cluster.data).bridge in await api.run("p", "ip", "link")


async def test_containers_of_a_pod_share_network_ipc_and_shared_memory_but_not_processes(api: Api) -> None:
    both = [{"name": name, "image": "busybox", "command": sh(STAY)} for name in ("main", "other")]
    await api.ready(containers=both)
    await api.run("p", "sh", "-c", "echo x > /dev/shm/seen", container="main")
    assert await api.run("p", "cat", "/dev/shm/seen", container="other") == "x\n"
    assert "1 root" in (await api.run("p", "ps", container="other")).replace("    ", " ").replace("  ", " ")
    links = {await api.run("p", "readlink", "/proc/self/ns/net", container=name) for name in ("main", "other")}
    assert len(links) == 1
