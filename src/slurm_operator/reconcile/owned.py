"""The turn that Controller, Accounting, RestApi and LoginSet share: build, apply, prune, report.

In: a kind's builder and reporter. Out: its reconcile function. What differs between the kinds stands in their own
modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from slurm_operator.admission import rules
from slurm_operator.api.meta import API_VERSION, Resource
from slurm_operator.api.problem import FieldProblem, errors
from slurm_operator.build.errors import BuildError
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.errors import OperatorError
from slurm_operator.kube.objects import RawObject
from slurm_operator.loop.clock import Clock
from slurm_operator.loop.controller import Result
from slurm_operator.loop.queue import Key
from slurm_operator.plan.actions import Action, Plan
from slurm_operator.plan.objects import Identity, identity, plan_objects
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.status import workload
from slurm_operator.status.conditions import Statement, conditions

R = TypeVar("R", bound=Resource)
Live = Mapping[Identity, RawObject]


@dataclass(frozen=True, slots=True)
class World(Generic[R]):
    """What one turn sees."""

    cr: R
    raw: RawObject
    refs: Refs
    owned: Live


@dataclass(frozen=True, slots=True)
class Report:
    """What one turn says: conditions, and further fields of the status."""

    statements: Sequence[Statement]
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Owned(Generic[R]):
    """The reconcile function of one kind."""

    kind: type[R]
    build: Callable[[R, Refs], list[Object]]
    report: Callable[[World[R], Mapping[Identity, dict[str, Any]]], Report]
    observer: Observer
    executor: Executor
    clock: Clock
    # Objects that must exist before the others and are made once: (world) -> actions.
    once: Callable[[World[R]], tuple[Action, ...]] = lambda _: ()
    # What only the cluster can tell about the resource: (world) -> problems.
    check: Callable[[World[R]], list[FieldProblem]] = lambda _: []

    async def __call__(self, key: Key) -> Result:
        """One turn."""
        decoded = self.observer.resource(self.kind.__name__, key.namespace, key.name)
        raw = self.observer.get(self.kind.__name__, key.namespace, key.name)
        if decoded is None or raw is None or raw.metadata.deletion_timestamp:
            # Gone, or going: the garbage collector takes what it owned.
            return Result()
        cr = decoded.resource
        if not isinstance(cr, self.kind):
            await self._say(raw, None, Report(workload.refused(decoded.problems), {}))
            return Result()
        world = World(cr, raw, self.observer.refs(key.namespace), self.observer.owned(raw.metadata.uid))
        return await self._turn(world)

    async def _turn(self, world: World[R]) -> Result:
        found = errors(rules.check(world.cr, None, world.refs)) or self.check(world)
        if found:
            await self._say(world.raw, world.cr, Report(workload.refused(found), {}))
            return Result()
        try:
            desired = self.build(world.cr, world.refs)
        except BuildError as error:
            await self._say(world.raw, world.cr, Report(_refusal(error), {}))
            return Result()
        try:
            await self._apply(world, desired)
        except OperatorError as error:
            await self._say(world.raw, world.cr, Report(workload.failed(error.reason, str(error)), {}))
            raise
        contents = {key: item.content() for key, item in self.observer.owned(world.raw.metadata.uid).items()}
        await self._say(world.raw, world.cr, self.report(world, contents))
        return Result()

    async def _apply(self, world: World[R], desired: list[Object]) -> None:
        live = self.observer.live(identity(value) for value in desired)
        first = self.once(world)
        plan = plan_objects(desired, live, world.owned, keep=frozenset(_made(first, world)))
        stages = ((first,) if first else ()) + plan.stages
        await self.executor.execute(Plan(stages), world.raw, self.kind.__name__)

    async def _say(self, raw: RawObject, cr: R | None, report: Report) -> None:
        before = getattr(getattr(cr, "status", None), "conditions", ())
        generation = raw.metadata.generation
        status = {
            **report.fields,
            "observedGeneration": generation,
            "conditions": conditions(before, report.statements, generation, _now(self.clock.now())),
        }
        metadata = {"name": raw.metadata.name, "namespace": raw.metadata.namespace}
        desired = {"apiVersion": API_VERSION, "kind": self.kind.__name__, "metadata": metadata, "status": status}
        await self.executor.status(desired, raw)


def _made(actions: tuple[Action, ...], world: World[Any]) -> set[Identity]:
    made = {identity(action.desired) for action in actions if hasattr(action, "desired")}
    # What was made once stays, whether this turn made it or an earlier one.
    return made | {key for key, item in world.owned.items() if item.content().get("immutable") is True}


def _refusal(error: BuildError) -> list[Statement]:
    if error.reason == "InvalidSpec":
        return workload.refused([FieldProblem(error.path, error.message)])
    return workload.failed(error.reason, str(error))


def _now(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
