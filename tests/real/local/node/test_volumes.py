"""Volumes: modes and owners, nudged refreshes, claims."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.real.local.node.rig import NEEDS, STAY, Api, is_ready, sh

from kube_local.node.fetch import PERSISTENT_VOLUMES
from kube_local.node.paths import Paths
from kube_runtime.client.objects import CLAIMS, CONFIG_MAPS, PODS, SECRETS

pytestmark = NEEDS


def projected(name: str, *sources: dict[str, Any], mode: int = 0o600) -> dict[str, Any]:
    return {"name": name, "projected": {"defaultMode": mode, "sources": list(sources)}}


async def test_volumes_have_the_modes_and_owners_that_a_kubelet_gives(api: Api) -> None:
    await api.put(CONFIG_MAPS, "conf", {"a": "A", "b": "B"})
    await api.put(SECRETS, "key", {"slurm.key": "K"})
    mounts = [
        {"name": "etc", "mountPath": "/etc/slurm", "readOnly": True},
        {"name": "mem", "mountPath": "/mem"},
        {"name": "mem", "mountPath": "/mem/inner"},
        {"name": "etc", "mountPath": "/one", "subPath": "slurm.key"},
        {"name": "scratch", "mountPath": "/own", "subPath": "made/here"},
    ]
    items = [{"key": "a", "path": "deep/a", "mode": 0o444}]
    await api.ready(
        containers=[{"name": "main", "image": "busybox", "command": sh(STAY), "volumeMounts": mounts}],
        securityContext={"fsGroup": 401, "runAsUser": 401, "runAsGroup": 401},
        volumes=[
            projected("etc", {"configMap": {"name": "conf", "items": items}}, {"secret": {"name": "key"}}),
            {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
            {"name": "scratch", "emptyDir": {}},
        ],
    )
    listed = await api.run("p", "stat", "-L", "-c", "%n %a %u:%g", "/etc/slurm/slurm.key", "/etc/slurm/deep/a", "/mem")
    assert listed.splitlines() == ["/etc/slurm/slurm.key 640 0:401", "/etc/slurm/deep/a 444 0:401", "/mem 2777 0:401"]
    assert await api.run("p", "cat", "/one") == "K"
    assert "4096" in (await api.run("p", "df", "-k", "/mem")).split()
    await api.run("p", "touch", "/own/file", "/mem/file")
    assert "slurm.key -> ..data/slurm.key" in await api.run("p", "ls", "-l", "/etc/slurm")


async def test_a_changed_config_map_is_seen_at_once_after_a_nudge_and_all_files_change_as_one(api: Api) -> None:
    await api.put(CONFIG_MAPS, "live", {"a": "1", "b": "1", "old": "x"})
    volume = {"name": "v", "configMap": {"name": "live"}}
    loop = "while :; do echo $(cat /v/..data/a)$(cat /v/..data/b); done | uniq"
    await api.ready(command=sh(loop), volumeMounts=[{"name": "v", "mountPath": "/v"}], volumes=[volume])
    await api.put(CONFIG_MAPS, "live", {"a": "2", "b": "2", "new": "y"})
    patch = {"metadata": {"annotations": {"nudge": "1"}}}
    started = time.monotonic()
    await api.client.merge_patch(PODS, "p", patch, "default")
    file = next(Paths.of(api.cluster.data).pods.glob("*/memory/v/a"))
    while file.read_text() != "2":
        await asyncio.sleep(0.002)
        assert time.monotonic() - started < 30
    print(f"nudge to file: {time.monotonic() - started:.3f} s")
    assert sorted(name for name in (await api.run("p", "ls", "/v")).split()) == ["a", "b", "new"]


async def test_a_volume_waits_for_its_config_map(api: Api) -> None:
    volumes = [
        {"name": "v", "configMap": {"name": "coming"}},
        {"name": "w", "secret": {"secretName": "no", "optional": True}},
    ]
    await api.pod(command=sh(STAY), volumes=volumes, volumeMounts=[{"name": "v", "mountPath": "/v"}])
    await api.event("p", "FailedMount", 'configmap "coming" not found')
    await api.put(CONFIG_MAPS, "coming", {"k": "v"})
    await api.until("p", is_ready)


async def test_a_volume_that_local_mode_cannot_mount_is_named(api: Api) -> None:
    await api.pod(command=sh(STAY), volumes=[{"name": "share", "nfs": {"server": "s", "path": "/"}}])
    await api.event("p", "FailedMount", "'share' is of type nfs, which local mode cannot mount")
    await api.gone("p")


async def test_a_claim_s_folder_keeps_its_files_over_pods(api: Api) -> None:
    folder = api.cluster.data / "claimed"
    folder.mkdir(exist_ok=True)
    size = {"storage": "1Mi"}
    volume = {"capacity": size, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(folder)}}
    await api.client.create(
        PERSISTENT_VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": volume}
    )
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "volumeName": "pv"}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim}
    await api.client.create(CLAIMS, body, "default")
    mount = {
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    await api.pod("first", command=sh(f"echo kept > /v/file; {STAY}"), **mount)
    await api.event("first", "FailedMount", '"data" is not bound')
    await api.client.merge_patch(CLAIMS, "data", {"status": {"phase": "Bound"}}, "default", subresource="status")
    await api.until("first", is_ready)
    await api.gone("first")
    await api.ready("second", command=sh(STAY), **mount)
    assert await api.run("second", "cat", "/v/file") == "kept\n"
