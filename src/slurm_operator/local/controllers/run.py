"""All local controllers and the DNS server as one process: put together, watched, run until asked to stop.

    await run(client, Settings(volumes=..., dns_address="10.240.0.1"))

Called by `__main__` and by tests. It holds no truth: killed and started again, it goes on from what is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from slurm_operator.kube.client import Client
from slurm_operator.local.controllers import watches
from slurm_operator.local.controllers.decide import volumes as volumes_
from slurm_operator.local.controllers.deployment import Deployments
from slurm_operator.local.controllers.disruption import Budgets
from slurm_operator.local.controllers.endpoints import EndpointsOfOld, Slices
from slurm_operator.local.controllers.lifecycle import LostPods, Nodes
from slurm_operator.local.controllers.replica_set import ReplicaSets
from slurm_operator.local.controllers.scheduler import Scheduler
from slurm_operator.local.controllers.settings import Settings
from slurm_operator.local.controllers.stateful_set import StatefulSets
from slurm_operator.local.controllers.volumes import Claims, EphemeralClaims, Folders, Volumes
from slurm_operator.local.controllers.world import World
from slurm_operator.local.dns.records import Records
from slurm_operator.local.dns.server import DnsServer
from slurm_operator.loop.clock import Clock, SystemClock
from slurm_operator.loop.controller import Controller
from slurm_operator.loop.queue import Backoff
from slurm_operator.loop.run import Ending, Work
from slurm_operator.loop.run import run as run_loop
from slurm_operator.loop.watches import SourceSet

# A local cluster is small and its server near: trouble is over soon, or not at all.
BACKOFF = Backoff(limit=10.0)
BINDINGS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Everything that runs."""

    world: World
    controllers: dict[str, Controller]
    sources: SourceSet
    background: tuple[Work, ...]

    async def run(self, stop: asyncio.Event | None = None, clock: Clock | None = None) -> Ending:
        """Run until asked to stop."""
        await self.world.create(volumes_.storage_class())
        self.sources.want(self.world.caches.named())
        controllers = list(self.controllers.values())
        return await run_loop(controllers, self.sources, background=self.background, stop=stop, clock=clock, grace=2.0)


def assemble(client: Client, settings: Settings, clock: Clock | None = None) -> ControlPlane:
    """Put the controllers together; nothing runs yet."""
    clock = clock or SystemClock()
    world = World.of(client, clock)
    scheduler, nodes, folders = Scheduler(world), Nodes(world, settings), Folders(settings.volumes)
    turns: dict[str, tuple[Any, int]] = {
        "scheduler": (scheduler, BINDINGS_AT_ONCE),
        "statefulsets": (StatefulSets(world), 8),
        "replicasets": (ReplicaSets(world), 8),
        "deployments": (Deployments(world), 4),
        "endpointslices": (Slices(world), 4),
        "endpoints": (EndpointsOfOld(world), 1),
        "budgets": (Budgets(world), 2),
        "claims": (Claims(world, folders), 8),
        "volumes": (Volumes(world, folders), 4),
        "ephemeral": (EphemeralClaims(world), 2),
        "nodes": (nodes, 4),
        "lostpods": (LostPods(world, settings), 1),
    }
    controllers = {
        name: Controller(name, turn, workers=workers, clock=clock, backoff=BACKOFF)
        for name, (turn, workers) in turns.items()
    }
    watches.connect(world.caches, controllers)
    scheduler.connect(controllers["scheduler"].add)
    nodes.connect()
    sources = SourceSet({name: _same(cache) for name, cache in world.caches.named().items()}, clock=clock)
    return ControlPlane(world, controllers, sources, tuple(_background(world, settings)))


def _background(world: World, settings: Settings) -> Iterator[Work]:
    yield world.write_news
    if settings.dns_address:
        records = Records(world.caches.services, world.caches.slices, settings.cluster_domain)
        yield DnsServer(records, settings.dns_address, settings.dns_port).run


def _same(cache: Any) -> Callable[[], Any]:
    return lambda: cache


async def run(client: Client, settings: Settings, *, stop: asyncio.Event | None = None) -> Ending:
    """Start all controllers and the DNS server; until SIGTERM, SIGINT or `stop`."""
    return await assemble(client, settings).run(stop)
