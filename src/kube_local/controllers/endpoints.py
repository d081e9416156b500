"""Services: their EndpointSlices. Decided in `decide/endpoints.py`; nobody reads the older Endpoints."""

from __future__ import annotations

from dataclasses import dataclass

from kube_local.controllers.decide import endpoints as decide
from kube_local.controllers.objects import SLICES, EndpointSlice, Json
from kube_local.controllers.world import BY_NAMESPACE, BY_SERVICE, World
from kube_runtime.client.objects import RawObject
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key


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
