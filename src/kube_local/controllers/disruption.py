"""PodDisruptionBudgets: count, and say how many pods may go. Decided in `decide/disruption.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kube_local.controllers.decide import disruption as decide
from kube_local.controllers.decide.pods import controller_of
from kube_local.controllers.decide.selector import selects
from kube_local.controllers.objects import BUDGETS, Pod
from kube_local.controllers.world import BY_NAMESPACE, World
from kube_runtime.client.errors import KubeError
from kube_runtime.client.objects import OwnerReference, RawObject, Resource
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key


@dataclass(frozen=True, slots=True)
class Budgets:
    """The controller of PodDisruptionBudgets."""

    world: World

    async def __call__(self, key: Key) -> Result:
        """Count one budget anew."""
        caches, now = self.world.caches, self.world.clock.now()
        budget = caches.budgets.get(key.namespace, key.name)
        if budget is None:
            return Result()
        found = caches.pods.by_index(BY_NAMESPACE, key.namespace)
        pods = [pod for pod in found if selects(budget.spec.selector, pod.metadata.labels)]
        try:
            scale = await self._scale(pods) if decide.needs_scale(budget) else 0
        except KubeError as error:
            await self.world.status(BUDGETS, budget, decide.failed(budget, str(error), now))
            raise
        status = decide.status(budget, pods, scale, now)
        await self.world.status(BUDGETS, budget, status)
        return Result(decide.look_again(status, now))

    async def _scale(self, pods: Sequence[Pod]) -> int:
        """How many pods the owners of these want; a pod without an owner counts as itself."""
        owners = {owner.uid: (owner, pod) for pod in pods if (owner := controller_of(pod))}
        alone = sum(1 for pod in pods if controller_of(pod) is None)
        return alone + sum([await self._wanted(owner, pod) for owner, pod in owners.values()])

    async def _wanted(self, owner: OwnerReference, pod: Pod) -> int:
        caches, namespace = self.world.caches, pod.metadata.namespace
        if owner.kind == "ReplicaSet":
            replica_set = caches.replica_sets.get(namespace, owner.name)
            above = controller_of(replica_set) if replica_set else None
            deployment = caches.deployments.get(namespace, above.name) if above else None
            return deployment.spec.replicas if deployment else replica_set.spec.replicas if replica_set else 0
        if owner.kind == "StatefulSet":
            stateful_set = caches.stateful_sets.get(namespace, owner.name)
            return stateful_set.spec.replicas if stateful_set else 0
        group, _, version = owner.api_version.rpartition("/")
        # Whoever names a kind otherwise gets the words of the server in the condition.
        resource = Resource(group, version, f"{owner.kind.lower()}s", owner.kind, RawObject)
        return (await self.world.client.get_scale(resource, owner.name, namespace)).spec.replicas
