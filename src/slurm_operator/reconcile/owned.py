"""The turn that Controller, Accounting, RestApi and LoginSet share: build, apply, prune, report.

In: a kind's builder and reporter. Out: its reconcile function. What differs between the kinds stands in their own
modules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from kube_runtime.client.objects import RawObject
from kube_runtime.errors import OperatorError
from kube_runtime.loop.clock import Clock
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key
from slurm_operator.admission import rules
from slurm_operator.api.accounting import Accounting
from slurm_operator.api.meta import Resource
from slurm_operator.api.problem import FieldProblem, errors
from slurm_operator.build import names
from slurm_operator.build.errors import BuildError
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.plan import keys, takeover
from slurm_operator.plan.actions import Action, Plan
from slurm_operator.plan.config_history import KEY as HISTORY
from slurm_operator.plan.objects import Identity, identity, plan_objects
from slurm_operator.plan.ownership import LOOK_AGAIN_SECONDS, NameTaken, demand, judge_live
from slurm_operator.plan.takeover import WORKLOADS
from slurm_operator.reconcile.execute import Executor, claimant_of
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.report import held_fields, say
from slurm_operator.status import workload
from slurm_operator.status.conditions import PROGRESSING, Statement, yes

R = TypeVar("R", bound=Resource)
Live = Mapping[Identity, RawObject]
# When to look for what was made once, should nobody tell that it is there.
ONCE = 1.0
# When to look for what a resource names and is not there, should nobody tell that it has come.
MISSING = 30.0
# How often it is looked whether the workers are free.
KEY_ROTATION = 1.0


@dataclass(frozen=True, slots=True)
class World(Generic[R]):
    """What one turn sees."""

    cr: R
    raw: RawObject
    refs: Refs
    owned: Live
    # Whether a new key goes round: nothing may make a daemon read its files again.
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What one turn says: conditions, and further fields of the status."""

    statements: Sequence[Statement]
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a kind's objects after a look beyond the caches."""

    objects: list[Object]
    # What is done once the objects are there.
    after: tuple[Action, ...] = ()
    # Added to the report; where it already says something of a type, these say it instead.
    statements: Sequence[Statement] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    look_again: float | None = None

    def added_to(self, report: Report) -> Report:
        """A report with what was found here."""
        mine = {each.type for each in self.statements}
        others = [each for each in report.statements if each.type not in mine]
        return Report([*others, *self.statements], {**report.fields, **self.fields})


async def _as_built(_: World[Any], objects: list[Object]) -> Settled:
    return Settled(objects)


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
    # What only others can tell, such as Slurm: (world, built) -> what to apply, and what to say.
    settle: Callable[[World[R], list[Object]], Awaitable[Settled]] = _as_built
    # Fields without which the API server takes no status, however little there is to say.
    always: Callable[[str], Mapping[str, object]] = lambda _: {}

    async def __call__(self, key: Key) -> Result:
        """One turn."""
        decoded = self.observer.resource(self.kind.__name__, key.namespace, key.name)
        raw = self.observer.get(self.kind.__name__, key.namespace, key.name)
        if decoded is None or raw is None or raw.metadata.deletion_timestamp:
            # Gone, or going: the garbage collector takes what it owned.
            return Result()
        cr = decoded.resource
        if not isinstance(cr, self.kind):
            await self._say(raw, Report(workload.refused(decoded.problems), {}))
            return Result()
        world = World(cr, raw, self.observer.refs(key.namespace), self.observer.owned(raw.metadata.uid))
        return await self._turn(world)

    async def _turn(self, world: World[R]) -> Result:
        found = errors(rules.check(world.cr, None, world.refs))
        if found:
            await self._say(world.raw, Report(workload.refused(found), {}))
            return Result()
        try:
            desired = self.build(world.cr, world.refs)
        except BuildError as error:
            await self._say(world.raw, Report(_refusal(error), {}))
            return Result(MISSING)
        waiting = self._waits_for_key(world)
        try:
            self._demand_names(world, desired)
            first = self.once(world)
            if first:
                # The others are built from what these hold: in the next turn, which their coming starts.
                await self.executor.execute(Plan((first,)), world.raw, self.kind.__name__)
                return Result(ONCE)
            settled = await self.settle(replace(world, frozen=bool(waiting)), desired)
            wanted = takeover.kept(settled.objects, self._live(settled.objects), desired)
            await self._apply(world, wanted, frozen=bool(waiting))
            if settled.after and not waiting:
                await self._afterwards(world, settled.after)
        except NameTaken as error:
            await self._say(world.raw, Report(workload.blocked(error.reason, str(error)), {}))
            return Result(LOOK_AGAIN_SECONDS)
        except OperatorError as error:
            await self._say(world.raw, Report(workload.failed(error.reason, str(error)), {}))
            raise
        owned = self.observer.owned(world.raw.metadata.uid)
        contents = {key: item.content() for key, item in owned.items() if key[:2] != HISTORY}
        report = settled.added_to(self.report(world, contents))
        await self._say(world.raw, _with_key_rotation(report, waiting) if waiting else report)
        return Result(_soonest(settled.look_again, KEY_ROTATION if waiting else None))

    def _waits_for_key(self, world: World[R]) -> str:
        """Why the daemons must not be restarted now: they would come up with a key that others do not have yet."""
        namespace = world.cr.namespace
        unread = sorted(name for kind, name in world.refs.unreadable if kind == "Controller")
        if isinstance(world.cr, Accounting) and unread:
            return f"Controller {unread[0]!r} cannot be read; whether its workers have this key, nobody can say"
        for controller in keys.sharing(world.cr, world.refs):
            found = self.observer.get("StatefulSet", namespace, names.controller(controller))
            key = keys.state(controller, world.refs, found.content() if found is not None else None)
            why = keys.waits_for(controller, key, self.observer.worker_pods(namespace, controller.name))
            if why:
                return why
        return ""

    def _demand_names(self, world: World[R], desired: list[Object]) -> None:
        """Nothing is begun, nor anybody's object read as our own, while a name is somebody else's."""
        claimant, live = claimant_of(world.raw, self.kind.__name__), self._live(desired)
        for key, item in live.items():
            demand(claimant, key[1], key[3], judge_live(claimant, key[1], item))

    async def _afterwards(self, world: World[R], after: tuple[Action, ...]) -> None:
        # The pods of a StatefulSet are its own; what is ours is the StatefulSet.
        workloads = frozenset(item.metadata.uid for key, item in world.owned.items() if key[1] in WORKLOADS)
        await self.executor.execute(Plan((after,)), world.raw, self.kind.__name__, stand_ins=workloads)

    def _live(self, desired: list[Object]) -> Live:
        return self.observer.live(identity(value) for value in desired)

    async def _apply(self, world: World[R], desired: list[Object], *, frozen: bool) -> None:
        live = self._live(desired)
        left_alone = {identity(value) for value in desired if frozen and value["kind"] in keys.FROZEN}
        # One that is not there yet has nothing to lose.
        left_alone &= live.keys()
        wanted = [value for value in keys.with_known_hashes(desired, live) if identity(value) not in left_alone]
        plan = plan_objects(wanted, live, world.owned, keep=frozenset(_made_once(world) | left_alone))
        await self.executor.execute(plan, world.raw, self.kind.__name__)

    async def _say(self, raw: RawObject, report: Report) -> None:
        fields = {**self.always(raw.metadata.name), **(report.fields or held_fields(raw))}
        await say(self.executor, self.clock, self.kind.__name__, raw, report.statements, fields)


def _soonest(*waits: float | None) -> float | None:
    return min((wait for wait in waits if wait is not None), default=None)


def _with_key_rotation(report: Report, why: str) -> Report:
    others = [each for each in report.statements if each.type != PROGRESSING]
    return Report([*others, yes(PROGRESSING, "KeyRotation", why)], report.fields)


def _made_once(world: World[Any]) -> set[Identity]:
    """What is made once and then kept; the history of a Controller is made and thinned out by its own rules."""
    history = {key for key in world.owned if key[:2] == HISTORY}
    return history | {key for key in world.owned.keys() - history if _is_immutable(world.owned[key])}


def _is_immutable(item: RawObject) -> bool:
    return item.content().get("immutable") is True


def _refusal(error: BuildError) -> list[Statement]:
    if error.reason == "InvalidSpec":
        return workload.refused([FieldProblem(error.path, error.message)])
    return workload.failed(error.reason, str(error))
