"""One Lease object: read, made, replaced. Who may lead, and when, is decided in `loop/leadership`.

Every replacement carries the resourceVersion that it was made from, so of two writers one gets a `Conflict`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from kube_runtime.client.client import Client
from kube_runtime.client.errors import NotFound
from kube_runtime.client.objects import LEASES, Lease
from kube_runtime.times import parse_time


class LeaseFields(Protocol):
    """What a record of a Lease has; `version` is the resourceVersion, `holder` is empty when nobody has it."""

    @property
    def holder(self) -> str: ...
    @property
    def lease_seconds(self) -> int: ...
    @property
    def acquired(self) -> datetime | None: ...
    @property
    def renewed(self) -> datetime | None: ...
    @property
    def transitions(self) -> int: ...
    @property
    def version(self) -> str: ...


L = TypeVar("L", bound=LeaseFields)


@dataclass(frozen=True, slots=True)
class LeaseObject(Generic[L]):
    """The Lease of one name; `record` makes what it is read into, by the names of `LeaseFields`."""

    client: Client
    namespace: str
    name: str
    record: Callable[..., L]

    async def get(self) -> L | None:
        """What it says now, or None when there is none."""
        try:
            return self._read(await self.client.get(LEASES, self.name, self.namespace))
        except NotFound:
            return None

    async def create(self, record: L) -> L:
        """Make it; `AlreadyExists` when there is one."""
        return self._read(await self.client.create(LEASES, self._body(record, ""), self.namespace))

    async def update(self, record: L) -> L:
        """Replace it; `Conflict` unless `record.version` is still the current one."""
        if not record.version:
            raise ValueError("a Lease is only replaced at a known resourceVersion")
        body = self._body(record, record.version)
        return self._read(await self.client.replace(LEASES, self.name, body, self.namespace))

    def _body(self, record: L, version: str) -> dict[str, Any]:
        spec = {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": record.lease_seconds,
            "acquireTime": format_time(record.acquired) if record.acquired else None,
            "renewTime": format_time(record.renewed) if record.renewed else None,
            "leaseTransitions": record.transitions,
        }
        metadata = {"name": self.name, "namespace": self.namespace, "resourceVersion": version}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {key: value for key, value in metadata.items() if value},
            # The server refuses an empty holder; an absent one means the same.
            "spec": {key: value for key, value in spec.items() if value not in (None, "")},
        }

    def _read(self, lease: Lease) -> L:
        spec = lease.spec
        return self.record(
            holder=spec.holder_identity,
            lease_seconds=spec.lease_duration_seconds,
            acquired=parse_time(spec.acquire_time),
            renewed=parse_time(spec.renew_time),
            transitions=spec.lease_transitions,
            version=lease.metadata.resource_version,
        )


def format_time(moment: datetime) -> str:
    """A MicroTime, always with six digits: the server refuses fewer."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
