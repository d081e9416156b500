"""Deployments: observe, decide (`decide/deployment.py`), carry out. Called by the loop with a key."""

from __future__ import annotations

from dataclasses import dataclass

from kube_local.controllers.decide import deployment as decide
from kube_local.controllers.objects import DEPLOYMENTS, REPLICA_SETS, Deployment, Json, ReplicaSet
from kube_local.controllers.world import BY_OWNER, World
from kube_runtime.client.objects import RawObject
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key


@dataclass(frozen=True, slots=True)
class Deployments:
    """The controller of Deployments."""

    world: World

    async def __call__(self, key: Key) -> Result:
        """Come one step nearer."""
        caches = self.world.caches
        owner = caches.deployments.get(key.namespace, key.name)
        if owner is None:
            return Result()
        sets = caches.replica_sets.by_index(BY_OWNER, owner.metadata.uid)
        pods = [pod for one in sets for pod in self.world.pods_of(one.metadata.uid)]
        decision = decide.decide(decide.Seen(owner, sets, pods, self.world.clock.now()))
        written = [await self._do(owner, action) for action in decision.actions]
        await self.world.seen(caches.replica_sets, [one for one in written if one is not None])
        # The revision is noted with the status: as an ordinary change it would be a new generation.
        noted = {decide.REVISION: decision.revision} if decision.revision else {}
        await self.world.status(DEPLOYMENTS, owner, decision.status, noted)
        return Result()

    async def _do(self, owner: Deployment, action: decide.Action) -> RawObject | None:
        match action:
            case decide.Create(body):
                return await self._create(owner, body)
            case decide.Scale(target, replicas, annotations):
                patch = {"spec": {"replicas": replicas}, "metadata": {"annotations": dict(annotations)}}
                if target.spec.replicas != replicas:
                    self._record_event(owner, target.metadata.name, target.spec.replicas, replicas)
                return await self.world.patch(REPLICA_SETS, target, patch)
            case decide.Delete(target):
                await self._delete(target)
        return None

    async def _create(self, owner: Deployment, body: Json) -> RawObject | None:
        made = await self.world.create(body)
        if made is None:
            # Somebody else's ReplicaSet has the name: count on, and the hash becomes another.
            collisions = int(owner.status.get("collisionCount") or 0) + 1
            await self.world.status(DEPLOYMENTS, owner, {**owner.status, "collisionCount": collisions})
            return None
        self._record_event(owner, body["metadata"]["name"], 0, body["spec"]["replicas"])
        return made

    async def _delete(self, target: ReplicaSet) -> None:
        head = target.metadata
        await self.world.writer.delete(REPLICA_SETS, head.name, head.namespace, uid=head.uid)

    def _record_event(self, owner: Deployment, name: str, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        note = f"Scaled {direction} replica set {name} from {before} to {after}"
        self.world.record_event("Normal", owner, DEPLOYMENTS, "ScalingReplicaSet", note)
