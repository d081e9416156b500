"""The scheduler: every pod without a node gets one, or a sentence that says why not. Decided in `decide/fit.py`.

The book of what is used where follows the cache of pods. A decision is entered in the book before it is sent, and
nothing else runs between reading and entering, so many pods can be bound at once and never share the same room.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from kube_local.controllers.decide import fit
from kube_local.controllers.decide.pods import FINISHED, condition
from kube_local.controllers.decide.status import condition as new_condition
from kube_local.controllers.decide.status import with_conditions
from kube_local.controllers.objects import PODS, Claim, Json, Node, Pod
from kube_local.controllers.world import World, claims_of
from kube_runtime.client import requests
from kube_runtime.client.decode import decode_status
from kube_runtime.client.errors import Conflict, NotFound
from kube_runtime.client.requests import JSON, Repeat, Request
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key

log = logging.getLogger(__name__)

NAME = "default-scheduler"
# A refused pod is looked at again even if no event said that something changed.
AGAIN_SECONDS = 60.0


class Lacks(Enum):
    """What a refused pod waits for."""

    CLAIM = "a bound claim"
    COMPANY = "another pod, or room"
    ROOM = "room"


@dataclass(slots=True)
class Book:
    """The nodes, and what is used on each."""

    rooms: dict[str, fit.NodeRoom] = field(default_factory=dict)
    _where: dict[tuple[str, str], str] = field(default_factory=dict)
    # Pods of nodes that the book does not know (yet).
    _strays: dict[str, dict[tuple[str, str], fit.Needs]] = field(default_factory=dict)

    def note_node(self, old: Node | None, new: Node | None) -> None:
        """A node came, changed or went."""
        node = new or old
        name = node.metadata.name if node else ""
        before = self.rooms.pop(name, None)
        on_it = before.pods if before else self._strays.pop(name, {})
        if new is None:
            self._strays[name] = on_it
            return
        room = fit.room_of(new)
        for needs in on_it.values():
            room.put(needs)
        self.rooms[name] = room

    def note_pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went; a finished one needs nothing any more."""
        pod = new or old
        if pod is None:
            return
        key = (pod.metadata.namespace, pod.metadata.name)
        if new is None or new.status.phase in FINISHED:
            self.leave(key)
        elif new.spec.node_name and self._where.get(key) != new.spec.node_name:
            self.enter(fit.needs_of(new), new.spec.node_name)

    def enter(self, needs: fit.Needs, node: str) -> None:
        """A pod is, or is about to be, on this node."""
        key = (needs.namespace, needs.name)
        self.leave(key)
        self._where[key] = node
        if node in self.rooms:
            self.rooms[node].put(needs)
        else:
            self._strays.setdefault(node, {})[key] = needs

    def leave(self, key: tuple[str, str]) -> None:
        """A pod is nowhere any more."""
        node = self._where.pop(key, "")
        if node in self.rooms:
            self.rooms[node].drop(key)
        self._strays.get(node, {}).pop(key, None)


@dataclass(slots=True)
class Scheduler:
    """The controller of pods without a node."""

    world: World
    again: Callable[[Key], None] = field(default=lambda _: None)
    book: Book = field(default_factory=Book)
    _refused: dict[Key, Lacks] = field(default_factory=dict)

    def connect(self, again: Callable[[Key], None]) -> None:
        """Follow the caches; `again` puts a refused pod back into the queue."""
        self.again = again
        caches = self.world.caches
        caches.nodes.on_change(self._node_changed)
        caches.pods.on_change(self._pod_changed)
        caches.claims.on_change(self._claim_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None and _matters(old) == _matters(new):
            return
        self.book.note_node(old, new)
        self._retry(Lacks.ROOM, Lacks.COMPANY)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self.book.note_pod(old, new)
        if new is None or new.status.phase in FINISHED:
            self._retry(Lacks.ROOM, Lacks.COMPANY)
        elif new.spec.node_name and (old is None or not old.spec.node_name):
            self._retry(Lacks.COMPANY)

    def _claim_changed(self, _: Claim | None, __: Claim | None) -> None:
        self._retry(Lacks.CLAIM)

    def _retry(self, *lacks: Lacks) -> None:
        for key in [key for key, lacking in self._refused.items() if lacking in lacks]:
            del self._refused[key]
            self.again(key)

    async def __call__(self, key: Key) -> Result:
        """Find a place for one pod."""
        pod = self.world.caches.pods.get(key.namespace, key.name)
        if pod is None or not wants_place(pod):
            self._refused.pop(key, None)
            return Result()
        answer = self._place(key, pod)
        if isinstance(answer, fit.Chosen):
            await self._bind(pod, answer.node)
            return Result()
        await self._refuse(pod, answer.why)
        return Result(AGAIN_SECONDS)

    def _place(self, key: Key, pod: Pod) -> fit.Chosen | fit.Nowhere:
        """Choose and enter in one go; see the module's opening."""
        if why := self._lacks_claim(pod):
            self._refused[key] = Lacks.CLAIM
            return fit.Nowhere(why)
        needs = fit.needs_of(pod)
        answer = fit.choose(needs, list(self.book.rooms.values()))
        if isinstance(answer, fit.Chosen):
            self.book.enter(needs, answer.node)
        else:
            self._refused[key] = Lacks.COMPANY if needs.together else Lacks.ROOM
        return answer

    def _lacks_claim(self, pod: Pod) -> str:
        nodes = len(self.book.rooms)
        for name in claims_of(pod):
            claim = self.world.caches.claims.get(pod.metadata.namespace, name)
            if claim is None or claim.metadata.deletion_timestamp:
                problem = "is being deleted" if claim else "not found"
                return f'0/{nodes} nodes are available: persistentvolumeclaim "{name}" {problem}.'
            if claim.status.get("phase") != "Bound":
                return f"0/{nodes} nodes are available: pod has unbound immediate PersistentVolumeClaims."
        return ""

    async def _bind(self, pod: Pod, node: str) -> None:
        key = (pod.metadata.namespace, pod.metadata.name)
        request = binding(pod, node)
        try:
            decode_status(await self.world.client.send(request), request.what)
        except (Conflict, NotFound) as error:
            # Gone, going or bound by somebody else meanwhile: the cache will tell.
            log.info("%s", error)
            self._take_back(key)
            return
        except BaseException:
            self._take_back(key)
            raise
        note = f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {node}"
        self.world.record_event("Normal", pod, PODS, "Scheduled", note)

    def _take_back(self, key: tuple[str, str]) -> None:
        self.book.leave(key)
        self.book.note_pod(None, self.world.caches.pods.get(*key))

    async def _refuse(self, pod: Pod, why: str) -> None:
        found = condition(pod, "PodScheduled")
        if (found.get("status"), found.get("reason"), found.get("message")) == ("False", "Unschedulable", why):
            return
        await self._write_condition(pod, new_condition("PodScheduled", "False", "Unschedulable", why))
        self.world.record_event("Warning", pod, PODS, "FailedScheduling", why)

    async def _write_condition(self, pod: Pod, condition_: Json) -> None:
        conditions = with_conditions(
            pod.status.conditions, [condition_ | {"lastProbeTime": None}], self.world.clock.now()
        )
        try:
            await self.world.patch(PODS, pod, {"status": {"conditions": conditions}}, "status")
        except NotFound:
            return


def wants_place(pod: Pod) -> bool:
    """Whether a pod waits for this scheduler."""
    return (
        not pod.spec.node_name
        and not pod.metadata.deletion_timestamp
        and not pod.spec.scheduling_gates
        and pod.spec.scheduler_name in ("", NAME)
        and pod.status.phase not in FINISHED
    )


def _matters(node: Node) -> tuple[object, ...]:
    """What scheduling reads of a node; heartbeats change nothing of it."""
    return node.metadata.labels, node.spec, node.status.allocatable


def binding(pod: Pod, node: str) -> Request:
    """The request that puts a pod on a node."""
    head = pod.metadata
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": head.name, "namespace": head.namespace, "uid": head.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return Request(
        method="POST",
        path=requests.path_of(PODS, head.namespace, head.name, "binding"),
        what=f"bind pods {head.namespace}/{head.name} to {node}",
        # A second binding of the same pod is refused by the server.
        repeat=Repeat.UNPROCESSED,
        content_type=JSON,
        body=msgspec.json.encode(body),
    )
