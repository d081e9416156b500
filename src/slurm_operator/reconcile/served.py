"""Kinds that not every cluster serves: looked for at the start, and again every few minutes.

In: the API server's list of what it serves. Out: sources that run while their kind is served, and `Observer.unserved`.
Without the Prometheus operator nothing fails; if it is installed later, it is found. Run beside the
controllers by `reconcile/operator.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from kube_runtime.client.client import Client
from kube_runtime.client.errors import KubeError
from kube_runtime.clock import Clock
from kube_runtime.loop.watches import SourceSet
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.resources import OPTIONAL

log = logging.getLogger(__name__)

POLL_INTERVAL_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Served:
    """Keeps the optional sources in step with what is served."""

    client: Client
    observer: Observer
    sources: SourceSet
    # Names of sources: those that always run, and by kind those that may.
    always: tuple[str, ...]
    optional: Mapping[str, tuple[str, ...]]
    clock: Clock

    async def run(self) -> None:
        """Look now and then until cancelled."""
        while True:
            await self.look()
            await self.clock.sleep(POLL_INTERVAL_SECONDS)

    async def look(self) -> None:
        """Ask what is served; no answer changes nothing."""
        for resource in OPTIONAL:
            try:
                found = await self.client.serves(resource)
            except KubeError as error:
                log.debug("whether %s are served: %s", resource.plural, error)
                continue
            if found == (resource.kind in self.observer.unserved):
                log.info("%s are %s", resource.plural, "served" if found else "not served any more")
            (self.observer.unserved.discard if found else self.observer.unserved.add)(resource.kind)
        served = (name for kind, names in self.optional.items() if kind not in self.observer.unserved for name in names)
        self.sources.want((*self.always, *served))
