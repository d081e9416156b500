"""One turn for a RestApi."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kube_runtime.loop.clock import Clock
from slurm_operator.api.restapi import RestApi
from slurm_operator.build import names, restapi
from slurm_operator.plan.objects import Identity
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import Owned, Report, World
from slurm_operator.status import workload


def reconcile(observer: Observer, executor: Executor, clock: Clock) -> Owned[RestApi]:
    """The reconcile function of RestApis."""
    return Owned(RestApi, restapi.objects, _report, observer, executor, clock)


def _report(world: World[RestApi], owned: Mapping[Identity, dict[str, Any]]) -> Report:
    cr = world.cr
    deployment = owned.get(("apps/v1", "Deployment", cr.namespace, names.restapi(cr)))
    status = (deployment or {}).get("status") or {}
    counts = {"replicas": int(status.get("replicas") or 0), "readyReplicas": int(status.get("readyReplicas") or 0)}
    return Report(workload.rollout("slurmrestd", deployment), counts)
