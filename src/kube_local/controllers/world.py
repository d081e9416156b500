"""What every local controller works with: one cache per kind, one writer, one recorder of events, one clock.

Made by `run.assemble`. Caches are shared, so that a thousand pods are held once. After its own writes a controller
waits until its cache has seen them: decisions are never made from a picture that lacks what was just done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from kube_local.controllers.decide.pods import controller_of
from kube_local.controllers.decide.status import difference
from kube_local.controllers.objects import (
    BUDGETS,
    CLAIMS,
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    REVISIONS,
    SERVICES,
    SLICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUMES,
    WRITTEN,
    Budget,
    Claim,
    Deployment,
    EndpointSlice,
    Json,
    Node,
    PersistentVolume,
    Pod,
    ReplicaSet,
    Service,
    StatefulSet,
    StorageClass,
)
from kube_runtime.client.cache import Cache
from kube_runtime.client.client import Client
from kube_runtime.client.errors import AlreadyExists, NotFound
from kube_runtime.client.events import CORE_EVENTS, Recorder
from kube_runtime.client.objects import LEASES, ControllerRevision, KubeObject, Lease, RawObject, Resource
from kube_runtime.client.timing import Timing
from kube_runtime.client.write import Writer
from kube_runtime.clock import Clock
from kube_runtime.errors import Retryable

log = logging.getLogger(__name__)

# The process that does this work in a whole cluster; its name stands in managedFields.
MANAGER = "kube-controller-manager"
BY_OWNER = "owner"
BY_NAMESPACE = "namespace"
BY_NODE = "node"
BY_SERVICE = "service"
BY_CLAIM = "claim"
SEEN_SECONDS = 10.0
MAX_CONCURRENT_WRITES = 32


class CacheBehind(Retryable):
    """What was written has not come back through the watch in time."""

    reason: ClassVar[str] = "CacheBehind"


def by_owner(item: KubeObject) -> Iterator[str]:
    """The uid of the controlling owner, or `orphan/<namespace>` where there is none."""
    owner = controller_of(item)
    yield owner.uid if owner else f"orphan/{item.metadata.namespace}"


def by_namespace(item: KubeObject) -> Iterator[str]:
    """The namespace."""
    yield item.metadata.namespace


def by_node(pod: Pod) -> Iterator[str]:
    """The node that a pod is bound to."""
    if pod.spec.node_name:
        yield pod.spec.node_name


def by_service(item: EndpointSlice) -> Iterator[str]:
    """The Service that a slice belongs to."""
    yield f"{item.metadata.namespace}/{item.metadata.labels.get('kubernetes.io/service-name', '')}"


def claims_of(pod: Pod) -> list[str]:
    """The names of the claims that a pod uses."""
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return [claim.claim_name for claim in claims if claim]


def by_claim(pod: Pod) -> Iterator[str]:
    """The claims that a pod uses."""
    for name in claims_of(pod):
        yield f"{pod.metadata.namespace}/{name}"


@dataclass(slots=True)
class Caches:
    """One live copy per kind."""

    pods: Cache[Pod]
    nodes: Cache[Node]
    leases: Cache[Lease]
    stateful_sets: Cache[StatefulSet]
    replica_sets: Cache[ReplicaSet]
    deployments: Cache[Deployment]
    revisions: Cache[ControllerRevision]
    budgets: Cache[Budget]
    services: Cache[Service]
    slices: Cache[EndpointSlice]
    claims: Cache[Claim]
    volumes: Cache[PersistentVolume]
    storage_classes: Cache[StorageClass]

    @classmethod
    def of(cls, client: Client, timing: Timing) -> Caches:
        """Caches that do not run yet."""

        def cache(resource: Resource[Any], indexes: Mapping[str, Any] | None = None, namespace: str = "") -> Cache[Any]:
            return Cache(client, resource, namespace=namespace, indexes=indexes or {}, timing=timing)

        owned, placed = {BY_OWNER: by_owner}, {BY_NAMESPACE: by_namespace}
        return cls(
            pods=cache(PODS, {**owned, **placed, BY_NODE: by_node, BY_CLAIM: by_claim}),
            nodes=cache(NODES),
            leases=cache(LEASES, namespace="kube-node-lease"),
            stateful_sets=cache(STATEFUL_SETS),
            replica_sets=cache(REPLICA_SETS, owned),
            deployments=cache(DEPLOYMENTS),
            revisions=cache(REVISIONS, owned),
            budgets=cache(BUDGETS, placed),
            services=cache(SERVICES, placed),
            slices=cache(SLICES, {BY_SERVICE: by_service}),
            claims=cache(CLAIMS),
            volumes=cache(VOLUMES),
            storage_classes=cache(STORAGE_CLASSES),
        )

    def named(self) -> dict[str, Cache[Any]]:
        """All of them, by the plural of their kind."""
        found = (getattr(self, name) for name in Caches.__dataclass_fields__)
        return {cache.resource.plural: cache for cache in found}


@dataclass(slots=True)
class World:
    """See the module's opening."""

    client: Client
    caches: Caches
    writer: Writer
    clock: Clock
    news: asyncio.Queue[Callable[[], Awaitable[None]]] = field(default_factory=asyncio.Queue)
    recorder: Recorder = field(init=False)
    # Pods that this process has deleted and whose going the cache may not show yet.
    condemned: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.recorder = Recorder(
            self.writer,
            instance="local",
            controller="slurm-operator-local",
            timing=self.writer.client.timing,
            core=True,
        )
        self.caches.pods.on_change(self._forget_condemned)

    @classmethod
    def of(cls, client: Client, clock: Clock) -> World:
        """A world whose caches do not run yet."""
        return cls(client, Caches.of(client, client.timing), Writer(client, (*WRITTEN, CORE_EVENTS), MANAGER), clock)

    def _forget_condemned(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.deletion_timestamp):
            self.condemned.discard(old.metadata.uid)

    # --- writing ------------------------------------------------------------------------------------------------------

    async def create(self, body: Json) -> RawObject | None:
        """Create an object; None when one of that name is there already."""
        try:
            return await self.writer.create(body)
        except AlreadyExists:
            return None

    async def create_all(self, cache: Cache[Any], bodies: Sequence[Json]) -> int:
        """Create many, at first few and then more at once, and wait until the cache shows them."""
        made: list[RawObject] = []
        for batch in growing(bodies):
            done = await together(self.create(body) for body in batch)
            made += [one for one in done if one is not None]
        await self.seen(cache, made)
        return len(made)

    async def seen(self, cache: Cache[Any], written: Iterable[RawObject]) -> None:
        """Wait until a cache has seen these writes."""
        newest = max((int(one.metadata.resource_version) for one in written), default=0)
        if not newest:
            return
        try:
            async with asyncio.timeout(SEEN_SECONDS):
                await cache.wait_for(str(newest))
        except TimeoutError:
            raise CacheBehind(f"{cache.resource.plural} are not seen {SEEN_SECONDS:g} s after they were made") from None

    async def delete_pod(self, pod: Pod, grace_seconds: int | None = None) -> bool:
        """Delete the pod that was seen; False when it was gone already."""
        self.condemned.add(pod.metadata.uid)
        try:
            return await self.writer.delete(
                PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace_seconds=grace_seconds
            )
        except BaseException:
            self.condemned.discard(pod.metadata.uid)
            raise

    async def status(
        self, resource: Resource[Any], item: Any, status: Json, annotations: Mapping[str, str] | None = None
    ) -> bool:
        """Write a status, if it says anything new, onto the version that it was made from."""
        have = item.metadata.annotations
        notes = {key: value for key, value in (annotations or {}).items() if have.get(key) != value}
        patch: Json = {"status": changed} if (changed := difference(item.status, status)) else {}
        patch |= {"metadata": {"annotations": notes}} if notes else {}
        if not patch:
            return False
        written = await self.patch(resource, item, patch, "status")
        # The next look starts from this version, and need not run into a conflict to learn of it.
        await self.seen(self.caches.named()[resource.plural], [written])
        return True

    async def patch(self, resource: Resource[Any], item: KubeObject, patch: Json, subresource: str = "") -> RawObject:
        """Merge a patch into the version that was seen."""
        head = item.metadata
        return await self.writer.patch(
            resource, head.name, patch, head.namespace, resource_version=head.resource_version, subresource=subresource
        )

    async def adopt(self, resource: Resource[Any], item: KubeObject, owner: Json) -> bool:
        """Become the controller of an object that has none; False when somebody was faster."""
        others = [
            {"apiVersion": one.api_version, "kind": one.kind, "name": one.name, "uid": one.uid}
            for one in item.metadata.owner_references
        ]
        try:
            written = await self.patch(resource, item, {"metadata": {"ownerReferences": [*others, owner]}})
        except NotFound:
            return False
        await self.seen(self.caches.named()[resource.plural], [written])
        return True

    # --- reading ------------------------------------------------------------------------------------------------------

    def pods_of(self, uid: str) -> list[Pod]:
        """The pods that an owner controls; those that this process has just deleted show it already."""
        found = self.caches.pods.by_index(BY_OWNER, uid)
        return [_as_terminating(pod) if pod.metadata.uid in self.condemned else pod for pod in found]

    # --- events -------------------------------------------------------------------------------------------------------

    def record_event(self, kind: str, item: KubeObject, resource: Resource[Any], reason: str, note: str) -> None:
        """Say something about an object; written beside the work, never in its way."""
        record = self.recorder.normal if kind == "Normal" else self.recorder.warning
        self.news.put_nowait(lambda: record(item, resource, reason, note))

    async def write_news(self) -> None:
        """Write events as they come, until cancelled."""
        while True:
            write = await self.news.get()
            try:
                await write()
            except Exception:
                log.exception("an event was not written")


def _as_terminating(pod: Pod) -> Pod:
    head = pod.metadata
    marked = msgspec.structs.replace(head, deletion_timestamp=head.deletion_timestamp or head.creation_timestamp)
    return msgspec.structs.replace(pod, metadata=marked)


def growing(items: Sequence[Json]) -> Iterator[Sequence[Json]]:
    """1, 2, 4 … of the items: a mistake in a template fails once, not a thousand times."""
    start, size = 0, 1
    while start < len(items):
        yield items[start : start + size]
        start, size = start + size, min(MAX_CONCURRENT_WRITES, size * 2)


async def together(works: Iterable[Awaitable[Any]]) -> list[Any]:
    """All at once; every one ends before the first error is raised."""
    done = await asyncio.gather(*works, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return list(done)
