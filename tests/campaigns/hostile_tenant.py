"""A Kubernetes user that means harm, in one namespace: many wrong NodeSets, one that never rests, one of a megabyte.

In: a world, a namespace, and a group: that of the NodeSets, or of the decoys, which cost the API server the same and
are no business of the operator. Out: load, until it is told to stop; then everything is taken away again. Used by
`neighbours.py`.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.campaigns.neighbour_world import DECOY_GROUP, REF, World, until
from tests.campaigns.rig import GROUP

WRONG_NODESETS = 200
PATCHES_PER_SECOND = 20.0
LARGE_ENTRIES = 9_000
LARGE_PATCH_SECONDS = 2.0
GONE_SECONDS = 20.0
# The definition lets it through; what it is merged with does not.
WRONG_SPEC: dict[str, Any] = {
    **REF,
    "replicas": 3,
    "slurmd": {"env": "none", "ports": 7},
    "template": {"spec": {"volumes": "all"}},
}


@dataclass
class HostileTenant:
    """One user, one namespace."""

    world: World
    namespace: str
    group: str = GROUP.partition("/")[0]
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _made: list[str] = field(default_factory=list)

    def start(self, *ways: Callable[[HostileTenant], Awaitable[None]]) -> None:
        """Begin, in these ways."""
        self._tasks = [asyncio.ensure_future(self._go(way)) for way in ways]

    async def _go(self, way: Callable[[HostileTenant], Awaitable[None]]) -> None:
        await way(self)

    async def stop(self) -> list[str]:
        """Take everything away; gives what went wrong on the hostile side."""
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for name in self._made:
            await self.world.ask("DELETE", f"{self._path}/{name}")
        resource = f"nodesets.{self.group}"
        is_gone = await until(
            lambda: not any(self.world.server.store.get(resource, self.namespace, name) for name in self._made),
            self.world.clusters[self.namespace].changed,
            GONE_SECONDS,
        )
        if not is_gone:
            await self._let_go(resource)
        return [str(each) for each in ended if isinstance(each, Exception)]

    async def _let_go(self, resource: str) -> None:
        for name in self._made:
            if self.world.server.store.get(resource, self.namespace, name):
                await self.world.ask("PATCH", f"{self._path}/{name}", {"metadata": {"finalizers": []}})

    @property
    def _path(self) -> str:
        return f"/apis/{self.group}/v1beta1/namespaces/{self.namespace}/nodesets"

    async def _create(self, name: str, spec: dict[str, Any]) -> None:
        version = f"{self.group}/v1beta1"
        body = {"apiVersion": version, "kind": "NodeSet", "metadata": {"name": name}, "spec": spec}
        await self.world.ask("POST", self._path, body)
        self._made.append(name)


async def wrong_nodesets(tenant: HostileTenant) -> None:
    """Two hundred NodeSets that nobody can make pods of, then each of them changed in turn."""
    for number in range(WRONG_NODESETS):
        await tenant._create(f"wrong-{number}", WRONG_SPEC)
        # Slowly: the API server of this campaign is slower than a real one, and is not what is judged.
        await asyncio.sleep(0.05)
    for turn in itertools.count():
        path = f"{tenant._path}/wrong-{turn % WRONG_NODESETS}"
        await tenant.world.ask("PATCH", path, {"spec": {"replicas": turn % 5}})
        await asyncio.sleep(0.2)


async def restless(tenant: HostileTenant) -> None:
    """A NodeSet whose partition is another one twenty times a second: each is a new slurm.conf."""
    await tenant._create("restless", {**REF, "replicas": 0, "partition": {"enabled": True}})
    due = time.monotonic()
    for turn in itertools.count(1):
        config = {"spec": {"partition": {"enabled": True, "config": f"MaxTime={turn}"}}}
        await tenant.world.ask("PATCH", f"{tenant._path}/restless", config)
        due = max(due + 1 / PATCHES_PER_SECOND, time.monotonic())
        await asyncio.sleep(due - time.monotonic())


async def large_nodeset(tenant: HostileTenant) -> None:
    """A NodeSet of about a megabyte, changed now and then."""
    entries = [{"name": f"VARIABLE_{number}", "value": "x" * 70} for number in range(LARGE_ENTRIES)]
    await tenant._create("large", {**REF, "replicas": 1, "slurmd": {"env": entries}})
    for turn in itertools.count(1):
        await asyncio.sleep(LARGE_PATCH_SECONDS)
        label = {"spec": {"template": {"metadata": {"labels": {"turn": f"t{turn}"}}}}}
        await tenant.world.ask("PATCH", f"{tenant._path}/large", label)


WAYS: dict[str, tuple[Callable[[HostileTenant], Awaitable[None]], ...]] = {
    "wrong-nodesets": (wrong_nodesets,),
    "restless-nodeset": (restless,),
    "large-nodeset": (large_nodeset,),
    "everything": (wrong_nodesets, restless, large_nodeset),
}
__all__ = ["DECOY_GROUP", "WAYS", "HostileTenant"]
