"""One turn for a Partition: what the builder made of it, what Slurm says of it, its status, and its end.

Its line and its live changes are made in the Controller's turn (`reconcile/live_partitions.py`), for all partitions of
a cluster together. Here the object is held until Slurm has let the partition go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import to_builtins

from kube_runtime.client.objects import RawObject
from kube_runtime.errors import OperatorError
from kube_runtime.loop.clock import Clock
from kube_runtime.loop.controller import SHORTEST_REQUEUE, Result
from kube_runtime.loop.queue import Key
from kube_runtime.times import time_text
from slurm_operator.admission import rules
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import API_VERSION
from slurm_operator.api.partition import Partition
from slurm_operator.api.problem import FieldProblem, errors
from slurm_operator.api.restapi import RestApi
from slurm_operator.build import labels, names
from slurm_operator.build.errors import BuildError
from slurm_operator.build.partition import Verdict
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import FILE, SlurmConf, slurm_conf
from slurm_operator.plan.actions import PatchMetadata, Plan
from slurm_operator.plan.partition import Declared, blocking_jobs, declared, plan_partitions
from slurm_operator.plan.partition_fields import differences
from slurm_operator.reconcile.clusters import Cluster, Clusters
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.live_partitions import complete, known_to_slurm, line_hash, seen_lines, with_edits
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import MISSING
from slurm_operator.reconcile.report import say
from slurm_operator.slurm import model
from slurm_operator.status import partition as status
from slurm_operator.status import workload
from slurm_operator.status.conditions import Statement

WAITING_SECONDS = 1.0
DELETING_SECONDS = 0.25
SETTLED_SECONDS = 5.0
# How soon a change is looked for in Slurm, no sooner than the loop comes back, and how long it is not called late.
APPLY_POLL_SECONDS = SHORTEST_REQUEUE
GRACE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class _World:
    """What one turn knows."""

    cr: Partition
    raw: RawObject
    controller: Controller
    wanted: Declared
    in_force: Declared
    verdict: Verdict
    conf: SlurmConf
    cluster: Cluster | model.Unknown
    slurm: _Word


@dataclass(frozen=True, slots=True)
class _Word:
    """Slurm's word on one partition."""

    found: model.Partition | model.Unknown | None
    nodes: tuple[model.Node, ...] | model.Unknown = ()
    jobs: tuple[model.Job, ...] | model.Unknown = ()
    live_way: bool = False


@dataclass(frozen=True, slots=True)
class Partitions:
    """The reconcile function of Partitions."""

    observer: Observer
    executor: Executor
    clusters: Clusters
    clock: Clock
    # When a new generation of each was first seen, and its `lastApply` once it is in force.
    _begun: dict[Key, tuple[int, float]] = field(default_factory=dict)
    _applied: dict[Key, dict[str, object]] = field(default_factory=dict)

    async def __call__(self, key: Key) -> Result:
        """One turn."""
        raw = self.observer.get("Partition", key.namespace, key.name)
        decoded = self.observer.resource("Partition", key.namespace, key.name)
        if raw is None or decoded is None:
            self._begun.pop(key, None)
            self._applied.pop(key, None)
            return Result()
        refs = self.observer.refs(key.namespace)
        cr = decoded.resource
        if raw.metadata.deletion_timestamp:
            known = decoded.readable
            return await self._leave(known if isinstance(known, Partition) else None, raw, refs, decoded.problems)
        found = decoded.problems if not isinstance(cr, Partition) else errors(rules.check(cr, None, refs))
        if not isinstance(cr, Partition) or found:
            await self._say(raw, None, workload.refused(found), {})
            return Result()
        self._begin(key, cr, raw)
        return await self._turn(cr, raw, refs)

    async def _turn(self, cr: Partition, raw: RawObject, refs: Refs) -> Result:
        try:
            world = await self._observe(cr, raw, refs)
        except BuildError as error:
            await self._say(raw, cr, workload.failed(error.reason, str(error)), {})
            return Result(MISSING)
        await self._hold(raw, cr)
        seen = _seen(world)
        is_in_force = isinstance(seen.found, model.Partition) and not seen.pending and not seen.refused
        age = self._age(raw)
        if not is_in_force and world.verdict.accepted and not seen.refused and age is not None and age < GRACE_SECONDS:
            return Result(max(APPLY_POLL_SECONDS, age / 2))
        fields = self._fields(world, seen, age if is_in_force else None)
        await self._say(raw, cr, status.statements(seen), fields)
        return Result(SETTLED_SECONDS if is_in_force and not seen.drift else WAITING_SECONDS)

    async def _observe(self, cr: Partition, raw: RawObject, refs: Refs) -> _World:
        controller = refs.controller(cr.namespace, cr.spec.controller_ref)
        conf = slurm_conf(controller, refs)
        verdict = next(each for each in conf.partitions if each.kind == "Partition" and each.resource == cr.name)
        cluster = await self.clusters.find(controller, self.observer.resources(RestApi, cr.namespace), refs)
        word = await _asked(cr, cluster, fresh=bool(raw.metadata.deletion_timestamp))
        in_force = self.observer.get("ConfigMap", cr.namespace, names.config(controller))
        text = (in_force.content().get("data") or {}).get(FILE, "") if in_force is not None else ""
        return _World(cr, raw, controller, declared(conf.text), declared(text), verdict, conf, cluster, word)

    def _begin(self, key: Key, cr: Partition, raw: RawObject) -> None:
        generation = raw.metadata.generation
        is_new = cr.status.observed_generation != generation or _is_on_its_way(cr)
        if is_new and self._begun.get(key, (0, 0.0))[0] != generation:
            self._begun[key] = (generation, self.clock.monotonic())
            self._applied.pop(key, None)

    def _age(self, raw: RawObject) -> float | None:
        begun = self._begun.get(_key(raw))
        return None if begun is None else self.clock.monotonic() - begun[1]

    def _fields(self, world: _World, seen: status.Seen, took: float | None) -> dict[str, Any]:
        cr, now = world.cr, self._now()
        fields = status.fields(seen.found, world.slurm.nodes, world.slurm.jobs)
        rows = status.drift_rows(cr.status.drift, seen.drift, now)
        if isinstance(seen.found, model.Unknown):
            # Nobody says that it is over: it keeps the time since when it is so.
            rows = [to_builtins(each) for each in cr.status.drift]
        key = _key(world.raw)
        if took is not None and key not in self._applied:
            way = "Live" if seen.live_way else "Reconfigure"
            line = world.wanted.lines.get(cr.slurm_name)
            told = {"line": line_hash(line)} if line is not None else {}
            self._applied[key] = {"way": way, "milliseconds": round(took * 1000), "time": now, **told}
        applied = {"lastApply": self._applied[key]} if key in self._applied else _last_apply(cr)
        return {**fields, **applied, **({"drift": rows} if rows else {})}

    async def _hold(self, raw: RawObject, cr: Partition) -> None:
        """Keep the object from vanishing before its partition."""
        if labels.PARTITION_FINALIZER not in raw.metadata.finalizers:
            await self._set_finalizers(raw, cr, (*raw.metadata.finalizers, labels.PARTITION_FINALIZER))

    async def _leave(
        self, cr: Partition | None, raw: RawObject, refs: Refs, problems: Sequence[FieldProblem]
    ) -> Result:
        """The end: let go when Slurm has, or when nobody can be asked for ever."""
        if labels.PARTITION_FINALIZER not in raw.metadata.finalizers:
            return Result()
        if self._is_let_go(cr, raw, refs):
            return await self._release(raw, cr)
        if cr is None:
            # Whose partition it is cannot be read, so nobody can be asked whether it has jobs.
            await self._say(raw, None, workload.refused(problems), {})
            return Result(MISSING)
        try:
            world = await self._observe(cr, raw, refs)
        except BuildError:
            # The Controller's turn says what is wrong; until it is mended, nothing leaves slurm.conf.
            return Result(WAITING_SECONDS)
        if _has_left(world):
            return await self._release(raw, cr)
        finished_too = not world.slurm.live_way
        jobs = world.slurm.jobs if not isinstance(world.slurm.found, model.Unknown) else world.slurm.found
        waits = (
            jobs if isinstance(jobs, model.Unknown) else blocking_jobs(cr.slurm_name, jobs, finished_too=finished_too)
        )
        await self._say(raw, cr, status.deleting(cr.slurm_name, waits, finished_too=finished_too), _last_apply(cr))
        return Result(WAITING_SECONDS if waits else DELETING_SECONDS)

    def _is_let_go(self, cr: Partition | None, raw: RawObject, refs: Refs) -> bool:
        if raw.metadata.annotations.get(labels.PARTITION_FORCE_DELETE, "").lower() == "true":
            return True
        if cr is None or ("Controller", cr.spec.controller_ref.name) in refs.unreadable:
            return False
        controller = refs.controllers.get(cr.spec.controller_ref.name)
        return controller is None or controller.spec.external

    async def _release(self, raw: RawObject, cr: Partition | None) -> Result:
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
            await self._say(raw, cr, workload.failed(error.reason, str(error)), _last_apply(cr) if cr else {})
            raise

    def _now(self) -> str:
        return time_text(self.clock.now())

    async def _say(
        self, raw: RawObject, _cr: Partition | None, said: Sequence[Statement], fields: Mapping[str, object]
    ) -> None:
        await say(self.executor, self.clock, "Partition", raw, said, fields)


def _is_on_its_way(cr: Partition) -> bool:
    """Whether an operator before this one saw the generation, but not its coming into force."""
    applied = next((each.status for each in cr.status.conditions if each.type == status.APPLIED), "")
    return cr.status.last_apply is None or applied == "False"


def _last_apply(cr: Partition) -> dict[str, object]:
    last = cr.status.last_apply
    return {"lastApply": to_builtins(last)} if last else {}


def _key(raw: RawObject) -> Key:
    return Key(raw.metadata.namespace, raw.metadata.name)


def _seen(world: _World) -> status.Seen:
    """What Slurm's answer means: what is on its way, and what somebody changed by hand."""
    name, policy, found = world.cr.slurm_name, world.cr.spec.drift_policy, world.slurm.found
    basis = status.Seen(world.verdict, found, policy=policy, live_way=world.slurm.live_way)
    line = world.wanted.lines.get(name)
    if isinstance(world.cluster, model.Unknown) or isinstance(found, model.Unknown):
        return basis
    if line is None or not world.verdict.accepted:
        return basis
    if world.slurm.live_way and (world.verdict.live_nodes or world.verdict.removed_nodes):
        if isinstance(world.slurm.nodes, model.Unknown):
            # Which hosts it should have depends on those that Slurm has.
            return replace(basis, found=world.slurm.nodes)
        line = with_edits(world.conf, world.wanted, world.slurm.nodes)[name]
    notes = world.cluster.partition_notes
    before = {name: world.in_force.lines[name]} if name in world.in_force.lines else {}
    if world.slurm.live_way:
        before = known_to_slurm({name: world.wanted.lines[name]}, before, notes.told, seen_lines([world.cr]))
    answer = model.Answer((found,) if found is not None else (), complete=True)
    plan = plan_partitions({name: line}, before, answer, (), world.slurm.live_way, {name: policy})
    # Without live changes one that is not there may still be on its way.
    drift = plan.drift.get(name, ()) if found is not None or world.slurm.live_way else ()
    known = {each.field for each in drift}
    pending = tuple(each for each in differences(line, found) if each.field not in known) if found else ()
    refusal = notes.refused.get(name)
    return status.Seen(
        world.verdict,
        found,
        pending=pending,
        drift=drift,
        policy=policy,
        given_up=notes.has_given_up(name),
        live_way=world.slurm.live_way,
        refused=refusal.why if refusal is not None else None,
        unsettable=notes.unsettable.get(name, ()),
    )


def _has_left(world: _World) -> bool:
    """Whether nothing is left of a partition that is to go."""
    name, found = world.cr.slurm_name, world.slurm.found
    if name in world.wanted.lines:
        # Somebody else has the name now.
        return True
    if isinstance(found, model.Unknown):
        return False
    never_was_ours = name not in world.in_force.lines and world.cr.status.last_apply is None
    return found is None or never_was_ours


async def _asked(cr: Partition, cluster: Cluster | model.Unknown, *, fresh: bool) -> _Word:
    if isinstance(cluster, model.Unknown):
        return _Word(cluster, cluster, cluster)
    who = ("Partition", Key(cr.namespace, cr.name))
    answer = await cluster.partitions(who, fresh=fresh)
    if isinstance(answer, model.Unknown):
        return _Word(answer, answer, answer)
    found = next((each for each in answer.items if each.name == cr.slurm_name), None)
    whole = complete(answer, "partitions")
    if found is None and isinstance(whole, model.Unknown):
        return _Word(whole, whole, whole)
    world = await cluster.world(who=who)
    nodes = complete(world.nodes, "nodes")
    known = nodes.items if isinstance(nodes, model.Answer) else nodes
    return _Word(found, known, world.jobs, cluster.live_partitions)
