"""All writing: the only caller of the writer and of Slurm's write.

In: a plan. Out: what became of it (`Outcomes`). Stages run in order, the actions of a stage concurrently, with a bound;
if a stage fails, no later one runs. No Kubernetes object is written to unless `plan/ownership.py` finds it to be ours,
else `NameTaken`. Crash tests, dry runs and audit hook in below, at the two writers. Called by every reconcile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, assert_never

from kube_runtime.client.errors import AlreadyExists, Conflict, Forbidden, NotFound
from kube_runtime.client.events import Recorder
from kube_runtime.client.objects import KubeObject, RawObject, Resource
from kube_runtime.client.write import Applied, Effect, Look, Writer
from kube_runtime.errors import OperatorError, Terminal
from kube_runtime.loop.queue import Key
from kube_runtime.metadata import Metadata
from slurm_operator.build import loginset
from slurm_operator.build.metadata import Object
from slurm_operator.plan.actions import (
    Action,
    Apply,
    Create,
    CreateHostKeys,
    Delete,
    DeleteNodes,
    DeletePartition,
    DeleteReservation,
    Drain,
    Outcomes,
    PartitionAction,
    PatchMetadata,
    PatchPodConditions,
    PatchSpec,
    Plan,
    Reconfigure,
    RecordEvent,
    Refused,
    RequestRegistration,
    SetPartition,
    SetReservation,
    SlurmAction,
    TakeTemplate,
    Undrain,
    UpdateNodes,
)
from slurm_operator.plan.objects import Identity, identity
from slurm_operator.plan.ownership import CLAIM, Claimant, demand, judge, judge_live
from slurm_operator.reconcile import host_keys
from slurm_operator.reconcile.clusters import shown
from slurm_operator.reconcile.resources import ALL, OURS
from slurm_operator.reconcile.status_pace import StatusPace, ends_a_wait
from slurm_operator.slurm.errors import SlurmBadAnswer, SlurmError, SlurmUnauthorized, SlurmUnreachable
from slurm_operator.slurm.requests import PartitionChange, ReservationChange

log = logging.getLogger(__name__)

MAX_CONCURRENT_ACTIONS = 64
# When a status that may not be written is tried again.
REFUSED_REQUEUE_SECONDS = 5.0
# So many actions of one kind and stage are written to the log one by one.
MAX_LOGGED_ACTIONS = 10
# After one of these nobody knows what Slurm thinks of the change.
NO_ANSWER = (SlurmUnreachable, SlurmUnauthorized, SlurmBadAnswer)
DrawHostKeys = Callable[[], Awaitable[Mapping[str, bytes]]]
BY_KIND: dict[tuple[str, str], Resource[Any]] = {(each.api_version, each.kind): each for each in ALL}


class SlurmWriter(Protocol):
    """What is written to Slurm."""

    async def drain(self, names: tuple[str, ...], why: str) -> object: ...

    async def undrain(self, names: tuple[str, ...]) -> object: ...

    async def update_nodes(self, names: tuple[str, ...], changes: Mapping[str, object]) -> object: ...

    async def request_registration(self, names: tuple[str, ...]) -> object: ...

    async def delete_nodes(self, names: tuple[str, ...]) -> object: ...

    async def set_reservation(self, change: ReservationChange) -> object: ...

    async def delete_reservation(self, name: str) -> object: ...

    async def set_partition(self, change: PartitionChange) -> object: ...

    async def delete_partition(self, name: str) -> object: ...

    async def reconfigure(self) -> object: ...


@dataclass(frozen=True, slots=True)
class _Work:
    """What the actions of one plan have in common."""

    claimant: Claimant
    regarding: KubeObject
    slurm: SlurmWriter | None
    # By uid, what is deleted in the end: in which version it was judged.
    deleted_versions: dict[str, str]
    # What came of it.
    applied: dict[Identity, RawObject]
    refused: list[Refused]
    # The uids of those that somebody else has changed since.
    overtaken: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Executor:
    """Carries out plans."""

    writer: Writer
    recorder: Recorder
    pace: StatusPace
    draw_host_keys: DrawHostKeys = host_keys.draw

    async def execute(
        self,
        plan: Plan,
        regarding: KubeObject,
        kind: str,
        slurm: SlurmWriter | None = None,
        stand_ins: frozenset[str] = frozenset(),
        may_remove: Callable[[], Awaitable[bool]] | None = None,
    ) -> Outcomes:
        """Do everything in a plan, or raise what prevented it; that Slurm refuses a partition action is an outcome.

        `regarding` is the resource on whose behalf it is done; `stand_ins` are controllers that stand for it. Earlier
        stages take their time: before one that removes a pod or the record of one that is gone, `may_remove` is asked.
        """
        bound = asyncio.Semaphore(MAX_CONCURRENT_ACTIONS)
        versions = {each.uid: each.seen.resource_version for each in plan.actions if isinstance(each, Delete)}
        work = _Work(claimant_of(regarding, kind, stand_ins), regarding, slurm, versions, {}, [])

        async def one(action: Action) -> None:
            async with bound:
                await self._do(action, work)

        is_cut = False
        for stage in plan.stages:
            if may_remove is not None and any(map(_removes, stage)) and not await may_remove():
                log.info("removals are skipped: what they were decided on has changed or is too old")
                is_cut = True
                continue
            if is_cut and isinstance(stage[0], RecordEvent):
                # It would tell of removals.
                continue
            _announce(stage)
            if len(stage) == 1:
                await self._do(stage[0], work)
                continue
            results = await asyncio.gather(*(one(action) for action in stage), return_exceptions=True)
            failed = [result for result in results if isinstance(result, Exception)]
            crashed = [result for result in results if isinstance(result, BaseException) and result not in failed]
            if crashed:
                raise crashed[0]
            if failed:
                raise _first_of(failed)
        return Outcomes(tuple(work.refused), work.applied)

    async def status(self, desired: Mapping[str, Any], live: Any) -> None:
        """Write a status if it differs: once a second for each object, or after 0.25 s if it ends a wait.

        One that comes too early is dropped, and its resource is requeued. If the cache lacks our last status, the
        object is read first.
        """
        place = desired["metadata"]
        kind, key = str(desired["kind"]), Key(place["namespace"], place["name"])
        if self.pace.is_early(kind, key, lambda: ends_a_wait(desired, live.content())):
            return
        seen = live.metadata.resource_version
        overtaken = self.pace.is_overtaken(kind, key, seen)
        if not overtaken and not self.writer.would_change(desired, live, subresource="status"):
            return
        try:
            # A cache that has not seen our last status yet must not be believed that nothing changes.
            applied = await self.writer.status(desired, Look.FIRST if overtaken else live)
            if applied.effect is not Effect.UNCHANGED:
                self.pace.written(kind, key, seen)
        except (NotFound, Conflict):
            # Deleted or changed meanwhile: the next reconcile sees it.
            log.debug("status of %s was overtaken", desired["metadata"]["name"])
        except Forbidden as error:
            # There is no status to say it in, so an Event does.
            await self.recorder.warning(live, OURS[kind], error.reason, f"its status cannot be written: {error}")
            self.pace.again(kind, key, REFUSED_REQUEUE_SECONDS)

    async def _do(self, action: Action, work: _Work) -> None:
        claimant = work.claimant
        if isinstance(action, Apply):
            work.applied[identity(action.desired)] = await self._apply(action, claimant)
            return
        log.debug("%s", action)
        match action:
            case Create():
                await self._create(action, claimant)
            case CreateHostKeys():
                await self._create_host_keys(action, claimant)
            case Delete():
                await self._delete(action, work)
            case PatchMetadata():
                _demand(claimant, action.kind, action.seen)
                await self._patch_metadata(action, work)
            case PatchSpec():
                _demand(claimant, action.kind, action.seen)
                await self._patch_spec(action)
            case TakeTemplate():
                _demand(claimant, action.kind, action.seen)
                await self._take_template(action)
            case PatchPodConditions():
                _demand(claimant, "Pod", action.seen)
                await self._patch_conditions(action)
            case RecordEvent():
                record = self.recorder.warning if action.warning else self.recorder.normal
                await record(work.regarding, OURS[claimant.kind], action.reason, action.message)
            case SetPartition() | DeletePartition() | Reconfigure():
                await _on_partition(action, work)
            case _:
                await _slurm(action, work.slurm)

    async def _apply(self, action: Apply, claimant: Claimant) -> RawObject:
        # An apply would take over what no cache shows yet, and there is no apply that only creates.
        live = action.live if action.live is not None else await self._find(action.desired)
        _demand_live(claimant, action.desired, live)
        applied = await self.writer.apply(action.desired, live)
        if applied.effect is not Effect.UNCHANGED:
            log.info("%s: %s", action, _outcome(applied))
        return applied.object

    async def _create(self, action: Create, claimant: Claimant) -> None:
        try:
            await self.writer.make(action.desired)
        except AlreadyExists:
            log.debug("%s was there already", action)
            if action.desired["kind"] == CLAIM:
                # As with a StatefulSet, a worker's claim is known by its name; whose it is, is not changed.
                return
            live = await self._find(action.desired)
            if live is None:
                raise
            _demand_live(claimant, action.desired, live)

    async def _create_host_keys(self, action: CreateHostKeys, claimant: Claimant) -> None:
        desired = loginset.host_key_secret(action.loginset)
        live = await self._find(desired)
        if live is None:
            keys = loginset.host_key_data(action.loginset, await self.draw_host_keys())
            await self._create(Create({**desired, "data": keys}), claimant)
        else:
            _demand_live(claimant, desired, live)

    async def _find(self, desired: Object) -> RawObject | None:
        metadata = desired["metadata"]
        resource = BY_KIND[str(desired["apiVersion"]), str(desired["kind"])]
        return await self.writer.find(resource, str(metadata["name"]), str(metadata["namespace"]))

    async def _delete(self, action: Delete, work: _Work) -> None:
        _demand(work.claimant, action.kind, action.seen, deletes=True)
        if action.uid in work.overtaken:
            log.info("%s: it has changed in the meantime and is looked at again", action)
            return
        try:
            await self.writer.delete(
                BY_KIND[action.api_version, action.kind],
                action.name,
                action.namespace,
                uid=action.uid,
                resource_version=work.deleted_versions[action.uid],
                propagation="Background",
            )
        except Conflict:
            # It has changed since it was judged. That change comes by the cache and starts the next reconcile at once.
            log.info("%s: it has changed in the meantime and is looked at again", action)

    async def _patch_metadata(self, action: PatchMetadata, work: _Work) -> None:
        metadata: dict[str, Any] = {}
        if action.labels:
            metadata["labels"] = dict(action.labels)
        if action.annotations:
            metadata["annotations"] = dict(action.annotations)
        if action.finalizers is not None:
            metadata["finalizers"] = list(action.finalizers)
        if action.owners is not None:
            metadata["ownerReferences"] = [dict(owner) for owner in action.owners]
        judged = work.deleted_versions.get(action.uid, "")
        try:
            now = await self.writer.patch(
                BY_KIND[action.api_version, action.kind],
                action.name,
                {"metadata": metadata},
                action.namespace,
                uid=action.uid,
                resource_version=action.resource_version or judged,
            )
        except NotFound:
            log.debug("%s: it has gone", action)
            return
        except Conflict:
            if not judged:
                raise
            # It goes in no version but the one that was judged; the next reconcile sees what it has become.
            work.overtaken.add(action.uid)
            return
        if judged:
            # The version that was judged, and our own mark on it: nothing else has changed.
            work.deleted_versions[action.uid] = now.metadata.resource_version

    async def _patch_spec(self, action: PatchSpec) -> None:
        resource = BY_KIND[action.api_version, action.kind]
        try:
            patch = {"spec": dict(action.fields)}
            await self.writer.patch(resource, action.name, patch, action.namespace, uid=action.uid)
        except NotFound:
            log.debug("%s: it has gone", action)

    async def _take_template(self, action: TakeTemplate) -> None:
        try:
            resource = BY_KIND[action.api_version, action.kind]
            await self.writer.take_fields(resource, action.live, ("spec", "template"))
        except NotFound:
            log.debug("%s: it has gone", action)

    async def _patch_conditions(self, action: PatchPodConditions) -> None:
        desired = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": action.seen.name, "namespace": action.seen.namespace, "uid": action.seen.uid},
            "status": {"conditions": [dict(each) for each in action.conditions]},
        }
        try:
            # The plan has compared already; the uid keeps this from reaching a successor.
            await self.writer.status(desired, None)
        except (NotFound, Conflict):
            log.debug("%s: it has gone", action)


def _removes(action: Action) -> bool:
    match action:
        case DeleteNodes():
            return not action.has_successors
        case Delete():
            return action.kind == "Pod"
    return False


def _first_of(failed: list[Exception]) -> Exception:
    """What many failures are told as: one that a condition can tell, and that is tried again if any of them is."""
    unforeseen = [error for error in failed if not isinstance(error, OperatorError)]
    if unforeseen:
        return failed[0] if len(failed) == 1 else ExceptionGroup("several actions failed", failed)
    chosen = next((error for error in failed if not isinstance(error, Terminal)), failed[0])
    for other in {type(error): error for error in failed if type(error) is not type(chosen)}.values():
        log.warning("another action of the same stage failed: %s", other)
    return chosen


def claimant_of(regarding: KubeObject, kind: str, stand_ins: frozenset[str] = frozenset()) -> Claimant:
    """The resource on whose behalf something is written."""
    meta = regarding.metadata
    return Claimant(kind, meta.namespace, meta.name, meta.uid, stand_ins)


def _demand(claimant: Claimant, kind: str, seen: Metadata, *, deletes: bool = False) -> None:
    demand(claimant, kind, seen.name, judge(claimant, kind, seen), deletes=deletes)


def _outcome(applied: Applied) -> str:
    """What an apply did, for the log: what was created had no differences."""
    if applied.effect is Effect.CREATED:
        return str(applied.effect.value)
    return f"{applied.effect.value}: {', '.join(map(str, applied.why[:3]))}"


def _demand_live(claimant: Claimant, desired: Object, live: RawObject | None) -> None:
    kind, name = str(desired["kind"]), str(desired["metadata"]["name"])
    demand(claimant, kind, name, judge_live(claimant, kind, live))


def _announce(stage: tuple[Action, ...]) -> None:
    """Each action is a line, but a thousand of a kind are one."""
    announced = [action for action in stage if not isinstance(action, Apply)]
    for kind in dict.fromkeys(type(action) for action in announced):
        same = [action for action in announced if type(action) is kind]
        for action in same[:MAX_LOGGED_ACTIONS]:
            log.info("%s", action)
        if len(same) > MAX_LOGGED_ACTIONS:
            log.info("… and %d more like it, the last: %s", len(same) - MAX_LOGGED_ACTIONS, same[-1])


async def _on_partition(action: PartitionAction, work: _Work) -> None:
    """What Slurm refuses of one partition does not keep the others waiting."""
    try:
        await _slurm(action, work.slurm)
    except SlurmError as error:
        what = "the reconfigure that would revert it failed: " if isinstance(action, Reconfigure) else ""
        work.refused.append(Refused(action, f"{what}{shown(error)}", not isinstance(error, NO_ANSWER)))


async def _slurm(action: SlurmAction, slurm: SlurmWriter | None) -> None:
    if slurm is None:
        raise RuntimeError(f"planned without Slurm: {action}")
    match action:
        case Drain():
            await slurm.drain(action.nodes, action.reason)
        case Undrain():
            await slurm.undrain(action.nodes)
        case UpdateNodes():
            await slurm.update_nodes(action.nodes, action.changes)
        case RequestRegistration():
            await slurm.request_registration(action.nodes)
        case DeleteNodes():
            await slurm.delete_nodes(action.nodes)
        case SetReservation():
            await slurm.set_reservation(action.change)
        case DeleteReservation():
            await slurm.delete_reservation(action.name)
        case SetPartition():
            await slurm.set_partition(action.change)
        case DeletePartition():
            await slurm.delete_partition(action.name)
        case Reconfigure():
            await slurm.reconfigure()
        case _:
            assert_never(action)
