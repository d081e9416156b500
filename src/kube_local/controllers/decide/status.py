"""Statuses as they are written: conditions that keep their times, patches that say only what changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from kube_local.controllers.objects import Json
from kube_runtime.times import time_text


def condition(kind: str, status: str, reason: str, message: str) -> Json:
    """A condition without its times."""
    return {"type": kind, "status": status, "reason": reason, "message": message}


def with_conditions(old: Iterable[Mapping[str, Any]], new: Iterable[Json], now: datetime) -> list[Json]:
    """The old conditions with the new ones in their places; a time moves only when the status does."""
    merged: dict[str, Json] = {str(one.get("type")): dict(one) for one in old}
    for one in new:
        before = merged.get(one["type"], {})
        kept = before.get("lastTransitionTime") if before.get("status") == one["status"] else None
        merged[one["type"]] = {**before, **one, "lastTransitionTime": kept or time_text(now)}
    return list(merged.values())


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """The merge patch that turns one mapping into the other; empty when they are equal."""
    patch: Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if below := difference(before, value):
                patch[key] = below
        elif before != value:
            patch[key] = value
    return patch


def share(amount: int | str | None, total: int, *, up: bool) -> int:
    """A number, or a percentage of `total` rounded as asked; nonsense counts as nothing."""
    if amount is None or isinstance(amount, int):
        return amount or 0
    text = amount.removesuffix("%")
    if not text.isdecimal():
        return 0
    whole, rest = divmod(int(text) * total, 100)
    return whole + (1 if up and rest else 0)
