"""Reconciles that cannot be started, or not finished, since the operator lacks a right.

In: the reconcile of a kind. Out: the same, or, while the API server refuses a list or watch that it needs, a status
that says so. An empty cache of Secrets would otherwise look like deleted Secrets, and an old one like Secrets
that never change. Put around every reconcile by `operator.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kube_runtime.client.errors import Forbidden
from kube_runtime.clock import Clock
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.report import write_unreconciled_status
from slurm_operator.status import workload

log = logging.getLogger(__name__)

Reconcile = Callable[[Key], Awaitable[Result]]
# Nothing tells us that a Role was corrected: how soon a resource that lacks a right is tried again.
REQUEUE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Guarded:
    """The reconcile of one kind, taken only when all that it needs can be read."""

    kind: str
    reconcile: Reconcile
    observer: Observer
    executor: Executor
    clock: Clock
    _logged: dict[Key, str] = field(default_factory=dict)

    async def __call__(self, key: Key) -> Result:
        """One reconcile."""
        why = next(self._refusals(key), "")
        if not why:
            return await self._take(key)
        raw = self.observer.get(self.kind, key.namespace, key.name)
        if raw is not None:
            report = workload.failed("Forbidden", f"the operator may not read what it needs: {why}")
            await write_unreconciled_status(self.executor, self.clock, self.kind, raw, report)
        return Result(REQUEUE_SECONDS)

    async def _take(self, key: Key) -> Result:
        """The reconcile itself; what it was refused stands in the status already, and needs no growing wait."""
        try:
            result = await self.reconcile(key)
        except Forbidden as error:
            log.log(logging.DEBUG if self._logged.get(key) == str(error) else logging.WARNING, "%s", error)
            self._logged[key] = str(error)
            return Result(REQUEUE_SECONDS)
        self._logged.pop(key, None)
        return result

    def _refusals(self, key: Key) -> Iterator[str]:
        optional = self.observer.optional
        needed: list[Any] = [
            cache for kind, caches in self.observer.raw.items() if kind not in optional for cache in caches
        ]
        needed += self.observer.pods
        if self.observer.nodes is not None and self._needs_nodes(key):
            needed.append(self.observer.nodes)
        for cache in needed:
            if cache.namespace in ("", key.namespace) and cache.refusal:
                yield cache.refusal

    def _needs_nodes(self, key: Key) -> bool:
        """Workers stand on Kubernetes nodes; slurm.conf counts them for DaemonSet mode alone."""
        if self.kind == "NodeSet":
            return True
        daemons = (each.is_daemon for each in self.observer.resources(NodeSet, key.namespace))
        return self.kind in ("Controller", "Partition") and any(daemons)
