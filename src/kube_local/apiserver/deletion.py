"""How objects go: preconditions, grace, finalizers, and the last step when nothing holds them any more.

Synchronous, on the store alone; called by `writes` for requests and by `gc` for dependents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kube_runtime.times import seconds_text

from . import errors
from .problems import FieldProblem
from .registry import Kind
from .store import Changed, Row, Store, make_row

Object = dict[str, Any]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_POLICIES = ("Foreground", "Background", "Orphan")
_NAMESPACE_BUSY = (
    "The system is ensuring all content is removed from this namespace.  "
    "Upon completion, this namespace will automatically be purged by the system."
)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What a delete request may ask for."""

    grace_seconds: int | None = None
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome: the object's last or current state, and whether it is gone."""

    row: Row
    gone: bool


class DryRun:
    """A store that keeps nothing: what a delete would do."""

    def put(self, resource: str, obj: Object, expected: int | None = None) -> Row:
        """The row as it would be."""
        return make_row(resource, obj, expected or 0)

    def delete(self, row: Row) -> Row:
        """Nothing happens."""
        return row


def parse_options(query: Mapping[str, str], body: Mapping[str, Any]) -> DeleteOptions:
    """Delete options out of a request's body, or of its query."""
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    if propagation and propagation not in _POLICIES:
        supported = ", ".join(f'"{one}"' for one in (*_POLICIES, "nil"))
        cause = FieldProblem("propagationPolicy", "NotSupported", f"supported values: {supported}", propagation)
        raise errors.invalid("meta.k8s.io", "DeleteOptions", "", [cause])
    if body.get("orphanDependents") is not None:
        propagation = "Orphan" if body["orphanDependents"] else "Background"
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    preconditions = _preconditions(body.get("preconditions") or {})
    return DeleteOptions(
        grace_seconds=_seconds(grace),
        propagation=str(propagation),
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
    )


def _preconditions(values: Any) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise errors.bad_request("json: cannot unmarshal into Go struct field DeleteOptions.preconditions")
    for key, kind in (("uid", "types.UID"), ("resourceVersion", "string")):
        value = values.get(key)
        if value is not None and not isinstance(value, str):
            found = {bool: "bool", int: "number", float: "number", list: "array"}.get(type(value), "object")
            raise errors.bad_request(
                f"json: cannot unmarshal {found} into Go struct field Preconditions.preconditions.{key} of type {kind}"
            )
    return values


def _seconds(value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise errors.bad_request(f"gracePeriodSeconds is {value!r}, not a number of seconds") from None


def check_preconditions(kind: Kind, row: Row, options: DeleteOptions) -> None:
    """The object must be the one that the client saw."""
    pairs = (
        ("UID", options.uid, row.uid, "been deleted and then recreated"),
        ("ResourceVersion", options.resource_version, str(row.revision), "been modified"),
    )
    for what, wanted, found, guess in pairs:
        if wanted and wanted != found:
            why = (
                f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). "
                f"The object might have {guess}"
            )
            raise errors.conflict(kind.group, kind.kind, row.name, why)


def delete(store: Store | DryRun, kind: Kind, row: Row, options: DeleteOptions, now: float) -> Deleted:
    """Takes the object away, or marks it as going."""
    check_preconditions(kind, row, options)
    obj = row.load()
    if kind.resource == "namespaces":
        return _delete_namespace(store, kind, row, obj, now)
    finalizers = _finalizers(obj, options.propagation)
    grace = _grace(kind, obj, options)
    if not finalizers and grace == 0:
        return Deleted(store.delete(_last_state(store, kind, row, obj, now)), gone=True)
    marked = _mark(obj, finalizers, grace, now)
    if not marked:
        return Deleted(row, gone=False)
    return Deleted(store.put(kind.resource, obj, row.revision), gone=False)


def _last_state(store: Store | DryRun, kind: Kind, row: Row, obj: Object, now: float) -> Row:
    """A pod is marked before it goes, so that watchers see the mark first."""
    if kind.resource != "pods" or not _mark(obj, [], 0, now):
        return row
    return store.put(kind.resource, obj, row.revision)


def _finalizers(obj: Object, propagation: str) -> list[str]:
    held = list(obj["metadata"].get("finalizers") or [])
    if not propagation:
        return held
    kept = [one for one in held if one not in {FOREGROUND, ORPHAN}]
    added = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(propagation, [])
    return kept + added


def _grace(kind: Kind, obj: Object, options: DeleteOptions) -> int:
    if kind.resource != "pods":
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    grace = options.grace_seconds
    if grace is None:
        current = obj["metadata"].get("deletionGracePeriodSeconds")
        grace = current if current is not None else spec.get("terminationGracePeriodSeconds", 30)
    return max(int(grace), 1) if grace < 0 else int(grace)


def _mark(obj: Object, finalizers: list[str], grace: int, now: float) -> bool:
    metadata = obj["metadata"]
    current = metadata.get("deletionGracePeriodSeconds")
    unchanged = finalizers == list(metadata.get("finalizers") or [])
    if metadata.get("deletionTimestamp") and unchanged and (current is None or grace >= current):
        return False
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    if not metadata.get("deletionTimestamp") and metadata.get("generation"):
        metadata["generation"] += 1
    if not metadata.get("deletionTimestamp") or (current is not None and grace < current):
        metadata["deletionTimestamp"] = seconds_text(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
    return True


def _delete_namespace(store: Store | DryRun, kind: Kind, row: Row, obj: Object, now: float) -> Deleted:
    spec_finalizers = (obj.get("spec") or {}).get("finalizers")
    if obj["metadata"].get("deletionTimestamp"):
        if spec_finalizers:
            raise errors.conflict(kind.group, kind.plural, row.name, _NAMESPACE_BUSY)
        return Deleted(row, gone=False)
    obj["metadata"]["deletionTimestamp"] = seconds_text(now)
    obj.setdefault("status", {})["phase"] = "Terminating"
    return Deleted(store.put(kind.resource, obj, row.revision), gone=False)


def commit(store: Store | DryRun, row: Row, obj: Object) -> Deleted:
    """Stores a new state; one in which nothing holds a dying object any more is not stored: the object goes.

    Watchers then see the last stored state go, while the writer gets what it wrote.
    """
    if not is_done(obj, row.resource):
        return Deleted(store.put(row.resource, obj, row.revision), gone=False)
    store.delete(row)
    return Deleted(make_row(row.resource, obj, row.revision), gone=True)


def is_done(obj: Object, resource: str) -> bool:
    """True when a dying object has no finalizer and no grace left."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if resource == "namespaces":
        return not (obj.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def try_delete(store: Store, kind: Kind, row: Row, options: DeleteOptions, now: float) -> None:
    """A delete by the server itself: an object that changed or went meanwhile is looked at again later."""
    try:
        delete(store, kind, row, options, now)
    except (Changed, errors.ApiError):
        return
