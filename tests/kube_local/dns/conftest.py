"""Services, slices and pods as plain lists behind the caches that the records read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kube_local.controllers.objects import EndpointSlice, Pod, PodSpec, PodStatus, Service, ServiceSpec
from kube_local.dns.records import Records
from kube_runtime.client.objects import ObjectMeta


@dataclass
class Services:
    held: dict[tuple[str, str], Service] = field(default_factory=dict)

    def get(self, namespace: str, name: str) -> Service | None:
        return self.held.get((namespace, name))

    def items(self) -> tuple[Service, ...]:
        return tuple(self.held.values())


@dataclass
class Slices:
    held: dict[str, list[EndpointSlice]] = field(default_factory=dict)
    listeners: list[Callable[[Any, Any], None]] = field(default_factory=list)

    def by_index(self, name: str, value: str) -> tuple[EndpointSlice, ...]:
        assert name == "service"
        return tuple(self.held.get(value, ()))

    def on_change(self, listener: Callable[[Any, Any], None]) -> None:
        self.listeners.append(listener)


@dataclass
class Pods:
    held: dict[tuple[str, str], Pod] = field(default_factory=dict)

    def get(self, namespace: str, name: str) -> Pod | None:
        return self.held.get((namespace, name))


@dataclass
class Zone:
    """Records over what the test puts in."""

    services: Services = field(default_factory=Services)
    slices: Slices = field(default_factory=Slices)
    pods: Pods = field(default_factory=Pods)
    records: Records = field(init=False)

    def __post_init__(self) -> None:
        self.records = Records(self.services, self.slices, pods=self.pods)

    def service(self, name: str, *endpoints: dict[str, Any], namespace: str = "ns", **spec: Any) -> None:
        head = ObjectMeta(name=name, namespace=namespace)
        self.services.held[namespace, name] = Service(metadata=head, spec=ServiceSpec(**spec))
        labels = {"kubernetes.io/service-name": name}
        ports = ({"name": "rest", "port": 6820, "protocol": "TCP"},)
        slice_ = EndpointSlice(
            metadata=ObjectMeta(name=f"{name}-x", namespace=namespace, labels=labels), endpoints=endpoints, ports=ports
        )
        for listener in self.slices.listeners:
            listener(None, slice_)
        self.slices.held.setdefault(f"{namespace}/{name}", []).append(slice_)

    def pod(self, name: str, address: str, hostname: str = "", namespace: str = "ns") -> None:
        head = ObjectMeta(name=name, namespace=namespace)
        status = PodStatus(pod_ip=address)
        self.pods.held[namespace, name] = Pod(metadata=head, spec=PodSpec(hostname=hostname), status=status)

    def forget(self, name: str, namespace: str = "ns") -> None:
        del self.services.held[namespace, name]
        for slice_ in self.slices.held.pop(f"{namespace}/{name}"):
            for listener in self.slices.listeners:
                listener(slice_, None)


@pytest.fixture
def zone() -> Zone:
    return Zone()


def endpoint(address: str, hostname: str = "", *, ready: bool = True) -> dict[str, Any]:
    """One endpoint as a slice holds it."""
    made: dict[str, Any] = {"addresses": [address], "conditions": {"ready": ready}}
    return made | ({"hostname": hostname} if hostname else {})


@pytest.fixture(name="endpoint")
def endpoint_fixture() -> Callable[..., dict[str, Any]]:
    return endpoint
