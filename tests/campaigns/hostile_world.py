"""A world for hostile input: one Slurm cluster that is in the midst of everything, and a calm one beside it.

In: nothing, or a way to change Slurm's answers. Out: a `HostileWorld` at rest, and what is wrong with its statuses.
Both clusters are in one namespace, which is the hardest case: a fault in what is read by namespace hits both.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.campaigns.kubernetes import Cluster
from tests.campaigns.rig import JWT_KEY, NAMESPACE, World
from tests.campaigns.scenarios import KEYS, REF
from tests.campaigns.slurm_model import Line, SlurmModel

from kube_runtime.clock import Clock, run_until_idle
from kube_runtime.loop.controller import Controller
from slurm_operator.build import labels, nodeset
from slurm_operator.reconcile.clusters import SlurmTarget
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

CALM = "calm"
OURS = ("controllers", "restapis", "nodesets", "partitions", "loginsets", "accountings", "tokens")
MAX_MESSAGE_CHARACTERS = 32_768
MAX_NOTE_CHARACTERS = 1024
WINDOW = {"startTime": "2031-01-01T00:00:00Z", "duration": "2h"}
_TIME = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$")

# A hundred would be many.
MAX_STEPS = 400
MOST_STEPS_A_SECOND = 40

Mutate = Callable[[Sending, Reply], Reply]


class HotLoopError(Exception):
    """The operator does not come to rest."""


class Neighbourhood(Cluster):
    """Kubelets of both clusters: a worker of the calm one registers with the calm Slurm."""

    calm: SlurmModel

    def _register(self, pod: Mapping[str, Any]) -> None:
        if not _is_calm(pod):
            super()._register(pod)
        elif self.server.store.get("pods", NAMESPACE, pod["metadata"]["name"]) is not None:
            self.calm.register(pod["spec"]["hostname"])

    async def _stop(self, value: Mapping[str, Any]) -> None:
        if _is_calm(value) and self.calm.alive(value["spec"]["hostname"]):
            self.calm.stop_slurmd(value["spec"]["hostname"], nodeset.TERMINATING)
        await super()._stop(value)


def _is_calm(pod: Mapping[str, Any]) -> bool:
    return bool(pod["metadata"]["labels"].get(labels.INSTANCE) == CALM)


@dataclass
class HostileWorld(World):
    """A rig with two Slurm clusters, whose first one's answers may be mutated."""

    mutate: Mutate | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.calm = SlurmModel(self.clock, JWT_KEY, self.release, CALM)
        self.calm.up = True
        self.cluster = Neighbourhood(self.server, self.slurm, self.clock)
        self.cluster.calm = self.calm
        self.calm_calls: list[str] = []
        self.calm_line = Line(self.calm, self._calm_call)

    def _connect(self, target: SlurmTarget, token: TokenSource, clock: Clock) -> SlurmClient:
        line, name = self.calm_line if f"//{CALM}-" in target.address else self.line, target.cluster_name
        # No threads: virtual time does not wait for them, and they do not live on in a forked process.
        inline, now = 2**62, clock.monotonic
        return SlurmClient(target.address, token, cluster=name, transport=line, monotonic=now, inline_bytes=inline)

    def _calm_call(self, sending: Sending, go: Any) -> Reply:
        self.calm_calls.append(sending.label)
        reply: Reply = go()
        return reply

    def _slurm_call(self, sending: Sending, go: Any) -> Reply:
        if self.mutate is None:
            return super()._slurm_call(sending, go)
        mutate = self.mutate
        return super()._slurm_call(sending, lambda: mutate(sending, go()))

    async def come_up(self, workers: int = 4) -> None:
        """Both clusters, at rest."""
        partition = {"enabled": True, "config": "Default=YES"}
        scheduled = {"type": "ScheduledUpdate", "scheduledUpdate": WINDOW}
        await self.create("Controller", "slurm", KEYS)
        await self.create("RestApi", "slurm", REF)
        await self.create("NodeSet", "compute", {**REF, "replicas": workers, "partition": partition})
        await self.create("NodeSet", "more", {**REF, "replicas": 1, "updateStrategy": scheduled})
        await self.create("Partition", "all", {**REF, "nodeSets": ["compute"]})
        host = {"host": "elsewhere.example", "port": 6817}
        await self.create("Controller", CALM, {**KEYS, "external": True, "externalConfig": host})
        await self.create("RestApi", CALM, {"controllerRef": {"name": CALM}})
        await self.create("NodeSet", CALM, {"controllerRef": {"name": CALM}, "replicas": 1})
        await self.run()

    async def become_busy(self) -> None:
        """Each worker runs a job; two of them are to go, and the job of the last of these is suspended."""
        for _ in range(4):
            self.slurm.submit(100_000.0)
        await self.patch("NodeSet", "compute", {"spec": {"replicas": 2}})
        await self.run_for(3.0)
        self.slurm.suspend(4)
        await self.run_for(3.0)

    async def go_on(self, seconds: float) -> None:
        """So many virtual seconds, also while reconciles fail."""
        assert self.operator is not None
        controllers, end = self.stepped(), self.clock.monotonic() + seconds
        steps = 0
        while True:
            await run_until_idle()
            ready = next((each for each in controllers if len(each.queue)), None)
            if ready is not None:
                steps += 1
                if steps > MAX_STEPS + MOST_STEPS_A_SECOND * seconds:
                    raise HotLoopError(f"{steps} reconciles within {seconds:g} s, and {ready.name} wants another")
                await self._step(ready)
            elif not self.clock.fire_next(until=end):
                self.clock.advance(max(0.0, end - self.clock.monotonic()))
                return

    async def _step(self, controller: Controller) -> None:
        task = asyncio.create_task(controller.step())
        await run_until_idle()
        while not task.done():
            if not self.clock.fire_next():
                raise AssertionError(f"{controller.name} waits for something that virtual time does not bring")
            await run_until_idle()
        task.result()

    def ready_pods(self, nodeset: str) -> int:
        """How many workers are ready."""
        return sum(_is_ready(pod) for pod in self.pods(nodeset).values())


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


# What every status must be, whatever happens


def untrue(world: HostileWorld) -> Iterator[str]:
    """Statuses that claim what was not reconciled, or that a reader could not take."""
    for kind in OURS:
        for item in world.stored(f"{kind}.slinky.slurm.net"):
            yield from _untrue(kind, item)
    for item in world.stored("events.events.k8s.io"):
        note = str(item.get("note") or "")
        if len(note) > MAX_NOTE_CHARACTERS or not _is_readable(note):
            yield f"truth: event {item.get('reason')}: {note[:80]!r}"
    for pod in world.stored("pods"):
        deadline = pod["metadata"].get("annotations", {}).get(labels.POD_DEADLINE)
        if deadline is not None and not _TIME.match(deadline):
            yield f"truth: pod {pod['metadata']['name']} has the deadline {deadline[:40]!r}"


def _untrue(kind: str, item: Mapping[str, Any]) -> Iterator[str]:
    meta, status = item["metadata"], item.get("status") or {}
    what = f"{kind}/{meta['name']}"
    for each in status.get("conditions") or ():
        if len(each["message"]) > MAX_MESSAGE_CHARACTERS or not _is_readable(each["message"]):
            yield f"truth: {what}: {each['type']} says {each['message'][:80]!r}"
        if not _TIME.match(each["lastTransitionTime"]):
            yield f"truth: {what}: {each['type']} since {each['lastTransitionTime'][:40]!r}"
        stale = meta["generation"] not in (status.get("observedGeneration"), None)
        if each["type"] == "Ready" and each["status"] == "True" and stale:
            yield f"truth: {what} is Ready, but of generation {status.get('observedGeneration')}"


def _is_readable(text: str) -> bool:
    """Without control characters, overrides of direction and halves of characters; JSON has escapes for line breaks."""
    return all(character.isprintable() or character == "\n" for character in text)


def is_json(raw: bytes) -> bool:
    """Whether it is JSON as others would read it."""
    try:
        json.loads(raw.decode())
    except (ValueError, RecursionError):
        return False
    return True
