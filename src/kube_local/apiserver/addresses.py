"""Service addresses and node ports: given out when a Service is stored, as the real API server does.

The lowest free one is taken, so that the same requests give the same addresses. Called by `writes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import errors
from .registry import Kind
from .state import State

Object = dict[str, Any]

_NODE_PORTS = range(30000, 32768)


def allocate(state: State, kind: Kind, obj: Object, old: Object | None = None) -> None:
    """Sets clusterIP, the families and node ports of a Service; keeps those that it had."""
    if kind.resource != "services" or not isinstance(obj.get("spec"), dict):
        return
    spec = obj["spec"]
    if spec.get("type") == "ExternalName":
        return
    had: Object = (old or {}).get("spec") or {}
    address = spec.get("clusterIP") or had.get("clusterIP") or _free_address(state)
    spec["clusterIP"] = address
    spec["clusterIPs"] = [address]
    # Nobody knows the families of a headless service whose endpoints are made by hand.
    unknown = address == "None" and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if unknown else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if unknown else "SingleStack")
    if spec.get("type") in {"NodePort", "LoadBalancer"}:
        _node_ports(state, spec, had)


def _services(state: State) -> Iterator[Object]:
    for row in state.store.rows("services"):
        yield row.load().get("spec") or {}


def _free_address(state: State) -> str:
    taken = {spec.get("clusterIP") for spec in _services(state)}
    # The first address is that of the API server's own Service in every cluster.
    hosts = iter(state.service_network.hosts())
    next(hosts, None)
    found = next((str(host) for host in hosts if str(host) not in taken), None)
    if found is None:
        raise errors.internal("failed to allocate a serviceIP: range is full")
    return found


def _node_ports(state: State, spec: Object, had: Object) -> None:
    before = {port.get("port"): port.get("nodePort") for port in had.get("ports") or ()}
    taken = {port.get("nodePort") for one in _services(state) for port in one.get("ports") or ()}
    for port in spec.get("ports") or ():
        if not port.get("nodePort"):
            port["nodePort"] = before.get(port.get("port")) or next(n for n in _NODE_PORTS if n not in taken)
            taken.add(port["nodePort"])
