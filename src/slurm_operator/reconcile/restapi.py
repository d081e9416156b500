"""One reconcile of a RestApi.

In: a key. Out: slurmrestd's objects and a status. The steps are those of `OwnedObjects` in `reconcile/owned.py`; only
what to build and what to report is here. Called by `reconcile/operator.py`, which runs the result.
"""

from __future__ import annotations

from kube_runtime.clock import Clock
from slurm_operator.api.restapi import RestApi
from slurm_operator.build import names, restapi
from slurm_operator.plan.actions import Outcomes
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import OwnedObjects, Report, ResourceWorld
from slurm_operator.status import workload


def reconcile(observer: Observer, executor: Executor, clock: Clock) -> OwnedObjects[RestApi]:
    """The reconcile function of RestApis."""
    return OwnedObjects(RestApi, observer, executor, clock, restapi.objects, _report)


def _report(world: ResourceWorld[RestApi], outcomes: Outcomes) -> Report:
    cr = world.cr
    deployment = world.content(outcomes, ("apps/v1", "Deployment", cr.namespace, names.restapi(cr)))
    status = (deployment or {}).get("status") or {}
    counts = {"replicas": int(status.get("replicas") or 0), "readyReplicas": int(status.get("readyReplicas") or 0)}
    return Report(workload.rollout("slurmrestd", deployment, world.secrets(outcomes)), counts)
