"""One turn for an Accounting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kube_runtime.loop.clock import Clock
from slurm_operator.api.accounting import Accounting
from slurm_operator.build import accounting, names
from slurm_operator.plan.objects import Identity
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import Owned, Report, World
from slurm_operator.status import workload


def reconcile(observer: Observer, executor: Executor, clock: Clock) -> Owned[Accounting]:
    """The reconcile function of Accountings."""
    return Owned(Accounting, accounting.objects, _report, observer, executor, clock)


def _report(world: World[Accounting], owned: Mapping[Identity, dict[str, Any]]) -> Report:
    cr = world.cr
    if cr.spec.external:
        return Report(workload.elsewhere("slurmdbd"), {})
    stateful_set = owned.get(("apps/v1", "StatefulSet", cr.namespace, names.accounting(cr)))
    return Report(workload.rollout("slurmdbd", stateful_set), {})
