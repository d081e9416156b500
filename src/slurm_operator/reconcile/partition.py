"""One reconcile of a Partition: it reports the outcome of its Controller's reconcile, and delays its deletion.

In: the `PartitionOutcome` that was left for it in `PartitionOutcomes`. Out: its status, and its finalizer until Slurm
no longer has the partition. Nothing is planned here and Slurm is not asked: lines and live changes are made by
`reconcile/controller.py`, for all partitions of a cluster together. An outcome that changed wakes its Partition; where
there is none of this generation yet, the Controller's reconcile is woken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins

from kube_runtime.client.objects import RawObject
from kube_runtime.clock import Clock
from kube_runtime.errors import OperatorError
from kube_runtime.loop.controller import MIN_REQUEUE_SECONDS, Result
from kube_runtime.loop.queue import Key
from kube_runtime.times import time_text
from slurm_operator.admission import rules
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import API_VERSION
from slurm_operator.api.partition import Partition
from slurm_operator.api.problem import FieldProblem, errors
from slurm_operator.build import labels
from slurm_operator.build.errors import BuildError
from slurm_operator.build.refs import Refs
from slurm_operator.plan.actions import PatchMetadata, Plan
from slurm_operator.plan.partition_outcome import PartitionOutcome
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import MISSING_REQUEUE_SECONDS
from slurm_operator.reconcile.report import write_status, write_unreconciled_status
from slurm_operator.slurm.model import Unknown
from slurm_operator.status import partition as status
from slurm_operator.status import workload
from slurm_operator.status.conditions import ConditionDraft

# How soon it is reconciled again while something is waited for, and at first at rest.
REQUEUE_SECONDS = 5.0
# How soon a change is looked for again, at the loop's shortest interval; and for how long it does not count as late.
APPLY_POLL_SECONDS = MIN_REQUEUE_SECONDS
GRACE_SECONDS = 0.5
# How long a Controller's reconcile is waited for before a status says so, and how long its last outcome counts once it
# has begun to look again without leaving another: one that hangs is cut off after two minutes.
CONTROLLER_GRACE_SECONDS = 2.0
OUTCOME_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class ClusterOutcome:
    """What one reconcile of a Controller left."""

    # By the name of the Partition.
    partitions: Mapping[str, PartitionOutcome] = field(default_factory=dict)
    # Why nothing was decided, as a Partition says it; empty where something was.
    failure: Sequence[ConditionDraft] = ()


def _ignore(_: Key) -> None:
    return None


@dataclass(slots=True)
class _Left:
    """What was left of a cluster."""

    outcome: ClusterOutcome
    # Since when its Controller has looked again without leaving another, and whether the Partitions know that.
    doubted_since: float | None = None
    are_told: bool = False


@dataclass(slots=True)
class PartitionOutcomes:
    """The last outcome of each cluster; it is replaced as a whole, and never changed.

    However long its Controller has been at rest, it is true: only a reconcile that began and left nothing makes it old.
    """

    wake_partition: Callable[[Key], None] = _ignore
    wake_controller: Callable[[Key], None] = _ignore
    # By the uid of a Controller, since a namesake is another one.
    _left: dict[str, _Left] = field(default_factory=dict)

    def begin(self, controller: Controller, now: float) -> None:
        """Its Controller is being reconciled, and may not come to its end."""
        left = self._left.get(controller.metadata.uid)
        if left is not None and left.doubted_since is None:
            left.doubted_since = now

    def put(self, controller: Controller, outcome: ClusterOutcome, names: Sequence[str]) -> None:
        """Replace what is known of a cluster, and wake those of its Partitions that have something new to say."""
        known = self._left.get(controller.metadata.uid)
        before = known.outcome if known is not None else ClusterOutcome()
        self._left[controller.metadata.uid] = _Left(outcome)
        for name in names:
            is_same = before.partitions.get(name) == outcome.partitions.get(name)
            if not is_same or before.failure != outcome.failure:
                self.wake_partition(Key(controller.namespace, name))

    def end(self, controller: Controller, names: Sequence[str]) -> None:
        """Its reconcile is over: if it left nothing, its Partitions rest no more, and see when it is too old."""
        left = self._left.get(controller.metadata.uid)
        if left is None or left.doubted_since is None or left.are_told:
            return
        left.are_told = True
        for name in names:
            self.wake_partition(Key(controller.namespace, name))

    def is_certain(self, controller: Controller) -> bool:
        """Whether what was left last stays true until its Controller is woken."""
        left = self._left.get(controller.metadata.uid)
        return left is not None and left.doubted_since is None

    def find(self, controller: Controller, now: float, max_age_seconds: float) -> ClusterOutcome | None:
        """What was left last, unless it is too old to be true."""
        left = self._left.get(controller.metadata.uid)
        if left is None:
            return None
        is_old = left.doubted_since is not None and now - left.doubted_since > max_age_seconds
        return None if is_old else left.outcome

    def forget(self, uid: str) -> None:
        """Drop what was left of a Controller that has gone."""
        self._left.pop(uid, None)


@dataclass(frozen=True, slots=True)
class Partitions:
    """The reconcile function of Partitions."""

    observer: Observer
    executor: Executor
    outcomes: PartitionOutcomes
    clock: Clock
    # Which object and generation was first seen when, and its `lastApply` once it is in force.
    _begun: dict[Key, tuple[str, int, float]] = field(default_factory=dict)
    _applied: dict[Key, dict[str, object]] = field(default_factory=dict)
    # Since when each waits for its Controller's reconcile.
    _waiting: dict[Key, float] = field(default_factory=dict)

    async def __call__(self, key: Key) -> Result:
        """One reconcile."""
        raw = self.observer.get("Partition", key.namespace, key.name)
        decoded = self.observer.resource("Partition", key.namespace, key.name)
        if raw is None or decoded is None:
            self._forget(key)
            return Result()
        refs = self.observer.refs(key.namespace)
        cr = decoded.resource
        if raw.metadata.deletion_timestamp:
            known = decoded.readable
            return await self._reconcile_deletion(
                known if isinstance(known, Partition) else None, raw, refs, decoded.problems
            )
        found = decoded.problems if not isinstance(cr, Partition) else errors(rules.check(cr, None, refs))
        if not isinstance(cr, Partition) or found:
            await self._write_status(raw, status.refused(found), {})
            return Result()
        self._begin(key, cr, raw)
        return await self._report(cr, raw, refs)

    async def _report(self, cr: Partition, raw: RawObject, refs: Refs) -> Result:
        try:
            controller = refs.controller(cr.namespace, cr.spec.controller_ref)
        except BuildError as error:
            await self._write_status(raw, workload.failed(error.reason, str(error)), {})
            return Result(MISSING_REQUEUE_SECONDS)
        cluster, outcome = self._find(controller, raw)
        if cluster is not None and cluster.failure:
            await write_unreconciled_status(self.executor, self.clock, "Partition", raw, cluster.failure)
            return Result(REQUEUE_SECONDS, is_at_rest=self.outcomes.is_certain(controller))
        await self._add_finalizer(raw, cr)
        if outcome is None:
            return await self._wait(controller, raw)
        age = self._age(raw)
        is_late = age is None or age >= GRACE_SECONDS
        if not outcome.is_in_force and outcome.acceptance.accepted and not outcome.refused and not is_late:
            return Result(max(APPLY_POLL_SECONDS, (age or 0.0) / 2))
        fields = self._fields(cr, raw, outcome, age if outcome.is_in_force else None)
        await self._write_status(raw, status.drafts(outcome), fields)
        # Whatever it waits for, its Controller's reconcile sees it first, and wakes it.
        return Result(REQUEUE_SECONDS, is_at_rest=self.outcomes.is_certain(controller))

    def _find(self, controller: Controller, raw: RawObject) -> tuple[ClusterOutcome | None, PartitionOutcome | None]:
        """What was left for this very generation of this very object."""
        cluster = self.outcomes.find(controller, self.clock.monotonic(), OUTCOME_SECONDS)
        found = cluster.partitions.get(raw.metadata.name) if cluster is not None else None
        meta = raw.metadata
        if found is None or found.uid != meta.uid or found.generation < meta.generation:
            return cluster, None
        if found.is_leaving != bool(meta.deletion_timestamp):
            return cluster, None
        self._waiting.pop(_key(raw), None)
        return cluster, found

    async def _wait(self, controller: Controller, raw: RawObject) -> Result:
        """Wake the Controller's reconcile, and say so when it takes long."""
        key, now = _key(raw), self.clock.monotonic()
        since = self._waiting.setdefault(key, now)
        self.outcomes.wake_controller(Key(controller.namespace, controller.name))
        if now - since < CONTROLLER_GRACE_SECONDS:
            return Result(CONTROLLER_GRACE_SECONDS)
        drafts = status.waiting_for_controller(controller.name)
        await write_unreconciled_status(self.executor, self.clock, "Partition", raw, drafts)
        return Result(REQUEUE_SECONDS)

    def _begin(self, key: Key, cr: Partition, raw: RawObject) -> None:
        uid, generation = raw.metadata.uid, raw.metadata.generation
        known, seen, _ = self._begun.get(key, (uid, 0, 0.0))
        if known != uid:
            # A namesake that came before anybody saw its predecessor go: nothing that is known is about it.
            self._forget(key)
        is_new = cr.status.observed_generation != generation or _was_pending(cr)
        if is_new and (known, seen) != (uid, generation):
            self._begun[key] = (uid, generation, self.clock.monotonic())
            self._applied.pop(key, None)

    def _forget(self, key: Key) -> None:
        for remembered in (self._begun, self._applied, self._waiting):
            remembered.pop(key, None)

    def _age(self, raw: RawObject) -> float | None:
        begun = self._begun.get(_key(raw))
        return None if begun is None else self.clock.monotonic() - begun[2]

    def _fields(self, cr: Partition, raw: RawObject, outcome: PartitionOutcome, took: float | None) -> dict[str, Any]:
        now, key = time_text(self.clock.now()), _key(raw)
        rows = status.drift_rows(cr.status.drift, outcome.drift, now)
        if isinstance(outcome.found, Unknown):
            # Nobody says that it is over: it keeps the time since when it is so.
            rows = [to_builtins(each) for each in cr.status.drift]
        if took is not None and key not in self._applied:
            way = "Live" if outcome.supports_live_partitions else "Reconfigure"
            line = {"line": outcome.line} if outcome.line else {}
            self._applied[key] = {"way": way, "milliseconds": round(took * 1000), "time": now, **line}
        applied = {"lastApply": self._applied[key]} if key in self._applied else _last_apply(cr)
        return {**status.state(outcome), **outcome.counts, **applied, **({"drift": rows} if rows else {})}

    async def _add_finalizer(self, raw: RawObject, cr: Partition) -> None:
        """Keep the object from vanishing before its partition."""
        if labels.PARTITION_FINALIZER not in raw.metadata.finalizers:
            await self._set_finalizers(raw, cr, (*raw.metadata.finalizers, labels.PARTITION_FINALIZER))

    async def _reconcile_deletion(
        self, cr: Partition | None, raw: RawObject, refs: Refs, problems: Sequence[FieldProblem]
    ) -> Result:
        """The end: let go when Slurm has, or when nobody can be asked for ever."""
        if labels.PARTITION_FINALIZER not in raw.metadata.finalizers:
            return Result()
        if self._may_release(cr, raw, refs):
            return await self._remove_finalizer(raw, cr)
        if cr is None:
            # Whose partition it is cannot be read, so nobody can be asked whether it has jobs.
            await self._write_status(raw, workload.refused(problems), {})
            return Result(MISSING_REQUEUE_SECONDS)
        try:
            controller = refs.controller(cr.namespace, cr.spec.controller_ref)
        except BuildError:
            return Result(REQUEUE_SECONDS)
        cluster, outcome = self._find(controller, raw)
        if cluster is not None and cluster.failure:
            # The Controller says what is wrong; until that is fixed, nothing leaves slurm.conf.
            return Result(REQUEUE_SECONDS)
        if outcome is None:
            return await self._wait(controller, raw)
        if outcome.has_left:
            return await self._remove_finalizer(raw, cr)
        finished_too = not outcome.supports_live_partitions
        drafts = status.deleting(cr.slurm_name, outcome.waits, finished_too=finished_too)
        await self._write_status(raw, drafts, _last_apply(cr))
        return Result(REQUEUE_SECONDS)

    def _may_release(self, cr: Partition | None, raw: RawObject, refs: Refs) -> bool:
        if raw.metadata.annotations.get(labels.PARTITION_FORCE_DELETE, "").lower() == "true":
            return True
        if cr is None or ("Controller", cr.spec.controller_ref.name) in refs.unreadable:
            return False
        controller = refs.controllers.get(cr.spec.controller_ref.name)
        return controller is None or controller.spec.external

    async def _remove_finalizer(self, raw: RawObject, cr: Partition | None) -> Result:
        left = tuple(each for each in raw.metadata.finalizers if each != labels.PARTITION_FINALIZER)
        await self._set_finalizers(raw, cr, left)
        return Result()

    async def _set_finalizers(self, raw: RawObject, cr: Partition | None, finalizers: tuple[str, ...]) -> None:
        meta = raw.metadata
        patch = PatchMetadata(
            API_VERSION,
            "Partition",
            meta,
            finalizers=finalizers,
        )
        try:
            await self.executor.execute(Plan(((patch,),)), raw, "Partition")
        except OperatorError as error:
            await self._write_status(raw, workload.failed(error.reason, str(error)), _last_apply(cr) if cr else {})
            raise

    async def _write_status(
        self, raw: RawObject, drafts: Sequence[ConditionDraft], fields: Mapping[str, object]
    ) -> None:
        await write_status(self.executor, self.clock, "Partition", raw, drafts, fields)


def _was_pending(cr: Partition) -> bool:
    """Whether an operator before this one saw the generation, but not its coming into force."""
    applied = next((each.status for each in cr.status.conditions if each.type == status.APPLIED), "")
    return cr.status.last_apply is None or applied == "False"


def _last_apply(cr: Partition) -> dict[str, object]:
    last = cr.status.last_apply
    return {"lastApply": to_builtins(last)} if last else {}


def _key(raw: RawObject) -> Key:
    return Key(raw.metadata.namespace, raw.metadata.name)
