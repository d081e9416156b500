"""`slurm-operator run`: the operator as a process.

In: settings. Out: an exit code: 0 when it was asked to stop, 1 when it lost leadership or a part of it ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.missing_right import MissingRight
from kube_runtime.client.rights import Scope
from kube_runtime.client.self_review import needed
from kube_runtime.clock import SystemClock
from kube_runtime.errors import OperatorError
from kube_runtime.loop.health import health_app, stuck_workers
from kube_runtime.loop.run import Ending
from slurm_operator import rights
from slurm_operator.cli import serving
from slurm_operator.metrics import OperatorMetrics
from slurm_operator.program import USER_AGENT
from slurm_operator.reconcile.clusters import over_http
from slurm_operator.reconcile.measured import kube_calls, slurm_calls
from slurm_operator.reconcile.operator import Operator, Outside, assemble
from slurm_operator.settings import Settings, cluster_domain

log = logging.getLogger(__name__)
RESOLV_CONF = Path("/etc/resolv.conf")


def run_operator(settings: Settings) -> int:
    """Run until asked to stop."""
    domain = cluster_domain(RESOLV_CONF.read_text()) if RESOLV_CONF.is_file() else settings.cluster_domain
    serving.share_interpreter()
    try:
        ending = asyncio.run(_run(replace(settings, cluster_domain=domain)))
    except OperatorError as error:
        log.error("%s", error)  # noqa: TRY400  # for people: the traceback says nothing more
        return 1
    log.info("ended: %s", ending.value)
    return 0 if ending is Ending.ASKED else 1


async def _run(settings: Settings) -> Ending:
    clock, metrics = SystemClock(), OperatorMetrics()
    target = kubeconfig.find(path=settings.kubeconfig, context=settings.context)
    settings = replace(settings, leader_elect_namespace=settings.leader_elect_namespace or target.namespace)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client.to(target, user_agent=USER_AGENT))
        client.report = kube_calls(metrics)
        connect = partial(over_http, observe=slurm_calls(metrics))
        operator = assemble(client, settings, clock, metrics, Outside(connect=connect))
        serving.watch_loop(stack, metrics)
        serving.watch_rights(stack, client, metrics, _rights(settings))
        await _serve(stack, settings, operator, metrics)
        log.info("watching %s", ", ".join(settings.namespaces) or "every namespace")
        return await operator.run()


def _rights(settings: Settings) -> Iterator[MissingRight]:
    """What the operator needs with these settings."""
    scopes = {Scope.NAMESPACES, Scope.CLUSTER}
    scopes |= {Scope.OWN} if settings.leader_elect else set()
    scopes |= {Scope.METRICS} if settings.metrics_secure else set()
    return needed(rights.OPERATOR, scopes, settings.namespaces, settings.leader_elect_namespace)


async def _serve(stack: AsyncExitStack, settings: Settings, operator: Operator, metrics: OperatorMetrics) -> None:
    elector = operator.elector
    health = health_app(
        healthy={"workers": stuck_workers(operator.controllers.values(), operator.clock)},
        ready={
            "caches": lambda: ", ".join(operator.sources.unsynced()) or None,
            "rights": lambda: "; ".join(f"{name} {why}" for name, why in operator.sources.refused().items()) or None,
        },
        leading=(lambda: elector.is_leader) if elector is not None else None,
    )
    await serving.start(stack, settings, health, metrics, operator.writer.client)
