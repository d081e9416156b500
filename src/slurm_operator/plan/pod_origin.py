"""What pods were made of before: read from the objects that they were made by.

In: a ControllerRevision of a NodeSet, or a workload of another kind. Out: `PodOrigin`. A note counts only where this
operator has applied it: annotations of a resource are carried to its objects, by other programs too. Pure; used by
`plan/revisions.py`, and by `reconcile/observe.py` for all of a namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kube_runtime.client.compare import owned_fields
from kube_runtime.client.objects import RawObject
from slurm_operator.build import labels
from slurm_operator.build.made_of import PodOrigin
from slurm_operator.plan.takeover import has_our_template
from slurm_operator.program import FIELD_MANAGER

APPS = "apps/v1"


def of_revision(item: RawObject) -> PodOrigin:
    """What a NodeSet's workers were made of."""
    content = item.content()
    return replace(_noted(content), held=content.get("data") or {})


def of_workload(item: RawObject) -> PodOrigin:
    """What the pods of a StatefulSet or Deployment were made of; without a note, only what another program wrote."""
    content = item.content()
    origin = _noted(content)
    if origin.pods or has_our_template(content):
        return origin
    return PodOrigin(held=(content.get("spec") or {}).get("template") or {})


def _noted(content: Mapping[str, Any]) -> PodOrigin:
    owned = owned_fields(content, FIELD_MANAGER, APPS) or {}
    mine = (owned.get("f:metadata") or {}).get("f:annotations") or {}
    annotations = (content.get("metadata") or {}).get("annotations") or {}

    def note(key: str) -> str:
        return str(annotations.get(key, "")) if f"f:{key}" in mine else ""

    return PodOrigin(note(labels.PODS_HASH), note(labels.PRIVILEGED_PODS_HASH))
