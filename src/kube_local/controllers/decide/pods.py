"""What a controller wants to know of a pod, and the pod that a template stands for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kube_local.controllers.objects import Json, Pod
from kube_runtime.client.objects import KubeObject, OwnerReference

FINISHED = frozenset({"Succeeded", "Failed"})


def condition(pod: Pod, kind: str) -> Json:
    """The condition of that type; empty when there is none."""
    return next((one for one in pod.status.conditions if one.get("type") == kind), {})


def is_ready(pod: Pod) -> bool:
    """Running, with its Ready condition true."""
    return pod.status.phase == "Running" and condition(pod, "Ready").get("status") == "True"


def is_terminating(pod: Pod) -> bool:
    """Deleted, though perhaps still running."""
    return bool(pod.metadata.deletion_timestamp)


def is_active(pod: Pod) -> bool:
    """Counts as a replica: neither finished nor going."""
    return pod.status.phase not in FINISHED and not is_terminating(pod)


def controller_of(item: KubeObject) -> OwnerReference | None:
    """The owner that controls an object."""
    owners: Sequence[OwnerReference] = item.metadata.owner_references
    return next((owner for owner in owners if owner.controller), None)


def owner_reference(api_version: str, kind: str, owner: KubeObject) -> Json:
    """The reference that makes `owner` the controller of an object."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def from_template(template: Mapping[str, Any], namespace: str, owner: Json, **metadata: Any) -> Json:
    """A pod as a template describes it; `metadata` adds name, labels and the like."""
    described = template.get("metadata") or {}
    labels = {**(described.get("labels") or {}), **(metadata.pop("labels", None) or {})}
    head: Json = {
        **metadata,
        "namespace": namespace,
        "labels": labels,
        "annotations": dict(described.get("annotations") or {}),
        "finalizers": list(described.get("finalizers") or ()),
        "ownerReferences": [owner],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: value for key, value in head.items() if value},
        "spec": dict(template.get("spec") or {}),
    }
