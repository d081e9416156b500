"""What a turn says of its resource: the one form of every status.

In: conditions before they have a time, and further fields. Out: a status, written when it differs. Called last of all
by the turn of each kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kube_runtime.client.objects import RawObject
from kube_runtime.loop.clock import Clock
from kube_runtime.times import time_text
from slurm_operator.api.meta import API_VERSION, Condition
from slurm_operator.build import labels
from slurm_operator.reconcile.execute import Executor
from slurm_operator.status.conditions import Statement, conditions


async def say(
    executor: Executor,
    clock: Clock,
    kind: str,
    raw: RawObject,
    before: Iterable[Condition],
    said: Iterable[Statement],
    fields: Mapping[str, Any],
) -> None:
    """Write a status; `before` are the conditions that stand there, whose times are kept.

    Of a resource that could not be read they are not known to the caller: then they are taken as they are written.
    """
    dated = _dated(raw, clock, tuple(before) or _standing(raw), said)
    status = {**fields, "observedGeneration": raw.metadata.generation, "conditions": dated}
    await _write(executor, kind, raw, status)


def held_fields(raw: RawObject) -> dict[str, Any]:
    """What a status says beside its conditions: it stays while nothing newer was found out."""
    held = raw.content().get("status")
    known = held.items() if isinstance(held, dict) else ()
    return {key: value for key, value in known if key not in ("conditions", "observedGeneration")}


async def say_unreconciled(
    executor: Executor, clock: Clock, kind: str, raw: RawObject, said: Iterable[Statement]
) -> None:
    """Write the conditions of a resource that was not reconciled; the rest of its status is what was known last.

    `observedGeneration` stays too: nobody has acted on a newer one.
    """
    held = raw.content().get("status") or {}
    fields = {**_required(kind, raw.metadata.name), **(held if isinstance(held, dict) else {})}
    await _write(executor, kind, raw, {**fields, "conditions": _dated(raw, clock, _standing(raw), said)})


def _dated(
    raw: RawObject, clock: Clock, before: Iterable[Condition], said: Iterable[Statement]
) -> list[dict[str, Any]]:
    return conditions(before, said, raw.metadata.generation, time_text(clock.now()))


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


def _standing(raw: RawObject) -> tuple[Condition, ...]:
    try:
        found = (raw.content().get("status") or {}).get("conditions") or ()
        return msgspec.convert(found, tuple[Condition, ...])
    except msgspec.ValidationError:
        return ()
