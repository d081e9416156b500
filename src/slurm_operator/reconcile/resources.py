"""Where our kinds, and what they own, live in the Kubernetes API.

Used by the caches, the writer and the planners' carrying out.
"""

from __future__ import annotations

from typing import Any

from kube_runtime.client.objects import (
    BUILT_IN,
    CLAIMS,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    RawObject,
    Resource,
)
from slurm_operator.api.kinds import KINDS
from slurm_operator.api.meta import GROUP, VERSION

OURS: dict[str, Resource[RawObject]] = {
    kind.name: Resource(GROUP, VERSION, kind.plural, kind.name, RawObject) for kind in KINDS
}
SERVICE_MONITORS: Resource[RawObject] = Resource(
    "monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor", RawObject
)
# What our resources own; kept whole, so that an apply can be compared without a read.
CHILDREN: tuple[Resource[RawObject], ...] = tuple(
    resource.raw()
    for resource in (
        SERVICES,
        CONFIG_MAPS,
        SECRETS,
        STATEFUL_SETS,
        DEPLOYMENTS,
        DISRUPTION_BUDGETS,
        CONTROLLER_REVISIONS,
        CLAIMS,
    )
)
# What they own where somebody serves it.
OPTIONAL: tuple[Resource[RawObject], ...] = (SERVICE_MONITORS,)
ALL: tuple[Resource[Any], ...] = (*BUILT_IN, *OURS.values(), *OPTIONAL)
