"""Services: EndpointSlices at once, the older Endpoints a little later. Decided in `decide/endpoints.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from kube_local.controllers.decide import endpoints as decide
from kube_local.controllers.objects import (
    ENDPOINTS,
    SLICES,
    Endpoints,
    EndpointSlice,
    Json,
)
from kube_local.controllers.world import BY_NAMESPACE, BY_SERVICE, World
from kube_runtime.client.objects import RawObject
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key

# Endpoints of many pods are one large object: they are written at most this often while pods come and go.
PAUSE_SECONDS = 1.0
MANY = 50


@dataclass(frozen=True, slots=True)
class Slices:
    """The controller of EndpointSlices."""

    world: World

    async def __call__(self, key: Key) -> Result:
        """Make the slices of a Service say who stands behind it."""
        caches = self.world.caches
        service = caches.services.get(key.namespace, key.name)
        have = [one for one in caches.slices.by_index(BY_SERVICE, f"{key.namespace}/{key.name}") if _is_ours(one)]
        if service is None or service.metadata.deletion_timestamp or not decide.is_managed(service):
            wanted: list[Json] = []
        else:
            wanted = decide.slices(service, caches.pods.by_index(BY_NAMESPACE, key.namespace), have)
        await self._write(wanted, {one.metadata.name: one for one in have})
        return Result()

    async def _write(self, wanted: list[Json], have: dict[str, EndpointSlice]) -> None:
        written = []
        for body in wanted:
            live = have.pop(body["metadata"]["name"], None)
            done = await self._put(body, live)
            written += [done] if done is not None else []
        await self.world.seen(self.world.caches.slices, written)
        for left in have.values():
            head = left.metadata
            await self.world.writer.delete(SLICES, head.name, head.namespace, uid=head.uid)

    async def _put(self, body: Json, live: EndpointSlice | None) -> RawObject | None:
        if live is None:
            return await self.world.create(body)
        patch: Json = {key: body[key] for key in ("endpoints", "ports") if body[key] != list(getattr(live, key) or ())}
        labels = _labels(live.metadata.labels, body["metadata"]["labels"])
        patch |= {"metadata": {"labels": labels}} if labels else {}
        return await self.world.patch(SLICES, live, patch) if patch else None


def _is_ours(one: EndpointSlice) -> bool:
    return one.metadata.labels.get(decide.MANAGED_BY) == decide.SLICE_CONTROLLER


def _labels(have: dict[str, str], wanted: dict[str, str]) -> Json:
    changed: Json = {key: value for key, value in wanted.items() if have.get(key) != value}
    return changed | {key: None for key in have if key not in wanted}


@dataclass(slots=True)
class EndpointsOfOld:
    """The controller of Endpoints."""

    world: World
    _written: dict[Key, float] = field(default_factory=dict)

    async def __call__(self, key: Key) -> Result:
        """Make the Endpoints of a Service say who stands behind it."""
        caches, now = self.world.caches, self.world.clock.monotonic()
        service, live = caches.services.get(key.namespace, key.name), caches.endpoints.get(key.namespace, key.name)
        if service is None or service.metadata.deletion_timestamp:
            self._written.pop(key, None)
            await self._delete(live)
            return Result()
        if not decide.is_managed(service):
            return Result()
        body = decide.endpoints(service, caches.pods.by_index(BY_NAMESPACE, key.namespace))
        left = self._written.get(key, -PAUSE_SECONDS) + PAUSE_SECONDS - now
        if left > 0 and _size(body) > MANY:
            return Result(left)
        if await self._put(body, live):
            self._written[key] = now
        return Result()

    async def _put(self, body: Json, live: Endpoints | None) -> bool:
        if live is None:
            return await self.world.create(body) is not None
        patch: Json = {} if body["subsets"] == list(live.subsets or ()) else {"subsets": body["subsets"]}
        labels = _labels(live.metadata.labels, body["metadata"]["labels"])
        patch |= {"metadata": {"labels": labels}} if labels else {}
        if not patch:
            return False
        written = await self.world.patch(ENDPOINTS, live, patch)
        await self.world.seen(self.world.caches.endpoints, [written])
        return True

    async def _delete(self, live: Endpoints | None) -> None:
        """Only what this controller made: others may keep Endpoints without a Service."""
        if live is not None and live.metadata.labels.get(decide.ENDPOINTS_MANAGED_BY):
            head = live.metadata
            await self.world.writer.delete(ENDPOINTS, head.name, head.namespace, uid=head.uid)


def _size(body: Json) -> int:
    parts = ("addresses", "notReadyAddresses")
    return sum(len(subset.get(part) or ()) for subset in body["subsets"] for part in parts)
