"""One turn for a Controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_operator.api.controller import Controller
from slurm_operator.api.problem import FieldProblem
from slurm_operator.build import controller, hashes, names
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.loop.clock import Clock
from slurm_operator.plan.objects import Identity
from slurm_operator.reconcile.clusters import Clusters
from slurm_operator.reconcile.config import Configurations, Logs
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import Owned, Report, World
from slurm_operator.status import workload

SHARED = "ReadWriteMany"


def reconcile(
    observer: Observer, executor: Executor, clock: Clock, clusters: Clusters, logs: Logs
) -> Owned[Controller]:
    """The reconcile function of Controllers."""
    configurations = Configurations(observer, executor, clusters, clock, logs)

    def check(world: World[Controller]) -> list[FieldProblem]:
        return _shared_state(world.cr, observer)

    return Owned(Controller, _build, _report, observer, executor, clock, check=check, settle=configurations.settle)


def _shared_state(cr: Controller, observer: Observer) -> list[FieldProblem]:
    """Backup controllers write to one claim from several nodes: it must allow that."""
    persistence = cr.spec.persistence
    name = persistence.existing_claim if cr.replicas > 1 else None
    claim = observer.get("PersistentVolumeClaim", cr.namespace, name) if name else None
    if claim is None:
        return []
    modes = (claim.content().get("spec") or {}).get("accessModes") or []
    if SHARED in modes:
        return []
    message = f"claim {name!r} allows {', '.join(modes) or 'nothing'}; backup controllers need {SHARED}"
    return [FieldProblem(("spec", "persistence", "existingClaim"), message)]


def _build(cr: Controller, refs: Refs) -> list[Object]:
    return controller.objects(cr, refs)


def _report(world: World[Controller], owned: Mapping[Identity, dict[str, Any]]) -> Report:
    cr = world.cr
    config = owned.get(("v1", "ConfigMap", cr.namespace, names.config(cr)), {})
    fields = {"configHash": hashes.of_map(config.get("data") or {})} if config else {}
    if cr.spec.external:
        return Report(workload.elsewhere("slurmctld"), fields)
    stateful_set = owned.get(("apps/v1", "StatefulSet", cr.namespace, names.controller(cr)))
    status = (stateful_set or {}).get("status") or {}
    counts = {"replicas": int(status.get("replicas") or 0), "readyReplicas": int(status.get("readyReplicas") or 0)}
    return Report(workload.rollout("slurmctld", stateful_set), {**fields, **counts})
