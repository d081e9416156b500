"""All local controllers, DNS and ClusterIPs as one process: put together, watched, run until asked to stop.

    await run(client, Settings(volumes=..., dns_address="10.240.0.1"))

Called by `__main__` and by tests. It holds no truth: killed and started again, it goes on from what is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kube_local.controllers import watches
from kube_local.controllers.addresses import ClusterAddresses
from kube_local.controllers.decide import volumes as volumes_
from kube_local.controllers.deployment import Deployments
from kube_local.controllers.disruption import Budgets
from kube_local.controllers.endpoints import Slices
from kube_local.controllers.lifecycle import LostPods, Nodes
from kube_local.controllers.replica_set import ReplicaSets
from kube_local.controllers.scheduler import Scheduler
from kube_local.controllers.settings import Settings
from kube_local.controllers.stateful_set import StatefulSets
from kube_local.controllers.volumes import Claims, Folders, Volumes
from kube_local.controllers.world import World
from kube_local.dns.records import Records
from kube_local.dns.server import DnsServer
from kube_runtime.backoff import Backoff
from kube_runtime.client.client import Client
from kube_runtime.clock import Clock, SystemClock
from kube_runtime.loop.controller import Controller
from kube_runtime.loop.run import Ending, Work
from kube_runtime.loop.run import run as run_loop
from kube_runtime.loop.watches import SourceSet

# A local cluster is small and its server near: trouble is over soon, or not at all.
BACKOFF = Backoff(limit=10.0)
MAX_CONCURRENT_BINDINGS = 16


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
    reconciles: dict[str, tuple[Any, int]] = {
        "scheduler": (scheduler, MAX_CONCURRENT_BINDINGS),
        "statefulsets": (StatefulSets(world), 8),
        "replicasets": (ReplicaSets(world), 8),
        "deployments": (Deployments(world), 4),
        "endpointslices": (Slices(world), 4),
        "budgets": (Budgets(world), 2),
        "claims": (Claims(world, folders), 8),
        "volumes": (Volumes(world, folders), 4),
        "nodes": (nodes, 4),
        "lostpods": (LostPods(world, settings), 1),
    }
    controllers = {
        name: Controller(name, reconcile, workers=workers, clock=clock, backoff=BACKOFF)
        for name, (reconcile, workers) in reconciles.items()
    }
    watches.connect(world.caches, controllers)
    scheduler.connect(controllers["scheduler"].add)
    nodes.connect()
    sources = SourceSet({name: _same(cache) for name, cache in world.caches.named().items()}, clock=clock)
    return ControlPlane(world, controllers, sources, tuple(_background(world, settings)))


def _background(world: World, settings: Settings) -> Iterator[Work]:
    yield world.write_news
    if settings.dns_address:
        records = Records(world.caches.services, world.caches.slices, settings.cluster_domain, world.caches.pods)
        yield DnsServer(records, settings.dns_address, settings.dns_port).run
    if settings.service_network is not None:
        yield ClusterAddresses(world.caches.services, world.caches.slices, settings.service_network).run


def _same(cache: Any) -> Callable[[], Any]:
    return lambda: cache


async def run(client: Client, settings: Settings, *, stop: asyncio.Event | None = None) -> Ending:
    """Start all controllers and the DNS server; until SIGTERM, SIGINT or `stop`."""
    return await assemble(client, settings).run(stop)
