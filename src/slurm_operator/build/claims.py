"""Claims of workers: one for each volumeClaimTemplate and worker, and who owns them.

In: a NodeSet and a worker's identity. Out: PersistentVolumeClaims, the volumes that use them, and the owner references
that the retention policy asks for. Called by `build/nodeset.py`, `plan/nodeset.py` and `reconcile/nodeset.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slurm_operator.api.nodeset import DELETE, NodeSet
from slurm_operator.build import labels, metadata, names
from slurm_operator.build.metadata import Object


def claims(cr: NodeSet, identity: str) -> list[Object]:
    """The claims of one worker; made before its pod."""
    return [_claim(cr, template, identity) for template in cr.spec.volume_claim_templates or ()]


def _claim(cr: NodeSet, template: Mapping[str, Any], identity: str) -> Object:
    given = template.get("metadata") or {}
    meta: Object = {
        "name": names.claim(str(given.get("name")), cr, identity),
        "namespace": cr.namespace,
        "labels": {**(given.get("labels") or {}), **labels.of(labels.WORKER, cr.name)},
    }
    if given.get("annotations"):
        meta["annotations"] = dict(given["annotations"])
    spec = dict(template.get("spec") or {})
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def volumes(cr: NodeSet, identity: str, others: list[Object]) -> list[Object]:
    """A worker's volumes: its claims in the order of the templates, then the others that they do not replace."""
    own = list(_claim_volumes(cr, identity))
    taken = {volume["name"] for volume in own}
    return [*own, *(volume for volume in others if volume.get("name") not in taken)]


def _claim_volumes(cr: NodeSet, identity: str) -> Iterator[Object]:
    for template in cr.spec.volume_claim_templates or ():
        name = str((template.get("metadata") or {}).get("name"))
        yield {"name": name, "persistentVolumeClaim": {"claimName": names.claim(name, cr, identity)}}


def owners(cr: NodeSet, pod: Mapping[str, Any], *, scaled_in: bool) -> list[Object]:
    """Who a worker's claims go with.

    A claim dies with its pod only when the policy deletes at scale-in and this pod is being scaled in for good:
    a cordon or an update must never take data along.
    """
    policy = cr.spec.persistent_volume_claim_retention_policy
    if policy.when_scaled == DELETE and scaled_in:
        return [_pod_owner(pod)]
    if policy.when_deleted == DELETE:
        return [metadata.owner(cr, controller=False)]
    return []


def _pod_owner(pod: Mapping[str, Any]) -> Object:
    meta = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "blockOwnerDeletion": True,
    }
