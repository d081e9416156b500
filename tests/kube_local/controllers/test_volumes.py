"""Claims and volumes on the embedded API server, with real folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kube_local.controllers.volumes import FolderFailed, Folders

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: tape}
spec:
  accessModes: [ReadWriteOnce, ReadWriteMany]
  capacity: {storage: 5Gi}
  storageClassName: tapes
  hostPath: {path: /tmp/tape}
"""


async def _bound(cluster: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    await cluster.status("PersistentVolumeClaim", "data", phase="Bound")
    claim = await cluster.there("PersistentVolumeClaim", "data")
    await cluster.status("PersistentVolume", claim["spec"]["volumeName"], phase="Bound")
    return claim, await cluster.there("PersistentVolume", claim["spec"]["volumeName"])


async def test_a_claim_gets_a_folder_of_the_default_class(cluster: Any) -> None:
    await cluster.apply(CLAIM)
    claim, volume = await _bound(cluster)
    assert claim["status"]["capacity"] == {"storage": "1Gi"}
    assert claim["status"]["accessModes"] == ["ReadWriteOnce"]
    assert volume["metadata"]["name"] == f"pvc-{claim['metadata']['uid']}"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    assert volume["spec"]["storageClassName"] == "local-path"
    folder = Path(volume["spec"]["hostPath"]["path"])
    assert folder.parent == cluster.volumes
    assert folder.stat().st_mode & 0o777 == 0o777  # noqa: ASYNC240  # a local file


async def test_a_deleted_claim_takes_its_folder_along(cluster: Any) -> None:
    await cluster.apply(CLAIM)
    _, volume = await _bound(cluster)
    (cluster.volumes / volume["metadata"]["name"] / "jobs").mkdir()
    await cluster.delete("PersistentVolumeClaim", "data")

    async def gone() -> bool:
        return await cluster.get("PersistentVolume", volume["metadata"]["name"]) is None

    await cluster.until(gone)
    assert not list(cluster.volumes.iterdir())


async def test_a_retained_volume_is_released_and_keeps_its_data(cluster: Any) -> None:
    await cluster.apply(CLAIM)
    _, volume = await _bound(cluster)
    name = volume["metadata"]["name"]
    await cluster.patch("PersistentVolume", name, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    await cluster.delete("PersistentVolumeClaim", "data")
    await cluster.status("PersistentVolume", name, phase="Released")
    await cluster.quiet()
    assert (cluster.volumes / name).is_dir()
    await cluster.apply(CLAIM)
    claim, _ = await _bound(cluster)
    assert claim["spec"]["volumeName"] != name


async def test_a_claim_in_use_stays_until_its_pod_is_gone(cluster: Any) -> None:
    await cluster.apply(CLAIM)
    await _bound(cluster)
    volumes = "[{name: data, persistentVolumeClaim: {claimName: data}}]"
    await cluster.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: user}, spec: {containers: [{name: main, image: image}], "
        f"volumes: {volumes}}}}}"
    )
    await cluster.status("Pod", "user", phase="Running")
    await cluster.delete("PersistentVolumeClaim", "data")
    await cluster.quiet()
    claim = await cluster.there("PersistentVolumeClaim", "data")
    assert claim["metadata"]["deletionTimestamp"]
    assert (cluster.volumes / claim["spec"]["volumeName"]).is_dir()
    await cluster.delete("Pod", "user")

    async def gone() -> bool:
        return await cluster.get("PersistentVolumeClaim", "data") is None

    await cluster.until(gone)


async def test_a_claim_finds_a_volume_that_was_made_by_hand(cluster: Any) -> None:
    await cluster.apply(VOLUME)
    await cluster.status("PersistentVolume", "tape", phase="Available")
    await cluster.apply(CLAIM.replace("{accessModes", "{storageClassName: tapes, accessModes"))
    claim, volume = await _bound(cluster)
    assert claim["spec"]["volumeName"] == "tape"
    assert claim["status"]["capacity"] == {"storage": "5Gi"}
    assert volume["spec"]["claimRef"]["name"] == "data"
    await cluster.delete("PersistentVolumeClaim", "data")
    await cluster.status("PersistentVolume", "tape", phase="Released")


async def test_a_claim_of_an_unknown_class_waits_and_is_bound_when_a_volume_comes(cluster: Any) -> None:
    await cluster.apply(CLAIM.replace("{accessModes", "{storageClassName: tapes, accessModes"))
    await cluster.quiet()
    assert (await cluster.there("PersistentVolumeClaim", "data"))["status"]["phase"] == "Pending"
    await cluster.apply(VOLUME)
    await _bound(cluster)


@pytest.mark.parametrize("name", ["", "..", "../etc", "a/b", ".hidden"])
def test_no_name_leads_out_of_the_folder_of_volumes(tmp_path: Path, name: str) -> None:
    with pytest.raises(FolderFailed):
        Folders(tmp_path).path(name)
