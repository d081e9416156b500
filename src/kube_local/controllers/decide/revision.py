"""Revisions of a StatefulSet and hashes of templates: what makes a pod new. Pure.

In: a StatefulSet and its ControllerRevisions. Out: which one is current and which one is to come, made where missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kube_local.controllers.decide.pods import owner_reference
from kube_local.controllers.objects import Json, Pod, StatefulSet
from kube_runtime.client.objects import ControllerRevision
from kube_runtime.go_hash import fnv32, go_json, safe_encode

HASH_LABEL = "controller.kubernetes.io/hash"
POD_LABEL = "controller-revision-hash"


def template_hash(template: Mapping[str, Any], collisions: int = 0) -> str:
    """A short name for a template."""
    return safe_encode(str(fnv32(go_json(template).encode() + str(collisions).encode())))


def data_of(template: Mapping[str, Any]) -> Json:
    """What a revision of a StatefulSet records."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def template_of(data: Any) -> Json:
    """The template that a revision recorded."""
    found = ((data or {}).get("spec") or {}).get("template") or {}
    return {key: value for key, value in found.items() if key != "$patch"}


@dataclass(frozen=True, slots=True)
class Revisions:
    """The two that matter, and what must be written to have them."""

    current: str
    update: str
    templates: Mapping[str, Json]
    create: Json | None = None
    # An older revision that is wanted again gets the newest number.
    renumber: tuple[ControllerRevision, int] | None = None


def revisions(owner: StatefulSet, found: Sequence[ControllerRevision]) -> Revisions:
    """The current and the coming revision of a StatefulSet."""
    known = sorted(found, key=lambda one: (one.revision, one.metadata.name))
    wanted = data_of(owner.spec.template)
    equal = [one for one in known if one.data == wanted]
    number = (known[-1].revision if known else 0) + 1
    templates = {one.metadata.name: template_of(one.data) for one in known}
    create = None if equal else _new(owner, wanted, number)
    update = equal[-1].metadata.name if equal else create["metadata"]["name"] if create else ""
    renumber = (equal[-1], number) if equal and equal[-1] is not known[-1] else None
    current = str(owner.status.get("currentRevision") or "")
    templates[update] = dict(owner.spec.template)
    return Revisions(current if current in templates else update, update, templates, create, renumber)


def _new(owner: StatefulSet, data: Json, number: int) -> Json:
    collisions = int(owner.status.get("collisionCount") or 0)
    hash_ = safe_encode(str(fnv32(go_json(data).encode() + str(collisions).encode())))
    labels = (owner.spec.template.get("metadata") or {}).get("labels") or {}
    metadata: Json = {
        "name": f"{owner.metadata.name}-{hash_}",
        "namespace": owner.metadata.namespace,
        "labels": {**labels, HASH_LABEL: hash_},
        "annotations": dict(owner.metadata.annotations),
        "ownerReferences": [owner_reference("apps/v1", "StatefulSet", owner)],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {key: value for key, value in metadata.items() if value},
        "revision": number,
        "data": data,
    }


def outdated(
    owner: StatefulSet, found: Sequence[ControllerRevision], pods: Iterable[Pod], chosen: Revisions
) -> list[ControllerRevision]:
    """Revisions that no pod needs, beyond as many as are to be kept."""
    needed = {chosen.current, chosen.update, *(pod.metadata.labels.get(POD_LABEL, "") for pod in pods)}
    spare = sorted((one for one in found if one.metadata.name not in needed), key=lambda one: one.revision)
    return spare[: max(0, len(spare) - owner.spec.revision_history_limit)]
