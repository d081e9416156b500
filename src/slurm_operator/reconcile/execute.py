"""All writing: the only caller of the writer and of Slurm's write.

In: a plan. Out: what was done. Stages run in order, actions of a stage side by side with a bound; a stage that fails is
the last. Crash tests, dry runs and audit hook in below, at the two writers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from slurm_operator.errors import OperatorError
from slurm_operator.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from slurm_operator.kube.events import Recorder
from slurm_operator.kube.objects import KubeObject, Resource
from slurm_operator.kube.write import Effect, Look, Writer
from slurm_operator.loop.queue import Key
from slurm_operator.plan.actions import (
    Action,
    Apply,
    Create,
    Delete,
    DeleteNode,
    DeletePartition,
    DeleteReservation,
    Drain,
    PatchMetadata,
    PatchPodConditions,
    PatchSpec,
    Plan,
    Reconfigure,
    SetPartition,
    SetReservation,
    SlurmAction,
    Tell,
    Undrain,
    UpdateNode,
)
from slurm_operator.reconcile.resources import ALL, OURS
from slurm_operator.reconcile.status_pace import StatusPace
from slurm_operator.slurm.requests import PartitionChange, ReservationChange

log = logging.getLogger(__name__)

AT_ONCE = 64
# When a status that may not be written is tried again.
REFUSED = 5.0
# So many actions of one kind and stage are written to the log one by one.
LINES = 10
BY_KIND: dict[tuple[str, str], Resource[Any]] = {(each.api_version, each.kind): each for each in ALL}


class SlurmWriter(Protocol):
    """What is written to Slurm."""

    async def drain(self, names: tuple[str, ...], why: str) -> object: ...

    async def undrain(self, names: tuple[str, ...]) -> object: ...

    async def update_node(self, name: str, changes: Mapping[str, object]) -> object: ...

    async def delete_node(self, name: str) -> object: ...

    async def set_reservation(self, change: ReservationChange) -> object: ...

    async def delete_reservation(self, name: str) -> object: ...

    async def set_partition(self, change: PartitionChange) -> object: ...

    async def delete_partition(self, name: str) -> object: ...

    async def reconfigure(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Executor:
    """Carries out plans."""

    writer: Writer
    recorder: Recorder
    pace: StatusPace

    async def execute(self, plan: Plan, regarding: KubeObject, kind: str, slurm: SlurmWriter | None = None) -> None:
        """Do everything in a plan, or raise what kept it from being done."""
        bound = asyncio.Semaphore(AT_ONCE)

        async def one(action: Action) -> None:
            async with bound:
                await self._do(action, regarding, kind, slurm)

        for stage in plan.stages:
            if len(stage) == 1:
                _announce(stage)
                await self._do(stage[0], regarding, kind, slurm)
                continue
            _announce(stage)
            results = await asyncio.gather(*(one(action) for action in stage), return_exceptions=True)
            failed = [result for result in results if isinstance(result, Exception)]
            crashed = [result for result in results if isinstance(result, BaseException) and result not in failed]
            if crashed:
                raise crashed[0]
            if failed:
                # Many failures of one kind are one story, which a condition can tell.
                alike = all(isinstance(error, OperatorError) and type(error) is type(failed[0]) for error in failed)
                raise failed[0] if alike or len(failed) == 1 else ExceptionGroup("several actions failed", failed)

    async def status(self, desired: Mapping[str, Any], live: Any) -> None:
        """Write a status, when it differs and the last one is a second old."""
        place = desired["metadata"]
        kind, key = str(desired["kind"]), Key(place["namespace"], place["name"])
        if self.pace.is_early(kind, key):
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
            # Deleted or changed meanwhile: the next turn sees it.
            log.debug("status of %s was overtaken", desired["metadata"]["name"])
        except Forbidden as error:
            # There is no status to say it in, so an Event does.
            await self.recorder.warning(live, OURS[kind], error.reason, f"its status cannot be written: {error}")
            self.pace.again(kind, key, REFUSED)

    async def _do(self, action: Action, regarding: KubeObject, kind: str, slurm: SlurmWriter | None) -> None:
        if isinstance(action, Apply):
            applied = await self.writer.apply(action.desired, action.live)
            if applied.effect is not Effect.UNCHANGED:
                log.info("%s: %s %s", action, applied.effect.value, ", ".join(map(str, applied.why[:3])))
            return
        log.debug("%s", action)
        match action:
            case Create():
                await self._create(action)
            case Delete():
                await self.writer.delete(
                    BY_KIND[action.api_version, action.kind],
                    action.name,
                    action.namespace,
                    uid=action.uid,
                    resource_version=action.resource_version,
                    propagation="Background",
                )
            case PatchMetadata():
                await self._patch_metadata(action)
            case PatchSpec():
                await self._patch_spec(action)
            case PatchPodConditions():
                await self._patch_conditions(action)
            case Tell():
                tell = self.recorder.warning if action.warning else self.recorder.normal
                await tell(regarding, OURS[kind], action.reason, action.message)
            case _:
                await _slurm(action, slurm)

    async def _create(self, action: Create) -> None:
        try:
            await self.writer.make(action.desired)
        except AlreadyExists:
            log.debug("%s was there already", action)

    async def _patch_metadata(self, action: PatchMetadata) -> None:
        metadata: dict[str, Any] = {}
        if action.labels:
            metadata["labels"] = dict(action.labels)
        if action.annotations:
            metadata["annotations"] = dict(action.annotations)
        if action.finalizers is not None:
            metadata["finalizers"] = list(action.finalizers)
        if action.owners is not None:
            metadata["ownerReferences"] = [dict(owner) for owner in action.owners]
        try:
            await self.writer.patch(
                BY_KIND[action.api_version, action.kind],
                action.name,
                {"metadata": metadata},
                action.namespace,
                uid=action.uid,
                resource_version=action.resource_version,
            )
        except NotFound:
            log.debug("%s: it has gone", action)

    async def _patch_spec(self, action: PatchSpec) -> None:
        resource = BY_KIND[action.api_version, action.kind]
        try:
            patch = {"spec": dict(action.fields)}
            await self.writer.patch(resource, action.name, patch, action.namespace, uid=action.uid)
        except NotFound:
            log.debug("%s: it has gone", action)

    async def _patch_conditions(self, action: PatchPodConditions) -> None:
        desired = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": action.name, "namespace": action.namespace, "uid": action.uid},
            "status": {"conditions": [dict(each) for each in action.conditions]},
        }
        try:
            # The plan has compared already; the uid keeps this from reaching a successor.
            await self.writer.status(desired, None)
        except (NotFound, Conflict):
            log.debug("%s: it has gone", action)


def _announce(stage: tuple[Action, ...]) -> None:
    """Each action is a line, but a thousand of a kind are one."""
    told = [action for action in stage if not isinstance(action, Apply)]
    for kind in dict.fromkeys(type(action) for action in told):
        same = [action for action in told if type(action) is kind]
        for action in same[:LINES]:
            log.info("%s", action)
        if len(same) > LINES:
            log.info("… and %d more of that, up to: %s", len(same) - LINES, same[-1])


async def _slurm(action: SlurmAction, slurm: SlurmWriter | None) -> None:
    if slurm is None:
        raise RuntimeError(f"planned without Slurm: {action}")
    match action:
        case Drain():
            await slurm.drain(action.nodes, action.reason)
        case Undrain():
            await slurm.undrain(action.nodes)
        case UpdateNode():
            await slurm.update_node(action.node, action.changes)
        case DeleteNode():
            await slurm.delete_node(action.node)
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
