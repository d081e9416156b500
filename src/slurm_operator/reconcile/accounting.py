"""One reconcile of an Accounting.

In: a key. Out: slurmdbd's objects and a status. The steps are those of `OwnedObjects` in `reconcile/owned.py`; only
what to build and what to report is here. Called by `reconcile/operator.py`, which runs the result.
"""

from __future__ import annotations

from kube_runtime.clock import Clock
from slurm_operator.api.accounting import Accounting
from slurm_operator.build import accounting, names
from slurm_operator.plan.actions import Outcomes
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import OwnedObjects, Report, ResourceWorld
from slurm_operator.status import workload


def reconcile(observer: Observer, executor: Executor, clock: Clock) -> OwnedObjects[Accounting]:
    """The reconcile function of Accountings."""
    return OwnedObjects(Accounting, observer, executor, clock, accounting.objects, _report)


def _report(world: ResourceWorld[Accounting], outcomes: Outcomes) -> Report:
    cr = world.cr
    if cr.spec.external:
        return Report(workload.elsewhere("slurmdbd"), {})
    stateful_set = world.content(outcomes, ("apps/v1", "StatefulSet", cr.namespace, names.accounting(cr)))
    return Report(workload.rollout("slurmdbd", stateful_set, world.secrets(outcomes)), {})
