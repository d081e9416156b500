"""What is whose: the one rule for every write to an object in Kubernetes.

In: the resource on whose behalf something is written, and the object that has the name now, if there is one. Out: the
right to write to it (`WriteRight`), or who else has it (`Foreign`). Everything else is left alone, even when
nobody controls it: an owner reference of ours would delete it one day. Pure; `reconcile/execute.py` asks before every
write, the reconciles of the kinds ask where they would otherwise read somebody else's object as their own.

- No object of that name: nobody's; it may be made.
- The resource itself: for its finalizers.
- Controlled by the resource, by uid: its own. The Go operator marks what it makes in the same way.
- Controlled by what stands for the resource: its own, but never deleted. These are the pods of its StatefulSet, and the
  Secret of a Token that the Go operator gave to the Secret with the signing key.
- Service and PodDisruptionBudget of a cluster's workers: of every NodeSet, when a NodeSet is among its owners and
  nobody controls it.
- A worker's claim that nobody controls, with our labels: the NodeSet's; never deleted, but it may get an owner that it
  goes with. Any other claim of that name is used by the worker, as with a StatefulSet, and left as it is.
- A worker pod or ControllerRevision that nobody controls, with our labels and name: an orphan; its NodeSet adopts it.
- What nobody controls, only our field manager has written to, and was made for a resource of this kind and name: an
  orphan of `kubectl delete --cascade=orphan`. The field manager alone says little: the admission server's certificate
  has the same.
- Anything else: somebody else's, and so `NameTaken`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kube_runtime.client.objects import RawObject
from kube_runtime.errors import Retryable
from kube_runtime.metadata import Metadata, OwnerReference
from slurm_operator.api.meta import GROUP
from slurm_operator.build import labels
from slurm_operator.program import FIELD_MANAGER

# When a name that was taken is looked at again: nobody tells us that it is free.
NAME_TAKEN_REQUEUE_SECONDS = 10.0
CLAIM = "PersistentVolumeClaim"
SHARED_KINDS = frozenset({"Service", "PodDisruptionBudget"})
# Who makes objects with labels, and which.
COMPONENTS = {
    "Controller": labels.CONTROLLER,
    "Accounting": labels.ACCOUNTING,
    "RestApi": labels.RESTAPI,
    "LoginSet": labels.LOGIN,
    "NodeSet": labels.WORKER,
}
_JWT = re.compile(rb"[\w-]+\.[\w-]+\.[\w-]+")
_HASH = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]+")


class WriteRight(Enum):
    """Why an object may be written to."""

    NEW = "nobody has the name"
    ITSELF = "it is the resource itself"
    OURS = "the resource controls it"
    STOOD_FOR = "its controller stands for the resource"
    SHARED = "the NodeSets of a cluster own it together"
    CLAIM = "it is a claim with the name of a worker's"
    ORPHAN = "it is ours, and nobody controls it any more"


@dataclass(frozen=True, slots=True)
class Foreign:
    """Somebody else's object; `owner` says whose, for messages, and is empty if the object has no owner."""

    owner: str


@dataclass(frozen=True, slots=True)
class Claimant:
    """The resource on whose behalf something is written."""

    kind: str
    namespace: str
    name: str
    uid: str
    # uids of controllers that stand for it; see the table above.
    stand_ins: frozenset[str] = frozenset()


class NameTaken(Retryable):
    """An object that we would write to is somebody else's."""

    reason = "NameTaken"


def judge(claimant: Claimant, kind: str, seen: Metadata | None) -> WriteRight | Foreign:
    """By what right an object may be written to, as far as its metadata says."""
    if seen is None:
        return WriteRight.NEW
    if seen.namespace != claimant.namespace:
        return Foreign(f"namespace {seen.namespace}")
    if seen.uid == claimant.uid and kind == claimant.kind:
        return WriteRight.ITSELF
    controller = controller_of(seen)
    if controller is not None:
        if controller.uid == claimant.uid:
            return WriteRight.OURS
        if controller.uid in claimant.stand_ins:
            return WriteRight.STOOD_FOR
        return Foreign(f"{controller.kind} {controller.name}")
    return _uncontrolled(claimant, kind, seen)


def _uncontrolled(claimant: Claimant, kind: str, seen: Metadata) -> WriteRight | Foreign:
    if claimant.kind == "NodeSet":
        if kind in SHARED_KINDS and any(_is_nodeset(owner) for owner in seen.owner_references):
            return WriteRight.SHARED
        if kind == CLAIM and is_claim_of(claimant.name, seen):
            return WriteRight.CLAIM
        if is_orphan(claimant.name, kind, seen):
            return WriteRight.ORPHAN
    owners = ", ".join(f"{owner.kind} {owner.name}" for owner in seen.owner_references)
    return Foreign(owners)


def judge_live(claimant: Claimant, kind: str, live: RawObject | None) -> WriteRight | Foreign:
    """The same of a whole object, which also says who has written its fields."""
    found = judge(claimant, kind, live.metadata if live is not None else None)
    if not isinstance(found, Foreign) or live is None or live.metadata.namespace != claimant.namespace:
        return found
    left_alone = controller_of(live.metadata) is None and _has_no_other_manager(live.content())
    return WriteRight.ORPHAN if left_alone and _is_made_for(claimant, kind, live) else found


def demand(claimant: Claimant, kind: str, name: str, found: WriteRight | Foreign, *, deletes: bool = False) -> None:
    """Raise `NameTaken` unless there is a right; what is deleted must be controlled by the resource itself."""
    if isinstance(found, Foreign):
        raise NameTaken(taken(claimant, kind, name, found))
    if deletes and found is not WriteRight.OURS:
        owner = f"{claimant.kind} {claimant.name}"
        raise NameTaken(f"{kind} {claimant.namespace}/{name} is not deleted: {owner} does not control it")


def taken(claimant: Claimant, kind: str, name: str, found: Foreign) -> str:
    """The message for a name that is taken."""
    owner = f"belongs to {found.owner}" if found.owner else "has no owner: somebody else made it"
    return (
        f"{kind} {claimant.namespace}/{name} already exists and {owner}, not {'to ' if found.owner else ''}"
        f"{claimant.kind} {claimant.name}; it is left as it is. Give one of the two another name, or delete the object"
    )


def controller_of(seen: Metadata) -> OwnerReference | None:
    """Who controls an object."""
    return next((owner for owner in seen.owner_references if owner.controller), None)


def is_controlled_by(uid: str, seen: Metadata) -> bool:
    """Whether a resource controls an object."""
    controller = controller_of(seen)
    return controller is not None and controller.uid == uid


def is_claim_of(nodeset: str, seen: Metadata) -> bool:
    """Whether a claim was made for a NodeSet's worker and is nobody else's: by the labels of every such claim."""
    return controller_of(seen) is None and labels.selector(labels.WORKER, nodeset).items() <= dict(seen.labels).items()


def is_orphan(nodeset: str, kind: str, seen: Metadata) -> bool:
    """Whether an object that nobody controls is one of a NodeSet's: by its labels and by its name."""
    if controller_of(seen) is not None:
        return False
    if kind == "Pod":
        wanted = labels.selector(labels.WORKER, nodeset).items()
        return wanted <= dict(seen.labels).items() and seen.name.startswith(f"{nodeset}-")
    if kind == "ControllerRevision":
        prefix, _, hash_ = seen.name.rpartition("-")
        return prefix == nodeset and seen.labels.get(labels.REVISION) == hash_ and bool(_HASH.fullmatch(hash_))
    return False


def _is_made_for(claimant: Claimant, kind: str, live: RawObject) -> bool:
    """Whether we made an object for a resource of that kind and name: by its labels, or as a Token's Secret."""
    if claimant.kind == "Token":
        return kind == "Secret" and _holds_a_token(live.content())
    labels_, component = dict(live.metadata.labels), COMPONENTS.get(claimant.kind)
    if claimant.kind == "NodeSet" and kind in SHARED_KINDS:
        cluster = labels_.get(labels.CLUSTER)
        return bool(cluster) and live.metadata.name.endswith(f"-{cluster}")
    return component is not None and labels.selector(component, claimant.name).items() <= labels_.items()


def _holds_a_token(content: Mapping[str, Any]) -> bool:
    """Whether a Secret holds a JWT and nothing else: it has no labels of ours to be known by."""
    held = list((content.get("data") or {}).values())
    try:
        return len(held) == 1 and _JWT.fullmatch(b64decode(held[0])) is not None
    except (ValueError, TypeError):
        return False


def _is_nodeset(owner: OwnerReference) -> bool:
    return owner.kind == "NodeSet" and owner.api_version.partition("/")[0] == GROUP


def _has_no_other_manager(content: Mapping[str, Any]) -> bool:
    """Whether we alone have written to an object, by the API server's own record."""
    entries = (content.get("metadata") or {}).get("managedFields") or ()
    written = [entry for entry in entries if not entry.get("subresource")]
    return bool(written) and all(entry.get("manager") == FIELD_MANAGER for entry in written)
