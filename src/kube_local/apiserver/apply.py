"""Server-side apply, and who owns which field after any other write.

In: the live object, what a client sent, its manager name and the types of the kind. Out: the object to store, with
metadata.managedFields as Kubernetes' structured merge keeps them. Called by the write handlers. The time is given.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from kube_runtime.errors import Terminal

from . import ownership
from .field_sets import FieldSet, path_text, written
from .ownership import APPLY, UPDATE, Owner, Owners, Ownership
from .schema import TypeSchema
from .type_tree import TypeNode
from .typed_values import (
    Comparison,
    compare,
    equal,
    field_set,
    merge,
    remove,
    type_problems,
    with_named_parents,
)

BEFORE_FIRST_APPLY = "before-first-apply"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"
_UNTRACKED_METADATA = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
UNTRACKED = FieldSet.of(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(("f:metadata", f"f:{name}") for name in _UNTRACKED_METADATA),
)

Object = dict[str, Any]


class ApplyConflict(Terminal):
    """Others own fields that an applier would change; `conflicts` are (owner, path) as messages show them."""

    reason: ClassVar[str] = "Conflict"

    def __init__(self, fields: dict[Owner, FieldSet]) -> None:
        self.fields = fields
        self.conflicts: list[tuple[str, str]] = [
            (str(who), path_text(path)) for who in sorted(fields) for path in fields[who].paths()
        ]
        super().__init__(_conflict_text(self.conflicts))


class ApplyInvalid(Terminal):
    """The applied object cannot be read as its kind: a field that the kind does not have, twins in a keyed list."""

    reason: ClassVar[str] = "InternalError"


class ManagedFieldsInPatch(Terminal):
    """An applied object carries managedFields: those are the server's to write."""

    reason: ClassVar[str] = "BadRequest"


def _conflict_text(conflicts: list[tuple[str, str]]) -> str:
    if len(conflicts) == 1:
        ((who, path),) = conflicts
        return f"Apply failed with 1 conflict: conflict with {who}: {path}"
    lines: list[str] = []
    for who in dict.fromkeys(who for who, _ in conflicts):
        lines.append(f"conflicts with {who}:")
        lines += [f"- {path}" for owner, path in conflicts if owner == who]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


# --- apply -----------------------------------------------------------------------------------------------------------


def apply_patch(
    live: Object | None,
    applied: Object,
    manager: str,
    force: bool,
    schema: TypeSchema,
    now: str,
    subresource: str = "",
) -> Object:
    """The live object (None: there is none yet) with a configuration applied to it.

    Raises ApplyConflict where another owner's field would change and `force` is not set, ApplyInvalid where the
    configuration is not of the kind, ManagedFieldsInPatch where it carries managedFields.
    """
    try:
        result = _apply(live, applied, manager, force, schema, now, subresource)
    except ApplyConflict as conflict:
        if manager != KUBECTL or live is None:
            raise
        held = _conflicts_beyond_last_applied(live, conflict, schema.root)
        if held:
            raise ApplyConflict(held) from None
        result = _apply(live, applied, manager, True, schema, now, subresource)
    return _unless_only_times_differ(live, _with_last_applied(result, applied) if manager == KUBECTL else result)


def _apply(
    live: Object | None,
    applied: Object,
    manager: str,
    force: bool,
    schema: TypeSchema,
    now: str,
    subresource: str,
) -> Object:
    root, version = schema.root, str(applied.get("apiVersion", ""))
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise ManagedFieldsInPatch("metadata.managedFields must be nil")
    base = live if live is not None else schema.empty(applied)
    _check(root, applied, "patch", allow_duplicates=False)
    _check(root, base, "live", allow_duplicates=True)
    earlier = ownership.owner(BEFORE_FIRST_APPLY, UPDATE, version, subresource)
    owners = _owners_before_apply(base, schema, earlier, now)
    me = ownership.owner(manager, APPLY, version, subresource)
    last = owners.get(me)
    reset = schema.reset_fields(subresource)
    mine = field_set(root, applied).recursive_difference(reset)
    owners[me] = Ownership(mine, version, last.time if last is not None else None)
    merged = merge(root, base, applied)
    if last is not None and last.fields.difference(mine):
        merged = _without_abandoned(root, merged, owners, last.fields)
    owners = _take_ownership(owners, _without(compare(root, base, merged), reset), me, force)
    owners = _untrack(owners, me)
    if equal(base, merged):
        return _with_owners(base, owners)
    if me in owners:
        owners[me] = Ownership(owners[me].fields, version, now)
    # Only Go types forget nulls here; in a custom resource one is left for validation to refuse, as in Kubernetes.
    return _with_owners(schema.default(schema.prune(merged) if schema.is_builtin else merged), owners)


def _owners_before_apply(live: Object, schema: TypeSchema, earlier: Owner, now: str) -> Owners:
    """Owners of the live object; where nobody was tracked, one name stands for all who wrote before."""
    try:
        owners = ownership.read(_managed_fields(live))
    except ValueError as error:
        raise ApplyInvalid(f"failed to decode managed fields: {error}") from error
    if owners:
        return owners
    change = _without(compare(schema.root, schema.empty(live), live), schema.reset_fields(earlier.subresource))
    return _updated({}, change, earlier, earlier.version, now)


def _without_abandoned(root: TypeNode, merged: Object, owners: Owners, last: FieldSet) -> Object:
    """Without what this applier applied last time and left out now, as far as nobody else owns it."""
    before = with_named_parents(root, last)
    all_fields = with_named_parents(root, field_set(root, merged))
    pruned = remove(root, merged, before)
    owned = FieldSet()
    for what in owners.values():
        owned = owned.union(what.fields)
    kept = with_named_parents(root, field_set(root, pruned)).union(with_named_parents(root, owned))
    pruned = remove(root, merged, all_fields.difference(kept))
    gone = all_fields.difference(with_named_parents(root, field_set(root, pruned)))
    result: Object | None = remove(root, merged, gone.intersection(before))
    return result if result is not None else {}


def _take_ownership(owners: Owners, change: Comparison, me: Owner, force: bool) -> Owners:
    """Take changed and removed fields from everybody else; without force, a changed one is a conflict."""
    changed = change.modified.union(change.added)
    conflicts = {who: both for who, what in owners.items() if who != me and (both := what.fields.intersection(changed))}
    if conflicts and not force:
        raise ApplyConflict(conflicts)
    result: Owners = {}
    for who, what in owners.items():
        fields = what.fields
        if who != me:
            fields = fields.difference(changed).difference(change.removed)
        if fields:
            result[who] = what.owning(fields)
    return result


def _untrack(owners: Owners, me: Owner) -> Owners:
    if me not in owners:
        return owners
    fields = owners[me].fields.difference(UNTRACKED)
    others = {who: what for who, what in owners.items() if who != me}
    return {**others, me: owners[me].owning(fields)} if fields else others


# --- every other write -----------------------------------------------------------------------------------------------


def track_update(
    live: Object | None,
    new: Object,
    manager: str,
    schema: TypeSchema,
    now: str,
    subresource: str = "",
) -> Object:
    """The new object with managedFields as they are after a create, update or patch by a client that does not apply."""
    root, version = schema.root, str(new.get("apiVersion", ""))
    base = live if live is not None else schema.empty(new)
    owners = _owners_before_update(base, new, from_live=bool(subresource))
    if not owners and live is not None and _metadata(live).get("uid"):
        return _with_owners(new, {})
    before, after = _with_owners(base, {}), _with_owners(new, {})
    if _problems(root, before) or _problems(root, after):
        # As kube-apiserver does: a write is never refused over bookkeeping.
        return _with_owners(new, {})
    me = ownership.owner(manager, UPDATE, version, subresource)
    change = _without(compare(root, before, after), schema.reset_fields(subresource))
    owners = _updated(owners, change, me, version, now)
    return _unless_only_times_differ(live, _with_owners(new, owners))


def _without(change: Comparison, fields: FieldSet) -> Comparison:
    removed, modified, added = (
        part.recursive_difference(fields) for part in (change.removed, change.modified, change.added)
    )
    return Comparison(removed, modified, added)


def _owners_before_update(live: Object, new: Object, *, from_live: bool) -> Owners:
    """A client may edit or reset managedFields; one that drops them by ignorance does not."""
    if not from_live:
        sent = _managed_fields(new)
        if ownership.is_reset(sent):
            return {}
        owners = _readable(sent)
        if owners:
            return owners
    return _readable(_managed_fields(live))


def _readable(entries: Any) -> Owners:
    try:
        return ownership.read(entries)
    except ValueError:
        return {}


def _updated(owners: Owners, change: Comparison, me: Owner, version: str, now: str) -> Owners:
    """An update takes what it changed from all, and adds it to what it already had."""
    result = _take_ownership(owners, change, Owner("", ""), force=True)
    taken = change.modified.union(change.added).difference(UNTRACKED)
    if taken:
        had = result[me].fields if me in result else FieldSet()
        result[me] = Ownership(taken.union(had), version, now)
    return result


# --- kubectl ---------------------------------------------------------------------------------------------------------


def _conflicts_beyond_last_applied(live: Object, conflict: ApplyConflict, root: TypeNode) -> dict[Owner, FieldSet]:
    """Conflicts left when kubectl takes over what its own client-side apply had set, by its annotation."""
    text = (_metadata(live).get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json.loads(text) if text else None
    except ValueError:
        last = None
    if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion") or _problems(root, last):
        return conflict.fields
    change = compare(root, last, live)
    allowed = field_set(root, last)
    for different in (change.modified, change.added, change.removed):
        allowed = allowed.difference(different)
    return {who: left for who, fields in conflict.fields.items() if (left := fields.difference(allowed))}


def _with_last_applied(result: Object, applied: Object) -> Object:
    """Keep client-side apply's annotation true where the object already carries it."""
    annotations = _metadata(result).get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return result
    shown = json.loads(json.dumps(applied))
    (_metadata(shown).get("annotations") or {}).pop(LAST_APPLIED, None)
    metadata = {**result["metadata"], "annotations": {**annotations, LAST_APPLIED: written(shown) + "\n"}}
    return {**result, "metadata": metadata}


# --- small parts -----------------------------------------------------------------------------------------------------


def _metadata(value: Object) -> Object:
    metadata = value.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _managed_fields(value: Object) -> Any:
    return _metadata(value).get("managedFields")


def _with_owners(value: Object, owners: Owners) -> Object:
    metadata = {key: item for key, item in _metadata(value).items() if key != "managedFields"}
    if owners:
        metadata["managedFields"] = ownership.write(owners)
    if not metadata and not isinstance(value.get("metadata"), dict):
        return dict(value)
    return {**value, "metadata": metadata}


def _unless_only_times_differ(live: Object | None, result: Object) -> Object:
    """A write that would only move the clock of managedFields is no write."""
    if live is None or not equal(_without_times(live), _without_times(result)):
        return result
    return {**result, "metadata": _metadata(live)} if isinstance(live.get("metadata"), dict) else result


def _without_times(value: Object) -> Object:
    entries = _managed_fields(value)
    if not isinstance(entries, list):
        return value
    untimed = [
        {key: item for key, item in entry.items() if key != "time"} if isinstance(entry, dict) else entry
        for entry in entries
    ]
    return {**value, "metadata": {**value["metadata"], "managedFields": untimed}}


def _problems(root: TypeNode, value: Object) -> list[str]:
    return type_problems(root, value, allow_duplicates=True)


def _check(root: TypeNode, value: Object, role: str, *, allow_duplicates: bool) -> None:
    problems = type_problems(root, value, allow_duplicates=allow_duplicates)
    if not problems:
        return
    text = problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
    raise ApplyInvalid(f"failed to create typed {role} object ({_identity(value)}): {text}")


def _identity(value: Object) -> str:
    group, _, version = str(value.get("apiVersion", "")).rpartition("/")
    metadata = _metadata(value)
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    return f"{where}; {group}/{version}, Kind={value.get('kind', '')}"
