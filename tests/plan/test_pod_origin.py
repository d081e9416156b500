"""What pods were made of is taken from notes that this operator applied, and from nothing that others wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kube_runtime.client.objects import RawObject, decode_hook
from slurm_operator.build import labels
from slurm_operator.build.made_of import PodOrigin
from slurm_operator.plan import pod_origin

NOTE = {labels.PODS_HASH: "a", labels.PRIVILEGED_PODS_HASH: "b"}
OURS = {"manager": "slurm-operator", "operation": "Apply", "apiVersion": "apps/v1"}
GO = {"manager": "manager", "operation": "Update", "apiVersion": "apps/v1"}
TEMPLATE = {"spec": {"hostPID": True}}


def item(manager: Mapping[str, str], fields: Mapping[str, Any] | None = None) -> RawObject:
    noted: dict[str, Any] = {"f:annotations": {f"f:{key}": {} for key in NOTE}}
    entry = {**manager, "fieldsV1": {"f:metadata": noted, **(fields or {})}}
    meta = {"name": "x", "namespace": "ns", "annotations": NOTE, "managedFields": [entry]}
    body = {"metadata": meta, "data": {"held": "it"}, "spec": {"template": TEMPLATE}}
    found: RawObject = decode_hook(RawObject, body)
    return found


def test_notes_that_we_applied_are_read() -> None:
    assert pod_origin.of_revision(item(OURS)) == PodOrigin("a", "b", {"held": "it"})
    assert pod_origin.of_workload(item(OURS)) == PodOrigin("a", "b")


@pytest.mark.parametrize(
    "manager", [GO, {**OURS, "manager": "kubectl"}, {**OURS, "operation": "Update"}], ids=["Go", "kubectl", "an update"]
)
def test_notes_that_others_wrote_are_none(manager: Mapping[str, str]) -> None:
    """The Go operator, too, carries a resource's annotations to its objects."""
    assert pod_origin.of_revision(item(manager)) == PodOrigin(held={"held": "it"})
    assert pod_origin.of_workload(item(manager)) == PodOrigin(held=TEMPLATE)


def test_a_template_of_ours_without_a_note_excuses_nothing() -> None:
    entry = {**OURS, "fieldsV1": {"f:spec": {"f:template": {}}}}
    meta = {"name": "x", "annotations": NOTE, "managedFields": [entry]}
    assert (
        pod_origin.of_workload(decode_hook(RawObject, {"metadata": meta, "spec": {"template": TEMPLATE}}))
        == PodOrigin()
    )
