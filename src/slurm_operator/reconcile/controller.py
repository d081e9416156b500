"""One reconcile of a Controller: observe, plan, change partitions live, release what follows, report.

In: a key. Out: objects, a configuration, live partitions, a status, and an outcome for each Partition of the cluster.
All reading is in `reconcile/cluster_world.py`, all deciding in `plan/cluster.py`. Run by the controller that
`reconcile/operator.py` starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kube_runtime.client.errors import BadRequest, Forbidden
from kube_runtime.loop.controller import MIN_REQUEUE_SECONDS, Result
from kube_runtime.loop.queue import Key
from slurm_operator.api import text
from slurm_operator.api.controller import Controller
from slurm_operator.build import controller, hashes, names
from slurm_operator.plan.actions import Apply, Outcomes, Plan, partitions_of
from slurm_operator.plan.cluster import Release, plan_cluster, planned_on, release
from slurm_operator.plan.cluster_world import ClusterMemory, ClusterWorld
from slurm_operator.plan.config import Stage, reconfigure_hash
from slurm_operator.plan.objects import Identity, identity
from slurm_operator.plan.owned import OwnedWorld, plan_owned
from slurm_operator.plan.ownership import NameTaken
from slurm_operator.plan.partition_events import OwnerEvent
from slurm_operator.plan.takeover import WORKLOADS
from slurm_operator.plan.verdict_poll import SLOW_POLL_SECONDS
from slurm_operator.plan.worker_trial import WorkerTrial, plan_trial
from slurm_operator.reconcile.cluster_world import ClusterReader
from slurm_operator.reconcile.clusters import Cluster
from slurm_operator.reconcile.owned import OwnedReconciler, Report, ResourceWorld
from slurm_operator.reconcile.partition import ClusterOutcome, PartitionOutcomes
from slurm_operator.slurm.model import Unknown
from slurm_operator.status import cluster as status
from slurm_operator.status import workload
from slurm_operator.status.conditions import DEGRADED, yes
from slurm_operator.status.config import is_catching_up

SERVICE_MONITOR = "ServiceMonitor"
NO_SLURM = Unknown("Slurm is not needed for this")
# When to look again: at rest for the first time, and where nothing says that it is; while somebody is waited for; while
# a partition without jobs leaves Slurm.
QUIET_REQUEUE_SECONDS = 5.0
WAITING_REQUEUE_SECONDS = 1.0
LEAVING_REQUEUE_SECONDS = 0.25
# How long the verdict is waited for before "Trying" is reported: until the poll that comes beside a stream.
NEAR_VERDICT_SECONDS = 0.9 * SLOW_POLL_SECONDS


@dataclass(frozen=True)
class Controllers(OwnedReconciler[Controller]):
    """The reconcile function of Controllers."""

    reader: ClusterReader
    outcomes: PartitionOutcomes
    # By the uid of a Controller, since a namesake is another one: what its last reconcile learned.
    _memories: dict[str, ClusterMemory] = field(default_factory=dict)

    async def __call__(self, key: Key) -> Result:
        """One reconcile; one that leaves nothing, as its Controller is wrong or goes, makes the last one old too."""
        decoded = self.observer.resource("Controller", key.namespace, key.name)
        cr = decoded.readable if decoded is not None else None
        if not isinstance(cr, Controller):
            return await super().__call__(key)
        self.outcomes.begin(cr, self.clock.monotonic())
        try:
            return await super().__call__(key)
        finally:
            if not self.outcomes.is_certain(cr):
                self.outcomes.end(cr, [each.name for each in self.observer.refs(cr.namespace).partitions_of(cr)])

    async def reconcile_checked(self, world: ResourceWorld[Controller]) -> Result:
        """One reconcile; nothing is remembered of a Controller that was deleted meanwhile."""
        try:
            return await super().reconcile_checked(world)
        finally:
            found = self.observer.get("Controller", world.cr.namespace, world.cr.name)
            if found is None or found.metadata.uid != world.cr.metadata.uid:
                self.forget(world.cr.metadata.uid)
                self.reader.streams.want(Key(world.cr.namespace, world.cr.name), None, ())
                self.reader.clusters.forget(world.cr.metadata.uid)

    async def reconcile(self, world: ResourceWorld[Controller]) -> Result:
        """Build, observe, plan, execute, release, report."""
        monitor_refusal = self.observer.refusal(SERVICE_MONITOR, world.cr.namespace)
        built = controller.built(world.cr, world.refs)
        objects = self.owned_world(world, built.objects, _candidates(world.cr))
        if world.cr.spec.external:
            return await self._reconcile_external(world, objects, monitor_refusal)
        memory = self._memories.get(world.cr.metadata.uid, ClusterMemory())
        cluster_world, slurm = await self.reader.observe(world, built, objects, memory)
        plan = plan_cluster(cluster_world)
        outcomes = await self._execute(world, plan, slurm)
        released = self._listen(world, cluster_world, release(cluster_world, plan, outcomes))
        self._memories[world.cr.metadata.uid] = released.memory
        self._put_outcome(world, ClusterOutcome(released.partitions))
        await self._record(world, released.events)
        published = await self._publish(world, released)
        await self._try_on_workers(world, released)
        waits = tuple(_waits(cluster_world, plan, outcomes, released))
        requeue = min([QUIET_REQUEUE_SECONDS, *waits])
        if _is_verdict_near(released, cluster_world.now) and _may_report_later(cluster_world, released):
            return Result(requeue)
        drafts, fields = status.drafts(cluster_world, plan, released), status.fields(cluster_world, released)
        report = _report(world, published, monitor_refusal).replacing(drafts, fields)
        result = await self.report(world, report, requeue)
        return replace(result, is_at_rest=not waits and is_at_rest(cluster_world, plan, released))

    async def _reconcile_external(
        self, world: ResourceWorld[Controller], objects: OwnedWorld, monitor_refusal: str
    ) -> Result:
        self._put_outcome(world, ClusterOutcome(failure=status.external(world.cr)))
        published = await self._execute(world, plan_owned(objects, objects.built))
        await self._execute(world, plan_trial(WorkerTrial(), self.reader.trials(world)))
        name = self.reader.clusters.name_of(world.cr)
        # A text that is not a valid name is not copied, and no other name takes its place.
        pinned = {"clusterName": name} if name and text.cluster_name(name) is None else {}
        return await self.report(world, _report(world, published, monitor_refusal).replacing((), pinned))

    def _listen(self, world: ResourceWorld[Controller], cluster_world: ClusterWorld, released: Release) -> Release:
        """Follow the logs of sidecars that are to report, and no others."""
        key, poll = Key(world.cr.namespace, world.cr.name), released.memory.poll
        awaited = poll if released.config.stage in (Stage.TRYING, Stage.FIRST) else None
        self.reader.streams.want(key, awaited, cluster_world.pods)
        if poll is None:
            return released
        poll = replace(poll, is_followed=self.reader.streams.follows(key, poll))
        return replace(released, memory=replace(released.memory, poll=poll))

    async def _publish(self, world: ResourceWorld[Controller], released: Release) -> Outcomes:
        published = await self._execute(world, released.objects)
        # The pods of a StatefulSet are its own; what is ours is the StatefulSet.
        workloads = frozenset(item.metadata.uid for key, item in world.owned.items() if key[1] in WORKLOADS)
        await self.executor.execute(released.afterwards, world.raw, self.kind.__name__, stand_ins=workloads)
        return published

    async def _try_on_workers(self, world: ResourceWorld[Controller], released: Release) -> None:
        """Create and delete trial pods; if the API server denies one, that is remembered and blocks nothing else."""
        try:
            await self._execute(world, released.trial_pods)
        except (BadRequest, Forbidden, NameTaken) as error:
            trial = released.memory.worker_trial
            if trial is None:
                raise
            memory = replace(released.memory, worker_trial=replace(trial, denied=str(error)))
            self._memories[world.cr.metadata.uid] = memory

    async def _record(self, world: ResourceWorld[Controller], events: Sequence[OwnerEvent]) -> None:
        """Record an event for each reverted partition, on the resource that has it."""
        for each in events:
            owner = self.observer.get(each.kind, world.cr.namespace, each.name)
            if owner is not None:
                await self.executor.execute(Plan(((each.event,),)), owner, each.kind)

    async def _execute(
        self, world: ResourceWorld[Controller], plan: Plan, slurm: Cluster | Unknown = NO_SLURM
    ) -> Outcomes:
        writer = None if isinstance(slurm, Unknown) else slurm
        return await self.executor.execute(plan, world.raw, self.kind.__name__, writer)

    async def report_failure(self, world: ResourceWorld[Controller], report: Report) -> None:
        """Say why it was not reconciled, here and on its Partitions."""
        self._put_outcome(world, ClusterOutcome(failure=status.not_reconciled(world.cr, report.drafts)))
        await super().report_failure(world, report)

    def forget(self, uid: str) -> None:
        """Forget a Controller that was deleted."""
        self._memories.pop(uid, None)
        self.outcomes.forget(uid)

    def _put_outcome(self, world: ResourceWorld[Controller], outcome: ClusterOutcome) -> None:
        mine = [each.name for each in world.refs.partitions_of(world.cr)]
        self.outcomes.put(world.cr, outcome, mine)


def is_at_rest(world: ClusterWorld, plan: Plan, released: Release) -> bool:
    """Whether only a change, in Kubernetes or in Slurm, can bring more to do: nothing is under way or due later."""
    config, known, memory = released.config, world.cr.status.config, released.memory
    is_reported = known is not None and known.hash == config.hash
    is_in_force = config.stage is Stage.APPLIED and is_reported and not world.objects.waits_for_key
    is_complete = not isinstance(planned_on(world), Unknown) and not _lacks_monitor(world)
    plans = (plan, released.objects, released.afterwards, released.trial_pods)
    acts = any(not isinstance(action, Apply) for each in plans for action in each.actions)
    has_times = memory.worker_trial is not None or world.history.is_pending or memory.partitions.has_times(world.now)
    counts_later = is_catching_up(config, known, world.time)
    return is_in_force and is_complete and not (acts or has_times or counts_later)


def _lacks_monitor(world: ClusterWorld) -> bool:
    """Whether it is to have a ServiceMonitor and nobody serves these yet, which no event would tell."""
    monitor = world.cr.spec.metrics.service_monitor
    return bool(monitor and monitor.enabled) and not world.refs.serves_service_monitors


def _may_report_later(world: ClusterWorld, released: Release) -> bool:
    """Whether nobody is misled by the status as it is: everybody sees that it is of an older spec, or Slurm follows.

    `kubectl wait` compares generations. What was changed live is in Slurm already; only the file is still tried.
    """
    good, candidate, live = released.config.good, released.config.candidate, world.slurm.supports_live_partitions
    is_of_older_spec = (world.cr.status.observed_generation or 0) < world.cr.metadata.generation
    return is_of_older_spec or (
        good is not None
        and candidate is not None
        and reconfigure_hash(good, live_partitions=live) == reconfigure_hash(candidate, live_partitions=live)
    )


def _is_verdict_near(released: Release, now: float) -> bool:
    """Whether the sidecars are about to wake the next reconcile: one status then says what this one would, and the end.

    "Trying" now would hold the verdict back: by up to 0.25 s if it is accepted, by up to a second if it is refused.
    """
    poll, is_tried = released.memory.poll, released.config.stage is Stage.TRYING
    return is_tried and poll is not None and poll.is_followed and now - poll.since < NEAR_VERDICT_SECONDS


def _waits(world: ClusterWorld, plan: Plan, outcomes: Outcomes, released: Release) -> Iterator[float]:
    """How soon each thing that is waited for may be there, though nothing has changed."""
    if not isinstance(planned_on(world), Unknown) and (plan.partitions.waits or released.refused):
        yield WAITING_REQUEUE_SECONDS
    accepted = {name for each in plan.actions for name in partitions_of(each)} - outcomes.by_partition.keys()
    if accepted - plan.partitions.reverts:
        # What was changed live is read back at once.
        yield MIN_REQUEUE_SECONDS
    for each in released.partitions.values():
        if each.is_leaving and not each.has_left:
            yield WAITING_REQUEUE_SECONDS if each.waits else LEAVING_REQUEUE_SECONDS
        elif each.is_awaited:
            yield WAITING_REQUEUE_SECONDS
    poll = released.memory.poll
    if poll is not None and released.config.is_open:
        interval = poll.interval(world.now)
        yield interval if released.config.stage is Stage.TRYING else max(interval, SLOW_POLL_SECONDS)
        if released.config.nudges_later:
            yield max(poll.nudge_due_in(world.now), MIN_REQUEUE_SECONDS)


def _candidates(cr: Controller) -> tuple[Identity, ...]:
    """The candidate's ConfigMap, where there is one: a sidecar reads it, and so does the next reconcile."""
    handed_over = cr.spec.inplace_reconfigure and not cr.spec.external
    return (identity(controller.candidate_map(cr, {}, "")),) if handed_over else ()


def _without_monitor(report: Report, cr: Controller, why: str) -> Report:
    """A condition for a ServiceMonitor that the operator may not read; nothing else waits for it."""
    monitor = cr.spec.metrics.service_monitor
    if not (why and cr.spec.metrics.enabled and monitor and monitor.enabled):
        return report
    message = f"its ServiceMonitor is left as it is, since the operator may not read it: {why}"
    return report.replacing([yes(DEGRADED, Forbidden.reason, message)])


def _report(world: ResourceWorld[Controller], published: Outcomes, monitor_refusal: str) -> Report:
    return _without_monitor(_of_daemon(world, published), world.cr, monitor_refusal)


def _of_daemon(world: ResourceWorld[Controller], published: Outcomes) -> Report:
    cr = world.cr
    config = world.content(published, ("v1", "ConfigMap", cr.namespace, names.config(cr)))
    fields = {"configHash": hashes.of_map(config.get("data") or {})} if config else {}
    if cr.spec.external:
        return Report(workload.elsewhere("slurmctld"), fields)
    stateful_set = world.content(published, ("apps/v1", "StatefulSet", cr.namespace, names.controller(cr)))
    found = (stateful_set or {}).get("status") or {}
    counts = {"replicas": int(found.get("replicas") or 0), "readyReplicas": int(found.get("readyReplicas") or 0)}
    return Report(workload.rollout("slurmctld", stateful_set, world.secrets(published)), {**fields, **counts})
