"""Service: which addresses stand behind it, as EndpointSlices. Pure; see `controllers/endpoints.py`.

An endpoint stays in the slice that it is in, so that one pod's change rewrites one slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kube_local.controllers.decide import pods as pods_
from kube_local.controllers.objects import EndpointSlice, Json, Pod, Service, ServicePort
from kube_runtime.go_hash import fnv32, safe_encode

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SLICE_CONTROLLER = "endpointslice-controller.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
HEADLESS = "service.kubernetes.io/headless"
MAX_ENDPOINTS_PER_SLICE = 100

Ports = tuple[tuple[str, int, str, str], ...]


def is_headless(service: Service) -> bool:
    """A Service without an address of its own."""
    return service.spec.cluster_ip == "None"


def is_managed(service: Service) -> bool:
    """Endpoints of a Service without a selector are somebody else's."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def backing(service: Service, pods: Iterable[Pod]) -> list[Pod]:
    """The pods that have an address and are selected."""
    wanted = service.spec.selector.items()
    found = [
        pod
        for pod in pods
        if pod.status.pod_ip
        and pod.status.phase not in pods_.FINISHED
        and all(pod.metadata.labels.get(key) == value for key, value in wanted)
    ]
    return sorted(found, key=lambda pod: pod.metadata.name)


def ports_of(service: Service, pod: Pod) -> Ports:
    """The ports of a Service, as this pod has them; a port that it does not name is left out."""
    numbers = ((port, _number(port, pod)) for port in service.spec.ports)
    return tuple(
        (port.name, number, port.protocol, port.app_protocol or "") for port, number in numbers if number is not None
    )


def _number(port: ServicePort, pod: Pod) -> int | None:
    if isinstance(port.target_port, str) and not port.target_port.isdecimal():
        containers = (*pod.spec.containers, *(one for one in pod.spec.init_containers if one.restart_policy))
        named = ((one.name, one.protocol, one.container_port) for each in containers for one in each.ports)
        return next((n for name, protocol, n in named if (name, protocol) == (port.target_port, port.protocol)), None)
    return int(port.target_port or port.port)


def _target(pod: Pod) -> Json:
    head = pod.metadata
    return {"kind": "Pod", "namespace": head.namespace, "name": head.name, "uid": head.uid}


def _names_host(service: Service, pod: Pod) -> bool:
    return bool(pod.spec.hostname) and pod.spec.subdomain == service.metadata.name


def endpoint(service: Service, pod: Pod) -> Json:
    """One pod as an EndpointSlice shows it."""
    ready, terminating = pods_.is_ready(pod), pods_.is_terminating(pod)
    made: Json = {
        "addresses": [pod.status.pod_ip],
        "conditions": {
            "ready": service.spec.publish_not_ready_addresses or (ready and not terminating),
            "serving": ready,
            "terminating": terminating,
        },
        "targetRef": _target(pod),
    }
    made |= {"hostname": pod.spec.hostname} if _names_host(service, pod) else {}
    return made | ({"nodeName": pod.spec.node_name} if pod.spec.node_name else {})


# --- slices -------------------------------------------------------------------------------------------------------


def slices(service: Service, pods: Sequence[Pod], have: Sequence[EndpointSlice]) -> list[Json]:
    """Every slice that a Service is to have."""
    groups: dict[Ports, list[Json]] = {}
    for pod in backing(service, pods):
        groups.setdefault(ports_of(service, pod), []).append(endpoint(service, pod))
    if not groups:
        # One slice tells that there is nobody, rather than that nobody has looked.
        return [_slice(service, _slice_name(service, (), 0), (), [])]
    return [one for ports, members in groups.items() for one in _packed(service, ports, members, have)]


def _packed(service: Service, ports: Ports, members: Sequence[Json], have: Sequence[EndpointSlice]) -> list[Json]:
    """Each endpoint in the slice that holds it already; the others where there is room."""
    needed = max(1, len(members))
    names = [_slice_name(service, ports, number) for number in range(needed)]
    holder = {_uid(one): each.metadata.name for each in have for one in each.endpoints or ()}
    filled: dict[str, list[Json]] = {}
    homeless: list[Json] = []
    for member in members:
        name = holder.get(_uid(member), "")
        if name in names and len(filled.get(name, ())) < MAX_ENDPOINTS_PER_SLICE:
            filled.setdefault(name, []).append(member)
        else:
            homeless.append(member)
    for name in names:
        room = MAX_ENDPOINTS_PER_SLICE - len(filled.get(name, ()))
        if homeless and room > 0:
            filled.setdefault(name, []).extend(homeless[:room])
            homeless = homeless[room:]
    return [_slice(service, name, ports, filled[name]) for name in names if filled.get(name)]


def _uid(one: Mapping[str, Any]) -> str:
    return str((one.get("targetRef") or {}).get("uid", ""))


def _slice_name(service: Service, ports: Ports, number: int) -> str:
    text = f"{service.metadata.uid}/{ports}/{number}"
    return f"{service.metadata.name[:240]}-{safe_encode(str(fnv32(text.encode())))[-5:]}"


def _slice(service: Service, name: str, ports: Ports, members: Sequence[Json]) -> Json:
    head = service.metadata
    labels = {**head.labels, MANAGED_BY: SLICE_CONTROLLER, SERVICE_NAME: head.name}
    if is_headless(service):
        labels[HEADLESS] = ""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "generateName": f"{head.name}-",
            "namespace": head.namespace,
            "labels": labels,
            "ownerReferences": [pods_.owner_reference("v1", "Service", service)],
        },
        "addressType": "IPv4",
        "endpoints": sorted(members, key=lambda one: str(one["targetRef"]["name"])),
        "ports": [_port(*one) for one in ports],
    }


def _port(name: str, number: int, protocol: str, application: str) -> Json:
    made: Json = {"name": name, "port": number, "protocol": protocol}
    return made | ({"appProtocol": application} if application else {})
