"""Which volume a claim gets, and what becomes of a volume."""

from __future__ import annotations

from typing import Any

import pytest

from kube_local.controllers.decide.volumes import (
    PROVISIONED_BY,
    PROVISIONER,
    Bind,
    Provision,
    VolumeDecision,
    Wait,
    decide_claim,
    decide_volume,
    storage_class,
)
from kube_local.controllers.objects import Claim, PersistentVolume, StorageClass


def _claim(make: Any, **spec: Any) -> Claim:
    head = {"name": "data", "namespace": "ns", "uid": "c", "annotations": spec.pop("annotations", {})}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, **spec}
    made: Claim = make.of(Claim, metadata=head, spec=spec)
    return made


def _volume(make: Any, name: str, size: str = "5Gi", phase: str = "Available", **spec: Any) -> PersistentVolume:
    head = {"name": name, "labels": spec.pop("labels", {}), "annotations": spec.pop("annotations", {})}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": "tapes", **spec}
    made: PersistentVolume = make.of(PersistentVolume, metadata=head, spec=spec, status={"phase": phase})
    return made


def _decide(make: Any, claim: Claim, *volumes: PersistentVolume) -> Any:
    body = storage_class()
    local = make.of(StorageClass, **{key: value for key, value in body.items() if key not in ("apiVersion", "kind")})
    return decide_claim(claim, {one.metadata.name: one for one in volumes}, {"local-path": local})


def test_a_claim_without_a_class_is_provisioned_by_the_default(make: Any) -> None:
    assert isinstance(_decide(make, _claim(make), _volume(make, "tape")), Provision)


def test_the_smallest_fitting_volume_is_taken(make: Any) -> None:
    volumes = [_volume(make, "huge", "9Gi"), _volume(make, "right", "2Gi"), _volume(make, "small", "1Gi")]
    answer = _decide(make, _claim(make, storageClassName="tapes"), *volumes)
    assert isinstance(answer, Bind)
    assert answer.volume.metadata.name == "right"


def test_a_volume_that_is_kept_for_the_claim_comes_first(make: Any) -> None:
    kept = _volume(make, "kept", "9Gi", phase="", claimRef={"namespace": "ns", "name": "data"})
    answer = _decide(make, _claim(make, storageClassName="tapes"), _volume(make, "free", "2Gi"), kept)
    assert answer == Bind(kept)


def test_a_volume_that_is_kept_for_the_claim_needs_neither_its_class_nor_its_labels(make: Any) -> None:
    kept = _volume(make, "kept", phase="", storageClassName="", claimRef={"namespace": "ns", "name": "data"})
    wanted = {"selector": {"matchLabels": {"disk": "fast"}}}
    assert _decide(make, _claim(make, storageClassName="tapes", **wanted), kept) == Bind(kept)
    assert isinstance(_decide(make, _claim(make, storageClassName="tapes", **wanted), _volume(make, "free")), Wait)


@pytest.mark.parametrize(
    "spec",
    [
        {"accessModes": ["ReadOnlyMany"]},
        {"storageClassName": "other"},
        {"volumeMode": "Block"},
        {"claimRef": {"namespace": "ns", "name": "somebody", "uid": "x"}},
        {"claimRef": {"namespace": "ns", "name": "data", "uid": "an earlier one"}},
        {"phase": "Released"},
    ],
    ids=["modes", "class", "block", "somebody's", "an earlier claim's", "released"],
)
def test_a_volume_that_does_not_fit_is_left(make: Any, spec: dict[str, Any]) -> None:
    answer = _decide(make, _claim(make, storageClassName="tapes"), _volume(make, "tape", **dict(spec)))
    assert isinstance(answer, Wait)


@pytest.mark.parametrize(
    ("spec", "phase"),
    [
        ({"volumeName": "gone"}, "Pending"),
        ({"volumeName": "gone", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "Lost"),
        ({"storageClassName": ""}, "Pending"),
        ({"storageClassName": "local-path", "volumeMode": "Block"}, "Pending"),
        ({"storageClassName": "local-path", "selector": {"matchLabels": {"a": "b"}}}, "Pending"),
    ],
    ids=["missing volume", "lost volume", "no class and no volume", "no block devices", "a selector"],
)
def test_a_claim_that_cannot_be_met_waits(make: Any, spec: dict[str, Any], phase: str) -> None:
    answer = _decide(make, _claim(make, **dict(spec)))
    assert isinstance(answer, Wait)
    assert answer.phase == phase
    assert answer.why


OURS = {PROVISIONED_BY: PROVISIONER}
HELD = {"namespace": "ns", "name": "data", "uid": "c"}


@pytest.mark.parametrize(
    ("spec", "there", "fate"),
    [
        ({}, True, VolumeDecision("Available")),
        ({"claimRef": HELD}, True, VolumeDecision("Bound")),
        ({"claimRef": HELD, "annotations": OURS}, False, VolumeDecision("Released")),
        (
            {"claimRef": HELD, "annotations": OURS, "persistentVolumeReclaimPolicy": "Delete"},
            False,
            VolumeDecision("Released", reclaim=True),
        ),
        ({"claimRef": HELD, "persistentVolumeReclaimPolicy": "Delete"}, False, VolumeDecision("Released")),
        (
            {"claimRef": {**HELD, "uid": "before"}, "annotations": OURS, "persistentVolumeReclaimPolicy": "Delete"},
            True,
            VolumeDecision("Released", reclaim=True),
        ),
    ],
    ids=["free", "bound", "kept", "reclaimed", "not ours to reclaim", "the claim was made anew"],
)
def test_what_becomes_of_a_volume(make: Any, spec: dict[str, Any], there: bool, fate: VolumeDecision) -> None:
    claim = _claim(make, volumeName="tape") if there else None
    assert decide_volume(_volume(make, "tape", **dict(spec)), claim) == fate
