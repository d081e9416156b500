"""StatefulSets: observe, decide (`decide/stateful_set.py`), carry out. Called by the loop with a key."""

from __future__ import annotations

from dataclasses import dataclass

from kube_local.controllers.decide import pods as pods_
from kube_local.controllers.decide import stateful_set as decide
from kube_local.controllers.decide.revision import Revisions, outdated, revisions
from kube_local.controllers.decide.selector import selects
from kube_local.controllers.objects import PODS, REVISIONS, STATEFUL_SETS, Json, StatefulSet
from kube_local.controllers.world import BY_OWNER, World, together
from kube_runtime.client.errors import KubeError
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key


@dataclass(frozen=True, slots=True)
class StatefulSets:
    """The controller of StatefulSets."""

    world: World

    async def __call__(self, key: Key) -> Result:
        """Come one step nearer."""
        caches = self.world.caches
        owner = caches.stateful_sets.get(key.namespace, key.name)
        if owner is None:
            return Result()
        await self._adopt(owner)
        known = caches.revisions.by_index(BY_OWNER, owner.metadata.uid)
        chosen = revisions(owner, known)
        await self._write_revision(chosen)
        seen = decide.Seen(owner, self.world.pods_of(owner.metadata.uid), chosen)
        decision = decide.decide(seen)
        await self._carry_out(owner, decision)
        await self.world.status(STATEFUL_SETS, owner, decision.status)
        for revision in outdated(owner, known, seen.pods, chosen):
            head = revision.metadata
            await self.world.writer.delete(REVISIONS, head.name, head.namespace, uid=head.uid)
        return Result()

    async def _adopt(self, owner: StatefulSet) -> None:
        if owner.metadata.deletion_timestamp:
            return
        caches, namespace = self.world.caches, owner.metadata.namespace
        reference = pods_.owner_reference("apps/v1", "StatefulSet", owner)
        for pod in caches.pods.by_index(BY_OWNER, f"orphan/{namespace}"):
            mine = decide.ordinal_of(owner.metadata.name, pod.metadata.name) is not None
            if mine and pods_.is_active(pod) and selects(owner.spec.selector, pod.metadata.labels):
                await self.world.adopt(PODS, pod, reference)
        for revision in caches.revisions.by_index(BY_OWNER, f"orphan/{namespace}"):
            if selects(owner.spec.selector, revision.metadata.labels):
                await self.world.adopt(REVISIONS, revision, reference)

    async def _write_revision(self, chosen: Revisions) -> None:
        cache = self.world.caches.revisions
        if chosen.create is not None:
            await self.world.create_all(cache, [chosen.create])
        if chosen.renumber is not None:
            item, number = chosen.renumber
            await self.world.seen(cache, [await self.world.patch(REVISIONS, item, {"revision": number})])

    async def _carry_out(self, owner: StatefulSet, decision: decide.Decision) -> None:
        creates = [action for action in decision.actions if isinstance(action, decide.Create)]
        claims = [claim for claim in decision.claims if self._is_missing(claim)]
        try:
            await self.world.create_all(self.world.caches.claims, claims)
            await self.world.create_all(self.world.caches.pods, [action.pod for action in creates])
        except KubeError as error:
            note = f"create Pod in StatefulSet {owner.metadata.name} failed error: {error}"
            self.world.record_event("Warning", owner, STATEFUL_SETS, "FailedCreate", note)
            raise
        for action in creates:
            self._record_event(owner, "SuccessfulCreate", f"create Pod {action.pod['metadata']['name']}")
        deletes = [action.pod for action in decision.actions if isinstance(action, decide.Delete)]
        await together(self.world.delete_pod(pod) for pod in deletes)
        for pod in deletes:
            self._record_event(owner, "SuccessfulDelete", f"delete Pod {pod.metadata.name}")

    def _is_missing(self, claim: Json) -> bool:
        head = claim["metadata"]
        return self.world.caches.claims.get(head["namespace"], head["name"]) is None

    def _record_event(self, owner: StatefulSet, reason: str, what: str) -> None:
        note = f"{what} in StatefulSet {owner.metadata.name} successful"
        self.world.record_event("Normal", owner, STATEFUL_SETS, reason, note)
