"""Workloads that the Go operator made: kept as they are until there is a reason to change them.

In: what we would make, and what is there. Out: what to apply. Applying a pod template of our own would restart every
daemon once, for nothing. So a StatefulSet or Deployment whose template was never applied, only updated, keeps it, and
an annotation records which template we would have built at that time. Once we would build another one, ours is applied
as for any other workload, and what the other program has set in it is removed. Pure; used by `plan/owned.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kube_runtime.client.objects import RawObject
from slurm_operator.build import hashes, labels
from slurm_operator.build.metadata import Object
from slurm_operator.plan.actions import TakeTemplate
from slurm_operator.plan.objects import Identity, identity

WORKLOADS = frozenset({"StatefulSet", "Deployment"})
# What can be set only when a workload is made.
FIXED = frozenset({"selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates"})
# Hashes of data that both programs read: where these differ, a daemon has old data and must see the new.
SHARED_HASHES = (labels.SLURM_KEY_HASH, labels.JWT_KEY_HASH, labels.SSSD_CONF_HASH, labels.SSH_HOST_KEYS_HASH)


def kept(desired: Iterable[Object], live: Mapping[Identity, RawObject], built: Iterable[Object]) -> list[Object]:
    """What to apply: the same objects, with the pod templates of another program left alone.

    `built` is what the resource asks for; what is applied of it now may lag behind.
    """
    files = [value["data"] for value in built if value["kind"] == "ConfigMap"]
    return [_kept(value, live.get(identity(value)), files) for value in desired]


def _kept(value: Object, live: RawObject | None, files: list[Mapping[str, str]]) -> Object:
    if value["kind"] not in WORKLOADS or live is None:
        return value
    there = live.content()
    value = _without_fixed(value, there)
    if has_our_template(there) or not _template(there):
        return value
    rendering = _rendering(value, _annotations(there), files)
    remembered = live.metadata.annotations.get(labels.TAKEN_OVER, rendering)
    if remembered != rendering or _has_old_data(value, there):
        return value
    meta = value["metadata"]
    annotations = {**(meta.get("annotations") or {}), labels.TAKEN_OVER: rendering}
    spec = {"replicas": value["spec"]["replicas"]} if "replicas" in value["spec"] else {}
    return {**value, "metadata": {**meta, "annotations": annotations}, "spec": spec}


def taken(value: Object, live: RawObject | None) -> TakeTemplate | None:
    """The action that must come before our pod template is applied over that of another program."""
    if value["kind"] not in WORKLOADS or live is None or not _template(value):
        return None
    there = live.content()
    if has_our_template(there) or not _template(there):
        return None
    return TakeTemplate(*identity(value)[:2], live.metadata, live)


def _without_fixed(value: Object, there: Mapping[str, Any]) -> Object:
    # What another program has set once and for all is not ours to repeat: the server would refuse the whole.
    spec = {key: item for key, item in value["spec"].items() if key not in FIXED or _applied(there, key)}
    return {**value, "spec": spec}


def has_our_template(workload: Mapping[str, Any]) -> bool:
    """Whether a pod template was applied; the Go operator never applies, it updates."""
    return _applied(workload, "template")


def _applied(workload: Mapping[str, Any], field: str) -> bool:
    entries = (workload.get("metadata") or {}).get("managedFields") or ()
    applied = (entry.get("fieldsV1") or {} for entry in entries if entry.get("operation") == "Apply")
    return any(f"f:{field}" in (fields.get("f:spec") or {}) for fields in applied)


def _template(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (workload.get("spec") or {}).get("template") or {}
    return found


def _annotations(workload: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = (_template(workload).get("metadata") or {}).get("annotations") or {}
    return found


def _rendering(value: Object, before: Mapping[str, str], files: list[Mapping[str, str]]) -> str:
    made: list[Any] = [_template(value)]
    if labels.CONFIG_HASH in before:
        # These pods have no sidecar that tells them of a new configuration: only a restart does.
        made += files
    return hashes.of_text(json.dumps(made, sort_keys=True))


def _has_old_data(value: Object, there: Mapping[str, Any]) -> bool:
    before, now = _annotations(there), _annotations(value)
    return any(before[key] != now[key] for key in SHARED_HASHES if before.get(key) and now.get(key))
