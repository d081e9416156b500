"""One reconcile of a NodeSet: observe pods, nodes and Slurm; plan; execute; report.

In: a key. Out: workers and the objects that they share, drains and node records in Slurm, and a status. Deciding is in
`plan/nodeset.py`, on the world that is put together here. Run by the controller that `reconcile/operator.py` starts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from kube_runtime.client.cache import Cache
from kube_runtime.client.objects import Pod, RawObject
from kube_runtime.clock import Clock
from kube_runtime.errors import OperatorError
from kube_runtime.loop.controller import MIN_REQUEUE_SECONDS, Result
from kube_runtime.loop.queue import Key
from kube_runtime.times import parse_time
from slurm_operator.admission import rules
from slurm_operator.admission.rules import reach
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import API_VERSION
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.problem import errors
from slurm_operator.api.restapi import RestApi
from slurm_operator.build import claims, labels, names
from slurm_operator.build.errors import BuildError, UnreadableReference
from slurm_operator.build.hostnames import is_numbered
from slurm_operator.build.refs import CONTROLLER_REF, Refs
from slurm_operator.build.same_slurm import is_one_slurm
from slurm_operator.plan import ghosts, keys, reservation, revisions
from slurm_operator.plan.actions import (
    Create,
    PatchMetadata,
    Plan,
)
from slurm_operator.plan.decided import covered, decision, deletes_pods, leaving_now, may_still_go, writes_pods
from slurm_operator.plan.duplicates import Rival, named_owners
from slurm_operator.plan.nodeset import (
    MAX_PODS_AT_ONCE,
    WAITING_REQUEUE_SECONDS,
    finalizer_removal,
    hosts_to_confirm,
    hosts_to_confirm_first,
    is_at_rest,
    plan_nodeset,
)
from slurm_operator.plan.nodeset_world import NodeSetWorld, has_enough
from slurm_operator.plan.objects import Identity
from slurm_operator.plan.ownership import NAME_TAKEN_REQUEUE_SECONDS, NameTaken, is_orphan
from slurm_operator.plan.placement import daemon_worker
from slurm_operator.plan.settled import NONE_SETTLED, Settled, settled_after, unjudged
from slurm_operator.plan.workers import (
    REGISTERED,
    REGISTRATION_GRACE_SECONDS,
    NodeSnapshot,
    hostname_of,
    other_cluster_of,
)
from slurm_operator.reconcile.clusters import Cluster, Clusters
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import MISSING_REQUEUE_SECONDS
from slurm_operator.reconcile.report import held_fields, write_status
from slurm_operator.slurm.decision import EVERYTHING, NOTHING_DECIDED, Decision
from slurm_operator.slurm.errors import SlurmRejected, SlurmWrongCluster
from slurm_operator.slurm.model import Unknown
from slurm_operator.status import nodeset as status
from slurm_operator.status import workload
from slurm_operator.status.conditions import ConditionDraft

log = logging.getLogger(__name__)

# After this, the watch counts as stuck. Creating by an older cache costs a few needless requests; nothing is deleted
# by it.
CACHE_CATCH_UP_SECONDS = 10.0
CACHE_LOOK_SECONDS = 0.02
# A Slurm that takes longer to answer does not keep workers waiting that only have to be made.
SNAPSHOT_WAIT_SECONDS = 3.0
# After a whole batch of new workers the next one waits no longer than this: Slurm's list of many takes seconds. Not for
# ever: a reconcile is cut off after two minutes.
NEXT_BATCH_WAIT_SECONDS = 0.1
MAX_BATCHES_SECONDS = 60.0
# How soon a change that Slurm refused is tried again.
REJECTED_REQUEUE_SECONDS = 60.0
SLOW = Unknown("Slurm is slow to answer")
# Older than this, the nodes are asked for once more right before a removal.
LOOK_AGAIN_SECONDS = 2.0
# With jobs older than this nothing goes.
MAX_JOBS_AGE_SECONDS = 15.0
# Conditions are written in batches of so many, for at most so long; after each batch more urgent work goes first, and a
# status that is due.
AFTER_REPORT_AT_ONCE = 64
AFTER_REPORT_SECONDS = 5.0
# About what a reconcile of a thousand workers needs to reach its status: it starts this much before the status is due.
STATUS_LEAD_SECONDS = 0.25
# While workers come or go, conditions are written at most this often: each batch delays the next worker.
DESCRIBE_SECONDS = 1.0
# How often Slurm is asked by name for the node of a leaving worker, while it does not say whether it has it.
CONFIRM_INTERVAL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class NodeSets:
    """The reconcile function of NodeSets."""

    observer: Observer
    executor: Executor
    clusters: Clusters
    clock: Clock
    # Types of Kubernetes node conditions that explain a drain.
    propagated: frozenset[str] = frozenset()
    # By the uid of a NodeSet, and by node: how often its slurmd was asked to register again.
    asked: dict[str, dict[str, ghosts.Asked]] = field(default_factory=dict)
    # By the uid of a NodeSet: the workers for whom there was nothing to do.
    settled: dict[str, Settled] = field(default_factory=dict)
    # By the uid of a NodeSet: its pods, whether it is in DaemonSet mode, and so their host names.
    hosts: dict[str, tuple[tuple[Pod, ...], bool, frozenset[str]]] = field(default_factory=dict)
    # By the uid of a NodeSet: what its status says while its conditions of pods cannot be written.
    failed_after_report: dict[str, list[ConditionDraft]] = field(default_factory=dict)
    # By the uid of a NodeSet: when its pods last got conditions.
    described_at: dict[str, float] = field(default_factory=dict)
    # By the uid of a NodeSet: the hosts of workers that go as soon as Slurm confirms that they may; the next reconcile
    # asks for them before it plans.
    confirm_first: dict[str, frozenset[str]] = field(default_factory=dict)
    # By the uid of a NodeSet: when Slurm was last asked for nodes by name and did not say whether it has them.
    confirmation_asked_at: dict[str, float] = field(default_factory=dict)
    # The uids of NodeSets of which a whole batch of new workers was made: more of them may be missing.
    in_batches: set[str] = field(default_factory=set)
    # By the uid of a NodeSet: how far each cache of pods has to be to show what was written for it.
    written: dict[str, tuple[tuple[Cache[Pod], str], ...]] = field(default_factory=dict)

    async def __call__(self, key: Key) -> Result:
        """One reconcile."""
        raw = self.observer.get("NodeSet", key.namespace, key.name)
        decoded = self.observer.resource("NodeSet", key.namespace, key.name)
        if raw is None or decoded is None:
            return Result()
        cr = decoded.resource
        if not isinstance(cr, NodeSet):
            await self._write_status(raw, None, workload.refused(decoded.problems), {})
            return Result()
        try:
            return await self._reconcile(cr, raw)
        finally:
            if not self._is_there(cr):
                # It went while this was under way, and must not be remembered after all.
                self.forget(raw.metadata.uid)

    async def _reconcile(self, cr: NodeSet, raw: RawObject) -> Result:
        refs = self.observer.refs(cr.namespace)
        controller = refs.controllers.get(cr.spec.controller_ref.name)
        unreadable = self._unreadable(cr, refs)
        if unreadable:
            await self._write_status(raw, cr, workload.blocked(UnreadableReference.reason, unreadable), {})
            return Result(MISSING_REQUEUE_SECONDS)
        if controller is None:
            return await self._without_controller(cr, raw)
        found = errors(rules.check(cr, None, refs, standing=True)) if not raw.metadata.deletion_timestamp else []
        if found:
            await self._write_status(raw, cr, workload.refused(found), {})
            return Result()
        pods = self._pods(cr)
        strays = [pod for pod in self._unjudged(cr, pods) if other_cluster_of(cr, pod)]
        if strays and not raw.metadata.deletion_timestamp:
            await self._write_status(
                raw, cr, workload.blocked(SlurmWrongCluster.reason, _of_another_cluster(cr, strays)), {}
            )
            return Result(NAME_TAKEN_REQUEUE_SECONDS)
        cluster = await self.clusters.find(controller, self.observer.resources(RestApi, cr.namespace), refs)
        began = self.clock.monotonic()
        asking = asyncio.ensure_future(self._first_look(cluster, cr, pods))
        try:
            while not await self._is_answered_in_time(asking, self._batch_wait_seconds(cr, began)):
                if await self._create_without_slurm(cr):
                    continue
                if isinstance(cluster, Cluster) and self.clock.monotonic() - began >= cluster.patience_seconds:
                    await self._report_silence(cr)
            slurm = await asking
        finally:
            asking.cancel()
        # Slurm took its time: our last writes have come back to the caches meanwhile.
        return await self._act(self._world(cr, raw, controller, refs, self._pods(cr), slurm), raw, cluster)

    def _batch_wait_seconds(self, cr: NodeSet, began: float) -> float:
        """How long new workers wait for Slurm."""
        is_next = cr.metadata.uid in self.in_batches and self.clock.monotonic() - began < MAX_BATCHES_SECONDS
        return NEXT_BATCH_WAIT_SECONDS if is_next else SNAPSHOT_WAIT_SECONDS

    async def _is_answered_in_time(self, asking: asyncio.Future[NodeSnapshot], wait_seconds: float) -> bool:
        over = asyncio.Event()
        asking.add_done_callback(lambda _: over.set())
        timer = self.clock.call_later(wait_seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
        return asking.done()

    def _world_without_slurm(self, known: NodeSet) -> tuple[NodeSetWorld, RawObject] | None:
        """The current world, with a Slurm that has not answered; None if nothing can be done."""
        raw = self.observer.get("NodeSet", known.namespace, known.name)
        decoded = self.observer.resource("NodeSet", known.namespace, known.name)
        cr, refs = decoded.resource if decoded is not None else None, self.observer.refs(known.namespace)
        controller = refs.controllers.get(known.spec.controller_ref.name)
        if raw is None or not isinstance(cr, NodeSet) or controller is None or self._unreadable(cr, refs):
            return None
        if errors(rules.check(cr, None, refs, standing=True)):
            return None
        return self._world(cr, raw, controller, refs, self._pods(cr), NodeSnapshot(SLOW, SLOW, SLOW)), raw

    async def _report_silence(self, known: NodeSet) -> None:
        """Report that Slurm does not answer before the request times out, unless the status says so already."""
        if not status.is_called_reachable(known):
            return
        seen = self._world_without_slurm(known)
        if seen is not None and status.is_called_reachable(seen[0].cr):
            await self._report(*seen)

    async def _create_without_slurm(self, known: NodeSet) -> bool:
        """Create workers that are missing without waiting for Slurm's answer; whether any were created."""
        self.in_batches.discard(known.metadata.uid)
        seen = self._world_without_slurm(known)
        if seen is None:
            return False
        world, raw = seen
        if has_enough(world.cr, world.pods):
            return False
        try:
            plan = plan_nodeset(world)
            if not any(isinstance(each, Create) for each in plan.actions):
                return False
            await self._execute(plan, raw)
        except OperatorError as error:
            # The rest of the reconcile meets it too, and says so.
            log.debug("not created before Slurm has answered: %s", error)
            return False
        await self._after_creation(world.cr, plan)
        return True

    async def _first_look(self, cluster: Cluster | Unknown, cr: NodeSet, pods: tuple[Pod, ...]) -> NodeSnapshot:
        """Slurm as the first plan sees it, with what that will probably decide."""
        first = self._about_leaving(cr, pods)
        found = await self._fetch_snapshot(cluster, cr, pods, first)
        if first and found.lacks_only_jobs:
            # What cannot be read for them keeps nobody else waiting: the plan says who is to be asked for.
            return await self._fetch_snapshot(cluster, cr, pods)
        return found

    async def _fetch_snapshot(
        self,
        cluster: Cluster | Unknown,
        cr: NodeSet,
        pods: tuple[Pod, ...],
        decision: Decision = NOTHING_DECIDED,
        earlier: NodeSnapshot | None = None,
    ) -> NodeSnapshot:
        if isinstance(cluster, Unknown):
            return NodeSnapshot(cluster, cluster, cluster)
        return await cluster.node_snapshot(
            decision,
            caller=("NodeSet", Key(cr.namespace, cr.name)),
            reservations=reservation.is_asked_for(cr),
            workers=frozenset(hostname_of(cr, pod) for pod in pods) if decision else frozenset(),
            earlier=earlier,
        )

    def _about_leaving(self, cr: NodeSet, pods: tuple[Pod, ...]) -> Decision:
        """The workers that may be removed in this reconcile: asked for at once, the plan need not be made twice."""
        now, first = self.clock.now().timestamp(), self.confirm_first.get(cr.metadata.uid, frozenset())
        some = [pod for pod in self._unjudged(cr, pods) if _may_be_removed(pod, now)]
        if first:
            some += [pod for pod in pods if hostname_of(cr, pod) in first]
        return Decision(frozenset(hostname_of(cr, pod) for pod in some if not pod.metadata.deletion_timestamp))

    async def _act(self, world: NodeSetWorld, raw: RawObject, cluster: Cluster | Unknown) -> Result:
        try:
            world, plan, is_whole = await self._plan(world, cluster)
            if world.may_confirm and hosts_to_confirm(world):
                self.confirmation_asked_at[world.cr.metadata.uid] = self.clock.monotonic()
            confirm_first_before = self.confirm_first.get(world.cr.metadata.uid, frozenset())
            has_seen_writes = not deletes_pods(plan) or await self._has_seen_own_writes(raw.metadata.uid)
            slurm = cluster if isinstance(cluster, Cluster) else None

            async def may_remove() -> bool:
                nonlocal is_whole
                # A pod that we deleted may still count as ready here, and another one would go for it.
                allowed = has_seen_writes and await self._is_still_decided(plan, world, slurm)
                is_whole = is_whole and allowed
                return allowed

            try:
                await self._execute(plan, raw, slurm, may_remove)
            finally:
                # Also if another action failed: slurmds must not be asked again at every retry.
                self._remember(world, plan)
            await self._after_creation(world.cr, plan)
            gone = finalizer_removal(world) if world.deleting and is_whole else None
            if gone is not None:
                await self._execute(Plan(((gone,),)), raw)
                return Result()
            await self._finish(world, raw, plan)
            self._remember_settled(world)
        except BuildError as error:
            await self._write_status(raw, world.cr, workload.refused([error.problem]), {})
            return Result(MISSING_REQUEUE_SECONDS)
        except NameTaken as error:
            await self._write_status(raw, world.cr, workload.blocked(error.reason, str(error)), {})
            return Result(NAME_TAKEN_REQUEUE_SECONDS)
        except SlurmRejected as error:
            # What Slurm refuses now it may accept later, and nothing would wake this NodeSet then.
            await self._write_status(raw, world.cr, workload.failed(error.reason, str(error)), {})
            return Result(REJECTED_REQUEUE_SECONDS)
        except OperatorError as error:
            await self._write_status(raw, world.cr, workload.failed(error.reason, str(error)), {})
            raise
        if not is_whole:
            return Result(WAITING_REQUEUE_SECONDS if has_seen_writes else MIN_REQUEUE_SECONDS)
        is_new = self.confirm_first.get(world.cr.metadata.uid, frozenset()) != confirm_first_before
        # A drain that does not take effect is not repeated ten times a second.
        requeue_after = max(plan.requeue_after or 0.0, 0.0 if is_new else WAITING_REQUEUE_SECONDS)
        return Result(requeue_after, is_at_rest(world, plan))

    def _remember_settled(self, world: NodeSetWorld) -> None:
        if self._is_there(world.cr):
            self.settled[world.cr.metadata.uid] = settled_after(world)

    async def _finish(self, world: NodeSetWorld, raw: RawObject, plan: Plan) -> None:
        """Report, then do what nobody waits for; the other way round where that failed, or the status would flip."""
        uid, failure = world.cr.metadata.uid, self.failed_after_report.get(world.cr.metadata.uid)
        if failure is not None and not (plan.after_report or world.may_describe):
            # Not tried now, beside workers that move: it is so until the next try.
            await self._write_status(raw, world.cr, failure, status.fields(world))
            self.executor.pace.again("NodeSet", Key(world.cr.namespace, world.cr.name), DESCRIBE_SECONDS)
            return
        if failure is None:
            await self._report(world, raw)
        try:
            await self._after_report(world, raw, plan)
        except OperatorError as error:
            self.failed_after_report[uid] = workload.failed(error.reason, str(error))
            raise
        if failure is not None:
            self.failed_after_report.pop(uid, None)
            await self._report(world, raw)

    async def _after_report(self, world: NodeSetWorld, raw: RawObject, plan: Plan) -> None:
        """What nobody waits for, as long as nobody waits; the rest is planned again."""
        end = self.clock.monotonic() + AFTER_REPORT_SECONDS
        if plan.after_report:
            self.described_at[world.cr.metadata.uid] = self.clock.monotonic()
        for begin in range(0, len(plan.after_report), AFTER_REPORT_AT_ONCE):
            await self._execute(Plan((plan.after_report[begin : begin + AFTER_REPORT_AT_ONCE],)), raw)
            if self.clock.monotonic() >= end or self._has_new_work(world):
                return

    def _has_new_work(self, world: NodeSetWorld) -> bool:
        """Whether the NodeSet was changed, or a pod came or went, since this reconcile began, or its status is due."""
        now = self.observer.get("NodeSet", world.cr.namespace, world.cr.name)
        is_changed = now is None or now.metadata.generation != world.cr.metadata.generation
        is_due = self.executor.pace.is_due("NodeSet", Key(world.cr.namespace, world.cr.name), STATUS_LEAD_SECONDS)
        return is_changed or is_due or len(self._pods(world.cr)) != len(world.pods)

    async def _plan(self, world: NodeSetWorld, cluster: Cluster | Unknown) -> tuple[NodeSetWorld, Plan, bool]:
        """The plan, and whether it is all there is to do.

        One that decides something is made again from what Slurm reports on it in this very reconcile.
        """
        plan = plan_nodeset(world)
        asked = self._about_leaving(world.cr, world.pods) if world.slurm.fresh else NOTHING_DECIDED
        for is_last in (False, False, True):
            decided = decision(plan, world)
            if world.slurm.fresh.covers(decided):
                break
            # A new plan may decide about other nodes.
            asked |= decided | EVERYTHING if is_last else decided
            slurm = await self._fetch_snapshot(cluster, world.cr, world.pods, asked, world.slurm)
            if isinstance(slurm.jobs, Unknown) and slurm.lacks_only_jobs and not world.is_blind:
                # What goes on without them goes on, with what was known before.
                log.info(
                    "jobs that this plan depends on cannot be read (%s); the rest of it is carried out", slurm.jobs.why
                )
                world = await self._with_listed(world, cluster, asked, slurm)
                return world, covered(plan_nodeset(world), world), False
            world = replace(world, slurm=slurm, pods=self._pods(world.cr))
            plan = plan_nodeset(world)
        return world, plan, True

    async def _with_listed(
        self, world: NodeSetWorld, cluster: Cluster | Unknown, asked: Decision, slurm: NodeSnapshot
    ) -> NodeSetWorld:
        """The world with what can be read of a decision that needs too many jobs: about nodes that Slurm has."""
        part = Decision(asked.nodes & slurm.by_name.keys())
        if part == asked or world.slurm.fresh.covers(part):
            return world
        found = await self._fetch_snapshot(cluster, world.cr, world.pods, part, slurm)
        return world if found.is_blind else replace(world, slurm=found, pods=self._pods(world.cr))

    async def _after_creation(self, cr: NodeSet, plan: Plan) -> None:
        """Until the caches show the workers just made: the next reconcile would make them again."""
        made = [
            (each.desired["metadata"]["namespace"], each.desired["metadata"]["name"])
            for each in plan.actions
            if isinstance(each, Create) and each.desired["kind"] == "Pod"
        ]

        if len(made) >= MAX_PODS_AT_ONCE:
            self.in_batches.add(cr.metadata.uid)
        else:
            self.in_batches.discard(cr.metadata.uid)

        def is_cached() -> bool:
            # One that was seen is not looked for again: of ten thousand, most are there long before the last.
            while made and any(cache.get(*made[-1]) for cache in self.observer.pods):
                made.pop()
            return not made

        await self._wait(is_cached)

    async def _execute(
        self,
        plan: Plan,
        raw: RawObject,
        slurm: Cluster | None = None,
        may_remove: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        try:
            await self.executor.execute(plan, raw, "NodeSet", slurm, may_remove=may_remove)
        finally:
            if writes_pods(plan):
                # What others write later is not waited for: a busy neighbour would keep this NodeSet waiting for ever.
                own = (each for each in self.observer.pods if each.namespace in ("", raw.metadata.namespace))
                self.written[raw.metadata.uid] = tuple((cache, cache.unseen_write) for cache in own)

    async def _is_still_decided(self, plan: Plan, world: NodeSetWorld, slurm: Cluster | None) -> bool:
        """Whether a removal may still go by this world: its owner wants the same, and Slurm says the same.

        After a while Slurm is asked for the nodes once more: somebody may have put one back into service.
        """
        now = self.observer.get("NodeSet", world.cr.namespace, world.cr.name)
        at = self.clock.monotonic()
        is_same = now is not None and now.metadata.generation == world.cr.metadata.generation
        is_too_old = at - world.slurm.jobs_read_at > MAX_JOBS_AGE_SECONDS
        if not is_same or not self._is_there(world.cr) or is_too_old:
            return False
        going = leaving_now(plan, world)
        if at - world.slurm.nodes_read_at <= LOOK_AGAIN_SECONDS or not going or slurm is None:
            return True
        return all(may_still_go(node, going[node.name]) for node in await slurm.read_now(tuple(going)))

    async def _has_seen_own_writes(self, uid: str) -> bool:
        """Whether the caches show all that was written to its pods; if not, waits, and Slurm is to be asked again."""
        written = self.written.get(uid, ())
        if all(cache.has_seen(version) for cache, version in written):
            return True
        await self._wait(lambda: all(cache.has_seen(version) for cache, version in written))
        return False

    async def _wait(self, until: Callable[[], bool]) -> None:
        """Wait for the caches, but not for ever."""
        end = self.clock.monotonic() + CACHE_CATCH_UP_SECONDS
        while not until() and self.clock.monotonic() < end:
            await self.clock.sleep(CACHE_LOOK_SECONDS)

    def _remember(self, world: NodeSetWorld, plan: Plan) -> None:
        """Remember which slurmds were asked to register, so that they are not asked in every reconcile."""
        # Without a list of jobs, what was asked before still holds: nobody is asked again sooner for it.
        unknown = isinstance(world.slurm.jobs, Unknown)
        with_ghosts = world.asked if unknown else ghosts.ghosts(world.unsettled, world.slurm)
        asked = ghosts.remembered(world.asked, plan.actions, with_ghosts, world.now.timestamp())
        uid = world.cr.metadata.uid
        self.asked.pop(uid, None)
        if asked:
            self.asked[uid] = asked
        self.confirm_first[uid] = hosts_to_confirm_first(world)

    async def _report(self, world: NodeSetWorld, raw: RawObject) -> None:
        kept = workload.kept_features(reach.kept_fields(world.cr, world.refs))
        await self._write_status(raw, world.cr, [*status.drafts(world), *kept], status.fields(world))

    def _unreadable(self, cr: NodeSet, refs: Refs) -> str:
        """What is there but cannot be read, so that nobody can say which workers there are, and of which cluster."""
        name = cr.spec.controller_ref.name
        if name not in refs.controllers and ("Controller", name) in refs.unreadable:
            return str(UnreadableReference(CONTROLLER_REF, "Controller", name))
        pods = [pod for pod in self.observer.unreadable_pods(cr.namespace) if pod.startswith(f"{cr.name}-")]
        return str(UnreadableReference((), "Pod", pods[0])) if pods else ""

    async def _without_controller(self, cr: NodeSet, raw: RawObject) -> Result:
        ours = {labels.DRAIN_FINALIZER, labels.RESERVATION_FINALIZER}
        if raw.metadata.deletion_timestamp and ours & set(cr.metadata.finalizers):
            # No Controller, read or unread, and so no Slurm to ask: the cluster has gone for good.
            left = tuple(each for each in cr.metadata.finalizers if each not in ours)
            patch = PatchMetadata(API_VERSION, "NodeSet", cr.metadata, finalizers=left)
            await self._execute(Plan(((patch,),)), raw)
            return Result()
        message = f"Controller {cr.spec.controller_ref.name!r} is not in this namespace"
        await self._write_status(raw, cr, workload.failed("ReferenceNotFound", message), {})
        return Result(MISSING_REQUEUE_SECONDS)

    def _pods(self, cr: NodeSet) -> tuple[Pod, ...]:
        """The pods that the NodeSet controls, and those that it may adopt; one that goes adopts nobody."""
        own = self.observer.controlled_pods(cr.namespace, cr.metadata.uid)
        orphans = self.observer.orphaned_pods(cr.namespace) if not cr.metadata.deletion_timestamp else ()
        return (*own, *(pod for pod in orphans if is_orphan(cr.name, "Pod", pod.metadata)))

    def _world(
        self,
        cr: NodeSet,
        raw: RawObject,
        controller: Controller,
        refs: Refs,
        pods: tuple[Pod, ...],
        slurm: NodeSnapshot,
    ) -> NodeSetWorld:
        has_claims = bool(cr.spec.volume_claim_templates)
        there = self.observer.in_namespace("PersistentVolumeClaim", cr.namespace) if has_claims else ()
        return NodeSetWorld(
            cr=cr,
            controller=controller,
            refs=refs,
            pods=pods,
            slurm=slurm,
            now=self.clock.now(),
            nodes=self.observer.nodes_by_name(),
            unread_nodes=self.observer.unreadable_nodes(),
            live=self.observer.live(_wanted(cr, controller, pods)),
            claims=frozenset(item.metadata.name for item in there),
            revisions=tuple(
                item
                for item in self.observer.in_namespace("ControllerRevision", cr.namespace)
                if revisions.belongs(cr, item)
            ),
            propagated=self.propagated,
            deleting=bool(raw.metadata.deletion_timestamp),
            asked=self.asked.get(cr.metadata.uid, {}),
            key=self._key(controller, refs),
            rivals=(*self._rivals(cr, refs), *self._named_by_records(cr, pods, slurm)),
            settled_before=self._settled(cr),
            may_describe=self._may_describe(cr.metadata.uid),
            may_confirm=self._may_confirm(cr.metadata.uid),
        )

    def _may_describe(self, uid: str) -> bool:
        return self.clock.monotonic() - self.described_at.get(uid, float("-inf")) >= DESCRIBE_SECONDS

    def _may_confirm(self, uid: str) -> bool:
        return self.clock.monotonic() - self.confirmation_asked_at.get(uid, float("-inf")) >= CONFIRM_INTERVAL_SECONDS

    def _settled(self, cr: NodeSet) -> Settled:
        return self.settled.get(cr.metadata.uid, NONE_SETTLED)

    def _unjudged(self, cr: NodeSet, pods: tuple[Pod, ...]) -> list[Pod]:
        return unjudged(self._settled(cr), cr, pods)

    def forget(self, uid: str) -> None:
        """A NodeSet has gone: drop all that was remembered of it."""
        self.asked.pop(uid, None)
        self.settled.pop(uid, None)
        self.hosts.pop(uid, None)
        self.failed_after_report.pop(uid, None)
        self.in_batches.discard(uid)
        self.written.pop(uid, None)
        self.described_at.pop(uid, None)
        self.confirm_first.pop(uid, None)
        self.confirmation_asked_at.pop(uid, None)

    def _rivals(self, cr: NodeSet, refs: Refs) -> Iterator[Rival]:
        """The other NodeSets of the namespace whose workers join the same Slurm."""
        for other in refs.nodesets:
            one_slurm = is_one_slurm(refs, cr.spec.controller_ref.name, other.spec.controller_ref.name)
            if one_slurm and other.metadata.uid != cr.metadata.uid:
                yield Rival(other, self._hosts(other))

    def _named_by_records(self, cr: NodeSet, pods: tuple[Pod, ...], slurm: NodeSnapshot) -> Iterator[Rival]:
        """NodeSets anywhere that have a worker, and by its record the Slurm node, of a host name of ours."""
        # Other records of numbered workers are found by their names.
        some = self._unjudged(cr, pods) if is_numbered(cr) else pods
        held = frozenset(hostname_of(cr, pod) for pod in some)
        if cr.is_daemon and self.observer.nodes is not None:
            held |= {daemon_worker(node).hostname(cr) for node in self.observer.nodes.items()}
        for (namespace, name, uid), hosts in named_owners(cr, held, slurm).items():
            decoded = self.observer.resource("NodeSet", namespace, name)
            other = decoded.readable if decoded is not None else None
            if isinstance(other, NodeSet) and other.metadata.uid == uid:
                yield Rival(other, self._hosts(other) & hosts, only_held=True)

    def _hosts(self, cr: NodeSet) -> frozenset[str]:
        pods, known = self.observer.controlled_pods(cr.namespace, cr.metadata.uid), self.hosts.get(cr.metadata.uid)
        if known is None or known[0] is not pods or known[1] != cr.is_daemon:
            known = (pods, cr.is_daemon, frozenset(hostname_of(cr, pod) for pod in pods) - {""})
            if self._is_there(cr):
                self.hosts[cr.metadata.uid] = known
        return known[2]

    def _is_there(self, cr: NodeSet) -> bool:
        now = self.observer.get("NodeSet", cr.namespace, cr.name)
        return now is not None and now.metadata.uid == cr.metadata.uid

    def _key(self, controller: Controller, refs: Refs) -> keys.KeyState:
        found = self.observer.get("StatefulSet", controller.namespace, names.controller(controller))
        return keys.state(controller, refs, found.content() if found is not None else None)

    async def _write_status(
        self, raw: RawObject, cr: NodeSet | None, drafts: list[ConditionDraft], fields: dict[str, object]
    ) -> None:
        before = cr.status if cr is not None else None
        content = {
            "nodeSetHash": before.node_set_hash if before else "",
            "selector": labels.selector_text(labels.WORKER, raw.metadata.name),
            # Whoever scales by it, or pins workers by it, must not read that there are none.
            **(fields or held_fields(raw)),
        }
        await write_status(self.executor, self.clock, "NodeSet", raw, drafts, content)


def _of_another_cluster(cr: NodeSet, strays: list[Pod]) -> str:
    first = min(strays, key=lambda pod: pod.metadata.name)
    return (
        f"pod {first.metadata.name} is a worker of Controller {other_cluster_of(cr, first)!r}, and Controller "
        f"{cr.spec.controller_ref.name!r} knows nothing about its node; set controllerRef back, or drain and delete "
        f"such workers ({len(strays)}) first"
    )


def _may_be_removed(pod: Pod, now: float) -> bool:
    """Whether this worker may be removed by what Slurm reports: its answer must then be complete and new."""
    if pod.status.phase in ("Failed", "Succeeded"):
        return True
    ready = (each for each in pod.status.conditions if each.type == "Ready" and each.status == "True")
    times = (parse_time(each.last_transition_time) for each in ready)
    long_ready = any(time is not None and now - time.timestamp() >= REGISTRATION_GRACE_SECONDS for time in times)
    registered = any(each.type == REGISTERED and each.status == "True" for each in pod.status.conditions)
    return long_ready and not registered


def _wanted(cr: NodeSet, controller: Controller, pods: Iterable[Pod]) -> Iterable[Identity]:
    namespace = cr.namespace
    yield ("v1", "Service", namespace, names.workers_service(controller.name))
    yield ("policy/v1", "PodDisruptionBudget", namespace, names.workers_pdb(controller.name))
    yield ("v1", "ConfigMap", namespace, names.ssh_config(cr))
    for pod in pods if cr.spec.volume_claim_templates else ():
        identity = pod.metadata.labels.get(labels.POD_INDEX) or pod.spec.hostname
        for claim in claims.claims(cr, identity):
            yield ("v1", "PersistentVolumeClaim", namespace, claim["metadata"]["name"])
