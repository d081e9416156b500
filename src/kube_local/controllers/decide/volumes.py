"""Claims and volumes: which volume a claim gets, and what becomes of a volume. Pure; see `controllers/volumes.py`.

claim without a volume -> a volume that was made for it, or fits; or one is provisioned by its storage class
claim with a volume    -> bound, when the volume is there and is not somebody else's
volume without a claim -> released; then deleted with its data, or kept, as its policy says
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from kube_local.controllers.decide.selector import selects
from kube_local.controllers.objects import Claim, Json, PersistentVolume, StorageClass
from kube_runtime import quantity

PROVISIONER = "slurm-operator/local-path"
CLASS_NAME = "local-path"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_US = "pv.kubernetes.io/bound-by-controller"


@dataclass(frozen=True, slots=True)
class Bind:
    """This volume and this claim belong together."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Provision:
    """Make a volume of this class."""

    storage_class: StorageClass


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done; `phase` and `why` are for people."""

    phase: str
    why: str


def storage_class() -> Json:
    """The class that every local cluster has."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS_NAME, "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def class_name(claim: Claim, classes: Iterable[StorageClass]) -> str:
    """The class of a claim; one that names none gets the newest default."""
    if claim.spec.storage_class_name is not None:
        return claim.spec.storage_class_name
    defaults = [one for one in classes if one.metadata.annotations.get(DEFAULT_CLASS) == "true"]
    newest = max(defaults, key=lambda one: (one.metadata.creation_timestamp, one.metadata.name), default=None)
    return newest.metadata.name if newest else ""


def decide_claim(
    claim: Claim, volumes: Mapping[str, PersistentVolume], classes: Mapping[str, StorageClass]
) -> Bind | Provision | Wait:
    """What becomes of a claim."""
    if claim.spec.volume_name:
        return _named(claim, volumes.get(claim.spec.volume_name))
    name = class_name(claim, classes.values())
    found = _best(claim, name, volumes.values())
    if found is not None:
        return Bind(found)
    made_by = classes.get(name)
    if made_by is not None and made_by.provisioner == PROVISIONER:
        return _may_provision(claim, made_by)
    if name and made_by is None:
        return Wait("Pending", f'storageclass.storage.k8s.io "{name}" not found')
    return Wait("Pending", "no persistent volumes available for this claim and no storage class is set")


def _may_provision(claim: Claim, made_by: StorageClass) -> Provision | Wait:
    if claim.spec.selector is not None:
        return Wait("Pending", "a claim with a selector cannot be provisioned: make a volume that it selects")
    if claim.spec.volume_mode == "Block":
        return Wait("Pending", f"{made_by.metadata.name} has folders only: set volumeMode to Filesystem")
    return Provision(made_by)


def _named(claim: Claim, volume: PersistentVolume | None) -> Bind | Wait:
    was_bound = BIND_COMPLETED in claim.metadata.annotations
    if volume is None:
        why = f'volume "{claim.spec.volume_name}" not found'
        return Wait("Lost", why) if was_bound else Wait("Pending", why)
    if not is_for(volume, claim):
        why = f'volume "{volume.metadata.name}" already bound to a different claim.'
        return Wait("Lost", why) if was_bound else Wait("Pending", why)
    return Bind(volume)


def is_for(volume: PersistentVolume, claim: Claim) -> bool:
    """Whether a volume is free, or kept for this claim."""
    held = volume.spec.claim_ref
    if held is None:
        return True
    same = (held.namespace, held.name) == (claim.metadata.namespace, claim.metadata.name)
    return same and held.uid in ("", claim.metadata.uid)


def _best(claim: Claim, name: str, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """A volume kept for the claim, or the smallest free one that fits."""
    fitting = [volume for volume in volumes if is_for(volume, claim) and _fits(claim, name, volume)]
    return min(fitting, key=lambda one: (one.spec.claim_ref is None, size_of(one), one.metadata.name), default=None)


def _fits(claim: Claim, name: str, volume: PersistentVolume) -> bool:
    spec = volume.spec
    return (
        # Whoever made a volume for this very claim has chosen: neither class nor labels count.
        (spec.claim_ref is not None or _is_chosen(claim, name, volume))
        and not volume.metadata.deletion_timestamp
        and spec.volume_mode == claim.spec.volume_mode
        and set(claim.spec.access_modes) <= set(spec.access_modes)
        and size_of(volume) >= requested(claim)
    )


def _is_chosen(claim: Claim, name: str, volume: PersistentVolume) -> bool:
    """Whether a volume that is kept for nobody is one of those that a claim may have."""
    selector = claim.spec.selector
    return (
        volume.status.get("phase") == "Available"
        and volume.spec.storage_class_name == name
        and (selector is None or selects(selector, volume.metadata.labels))
    )


def requested(claim: Claim) -> Fraction:
    """How much a claim asks for."""
    return quantity.parse(claim.spec.resources.requests.get("storage", 0)) or Fraction(0)


def size_of(volume: PersistentVolume) -> Fraction:
    """How much a volume says it has."""
    return quantity.parse(volume.spec.capacity.get("storage", 0)) or Fraction(0)


# --- what is written ----------------------------------------------------------------------------------------------


def volume_name(claim: Claim) -> str:
    """The volume that is provisioned for a claim."""
    return f"pvc-{claim.metadata.uid}"


def provisioned(claim: Claim, made_by: StorageClass, path: str) -> Json:
    """A volume that is a folder of this machine, bound to a claim from its first moment."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(claim), "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "accessModes": list(claim.spec.access_modes),
            "capacity": {"storage": claim.spec.resources.requests.get("storage", "0")},
            "claimRef": claim_reference(claim),
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
            "persistentVolumeReclaimPolicy": made_by.reclaim_policy,
            "storageClassName": made_by.metadata.name,
            "volumeMode": claim.spec.volume_mode,
        },
    }


def claim_reference(claim: Claim) -> Json:
    """A claim as a volume names it."""
    head = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": head.namespace,
        "name": head.name,
        "uid": head.uid,
    }


def bound_status(claim: Claim, volume: PersistentVolume) -> Json:
    """The status of a claim that has its volume."""
    return {
        **claim.status,
        "phase": "Bound",
        "accessModes": list(volume.spec.access_modes),
        "capacity": {"storage": volume.spec.capacity.get("storage", "0")},
    }


# --- volumes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VolumeDecision:
    """The phase of a volume, and whether it and its data are to go."""

    phase: str
    reclaim: bool = False


def decide_volume(volume: PersistentVolume, claim: Claim | None) -> VolumeDecision:
    """What becomes of a volume; `claim` is the one that it names, if there is one of that name."""
    held = volume.spec.claim_ref
    if held is None or not held.uid:
        return VolumeDecision("Available")
    if claim is not None and claim.metadata.uid == held.uid:
        return VolumeDecision(
            "Bound"
            if claim.spec.volume_name == volume.metadata.name
            else str(volume.status.get("phase") or "Available")
        )
    ours = volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
    return VolumeDecision("Released", reclaim=ours and volume.spec.persistent_volume_reclaim_policy == "Delete")
