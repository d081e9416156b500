"""What an object of a cluster must look like to be judged: the type of each field that a migration looks at.

In: a kind, and an object as it was read. Out: the first field of a wrong type, with its path; empty where all fit.
Pure; called by `diagnose/migration.py`, which leaves out what does not fit, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from slurm_operator.api.kinds import BY_NAME

# Longer than any name of Kubernetes, or like a flag, it is no name to put into a command.
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253, pattern="^[^-]")]


class _Shape(msgspec.Struct, rename="camel"):
    """Fields that are not listed may be anything."""


class _Owner(_Shape):
    uid: str | None = None


class _ClusterMeta(_Shape):
    name: Name
    annotations: dict[str, str] | None = None


class _Meta(_ClusterMeta, kw_only=True):
    namespace: Name


class _PodMeta(_Shape):
    namespace: Name
    owner_references: list[_Owner | None] | None = None


class _Container(_Shape):
    name: str | None = None
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None


class _PodSpec(_Shape):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None


class _Template(_Shape):
    spec: _PodSpec | None = None


class _WorkloadSpec(_Shape):
    replicas: int | None = None
    template: _Template | None = None


class _Workload(_Shape):
    metadata: _Meta
    spec: _WorkloadSpec | None = None


class _Service(_Shape):
    namespace: Name


class _ClientConfig(_Shape):
    service: _Service | None = None


class _Rule(_Shape):
    api_groups: list[str] | None = None


class _Hook(_Shape):
    name: str
    rules: list[_Rule] | None = None
    client_config: _ClientConfig | None = None


class _WebhookConfiguration(_Shape):
    metadata: _ClusterMeta
    webhooks: list[_Hook] | None = None


class _ConfigMap(_Shape):
    metadata: _Meta
    data: dict[str, str] | None = None


class _ClaimSpec(_Shape):
    access_modes: list[str] | None = None


class _Claim(_Shape):
    metadata: _Meta
    spec: _ClaimSpec | None = None


class _Pod(_Shape):
    metadata: _PodMeta


class _Ours(_Shape):
    """A resource of ours; `decode` checks the rest of it."""

    metadata: _Meta


SHAPES: Final[Mapping[str, type[_Shape]]] = {
    "Deployment": _Workload,
    "StatefulSet": _Workload,
    "ValidatingWebhookConfiguration": _WebhookConfiguration,
    "MutatingWebhookConfiguration": _WebhookConfiguration,
    "ConfigMap": _ConfigMap,
    "PersistentVolumeClaim": _Claim,
    "Pod": _Pod,
    **dict.fromkeys(BY_NAME, _Ours),
}


def misfit(kind: str, value: Mapping[str, Any]) -> str:
    """What keeps an object from being judged; empty for one that can be."""
    try:
        msgspec.convert(value, SHAPES[kind])
    except msgspec.ValidationError as error:
        return str(error)
    return ""
