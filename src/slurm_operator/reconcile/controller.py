"""One turn for a Controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kube_runtime.client.errors import Forbidden
from kube_runtime.loop.clock import Clock
from slurm_operator.api import text
from slurm_operator.api.controller import Controller
from slurm_operator.build import controller, hashes, names
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.plan.objects import Identity
from slurm_operator.reconcile.clusters import Clusters
from slurm_operator.reconcile.config import Configurations, Logs
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import Owned, Report, World
from slurm_operator.status import workload
from slurm_operator.status.conditions import DEGRADED, yes

SERVICE_MONITOR = "ServiceMonitor"


def reconcile(
    observer: Observer, executor: Executor, clock: Clock, clusters: Clusters, logs: Logs
) -> Owned[Controller]:
    """The reconcile function of Controllers."""
    configurations = Configurations(observer, executor, clusters, clock, logs)
    observer.on_gone("Controller", configurations.forget)

    def report(world: World[Controller], owned: Mapping[Identity, dict[str, Any]]) -> Report:
        return _without_monitor(_report(world, owned, clusters), world.cr, observer)

    return Owned(Controller, _build, report, observer, executor, clock, settle=configurations.settle)


def _without_monitor(report: Report, cr: Controller, observer: Observer) -> Report:
    """Nothing else waits for a ServiceMonitor that may not be looked at; but whoever asked for it is told."""
    monitor = cr.spec.metrics.service_monitor
    why = observer.refusal(SERVICE_MONITOR, cr.namespace)
    if not (why and cr.spec.metrics.enabled and monitor and monitor.enabled):
        return report
    others = [each for each in report.statements if each.type != DEGRADED]
    message = f"its ServiceMonitor is left as it is, since the operator may not read it: {why}"
    return Report([*others, yes(DEGRADED, Forbidden.reason, message)], report.fields)


def _build(cr: Controller, refs: Refs) -> list[Object]:
    return controller.objects(cr, refs)


def _report(world: World[Controller], owned: Mapping[Identity, dict[str, Any]], clusters: Clusters) -> Report:
    cr = world.cr
    config = owned.get(("v1", "ConfigMap", cr.namespace, names.config(cr)), {})
    fields = {"configHash": hashes.of_map(config.get("data") or {})} if config else {}
    if cr.spec.external:
        name = clusters.name_of(cr)
        # What is no name is not carried on, though nothing else is believed in its stead.
        known = {"clusterName": name} if name and text.cluster_name(name) is None else {}
        return Report(workload.elsewhere("slurmctld"), {**fields, **known})
    stateful_set = owned.get(("apps/v1", "StatefulSet", cr.namespace, names.controller(cr)))
    status = (stateful_set or {}).get("status") or {}
    counts = {"replicas": int(status.get("replicas") or 0), "readyReplicas": int(status.get("readyReplicas") or 0)}
    return Report(workload.rollout("slurmctld", stateful_set), {**fields, **counts})
