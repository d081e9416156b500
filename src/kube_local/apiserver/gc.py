"""Garbage collection: dependents of owners that are gone, foreground and orphan deletion, namespaces, custom kinds.

Follows the store and works off what became doubtful. `run` is one synchronous pass until nothing is left to do (for
campaigns); `run_forever` is the same as a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import deletion
from .apply import track_update
from .deletion import FOREGROUND, ORPHAN, DeleteOptions
from .registry import Kind
from .state import State
from .store import Change, Changed, Row, StoreFull
from .strategy import CLAIM_FINALIZER, CRD_FINALIZER, CRD_RESOURCE, VOLUME_FINALIZER

Object = dict[str, Any]
# The process that does this work in a whole cluster.
_MANAGER = "kube-controller-manager"
FULL_PAUSE_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """Where an object is stored."""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class _Node:
    ref: Ref
    uid: str
    owners: tuple[str, ...]
    dying: bool


def claims_of(pod: Mapping[str, Any]) -> set[str]:
    """The claims that a pod names."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return {one["persistentVolumeClaim"]["claimName"] for one in volumes if one.get("persistentVolumeClaim")}


class GarbageCollector:
    """The owner graph of the store, and the objects to look at."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._nodes: dict[Ref, _Node] = {}
        self._by_uid: dict[str, Ref] = {}
        self._dependents: dict[str, set[Ref]] = {}
        self._pending: dict[Ref, None] = {}
        self._wake = asyncio.Event()
        for resource in state.store.resources():
            for row in state.store.rows(resource):
                self._follow(row)
        state.store.listen(self._note)

    def run(self) -> int:
        """Works until nothing is pending; answers how many objects were looked at."""
        count = 0
        while self._pending:
            ref = next(iter(self._pending))
            del self._pending[ref]
            count += 1
            try:
                self._visit(ref)
            except StoreFull:
                self._doubt([ref])
                raise
        self._wake.clear()
        return count

    async def run_forever(self) -> None:
        """Works whenever something changed; other tasks get their turn before each pass."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(0)
            try:
                self.run()
            except StoreFull as error:
                log.warning("garbage collection waits: %s", error)
                await asyncio.sleep(FULL_PAUSE_SECONDS)

    # --- the graph ------------------------------------------------------------------------------------------------

    def _note(self, change: Change) -> None:
        row = change.row
        ref = Ref(row.resource, row.namespace, row.name)
        if change.type == "DELETED":
            self._forget(ref)
            self._doubt(self._dependents.get(row.uid, ()))
        else:
            self._follow(row)
        if change.type == "DELETED":
            self._doubt(self._holders(change))
        if self._pending:
            self._wake.set()

    def _follow(self, row: Row) -> None:
        ref = Ref(row.resource, row.namespace, row.name)
        # Most objects have neither owner nor deletion: the bytes tell without decoding.
        marked = b'"deletionTimestamp"' in row.raw
        metadata = row.load()["metadata"] if marked or b'"ownerReferences"' in row.raw else {}
        owners = tuple(owner.get("uid", "") for owner in metadata.get("ownerReferences") or ())
        before = self._nodes.get(ref)
        node = _Node(ref, row.uid, owners, bool(metadata.get("deletionTimestamp")))
        if before != node:
            self._unlink(before)
            self._link(node)
        if node.dying or (owners and (before is None or before.owners != owners)):
            self._doubt([ref])

    def _link(self, node: _Node) -> None:
        self._nodes[node.ref] = node
        self._by_uid[node.uid] = node.ref
        for uid in node.owners:
            self._dependents.setdefault(uid, set()).add(node.ref)

    def _unlink(self, node: _Node | None) -> None:
        if node is None:
            return
        if self._by_uid.get(node.uid) == node.ref:
            del self._by_uid[node.uid]
        for uid in node.owners:
            held = self._dependents.get(uid, set())
            held.discard(node.ref)
            if not held:
                self._dependents.pop(uid, None)

    def _forget(self, ref: Ref) -> None:
        self._unlink(self._nodes.pop(ref, None))

    def _doubt(self, refs: Iterable[Ref]) -> None:
        self._pending.update(dict.fromkeys(sorted(refs)))

    def _holders(self, change: Change) -> list[Ref]:
        """Who may have waited for this object to go: its owners, its namespace, its definition."""
        row = change.row
        owners = (row.load()["metadata"].get("ownerReferences") or ()) if b'"ownerReferences"' in row.raw else ()
        found = [self._by_uid[owner["uid"]] for owner in owners if owner.get("uid") in self._by_uid]
        if row.namespace:
            found.append(Ref("namespaces", "", row.namespace))
        found.append(Ref(CRD_RESOURCE, "", row.resource))
        if row.resource == "pods" and b'"claimName"' in row.raw:
            found += [Ref("persistentvolumeclaims", row.namespace, name) for name in sorted(claims_of(row.load()))]
        return [ref for ref in found if ref in self._nodes and self._nodes[ref].dying]

    # --- one object -----------------------------------------------------------------------------------------------

    def _visit(self, ref: Ref) -> None:
        row = self._state.store.get(ref.resource, ref.namespace, ref.name)
        kind = self._state.registry.by_storage(ref.resource)
        if row is None or kind is None:
            return
        obj = row.load()
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            self._visit_dying(row, obj)
        elif metadata.get("ownerReferences"):
            self._visit_owned(kind, row, obj)

    def _visit_dying(self, row: Row, obj: Object) -> None:
        finalizers = obj["metadata"].get("finalizers") or []
        if row.resource == "namespaces":
            self._empty_namespace(row, obj)
        elif CRD_FINALIZER in finalizers and row.resource == CRD_RESOURCE:
            self._empty_definition(row)
        elif CLAIM_FINALIZER in finalizers and not self._is_claimed(row):
            self._drop_finalizer(row, CLAIM_FINALIZER)
        elif VOLUME_FINALIZER in finalizers and (obj.get("status") or {}).get("phase") != "Bound":
            self._drop_finalizer(row, VOLUME_FINALIZER)
        elif ORPHAN in finalizers:
            self._orphan(row)
        elif FOREGROUND in finalizers:
            self._foreground(row)

    def _visit_owned(self, kind: Kind, row: Row, obj: Object) -> None:
        owners = obj["metadata"]["ownerReferences"]
        states = [self._owner_state(row, owner) for owner in owners]
        if "solid" in states:
            kept = [owner for owner, state in zip(owners, states, strict=True) if state == "solid"]
            if len(kept) < len(owners):
                self._set_metadata(row, obj, "ownerReferences", kept)
            return
        finalizers = obj["metadata"].get("finalizers") or []
        waiting = "waiting" in states and bool(self._dependents.get(row.uid))
        policy = (
            "Orphan" if ORPHAN in finalizers else "Foreground" if waiting or FOREGROUND in finalizers else "Background"
        )
        self._delete(kind, row, policy)

    def _owner_state(self, row: Row, owner: Mapping[str, Any]) -> str:
        """solid: there, or of a kind that nobody here knows; waiting: dying in the foreground; absent."""
        ref = self._by_uid.get(owner.get("uid", ""))
        if ref is None or ref.namespace not in {"", row.namespace}:
            group = str(owner.get("apiVersion", "")).rpartition("/")[0]
            known = any(kind.group == group and kind.kind == owner.get("kind") for kind in self._state.registry)
            return "absent" if known else "solid"
        held = self._state.store.get(ref.resource, ref.namespace, ref.name)
        metadata = held.load()["metadata"] if held and self._nodes[ref].dying else {}
        dying_in_foreground = metadata.get("deletionTimestamp") and FOREGROUND in (metadata.get("finalizers") or ())
        return "waiting" if dying_in_foreground else "solid"

    def _foreground(self, row: Row) -> None:
        blocking = False
        for ref in sorted(self._dependents.get(row.uid, ())):
            held = self._state.store.get(ref.resource, ref.namespace, ref.name)
            kind = self._state.registry.by_storage(ref.resource)
            if held is None or kind is None:
                continue
            dependent = held.load()
            if not dependent["metadata"].get("deletionTimestamp"):
                self._visit_owned(kind, held, dependent)
            blocking |= self._blocks(ref, row.uid)
        if not blocking:
            self._drop_finalizer(row, FOREGROUND)

    def _blocks(self, ref: Ref, uid: str) -> bool:
        held = self._state.store.get(ref.resource, ref.namespace, ref.name)
        owners = held.load()["metadata"].get("ownerReferences") or () if held else ()
        return any(owner.get("uid") == uid and owner.get("blockOwnerDeletion") for owner in owners)

    def _orphan(self, row: Row) -> None:
        for ref in sorted(self._dependents.get(row.uid, ())):
            held = self._state.store.get(ref.resource, ref.namespace, ref.name)
            if held is not None:
                dependent = held.load()
                owners = dependent["metadata"].get("ownerReferences") or ()
                kept = [owner for owner in owners if owner.get("uid") != row.uid]
                self._set_metadata(held, dependent, "ownerReferences", kept)
        self._drop_finalizer(row, ORPHAN)

    def _empty_namespace(self, row: Row, obj: Object) -> None:
        store, left = self._state.store, False
        for kind in {kind.resource: kind for kind in self._state.registry if kind.namespaced}.values():
            for held in store.rows(kind.resource, row.name):
                if b'"deletionTimestamp"' not in held.raw or not held.load()["metadata"].get("deletionTimestamp"):
                    self._delete(kind, held, "Background")
            left |= bool(store.rows(kind.resource, row.name))
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        if not left and "kubernetes" in finalizers:
            obj["spec"]["finalizers"] = [one for one in finalizers if one != "kubernetes"]
            self._commit(row, obj)

    def _empty_definition(self, row: Row) -> None:
        store = self._state.store
        kind = self._state.registry.by_storage(row.name)
        for held in store.rows(row.name):
            if kind is not None and not held.load()["metadata"].get("deletionTimestamp"):
                self._delete(kind, held, "")
        if not store.rows(row.name):
            self._drop_finalizer(row, CRD_FINALIZER)

    def _is_claimed(self, row: Row) -> bool:
        """A claim is in use by every pod that has a node and names it."""
        pods = (held.load() for held in self._state.store.rows("pods", row.namespace))
        return any(row.name in claims_of(pod) for pod in pods if (pod.get("spec") or {}).get("nodeName"))

    # --- writes ---------------------------------------------------------------------------------------------------

    def _delete(self, kind: Kind, row: Row, policy: str) -> None:
        options = DeleteOptions(propagation=policy, uid=row.uid)
        deletion.try_delete(self._state.store, kind, row, options, self._state.clock())

    def _drop_finalizer(self, row: Row, finalizer: str) -> None:
        held = self._state.store.get(row.resource, row.namespace, row.name)
        if held is None:
            return
        obj = held.load()
        kept = [one for one in obj["metadata"].get("finalizers") or () if one != finalizer]
        self._set_metadata(held, obj, "finalizers", kept)

    def _set_metadata(self, row: Row, obj: Object, key: str, values: list[Any]) -> None:
        if values:
            obj["metadata"][key] = values
        else:
            obj["metadata"].pop(key, None)
        kind = self._state.registry.by_storage(row.resource)
        if kind is not None and obj["metadata"].get("managedFields"):
            schema, now = self._state.schema(kind), self._state.now()
            obj = track_update(row.load(), obj, _MANAGER, schema, now)
        self._commit(row, obj)

    def _commit(self, row: Row, obj: Object) -> None:
        try:
            deletion.commit(self._state.store, row, obj)
        except Changed:
            self._doubt([Ref(row.resource, row.namespace, row.name)])
