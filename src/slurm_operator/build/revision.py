"""Revisions of a NodeSet: what makes a worker new, and the hash that its pods are labelled with.

In: a NodeSet. Out: a ControllerRevision. The bytes that are hashed follow the Go operator's encoding, so that a cluster
which it ran is taken over without one restart: sorted keys, Go's HTML escapes, empty values left out, and the fields
that a Go container and pod template always carry. Called by `build/nodeset.py` and `plan/revisions.py`; local mode's
StatefulSets are hashed the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kube_runtime import quantity
from kube_runtime.go_hash import fnv32, go_json, safe_encode
from kube_runtime.item_index import LEAVES
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels, made_of, metadata, names
from slurm_operator.build.metadata import Object

REPLACE = {"$patch": "replace"}
# Go keeps a zero behind a pointer; only these plain fields are left out when they are zero.
_PLAIN = frozenset(
    {
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "stdin",
        "stdinOnce",
        "tty",
        "readOnly",
        "hostPort",
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    }
)
# Maps vanish when they are empty; structs behind pointers (emptyDir, securityContext …) stay as {}.
_MAPS = frozenset(
    {
        "labels",
        "annotations",
        "nodeSelector",
        "limits",
        "requests",
        "matchLabels",
        "overhead",
        "volumeAttributes",
    }
)
# Fields, by the field around them, that Go writes even when they are empty.
_ALWAYS_KEPT = frozenset(
    {
        ("csi", "readOnly"),
        ("hostPath", "type"),
        ("httpHeaders", "value"),
        ("options", "value"),
        ("projected", "sources"),
    }
)
# What a Go struct holds although nobody wrote it.
_FILLED_IN: dict[str, Object] = {
    "containers": {"resources": {}},
    "initContainers": {"resources": {}},
    "resourceFieldRef": {"divisor": "0"},
    "volumeClaimTemplate": {"metadata": {}, "spec": {"resources": {}}},
}
_QUANTITY_MAPS = frozenset({"limits", "requests", "overhead"})
_QUANTITIES = frozenset({"divisor", "sizeLimit"})


def data(cr: NodeSet) -> Object:
    """The part of a NodeSet that makes a worker new when it changes."""
    spec: Object = {
        "template": {**_template(cr), **REPLACE},
        "slurmd": {**_container(cr.spec.slurmd), **REPLACE},
        "ordinalPadding": cr.spec.ordinal_padding,
        "oversubscribeNode": cr.spec.oversubscribe_node,
    }
    if cr.spec.logfile:
        spec["logfile"] = {**_container(cr.spec.logfile), **REPLACE}
    if cr.spec.ssh.enabled or cr.spec.ssh.sssd_conf_ref or cr.spec.ssh.extra_sshd_config:
        spec["ssh"] = {"enabled": cr.spec.ssh.enabled, **_pruned(msgspec.to_builtins(cr.spec.ssh)), **REPLACE}
    if cr.spec.extra_conf:
        spec["extraConf"] = cr.spec.extra_conf
    return {"spec": spec}


def hash_of(cr: NodeSet, collisions: int | None = None) -> str:
    """The revision's hash, as it stands in names and labels."""
    # A NodeSet that never met a collision counts as one with none: Go always adds the digit.
    raw = go_json(data(cr)).encode() + str(collisions or 0).encode()
    return safe_encode(str(fnv32(raw)))


def controller_revision(
    cr: NodeSet, number: int, hash_: str, held: Object | None = None, *, privileged: str = ""
) -> Object:
    """The ControllerRevision of a NodeSet as it is now; `held` is what one of that name holds already.

    `privileged` is the hash of what its privileged workers, if there ever were any, were made of.
    """
    template_labels = cr.spec.template.metadata.labels or {}
    mine = {**template_labels, **labels.of(labels.WORKER, cr.name), labels.REVISION: hash_}
    note = {labels.PODS_HASH: made_of.hash_of(cr), **({labels.PRIVILEGED_PODS_HASH: privileged} if privileged else {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": made_of.noted(metadata.child(cr, names.revision(cr, hash_), mine), note),
        "revision": number,
        "data": held if held is not None else data(cr),
    }


def meaning(value: Any, within: str = "") -> Any:
    """What a revision says, whoever wrote it: nothing that is empty, and quantities in one form."""
    if isinstance(value, Mapping):
        parts = {key: _meaning_of(item, key, within) for key, item in value.items()}
        return {key: item for key, item in parts.items() if item is not None and item not in ("", [], {})}
    if isinstance(value, list | tuple):
        return [meaning(item, within) for item in value]
    return value


def _meaning_of(item: Any, key: str, within: str) -> Any:
    is_quantity = within in _QUANTITY_MAPS or key in _QUANTITIES
    return quantity.canonical(item) if is_quantity and isinstance(item, str | int | float) else meaning(item, key)


def _template(cr: NodeSet) -> Object:
    meta = msgspec.to_builtins(cr.spec.template.metadata)
    return {"metadata": _pruned(meta), "spec": {"containers": None, **_pruned(cr.spec.template.spec)}}


def _container(container: Mapping[str, Any]) -> Object:
    return {"name": "", "resources": {}, **_pruned(container)}


def _pruned(value: Mapping[str, Any], within: str = "") -> Object:
    """A mapping as Go writes the struct or map that stands in the field `within`."""
    if within in _QUANTITY_MAPS:
        return {key: quantity.canonical(item) for key, item in value.items() if item is not None}
    result: Object = _filled_in(within)
    for key, item in value.items():
        kept = quantity.canonical(item) if key in _QUANTITIES and item is not None else _pruned_item(item, key)
        if (within, key) in _ALWAYS_KEPT or not _vanishes(key, kept):
            result[key] = kept
    return result


def _filled_in(within: str) -> Object:
    return {key: dict(item) if isinstance(item, dict) else item for key, item in _FILLED_IN.get(within, {}).items()}


def _pruned_item(item: Any, within: str) -> Any:
    if isinstance(item, LEAVES):
        return item
    if isinstance(item, Mapping):
        return _pruned(item, within)
    if isinstance(item, list | tuple):
        return [_pruned_item(each, within) for each in item]
    return item


def _vanishes(key: str, value: Any) -> bool:
    if value is None or value in ("", []):
        return True
    if value == {}:
        return key in _MAPS
    return key in _PLAIN and value in (0, False)
