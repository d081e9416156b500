"""Claims and volumes: bound, provisioned as folders of this machine, reclaimed. Decided in `decide/volumes.py`.

Folders are made and removed in one place, below `Settings.volumes`; no other path is ever touched. Finalizers that
protect claims and volumes in use are the API server's own.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kube_local.controllers.decide import volumes as decide
from kube_local.controllers.objects import (
    CLAIMS,
    VOLUMES,
    Claim,
    Json,
    PersistentVolume,
    StorageClass,
)
from kube_local.controllers.world import World
from kube_runtime.client.errors import Invalid, NotFound
from kube_runtime.errors import Retryable
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key


class FolderFailed(Retryable):
    """A folder of a volume could not be made or removed."""

    reason: ClassVar[str] = "ProvisioningFailed"


@dataclass(frozen=True, slots=True)
class Folders:
    """Where provisioned volumes are."""

    root: Path

    def path(self, name: str) -> Path:
        """The folder of one volume; the name is one step, never a way out."""
        if not name or "/" in name or name.startswith("."):
            raise FolderFailed(f"{name!r} is no name of a volume")
        return self.root / name

    async def make(self, name: str) -> Path:
        """An empty folder that every user of a pod may write to."""
        path = self.path(name)
        try:
            await asyncio.to_thread(_make, path)
        except OSError as error:
            raise FolderFailed(f"cannot make the folder of volume {name}: {error}") from error
        return path

    async def remove(self, name: str) -> None:
        """The folder and everything in it."""
        path = self.path(name)
        try:
            await asyncio.to_thread(_remove, path)
        except OSError as error:
            raise FolderFailed(f"cannot remove the folder of volume {name}: {error}") from error


def _make(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)


def _remove(path: Path) -> None:
    if path.exists() and not path.is_symlink():
        shutil.rmtree(path)


@dataclass(frozen=True, slots=True)
class Claims:
    """The controller of PersistentVolumeClaims."""

    world: World
    folders: Folders

    async def __call__(self, key: Key) -> Result:
        """Give a claim its volume."""
        caches = self.world.caches
        claim = caches.claims.get(key.namespace, key.name)
        if claim is None or claim.metadata.deletion_timestamp:
            return Result()
        volumes = {one.metadata.name: one for one in caches.volumes.items()}
        classes = {one.metadata.name: one for one in caches.storage_classes.items()}
        match decide.decide_claim(claim, volumes, classes):
            case decide.Provision(made_by):
                await self._provision(claim, made_by)
            case decide.Bind(volume):
                await self._bind(claim, volume)
            case decide.Wait(phase, why):
                await self.world.status(CLAIMS, claim, {**claim.status, "phase": phase})
                self.world.record_event("Normal", claim, CLAIMS, "FailedBinding", why)
        return Result()

    async def _provision(self, claim: Claim, made_by: StorageClass) -> None:
        """Folder first, then the volume that names it; its event brings the claim back here to be bound."""
        name = decide.volume_name(claim)
        path = await self.folders.make(name)
        made = await self.world.create(decide.provisioned(claim, made_by, str(path)))
        if made is not None:
            await self.world.seen(self.world.caches.volumes, [made])
            self.world.record_event(
                "Normal", claim, CLAIMS, "ProvisioningSucceeded", f"Successfully provisioned volume {name}"
            )
        volume = self.world.caches.volumes.get("", name)
        if volume is not None:
            await self._bind(claim, volume)

    async def _bind(self, claim: Claim, volume: PersistentVolume) -> None:
        volume = await self._bind_volume(claim, volume)
        claim = await self._name_volume(claim, volume)
        await self.world.status(CLAIMS, claim, decide.bound_status(claim, volume))
        await self.world.status(VOLUMES, volume, {**volume.status, "phase": "Bound"})

    async def _bind_volume(self, claim: Claim, volume: PersistentVolume) -> PersistentVolume:
        held = volume.spec.claim_ref
        if held is not None and held.uid == claim.metadata.uid:
            return volume
        reference = decide.claim_reference(claim)
        annotations = {decide.BOUND_BY_US: "yes"} if held is None else {}
        patch: Json = {"spec": {"claimRef": reference}, "metadata": {"annotations": annotations}}
        written = await self.world.patch(VOLUMES, volume, patch)
        await self.world.seen(self.world.caches.volumes, [written])
        return self.world.caches.volumes.get("", volume.metadata.name) or volume

    async def _name_volume(self, claim: Claim, volume: PersistentVolume) -> Claim:
        head = claim.metadata
        if decide.BIND_COMPLETED in head.annotations and claim.spec.volume_name:
            return claim
        annotations = {decide.BIND_COMPLETED: "yes"}
        if not claim.spec.volume_name:
            annotations[decide.BOUND_BY_US] = "yes"
        patch: Json = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.metadata.name}}
        if claim.spec.storage_class_name is None and volume.spec.storage_class_name:
            patch["spec"]["storageClassName"] = volume.spec.storage_class_name
        try:
            written = await self.world.patch(CLAIMS, claim, patch)
        except Invalid:
            # A server that lets nobody name the class of a claim afterwards.
            patch["spec"].pop("storageClassName", None)
            written = await self.world.patch(CLAIMS, claim, patch)
        await self.world.seen(self.world.caches.claims, [written])
        return self.world.caches.claims.get(head.namespace, head.name) or claim


@dataclass(frozen=True, slots=True)
class Volumes:
    """The controller of PersistentVolumes."""

    world: World
    folders: Folders

    async def __call__(self, key: Key) -> Result:
        """Say what a volume is, and take it away when it is to go."""
        caches = self.world.caches
        volume = caches.volumes.get("", key.name)
        if volume is None:
            return Result()
        held = volume.spec.claim_ref
        claim = caches.claims.get(held.namespace, held.name) if held else None
        decision = decide.decide_volume(volume, claim)
        if decision.phase == "Released" and not await self._is_gone(volume):
            return Result(1.0)
        await self.world.status(VOLUMES, volume, {**volume.status, "phase": decision.phase})
        if decision.reclaim:
            await self._reclaim(volume)
        return Result()

    async def _is_gone(self, volume: PersistentVolume) -> bool:
        """Data is at stake: the server itself is asked, not the cache."""
        held = volume.spec.claim_ref
        if held is None:
            return False
        try:
            claim = await self.world.client.get(CLAIMS, held.name, held.namespace)
        except NotFound:
            return True
        return claim.metadata.uid != held.uid

    async def _reclaim(self, volume: PersistentVolume) -> None:
        await self.folders.remove(volume.metadata.name)
        await self.world.writer.delete(VOLUMES, volume.metadata.name, uid=volume.metadata.uid)
