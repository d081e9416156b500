"""The reconcile that Controller, Accounting, RestApi and LoginSet share: check, build, apply, prune, report.

In: a key, and what differs between the kinds, which is in their own modules. Out: a reconcile function, which
`reconcile/operator.py` runs. `OwnedReconciler` is the frame of all four; `OwnedObjects` is the complete reconcile of
kinds whose objects depend only on the caches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from kube_runtime.client.objects import RawObject
from kube_runtime.clock import Clock
from kube_runtime.errors import OperatorError
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key
from slurm_operator.admission import rules
from slurm_operator.admission.rules import reach
from slurm_operator.api.accounting import Accounting
from slurm_operator.api.meta import Resource
from slurm_operator.api.problem import FieldProblem, errors
from slurm_operator.build import names
from slurm_operator.build.errors import BuildError
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.plan import keys
from slurm_operator.plan.actions import Action, Outcomes, Plan
from slurm_operator.plan.objects import Identity, identity
from slurm_operator.plan.owned import Live, OwnedWorld, plan_owned
from slurm_operator.plan.ownership import NAME_TAKEN_REQUEUE_SECONDS, NameTaken, demand, judge_live
from slurm_operator.reconcile.execute import Executor, claimant_of
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.report import held_fields, write_status
from slurm_operator.status import workload
from slurm_operator.status.conditions import PROGRESSING, ConditionDraft, yes

R = TypeVar("R", bound=Resource)
# When to look for what was made once, should nobody tell that it is there.
CREATED_ONCE_REQUEUE_SECONDS = 1.0
# When to look for what a resource names and is not there, should nobody tell that it has come.
MISSING_REQUEUE_SECONDS = 30.0
# How often it is looked whether the workers are free.
KEY_ROTATION_REQUEUE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ResourceWorld(Generic[R]):
    """What one reconcile sees in the caches."""

    cr: R
    raw: RawObject
    refs: Refs
    owned: Live
    # Why a new key goes round, so that nothing may make a daemon read its files again; empty when none does.
    waits_for_key: str = ""

    def content(self, outcomes: Outcomes, key: Identity) -> dict[str, Any] | None:
        """An object as it is now: as the server answered, else as the cache had it."""
        found = outcomes.applied.get(key) or self.owned.get(key)
        return found.content() if found is not None else None

    def secrets(self, outcomes: Outcomes) -> dict[str, Collection[str]]:
        """By name: the keys of each Secret of the namespace, including those that were just written."""
        written = {
            key[3]: tuple(item.content().get("data") or ())
            for key, item in outcomes.applied.items()
            if key[1] == "Secret"
        }
        return {**self.refs.secrets, **written}


@dataclass(frozen=True, slots=True)
class Report:
    """What one reconcile says: conditions, and further fields of the status."""

    drafts: Sequence[ConditionDraft]
    fields: Mapping[str, Any] = field(default_factory=dict)

    def replacing(self, drafts: Sequence[ConditionDraft], fields: Mapping[str, Any] | None = None) -> Report:
        """The same report, where these say something of a type instead of what it said."""
        types = {each.type for each in drafts}
        others = [each for each in self.drafts if each.type not in types]
        return Report([*others, *drafts], {**self.fields, **(fields or {})})


@dataclass(frozen=True)
class OwnedReconciler(ABC, Generic[R]):
    """The frame of a kind's reconcile: what may be reconciled at all, and what is said when it could not be."""

    kind: type[R]
    observer: Observer
    executor: Executor
    clock: Clock

    @abstractmethod
    async def reconcile(self, world: ResourceWorld[R]) -> Result:
        """One reconcile of a resource that is as it should be."""

    async def __call__(self, key: Key) -> Result:
        """One reconcile."""
        decoded = self.observer.resource(self.kind.__name__, key.namespace, key.name)
        raw = self.observer.get(self.kind.__name__, key.namespace, key.name)
        if decoded is None or raw is None or raw.metadata.deletion_timestamp:
            # Gone, or going: the garbage collector takes what it owned.
            return Result()
        cr = decoded.resource
        if not isinstance(cr, self.kind):
            await self._write_status(raw, Report(workload.refused(decoded.problems)))
            return Result()
        refs = self.observer.refs(key.namespace)
        world = ResourceWorld(cr, raw, refs, self.observer.owned(raw.metadata.uid))
        found = errors(rules.check(cr, None, refs, is_built_next=True))
        if found:
            await self.report_failure(world, Report(workload.refused(found)))
            return Result()
        return await self.reconcile_checked(replace(world, waits_for_key=self._waits_for_key(world)))

    async def reconcile_checked(self, world: ResourceWorld[R]) -> Result:
        """One reconcile of a resource that no rule refuses, and what is said when it fails."""
        try:
            return await self.reconcile(world)
        except BuildError as error:
            await self.report_failure(world, Report(_refusal(error)))
            return Result(MISSING_REQUEUE_SECONDS)
        except NameTaken as error:
            await self.report_failure(world, Report(workload.blocked(error.reason, str(error))))
            return Result(NAME_TAKEN_REQUEUE_SECONDS)
        except OperatorError as error:
            await self._write_status(world.raw, Report(workload.failed(error.reason, str(error))))
            raise

    async def report_failure(self, world: ResourceWorld[R], report: Report) -> None:
        """Say why it is not reconciled, until something changes; what is merely tried again does not come here."""
        await self._write_status(world.raw, report)

    async def report(self, world: ResourceWorld[R], report: Report, requeue_after: float | None = None) -> Result:
        """Say what is true now."""
        why = world.waits_for_key
        kept = workload.kept_features(reach.kept_fields(world.cr, world.refs))
        conditions = report.replacing([*([yes(PROGRESSING, "KeyRotation", why)] if why else ()), *kept])
        await self._write_status(world.raw, conditions)
        waits = [
            seconds for seconds in (requeue_after, KEY_ROTATION_REQUEUE_SECONDS if why else None) if seconds is not None
        ]
        return Result(min(waits, default=None))

    def owned_world(
        self, world: ResourceWorld[R], built: Sequence[Object], more: Iterable[Identity] = ()
    ) -> OwnedWorld:
        """What was built and what is there; `more` are names that are applied beside what was built.

        Nothing is begun, nor anybody's object read as our own, while a name is somebody else's.
        """
        live = self.observer.live((*(identity(value) for value in built), *more))
        claimant = claimant_of(world.raw, self.kind.__name__)
        for key, item in live.items():
            demand(claimant, key[1], key[3], judge_live(claimant, key[1], item))
        return OwnedWorld(built, live, world.owned, world.waits_for_key)

    def required_fields(self, name: str) -> Mapping[str, object]:  # noqa: ARG002  # of kinds that have some
        """Fields without which the API server takes no status, however little there is to say."""
        return {}

    def _waits_for_key(self, world: ResourceWorld[R]) -> str:
        """Why the daemons must not be restarted now: they would come up with a key that others do not have yet."""
        namespace = world.cr.namespace
        unread = sorted(name for kind, name in world.refs.unreadable if kind == "Controller")
        if isinstance(world.cr, Accounting) and unread:
            return f"Controller {unread[0]!r} cannot be read, so it is unknown whether its workers have this key"
        for controller in keys.sharing(world.cr, world.refs):
            found = self.observer.get("StatefulSet", namespace, names.controller(controller))
            key = keys.state(controller, world.refs, found.content() if found is not None else None)
            why = keys.waits_for(controller, key, self.observer.worker_pods(namespace, controller.name))
            if why:
                return why
        return ""

    async def _write_status(self, raw: RawObject, report: Report) -> None:
        fields = {**self.required_fields(raw.metadata.name), **(report.fields or held_fields(raw))}
        await write_status(self.executor, self.clock, self.kind.__name__, raw, report.drafts, fields)


@dataclass(frozen=True)
class OwnedObjects(OwnedReconciler[R]):
    """The reconcile function of a kind whose objects depend on nothing but the caches."""

    build: Callable[[R, Refs], list[Object]]
    conditions: Callable[[ResourceWorld[R], Outcomes], Report]
    # Objects that must exist before the others and are made once: (world) -> actions.
    once: Callable[[ResourceWorld[R]], tuple[Action, ...]] = lambda _: ()
    always: Callable[[str], Mapping[str, object]] = lambda _: {}

    async def reconcile(self, world: ResourceWorld[R]) -> Result:
        """Build, apply, prune, report."""
        built = self.build(world.cr, world.refs)
        objects = self.owned_world(world, built)
        first = self.once(world)
        if first:
            # The others are built from what these hold: in the next reconcile, which their coming starts.
            await self.executor.execute(Plan((first,)), world.raw, self.kind.__name__)
            return Result(CREATED_ONCE_REQUEUE_SECONDS)
        outcomes = await self.executor.execute(plan_owned(objects, built), world.raw, self.kind.__name__)
        return await self.report(world, self.conditions(world, outcomes))

    def required_fields(self, name: str) -> Mapping[str, object]:
        """Fields without which the API server takes no status, however little there is to say."""
        return self.always(name)


def _refusal(error: BuildError) -> list[ConditionDraft]:
    if error.reason == "InvalidSpec":
        return workload.refused([FieldProblem(error.path, error.message)])
    return workload.failed(error.reason, str(error))
