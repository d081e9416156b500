"""Object metadata: names, owners, labels and annotations of what the operator makes.

In: the custom resource and the object's own parts. Out: the `metadata` mapping of a child. A child carries the labels
and annotations of its resource, except those that tools keep for themselves; a pod carries only what its template says,
and the annotation that restarts a daemon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_operator.api.meta import API_VERSION, Metadata, Resource
from slurm_operator.build.labels import RESTART_TRIGGER

Object = dict[str, Any]

# kubectl, Helm and Argo CD recognise their own objects by these; a child that carried them would be taken for one.
TOOL_KEYS = ("kubectl.kubernetes.io/", "meta.helm.sh/", "argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/")


def kind_of(cr: Resource) -> str:
    """The kind of a resource."""
    return type(cr).__name__


def owner(cr: Resource, *, controller: bool = True) -> Object:
    """An owner reference to a resource."""
    reference: Object = {
        "apiVersion": API_VERSION,
        "kind": kind_of(cr),
        "name": cr.name,
        "uid": cr.metadata.uid,
        "blockOwnerDeletion": True,
    }
    return {**reference, "controller": True} if controller else reference


def child(
    cr: Resource,
    name: str,
    labels: Mapping[str, str],
    *,
    extra: Metadata | None = None,
) -> Object:
    """Metadata of an object that the resource owns."""
    extra = extra or Metadata()
    annotations = {**_carried(cr.metadata.annotations), **(extra.annotations or {})}
    metadata: Object = {
        "name": name,
        "namespace": cr.namespace,
        "labels": {**_carried(cr.metadata.labels), **(extra.labels or {}), **labels},
        "ownerReferences": [owner(cr)],
    }
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def pod(template: Metadata, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    """Metadata of a pod template."""
    return {
        "labels": {**(template.labels or {}), **labels},
        "annotations": {**(template.annotations or {}), **annotations},
    }


def restart(cr: Resource) -> dict[str, str]:
    """The annotation of a resource that its pods carry too: a new value replaces them."""
    return {key: value for key, value in cr.metadata.annotations.items() if key == RESTART_TRIGGER}


def _carried(entries: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in entries.items() if not key.startswith(TOOL_KEYS)}
