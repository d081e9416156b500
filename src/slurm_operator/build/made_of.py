"""What a user says of the pods of a resource, and the note of it on the object that the pods are made by.

In: a resource. Out: its parts, their hash, and metadata that hold the hash. What ran once may run on after the
operator's rules have become stricter, but only exactly that. Written by the builders of every workload, read by
`plan/pod_origin.py`, compared by `admission/rules/reach.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from slurm_operator.api.embedded import EMBEDDED
from slurm_operator.api.meta import Resource
from slurm_operator.build import hashes, labels, metadata
from slurm_operator.build.metadata import Object

NOTES = frozenset({labels.PODS_HASH, labels.PRIVILEGED_PODS_HASH})


@dataclass(frozen=True, slots=True)
class PodOrigin:
    """What pods of a resource were made of, by one object that they were made by."""

    # The hash of all that the resource said of them, as this operator noted it; empty on what others have made.
    pods: str = ""
    # The same of privileged workers.
    privileged: str = ""
    # What a ControllerRevision holds; of a workload without a note, its pod template.
    held: Mapping[str, Any] = field(default_factory=dict)
    # Where nothing is noted: whether a privileged worker of that revision is there.
    has_privileged_worker: bool = False


def parts(cr: Resource) -> dict[str, Any]:
    """All that the pods and the Service of a resource are made of, by field; a null in it counts, a gap does not."""
    spec = getattr(cr, "spec", None)
    found = {".".join(steps): at(spec, steps) for steps, _ in EMBEDDED[metadata.kind_of(cr)]}
    found["template.metadata"] = _without_gaps(at(spec, ("template", "metadata")))
    found["volumeClaimTemplates"] = getattr(spec, "volume_claim_templates", None)
    found["ssh"] = _without_gaps(getattr(spec, "ssh", None))
    return {name: value for name, value in found.items() if value}


def _without_gaps(value: Any) -> Any:
    fields: Mapping[str, Any] = msgspec.to_builtins(value) if value is not None else {}
    return {name: item for name, item in fields.items() if item}


def hash_of(cr: Resource) -> str:
    """The hash of these parts."""
    return hashes.of_text(json.dumps(parts(cr), sort_keys=True))


def workload(cr: Any, name: str, own_labels: Mapping[str, str]) -> Object:
    """Metadata of a StatefulSet or Deployment."""
    return noted(metadata.child(cr, name, own_labels, extra=cr.spec.template.metadata), {labels.PODS_HASH: hash_of(cr)})


def noted(meta: Object, note: Mapping[str, str]) -> Object:
    """Metadata with a note; what a resource's own annotations say under these names is not carried over."""
    others = {key: value for key, value in (meta.get("annotations") or {}).items() if key not in NOTES}
    return {**meta, "annotations": {**others, **note}}


def at(value: Any, steps: tuple[str, ...]) -> Any:
    """What stands at a field."""
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else getattr(value, step, None)
    return value
