"""`python -m tests.real.kubelet.names KUBECONFIG ADDRESS`: the names of Services and pods, for a real cluster.

In: the API server's Services and EndpointSlices. Out: DNS on that address, port 53. It is local mode's server; what
differs is a Service with an address of its own: there is a kube-proxy here, so its name is that address.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from dns.rdatatype import RdataType

from kube_local.controllers.objects import SERVICES, SLICES, EndpointSlice, Service
from kube_local.controllers.world import BY_SERVICE, by_service
from kube_local.dns.records import Records
from kube_local.dns.server import DnsServer
from kube_local.dns.wire import Answer, Query, record_set
from kube_runtime.client import kubeconfig
from kube_runtime.client.cache import Cache
from kube_runtime.client.client import Client


@dataclass(frozen=True, slots=True)
class Names:
    """Answers by Service address where there is one, as `Records` otherwise."""

    records: Records
    services: Cache[Service]

    def answer(self, query: Query) -> Answer:
        """The records of a name."""
        address = self._address(query.name)
        if not address:
            return self.records.answer(query)
        wanted = [address] if query.kind in (RdataType.A, RdataType.ANY) else []
        return Answer(records=record_set(query.name, RdataType.A, wanted))

    def _address(self, name: str) -> str:
        labels = name.removesuffix(f".svc.{self.records.domain}").split(".")
        service = self.services.get(labels[1], labels[0]) if len(labels) == 2 else None
        return service.spec.cluster_ip if service and service.spec.cluster_ip != "None" else ""


async def serve(path: str, address: str) -> None:
    """Until killed."""
    async with Client.to(kubeconfig.find(path=path)) as client:
        services: Cache[Service] = Cache(client, SERVICES)
        slices: Cache[EndpointSlice] = Cache(client, SLICES, indexes={BY_SERVICE: by_service})
        names = Names(Records(services, slices), services)
        await asyncio.gather(services.run(), slices.run(), DnsServer(names, address).run())


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
