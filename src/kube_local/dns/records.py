"""Which records a name has: Services and pods of the cluster, nothing else.

    <service>.<namespace>.svc.<domain>              addresses of its ready pods, also for a ClusterIP Service
    <hostname>.<service>.<namespace>.svc.<domain>   one pod that names the Service as its subdomain
    <a-b-c-d>.<service>.<namespace>.svc.<domain>    one pod by its address
    <pod>.<namespace>.svc.<domain>                  one pod whose host name is its own name; see below
    <d>.<c>.<b>.<a>.in-addr.arpa                    PTR of a pod behind a Service

Everything else is NXDOMAIN at once: there is no upstream to ask. Nothing asks for SRV records, and Services of type
ExternalName are refused by the operator: neither is served. Read by `server`; the caches are live.

A Kubernetes does not serve the names of pods in this way. Here it does, since slurmctld looks up the host of each srun
with its locks held, and Debian's repeats a look-up that fails for ten seconds: an srun in a login pod whose worker is
restarted or set down would stop all of Slurm for so long, several times.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dns.opcode import Opcode
from dns.rcode import Rcode
from dns.rdatatype import RdataType
from dns.rrset import RRset

from kube_local.controllers.objects import EndpointSlice, Json, Pod, Service
from kube_local.dns.wire import Answer, Query, record_set

BY_SERVICE = "service"
_NO = Answer(Rcode.NXDOMAIN)
_REVERSE = ".in-addr.arpa"


class ServiceCache(Protocol):
    """What is read of the cache of Services."""

    def get(self, namespace: str, name: str) -> Service | None: ...
    def items(self) -> tuple[Service, ...]: ...


class SliceCache(Protocol):
    """What is read of the cache of EndpointSlices, and how its changes are heard of."""

    def by_index(self, name: str, value: str) -> tuple[EndpointSlice, ...]: ...
    def on_change(self, listener: Callable[[Any, Any], None]) -> None: ...


class PodCache(Protocol):
    """What is read of the cache of pods."""

    def get(self, namespace: str, name: str) -> Pod | None: ...


@dataclass(slots=True)
class Records:
    """Answers questions; see the module's opening."""

    services: ServiceCache
    slices: SliceCache
    domain: str = "cluster.local"
    # None: their bare names are not served.
    pods: PodCache | None = None
    _names: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slices.on_change(self._note)

    def _note(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        """Keep the names of addresses, for PTR."""
        for one in endpoints_of(old):
            held = self._names.get(_address(one), {})
            held.pop(_slice_key(old), None)
            if not held:
                self._names.pop(_address(one), None)
        for one in endpoints_of(new):
            name = f"{_host(one)}.{_service_of(new)}.svc.{self.domain}"
            self._names.setdefault(_address(one), {})[_slice_key(new)] = name

    def answer(self, query: Query) -> Answer:
        """The records of a name, of the kind that was asked for."""
        if query.message.opcode() != Opcode.QUERY:
            return Answer(Rcode.NOTIMP)
        if query.name.endswith(_REVERSE):
            return self._reverse(query)
        if query.name != self.domain and not query.name.endswith(f".{self.domain}"):
            return _NO
        labels = query.name.removesuffix(self.domain).rstrip(".").split(".")
        found = self._forward(query, [label for label in labels if label])
        return Answer(found.code, found.records, self.domain)

    def _forward(self, query: Query, labels: list[str]) -> Answer:
        match labels:
            case [] | ["svc"]:
                return Answer()
            case [namespace, "svc"]:
                known = any(one.metadata.namespace == namespace for one in self.services.items())
                return Answer() if known else _NO
            case [name, namespace, "svc"]:
                return self._service(query, namespace, name)
            case [host, name, namespace, "svc"]:
                return self._host(query, namespace, name, host)
        return _NO

    # --- Services -----------------------------------------------------------------------------------------------------

    def _service(self, query: Query, namespace: str, name: str) -> Answer:
        if self.services.get(namespace, name) is None:
            return self._pod(query, namespace, name)
        found = dict.fromkeys(_address(one) for one in self._ready(namespace, name))
        return Answer(records=self._wanted(query, list(found)))

    def _host(self, query: Query, namespace: str, name: str, host: str) -> Answer:
        if self.services.get(namespace, name) is None:
            return _NO
        found = [_address(one) for one in self._ready(namespace, name) if host in (_host(one), _dashed(_address(one)))]
        return Answer(records=self._wanted(query, found)) if found else _NO

    def _pod(self, query: Query, namespace: str, name: str) -> Answer:
        pod = self.pods.get(namespace, name) if self.pods else None
        if pod is None or pod.spec.hostname not in ("", name) or not _is_address(pod.status.pod_ip):
            return _NO
        return Answer(records=self._wanted(query, [pod.status.pod_ip]))

    def _wanted(self, query: Query, found: Sequence[str]) -> tuple[RRset, ...]:
        """No addresses of another family: an empty answer, which is not the same as no such name."""
        return record_set(query.name, RdataType.A, found) if query.kind in (RdataType.A, RdataType.ANY) else ()

    def _ready(self, namespace: str, name: str) -> Iterator[Json]:
        for slice_ in self.slices.by_index(BY_SERVICE, f"{namespace}/{name}"):
            yield from (one for one in endpoints_of(slice_) if is_ready(one))

    # --- addresses ----------------------------------------------------------------------------------------------------

    def _reverse(self, query: Query) -> Answer:
        parts = query.name.removesuffix(_REVERSE).split(".")
        names = self._names.get(".".join(reversed(parts)))
        if not names:
            return _NO
        # The name of a pod with a host name is worth more than one made of its address.
        best = sorted(set(names.values()), key=lambda name: (name[:1].isdigit(), name))
        wanted = [f"{best[0]}."] if query.kind in (RdataType.PTR, RdataType.ANY) else []
        return Answer(records=record_set(query.name, RdataType.PTR, wanted), zone="in-addr.arpa")


def endpoints_of(slice_: EndpointSlice | None) -> Iterator[Json]:
    """The endpoints of a slice that have an address of version 4."""
    for one in (slice_.endpoints if slice_ else None) or ():
        if _is_address(_address(one)):
            yield one


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def is_ready(one: Json) -> bool:
    """Not said is as good as ready."""
    return (one.get("conditions") or {}).get("ready") is not False


def _address(one: Json) -> str:
    return str((one.get("addresses") or [""])[0])


def _dashed(address: str) -> str:
    return address.replace(".", "-")


def _host(one: Json) -> str:
    return str(one.get("hostname") or _dashed(_address(one))).lower()


def _slice_key(slice_: EndpointSlice | None) -> str:
    return f"{slice_.metadata.namespace}/{slice_.metadata.name}" if slice_ else ""


def _service_of(slice_: EndpointSlice | None) -> str:
    if slice_ is None:
        return ""
    return f"{slice_.metadata.labels.get('kubernetes.io/service-name', '')}.{slice_.metadata.namespace}"
