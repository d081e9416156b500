# ruff: noqa: ASYNC110, ASYNC240 - it looks at files of the machine until they are gone
"""How pods end, what a killed agent finds again, and what is left when all is over."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import msgspec
import pytest
from tests.real.local.node.rig import NEEDS, STAY, Api, Cluster, is_ready, sh, state

from kube_local.node import host, records
from kube_local.node.cleanup import remove_everything
from kube_local.node.paths import Paths
from kube_local.node.records import ContainerRecord, PodRecord
from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.errors import NotFound
from kube_runtime.client.objects import PODS

pytestmark = NEEDS


async def test_a_container_that_ignores_term_is_killed_after_its_grace(api: Api) -> None:
    await api.ready(command=sh("trap '' TERM; while :; do sleep 0.1; done"), terminationGracePeriodSeconds=1)
    last = await api.gone("p")
    assert state(last)["state"]["terminated"]["exitCode"] == 137


async def test_a_deleted_pod_leaves_nothing(api: Api) -> None:
    pod = await api.ready(command=sh(STAY), volumes=[{"name": "m", "emptyDir": {"medium": "Memory"}}])
    uid = pod["metadata"]["uid"]
    last = await api.gone("p")
    assert state(last)["state"]["terminated"]["exitCode"] == 0
    async with asyncio.timeout(10):
        while (Paths.of(api.cluster.data).pods / uid).exists():
            await asyncio.sleep(0.02)
    assert uid not in Path("/proc/self/mountinfo").read_text()
    assert uid not in host.run_now(["ip", "netns", "list"]).out.decode()
    assert not [path for root in host.cgroup_roots() for path in root.glob(f"slk*/{uid}")]
    await api.event("p", "Killing", "Stopping container main")


async def test_a_pod_that_is_forced_away_is_ended_on_the_machine_too(api: Api) -> None:
    pod = await api.ready(command=sh("trap '' TERM; while :; do sleep 0.1; done"), terminationGracePeriodSeconds=300)
    record = api.cluster.record(pod["metadata"]["uid"])
    await api.client.delete(PODS, "p", "default", grace_seconds=0)
    api.made.remove("p")
    async with asyncio.timeout(20):
        await host.ended(record.pid)


async def test_a_condition_that_somebody_else_turned_is_set_right(api: Api) -> None:
    pod = await api.ready(command=sh(STAY))
    lost = [{**one, "status": "False"} if one["type"] == "Ready" else one for one in pod["status"]["conditions"]]
    await api.client.merge_patch(PODS, "p", {"status": {"conditions": lost}}, "default", subresource="status")
    await api.until("p", is_ready)


async def test_a_container_whose_monitor_was_killed_is_started_again(api: Api) -> None:
    pod = await api.ready(command=sh(STAY))
    record = api.cluster.record(pod["metadata"]["uid"])
    os.kill(record.monitor, signal.SIGKILL)
    back = await api.until("p", lambda pod: state(pod).get("restartCount") == 1 and is_ready(pod))
    assert state(back)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert not host.is_alive(record.pid, record.pid_start)


async def test_a_monitor_that_hangs_after_the_end_of_its_container_does_not_keep_the_pod(api: Api) -> None:
    side = {"name": "side", "image": "busybox", "restartPolicy": "Always", "command": sh(STAY)}
    pod = await api.ready(command=sh(STAY), initContainers=[side])
    record = api.cluster.record(pod["metadata"]["uid"])
    os.kill(record.monitor, signal.SIGSTOP)
    os.kill(record.pid, signal.SIGKILL)
    # What the monitor would have written before it began to hang.
    (Paths.of(api.cluster.data).exits / record.container_id).write_text("137")
    last = await api.gone("p")
    assert state(last)["state"]["terminated"]["exitCode"] == 137
    assert state(last, "side")["state"]["terminated"]["exitCode"] == 0
    assert not host.is_alive(record.monitor, record.monitor_start)


async def test_an_end_that_failed_is_tried_again(api: Api) -> None:
    pod = await api.ready(command=sh(STAY))
    in_the_way = Paths.of(api.cluster.data).exits / f"{pod['metadata']['uid']}.in-the-way"
    in_the_way.mkdir()
    await api.client.delete(PODS, "p", "default")
    await api.event("p", "FailedKillPod", "in-the-way")
    in_the_way.rmdir()
    async with asyncio.timeout(30):
        while (Paths.of(api.cluster.data).pods / pod["metadata"]["uid"]).exists():
            await asyncio.sleep(0.02)
    with pytest.raises(NotFound):
        await api.client.get(PODS, "p", "default")
    api.made.remove("p")


async def test_a_killed_agent_finds_its_containers_again_and_leaves_them_alone(api: Api) -> None:
    first = await api.ready("keeps", command=sh(STAY), readinessProbe={"exec": {"command": ["true"]}})
    ends = await api.ready("ends", command=sh(STAY))
    goes = await api.ready("goes", command=sh(STAY))
    before = api.cluster.record(first["metadata"]["uid"])
    api.cluster.kill_agent()
    os.kill(api.cluster.record(ends["metadata"]["uid"]).pid, signal.SIGKILL)
    await api.client.delete(PODS, "goes", "default", grace_seconds=0)
    api.made.remove("goes")
    half_removed = Paths.of(api.cluster.data).pods / "half-removed"
    (half_removed / "memory").mkdir(parents=True)
    api.cluster.start_agent()
    ended = await api.until("ends", lambda pod: state(pod).get("restartCount") == 1 and is_ready(pod))
    assert state(ended)["lastState"]["terminated"]["exitCode"] == 137
    async with asyncio.timeout(20):
        while (Paths.of(api.cluster.data).pods / goes["metadata"]["uid"]).exists() or half_removed.exists():
            await asyncio.sleep(0.02)
    after = api.cluster.record(first["metadata"]["uid"])
    assert (after.pid, after.restarts) == (before.pid, 0)
    now = (await api.client.get(PODS.raw(), "keeps", "default")).content()
    assert is_ready(now)
    assert now["status"]["conditions"] == first["status"]["conditions"]
    assert host.is_alive(after.pid, after.pid_start)
    assert await api.run("keeps", "echo", "well") == "well\n"
    await api.gone("keeps")


async def test_after_a_reboot_of_the_machine_pods_come_back(api: Api) -> None:
    init = {"name": "one", "image": "busybox", "command": sh("echo again")}
    pod = await api.ready(command=sh(STAY), initContainers=[init])
    paths = Paths.of(api.cluster.data).pod(pod["metadata"]["uid"])
    api.cluster.kill_agent()
    _pretend_reboot(api.cluster, paths.folder)
    api.cluster.start_agent()
    back = await api.until("p", lambda pod: state(pod).get("restartCount") == 1 and is_ready(pod))
    assert back["status"]["podIP"] == pod["status"]["podIP"]
    assert state(back)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert (await api.run("p", "hostname")).strip() == "p"


def _pretend_reboot(cluster: Cluster, folder: Path) -> None:
    """Processes, mounts and namespaces are gone, and the machine has another boot id."""
    for file in folder.glob("containers/*/container.json"):
        record = records.load(file, ContainerRecord)
        assert record is not None
        for pid in (record.pid, record.monitor):
            if pid:
                os.kill(pid, signal.SIGKILL)
        records.save(file, msgspec.structs.replace(record, boot="earlier", pid_start="1", monitor_start="1"))
    found = records.load(records.pod_file(folder), PodRecord)
    assert found is not None
    records.save(records.pod_file(folder), msgspec.structs.replace(found, boot="earlier"))
    for point in host.mounts_under(folder):
        host.unmount(point)
    host.run_now(["ip", "netns", "del", Paths.of(cluster.data).pod(found.uid).netns])


async def test_sixteen_pods_at_once_all_become_ready(api: Api) -> None:
    started = time.monotonic()
    names = [f"many-{number}" for number in range(16)]
    await asyncio.gather(
        *(api.pod(name, command=sh(STAY), nodeName=f"local-{index % 2}") for index, name in enumerate(names))
    )
    pods = await asyncio.gather(*(api.until(name, is_ready) for name in names))
    print(f"16 pods ready: {time.monotonic() - started:.2f} s")
    assert len({pod["status"]["podIP"] for pod in pods}) == 16


def test_cleaning_up_leaves_nothing_on_the_machine(tmp_path: Path, rootfs: Path) -> None:
    made = Cluster(tmp_path, rootfs)
    prefix = Paths.of(tmp_path).prefix
    try:
        made.start_server()
        made.start_agent()
        asyncio.run(_one_pod(made))
    finally:
        made.stop()
    assert _traces(tmp_path, prefix)
    remove_everything(tmp_path)
    assert _traces(tmp_path, prefix) == []
    assert not {path.name for path in tmp_path.iterdir()} & {"pods", "runc", "exits", "network.json", "node.sock"}


async def _one_pod(made: Cluster) -> None:
    async with Client.to(kubeconfig.find(path=str(made.data / "kubeconfig"))) as client:
        await Api(made, client, "default").ready(command=sh(STAY))


def _traces(data: Path, prefix: str) -> list[str]:
    """Everything on the machine whose name comes from a data folder."""
    seen = [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(data) in line or prefix in line
    ]
    for command in (["ip", "-o", "link"], ["ip", "netns", "list"]):
        seen += [line for line in host.run_now(command).out.decode().splitlines() if prefix in line]
    seen += [str(path) for root in host.cgroup_roots() for path in root.glob(f"{prefix}*")]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(data).encode() in entry.read_bytes():
                seen.append(str(entry))
        except OSError:
            continue
    return seen
