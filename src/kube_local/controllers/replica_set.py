"""ReplicaSets: observe, decide (`decide/replica_set.py`), carry out. Called by the loop with a key."""

from __future__ import annotations

from dataclasses import dataclass

from kube_local.controllers.decide import pods as pods_
from kube_local.controllers.decide import replica_set as decide
from kube_local.controllers.decide.selector import selects
from kube_local.controllers.objects import PODS, REPLICA_SETS, ReplicaSet
from kube_local.controllers.world import BY_OWNER, World, together
from kube_runtime.client.errors import KubeError
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key


@dataclass(frozen=True, slots=True)
class ReplicaSets:
    """The controller of ReplicaSets."""

    world: World

    async def __call__(self, key: Key) -> Result:
        """Come nearer to the wanted number."""
        owner = self.world.caches.replica_sets.get(key.namespace, key.name)
        if owner is None:
            return Result()
        await self._adopt(owner)
        decision = decide.decide(owner, self.world.pods_of(owner.metadata.uid))
        await self._create(owner, decision.create)
        await together(self.world.delete_pod(pod) for pod in decision.delete)
        for pod in decision.delete:
            self.world.record_event(
                "Normal", owner, REPLICA_SETS, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}"
            )
        await self.world.status(REPLICA_SETS, owner, decision.status)
        return Result()

    async def _adopt(self, owner: ReplicaSet) -> None:
        if owner.metadata.deletion_timestamp:
            return
        for pod in self.world.caches.pods.by_index(BY_OWNER, f"orphan/{owner.metadata.namespace}"):
            if pods_.is_active(pod) and selects(owner.spec.selector, pod.metadata.labels):
                await self.world.adopt(PODS, pod, pods_.owner_reference("apps/v1", "ReplicaSet", owner))

    async def _create(self, owner: ReplicaSet, count: int) -> None:
        try:
            await self.world.create_all(self.world.caches.pods, [decide.pod(owner)] * count)
        except KubeError as error:
            self.world.record_event("Warning", owner, REPLICA_SETS, "FailedCreate", f"Error creating: {error}")
            raise
        if count:
            self.world.record_event("Normal", owner, REPLICA_SETS, "SuccessfulCreate", f"Created {count} pods")
