"""Nodes that are lost, the taints that say so, and the pods that must leave. Decided in `decide/lifecycle.py`.

A heartbeat counts from when this process saw it, not from the time written in it: clocks may jump, and a controller
that was down itself must not declare every node lost when it comes back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kube_local.controllers.decide import lifecycle as decide
from kube_local.controllers.decide.pods import FINISHED, is_ready, is_terminating
from kube_local.controllers.decide.status import condition, with_conditions
from kube_local.controllers.objects import NODES, PODS, Json, Node, Pod
from kube_local.controllers.settings import Settings
from kube_local.controllers.world import BY_NODE, World, together
from kube_runtime.client.errors import NotFound
from kube_runtime.client.objects import Lease
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key


@dataclass(slots=True)
class Nodes:
    """The controller of nodes."""

    world: World
    settings: Settings
    _lease_seen_at: dict[str, float] = field(default_factory=dict)
    _tainted: dict[str, dict[tuple[str, str], float]] = field(default_factory=dict)

    def connect(self) -> None:
        """Follow the heartbeats."""
        self.world.caches.leases.on_change(self._heartbeat)

    def _heartbeat(self, old: Lease | None, new: Lease | None) -> None:
        if new is not None and (old is None or old.spec.renew_time != new.spec.renew_time):
            self._lease_seen_at[new.metadata.name] = self.world.clock.monotonic()

    async def __call__(self, key: Key) -> Result:
        """Look at one node."""
        node = self.world.caches.nodes.get("", key.name)
        if node is None:
            self._tainted.pop(key.name, None)
            self._lease_seen_at.pop(key.name, None)
            return Result()
        left = self._left(node.metadata.name)
        if left <= 0:
            node = await self._declare_silent(node)
        node = await self._taint(node)
        # Whether a lost node is emptied depends on the others, whose heartbeats are no events.
        waits = [await self._evict(node), left if left > 0 else self.settings.node_grace_seconds / 4]
        return Result(min(wait for wait in waits if wait is not None))

    def _left(self, name: str) -> float:
        """Seconds until this node counts as lost."""
        now = self.world.clock.monotonic()
        return self._lease_seen_at.setdefault(name, now) + self.settings.node_grace_seconds - now

    def _surely_lives(self, node: Node) -> bool:
        """Ready, and heard of lately: nodes that fall silent together do so within one period of heartbeats."""
        return (
            decide.readiness(node) == "True" and self._left(node.metadata.name) > self.settings.node_grace_seconds / 2
        )

    def _others_live(self) -> bool:
        """Whether it is this node that is lost, and not all heartbeats."""
        return any(self._surely_lives(one) for one in self.world.caches.nodes.items())

    async def _declare_silent(self, node: Node) -> Node:
        conditions = decide.silent_conditions(node, self.world.clock.now())
        if conditions != [dict(one) for one in node.status.conditions]:
            node = await self._patched(node, {"status": {"conditions": conditions}}, "status")
            self.world.record_event(
                "Normal", node, NODES, "NodeNotReady", f"Node {node.metadata.name} status is now: NodeNotReady"
            )
        if self._others_live():
            await self._mark_pods(node)
        return node

    async def _mark_pods(self, node: Node) -> None:
        """Nobody vouches for pods of a lost node: Services leave them out."""
        pods = self.world.caches.pods.by_index(BY_NODE, node.metadata.name)
        await together(self._mark(pod) for pod in pods if is_ready(pod))

    async def _mark(self, pod: Pod) -> None:
        lost = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
        conditions = with_conditions(pod.status.conditions, [lost], self.world.clock.now())
        try:
            await self.world.patch(PODS, pod, {"status": {"conditions": conditions}}, "status")
        except NotFound:
            return

    async def _taint(self, node: Node) -> Node:
        wanted = decide.taints(node, decide.readiness(node), evict=self._others_live(), now=self.world.clock.now())
        if decide.same_taints(wanted, node.spec.taints):
            return node
        return await self._patched(node, {"spec": {"taints": wanted or None}})

    async def _patched(self, node: Node, patch: Json, subresource: str = "") -> Node:
        written = await self.world.patch(NODES, node, patch, subresource)
        await self.world.seen(self.world.caches.nodes, [written])
        return self.world.caches.nodes.get("", node.metadata.name) or node

    async def _evict(self, node: Node) -> float | None:
        """Delete the pods whose time on this node is up; seconds until the next one's is."""
        listed, now = decide.evicting(node), self.world.clock.monotonic()
        since = self._tainted.get(node.metadata.name, {})
        identities = {(str(one.get("key")), str(one.get("value") or "")) for one in listed}
        self._tainted[node.metadata.name] = since = {one: since.get(one, now) for one in identities}
        if not listed:
            return None
        start, waits = min(since.values()), []
        for pod in self.world.caches.pods.by_index(BY_NODE, node.metadata.name):
            stays = decide.stays_for(pod, listed)
            if stays is None or is_terminating(pod) or pod.status.phase in FINISHED:
                continue
            if start + stays > now:
                waits.append(start + stays - now)
                continue
            if await self.world.delete_pod(pod):
                note = f"Marking for deletion Pod {pod.metadata.namespace}/{pod.metadata.name}"
                self.world.record_event("Normal", pod, PODS, "TaintManagerEviction", note)
        return min(waits, default=None)


@dataclass(slots=True)
class LostPods:
    """Removes pods of nodes that no longer exist; keyed by the name of the node."""

    world: World
    settings: Settings
    _missing: dict[str, float] = field(default_factory=dict)

    async def __call__(self, key: Key) -> Result:
        """Look whether a node is still there, and at its pods if it is not."""
        pods = self.world.caches.pods.by_index(BY_NODE, key.name)
        if not pods or self.world.caches.nodes.get("", key.name) is not None:
            self._missing.pop(key.name, None)
            return Result()
        now = self.world.clock.monotonic()
        left = self._missing.setdefault(key.name, now) + self.settings.missing_node_seconds - now
        if left > 0:
            return Result(left)
        await together(self._remove(pod) for pod in pods)
        return Result()

    async def _remove(self, pod: Pod) -> None:
        """Nobody is there to end its containers: it is marked as failed, and goes at once."""
        if pod.status.phase not in FINISHED and not is_terminating(pod):
            target = condition("DisruptionTarget", "True", "DeletionByPodGC", "PodGC: node no longer exists")
            conditions = with_conditions(pod.status.conditions, [target], self.world.clock.now())
            try:
                await self.world.patch(PODS, pod, {"status": {"phase": "Failed", "conditions": conditions}}, "status")
            except NotFound:
                return
        await self.world.delete_pod(pod, grace_seconds=0)
