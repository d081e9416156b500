"""One turn for a Partition: what the builder made of it, what Slurm says of it, and its status.

The line itself is written by the Controller's turn, as part of slurm.conf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_operator.admission import rules
from slurm_operator.api.meta import API_VERSION
from slurm_operator.api.partition import Partition
from slurm_operator.api.problem import errors
from slurm_operator.api.restapi import RestApi
from slurm_operator.build.errors import BuildError
from slurm_operator.build.partition import Verdict
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import slurm_conf
from slurm_operator.kube.objects import RawObject
from slurm_operator.loop.clock import Clock
from slurm_operator.loop.controller import Result
from slurm_operator.loop.queue import Key
from slurm_operator.reconcile.clusters import Cluster, Clusters, shown
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.slurm import model
from slurm_operator.slurm.errors import SlurmError
from slurm_operator.status import partition as status
from slurm_operator.status import workload
from slurm_operator.status.conditions import Statement, conditions

WAITING = 1.0
SETTLED = 5.0


@dataclass(frozen=True, slots=True)
class Partitions:
    """The reconcile function of Partitions."""

    observer: Observer
    executor: Executor
    clusters: Clusters
    clock: Clock

    async def __call__(self, key: Key) -> Result:
        """One turn."""
        raw = self.observer.get("Partition", key.namespace, key.name)
        decoded = self.observer.resource("Partition", key.namespace, key.name)
        if raw is None or decoded is None or raw.metadata.deletion_timestamp:
            return Result()
        refs = self.observer.refs(key.namespace)
        cr = decoded.resource
        found = decoded.problems if not isinstance(cr, Partition) else errors(rules.check(cr, None, refs))
        if not isinstance(cr, Partition) or found:
            await self._say(raw, None, workload.refused(found), {})
            return Result()
        return await self._turn(cr, raw, refs)

    async def _turn(self, cr: Partition, raw: RawObject, refs: Refs) -> Result:
        try:
            verdict = _verdict(cr, refs)
        except BuildError as error:
            await self._say(raw, cr, workload.failed(error.reason, str(error)), {})
            return Result()
        controller = refs.controllers[cr.spec.controller_ref.name]
        cluster = await self.clusters.find(controller, self.observer.resources(RestApi, cr.namespace), refs)
        found, fields = await _asked(cr, cluster)
        said = status.statements(verdict, found)
        await self._say(raw, cr, said, fields)
        return Result(SETTLED if isinstance(found, model.Partition) else WAITING)

    async def _say(
        self, raw: RawObject, cr: Partition | None, said: Sequence[Statement], fields: dict[str, object]
    ) -> None:
        generation = raw.metadata.generation
        before = cr.status.conditions if cr is not None else ()
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        content = {
            **fields,
            "observedGeneration": generation,
            "conditions": conditions(before, said, generation, now),
        }
        place = {"name": raw.metadata.name, "namespace": raw.metadata.namespace}
        desired = {"apiVersion": API_VERSION, "kind": "Partition", "metadata": place, "status": content}
        await self.executor.status(desired, raw)


def _verdict(cr: Partition, refs: Refs) -> Verdict:
    controller = refs.controller(cr.namespace, cr.spec.controller_ref)
    verdicts = slurm_conf(controller, refs).partitions
    return next(each for each in verdicts if each.kind == "Partition" and each.resource == cr.name)


async def _asked(
    cr: Partition, cluster: Cluster | model.Unknown
) -> tuple[model.Partition | model.Unknown | None, dict[str, object]]:
    if isinstance(cluster, model.Unknown):
        return cluster, {}
    try:
        answer = await cluster.client.all_partitions()
    except SlurmError as error:
        return model.Unknown(shown(error)), {}
    found = next((each for each in answer.items if each.name == cr.slurm_name), None)
    if found is None and not answer.complete:
        return model.Unknown("Slurm's list of partitions is incomplete"), {}
    world = await cluster.world()
    nodes = world.nodes.items if isinstance(world.nodes, model.Answer) else ()
    jobs = world.jobs if not isinstance(world.jobs, model.Unknown) else ()
    return found, status.fields(found, nodes, jobs)
