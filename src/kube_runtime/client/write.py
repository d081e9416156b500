"""The one place where this program writes to Kubernetes; only the Lease that fences it is written apart.

In: objects as the builders made them, and what the caches showed. Out: requests, and only those that change something.
In the operator `reconcile/execute` is the only caller besides `events`; the admission server's certificates, `kubectl
slurm` and the parts of local mode write through it too. Two hooks see every write: crash tests stop the program in
them, audit counts in `after`. Leadership is asked by `fence`, at every attempt and at the last moment.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias, TypeVar, Unpack

import msgspec

from kube_runtime.client.client import Client
from kube_runtime.client.compare import Difference, differences
from kube_runtime.client.errors import BadAnswer, Conflict, Invalid, NotFound
from kube_runtime.client.field_owners import taken
from kube_runtime.client.objects import BUILT_IN, RawObject, Resource, by_kind, resource_of
from kube_runtime.client.requests import DeleteOptions
from kube_runtime.client.store import Key

R = TypeVar("R")
# (apiVersion, kind, (namespace, name))
_Place: TypeAlias = tuple[str, str, Key]


class Look(Enum):
    """What stands for a live object that nobody has read."""

    FIRST = "read it before deciding"


class Effect(Enum):
    """What an apply did."""

    UNCHANGED = "unchanged"
    CREATED = "created"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Write:
    """One write, before it is sent."""

    verb: str
    resource: Resource[Any]
    namespace: str
    name: str
    subresource: str = ""
    body: Any = field(default=None, repr=False)
    why: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """The object as it is now, and what that took."""

    effect: Effect
    object: RawObject
    why: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class _Learnt:
    """How the server's answer to an apply differed from what we applied; true of this very object alone."""

    uid: str
    digest: bytes
    differences: tuple[Difference, ...]


async def _before(_: Write) -> None:
    return None


async def _after(_: Write, __: BaseException | None) -> None:
    return None


def _open() -> None:
    return None


def _unread(_: Resource[Any], __: str, ___: str) -> None:
    return None


@dataclass(slots=True)
class Writer:
    """Writes as one field manager."""

    client: Client
    resources: Sequence[Resource[Any]] = BUILT_IN
    field_manager: str = "kube-runtime"
    dry_run: bool = False
    before: Callable[[Write], Awaitable[None]] = _before
    after: Callable[[Write, BaseException | None], Awaitable[None]] = _after
    fence: Callable[[], None] = _open
    # Called after every write, with its kind and namespace and the resourceVersion that it got.
    wrote: Callable[[Resource[Any], str, str], None] = _unread
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _fenced: Client = field(init=False)
    _known: dict[tuple[str, str], Resource[Any]] = field(init=False)
    # What the server writes in another form than we do, by object and subresource.
    _learnt: dict[_Place, dict[str, _Learnt]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known = by_kind(tuple(self.resources))
        self._fenced = self.client.fenced(self.fence)

    async def apply(
        self, desired: Mapping[str, Any], live: RawObject | Look | None = Look.FIRST, *, subresource: str = ""
    ) -> Applied:
        """Make the live object say this, and own exactly this; no request when it already does.

        `live` is the object as a raw cache has it, or None when it is known to be missing.
        """
        resource = resource_of(desired, self._known).raw()
        namespace, name = _place(desired)
        if isinstance(live, Look):
            live = await self._read(resource, name, namespace)
        why = self._differences(desired, live, subresource)
        if live is not None and not why:
            return Applied(Effect.UNCHANGED, live)
        write = Write("apply", resource, namespace, name, subresource, _with_uid(desired, live), why)
        answer = await self._do(write, lambda: self._send_apply(write))
        self._learn(desired, answer, subresource)
        return Applied(Effect.CREATED if live is None else Effect.CHANGED, answer, why)

    async def find(self, resource: Resource[Any], name: str, namespace: str) -> RawObject | None:
        """The object that has a name now, past every cache; with no more rights than a cache needs."""
        listing = await self.client.list(resource.raw(), namespace, field_selector=f"metadata.name={name}")
        if listing.unreadable:
            raise BadAnswer(f"{resource.kind} {namespace}/{name} is there, but cannot be read")
        return next((item for item in listing.items if item.metadata.name == name), None)

    def would_change(self, desired: Mapping[str, Any], live: RawObject | None, *, subresource: str = "") -> bool:
        """Whether an apply would send a request."""
        return live is None or bool(self._differences(desired, live, subresource))

    async def status(self, desired: Mapping[str, Any], live: RawObject | Look | None = Look.FIRST) -> Applied:
        """Apply a status; `desired` holds metadata and status alone. Conditions of others stay."""
        return await self.apply(desired, live, subresource="status")

    async def create(self, desired: Mapping[str, Any]) -> RawObject:
        """Create an object of a computed name; `AlreadyExists` when it is there."""
        resource = resource_of(desired, self._known).raw()
        namespace, name = _place(desired)
        write = Write("create", resource, namespace, name, body=desired)
        return await self._do(
            write,
            lambda: self._fenced.create(
                resource, desired, namespace, field_manager=self.field_manager, dry_run=self.dry_run
            ),
        )

    async def make(self, desired: Mapping[str, Any]) -> None:
        """Create an object of a computed name without reading the answer; `AlreadyExists` when it is there."""
        resource = resource_of(desired, self._known)
        namespace, name = _place(desired)
        write = Write("create", resource, namespace, name, body=desired)
        await self._do(
            write,
            lambda: self._fenced.make(
                resource, desired, namespace, field_manager=self.field_manager, dry_run=self.dry_run
            ),
        )

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        subresource: str = "",
    ) -> RawObject:
        """Merge a patch, only into the object that was seen when uid or resourceVersion are given."""
        body = _conditional(patch, uid, resource_version)
        write = Write("patch", resource.raw(), namespace, name, subresource, body)
        try:
            return await self._do(write, lambda: self._send_patch(write))
        except Invalid as error:
            # Another uid is "immutable" to a patch; to us it is another object.
            if uid and any(cause.field == "metadata.uid" for cause in error.causes):
                raise Conflict(str(error), status=error.status) from error
            raise

    async def take_fields(self, resource: Resource[Any], live: RawObject, path: Sequence[str]) -> None:
        """Own what updates of others have set below a path, so that the next apply removes what it does not name."""
        metadata, content = live.metadata, live.content()
        entries = content["metadata"].get("managedFields") or ()
        owners = taken(entries, path, self.field_manager, resource.api_version)
        if owners is not None:
            patch = {"metadata": {"managedFields": owners}}
            at = {"uid": metadata.uid, "resource_version": metadata.resource_version}
            await self.patch(resource, metadata.name, patch, metadata.namespace, **at)

    async def delete(
        self, resource: Resource[Any], name: str, namespace: str = "", **options: Unpack[DeleteOptions]
    ) -> bool:
        """Delete the object that was seen, never its successor; False when it was gone already."""
        if not options.get("uid"):
            raise ValueError(f"delete of {resource.kind} {namespace}/{name} without a uid")
        options["dry_run"] = self.dry_run
        write = Write("delete", resource, namespace, name, body=options)
        self._learnt.pop((resource.api_version, resource.kind, (namespace, name)), None)
        try:
            await self._do(write, lambda: self._fenced.delete(resource, name, namespace, **options))
        except NotFound:
            return False
        return True

    async def _do(self, write: Write, send: Callable[[], Awaitable[R]]) -> R:
        self.fence()
        await self.before(write)
        self.counts[write.verb, write.resource.kind] += 1
        try:
            answer = await send()
        except BaseException as error:
            await self.after(write, error)
            raise
        await self.after(write, None)
        version = answer.metadata.resource_version if isinstance(answer, RawObject) else answer
        if version and not self.dry_run:
            self.wrote(write.resource, write.namespace, str(version))
        return answer

    async def _read(self, resource: Resource[RawObject], name: str, namespace: str) -> RawObject | None:
        try:
            return await self.client.get(resource, name, namespace)
        except NotFound:
            return None

    async def _send_patch(self, write: Write) -> RawObject:
        return await self._fenced.merge_patch(
            write.resource,
            write.name,
            write.body,
            write.namespace,
            subresource=write.subresource,
            field_manager=self.field_manager,
            dry_run=self.dry_run,
        )

    async def _send_apply(self, write: Write) -> RawObject:
        return await self._fenced.apply(
            write.resource,
            write.name,
            write.body,
            write.namespace,
            field_manager=self.field_manager,
            subresource=write.subresource,
            dry_run=self.dry_run,
        )

    def _differences(
        self, desired: Mapping[str, Any], live: RawObject | None, subresource: str
    ) -> tuple[Difference, ...]:
        if live is None:
            return (Difference("", "missing"),)
        found = differences(desired, live.content(), self.field_manager, subresource)
        learnt = self._learnt.get(_identity(desired), {}).get(subresource)
        same = found and learnt is not None and learnt == _Learnt(live.metadata.uid, _digest(desired), found)
        return () if same else found

    def _learn(self, desired: Mapping[str, Any], answer: RawObject, subresource: str) -> None:
        place = _identity(desired)
        found = differences(desired, answer.content(), self.field_manager, subresource)
        kept = {key: value for key, value in self._learnt.pop(place, {}).items() if key != subresource}
        if found and not self.dry_run:
            kept[subresource] = _Learnt(answer.metadata.uid, _digest(desired), found)
        if kept:
            self._learnt[place] = kept


def _place(desired: Mapping[str, Any]) -> Key:
    metadata = desired.get("metadata", {})
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _identity(desired: Mapping[str, Any]) -> _Place:
    return str(desired.get("apiVersion", "")), str(desired.get("kind", "")), _place(desired)


def _digest(desired: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(msgspec.json.encode(desired, order="deterministic")).digest()


def _with_uid(desired: Mapping[str, Any], live: RawObject | None) -> Mapping[str, Any]:
    """Name the object that was seen, so that an apply never brings back what somebody just deleted."""
    return desired if live is None else _conditional(desired, live.metadata.uid, "")


def _conditional(body: Mapping[str, Any], uid: str, resource_version: str) -> dict[str, Any]:
    conditions = {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    return {**body, "metadata": {**body.get("metadata", {}), **conditions}} if conditions else dict(body)
