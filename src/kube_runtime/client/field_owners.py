"""Fields that another program has set by updates, made ours, so that an apply leaves nothing of them behind.

In: the managedFields of an object and a path in it. Out: the same with everything below that path owned by our applies.
A server merges what is applied into what others have set: without this, a volume would have both their source and
ours, which is refused. kubectl moves from updates to applies in the same way. Called by `Writer.take_fields`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Entry: TypeAlias = Mapping[str, Any]
Fields: TypeAlias = Mapping[str, Any]
APPLY, UPDATE = "Apply", "Update"


def taken(entries: Sequence[Entry], path: Sequence[str], manager: str, api_version: str) -> list[Entry] | None:
    """The managedFields to write; None when no update owns anything there."""
    steps = [f"f:{step}" for step in path]
    found = [_below(_fields(entry), steps) for entry in entries if _is_update(entry)]
    if not any(found):
        return None
    mine = next((entry for entry in entries if _is_ours(entry, manager, api_version)), None)
    fields = _fields(mine) if mine is not None else {}
    for each in found:
        fields = _united(fields, _at(steps, each)) if each else fields
    times = [str(entry["time"]) for entry in entries if entry.get("time")]
    own = {
        "manager": manager,
        "operation": APPLY,
        "apiVersion": api_version,
        **({"time": max(times)} if times else {}),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    rest = [_without(entry, steps) if _is_update(entry) else entry for entry in entries if entry is not mine]
    return [own, *(entry for entry in rest if _fields(entry))]


def _fields(entry: Entry) -> Fields:
    found: Fields = entry.get("fieldsV1") or {}
    return found


def _is_update(entry: Entry) -> bool:
    return entry.get("operation") == UPDATE and not entry.get("subresource")


def _is_ours(entry: Entry, manager: str, api_version: str) -> bool:
    who = (entry.get("manager"), entry.get("operation"), entry.get("apiVersion"), entry.get("subresource", ""))
    return who == (manager, APPLY, api_version, "")


def _below(fields: Fields, steps: Sequence[str]) -> Fields:
    for step in steps:
        fields = fields.get(step) or {}
    return fields


def _at(steps: Sequence[str], fields: Fields) -> Fields:
    for step in reversed(steps):
        fields = {step: fields}
    return fields


def _united(one: Fields, other: Fields) -> Fields:
    return {**one, **{key: _united(one.get(key) or {}, value) for key, value in other.items()}}


def _without(entry: Entry, steps: Sequence[str]) -> Entry:
    return {**entry, "fieldsV1": _cut(_fields(entry), steps)}


def _cut(fields: Fields, steps: Sequence[str]) -> Fields:
    """The fields without those below the last step; what is empty then is gone too."""
    first, *rest = steps
    if first not in fields:
        return fields
    inner = _cut(fields[first], rest) if rest else {}
    return {key: inner if key == first else value for key, value in fields.items() if key != first or inner}
