"""What a reconcile says of its resource: the one form of every status.

In: conditions before they have a time, and further fields. Out: a status, written when it differs. Called last of all
by the reconcile of each kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kube_runtime.client.objects import RawObject
from kube_runtime.clock import Clock
from kube_runtime.times import time_text
from slurm_operator.api.meta import API_VERSION, Condition
from slurm_operator.build import labels
from slurm_operator.reconcile.execute import Executor
from slurm_operator.status.conditions import ConditionDraft, conditions


async def write_status(
    executor: Executor,
    clock: Clock,
    kind: str,
    raw: RawObject,
    drafts: Iterable[ConditionDraft],
    fields: Mapping[str, Any],
) -> None:
    """Write a status; conditions that stand there and stay as they are keep their times."""
    written = _with_times(raw, clock, drafts)
    status = {**fields, "observedGeneration": raw.metadata.generation, "conditions": written}
    await _write(executor, kind, raw, status)


def held_fields(raw: RawObject) -> dict[str, Any]:
    """What a status says beside its conditions: it stays while nothing newer was found out."""
    held = raw.content().get("status")
    known = held.items() if isinstance(held, dict) else ()
    return {key: value for key, value in known if key not in ("conditions", "observedGeneration")}


async def write_unreconciled_status(
    executor: Executor, clock: Clock, kind: str, raw: RawObject, drafts: Iterable[ConditionDraft]
) -> None:
    """Write the conditions of a resource that was not reconciled; the rest of its status is what was known last.

    `observedGeneration` stays too: nobody has acted on a newer one.
    """
    held = raw.content().get("status") or {}
    fields = {**_required(kind, raw.metadata.name), **(held if isinstance(held, dict) else {})}
    await _write(executor, kind, raw, {**fields, "conditions": _with_times(raw, clock, drafts)})


def _with_times(raw: RawObject, clock: Clock, drafts: Iterable[ConditionDraft]) -> list[dict[str, Any]]:
    return conditions(_written_conditions(raw), drafts, raw.metadata.generation, time_text(clock.now()))


async def _write(executor: Executor, kind: str, raw: RawObject, status: Mapping[str, Any]) -> None:
    meta = raw.metadata
    place = {"name": meta.name, "namespace": meta.namespace}
    await executor.status({"apiVersion": API_VERSION, "kind": kind, "metadata": place, "status": dict(status)}, raw)


def _required(kind: str, name: str) -> dict[str, object]:
    """Fields without which the API server takes no status."""
    match kind:
        case "NodeSet":
            return {"nodeSetHash": "", "selector": labels.selector_text(labels.WORKER, name)}
        case "LoginSet":
            return {"selector": labels.selector_text(labels.LOGIN, name)}
        case _:
            return {}


def _written_conditions(raw: RawObject) -> tuple[Condition, ...]:
    """The conditions as they are written, also those of a resource that is otherwise unreadable."""
    try:
        found = (raw.content().get("status") or {}).get("conditions") or ()
        return msgspec.convert(found, tuple[Condition, ...])
    except msgspec.ValidationError:
        return ()
