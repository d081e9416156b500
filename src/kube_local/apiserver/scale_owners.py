"""Who owns the replicas of an object after it was scaled. Pure; called by `writes`.

In: the managedFields before, where replicas are, their old and new number, who scales. Out: the managedFields after.
A Scale is tracked as an object of its own, of another API version, and zero replicas are not written in it; hence:

- scaling takes ownership over, it does not found it: where nobody owns replicas, nobody will;
- scaling to zero makes all owners lose it and nobody gain it;
- an unchanged number leaves the owners, but an updater's ownership moves to an entry of its own, without a time;
- of two entries of one manager, which only the previous rule makes, the later one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Entry = dict[str, Any]


def owners_after_scaling(
    entries: Sequence[Entry], path: Sequence[str], before: int, after: int, scaler: Mapping[str, str]
) -> list[Entry]:
    """The entries after `scaler` (manager and apiVersion) wrote `after` where `before` was."""
    keys = [f"f:{part}" for part in path]
    entries = list({_identity(entry): entry for entry in entries}.values())
    if not any(_has(entry.get("fieldsV1"), keys) for entry in entries):
        return entries
    made = [piece for entry in entries for piece in _pieces(entry, keys, kept=before == after)]
    if after and before != after:
        made.append({**scaler, "operation": "Update", **_replicas_only(keys), "subresource": "scale"})
    return sorted(made, key=lambda entry: (entry["operation"], entry.get("time") or ""))


def _identity(entry: Entry) -> tuple[str, ...]:
    """An applier is one whatever version it applies in."""
    version = "" if entry["operation"] == "Apply" else entry.get("apiVersion", "")
    return entry.get("manager", ""), entry["operation"], version, entry.get("subresource", "")


def _pieces(entry: Entry, keys: list[str], *, kept: bool) -> Iterator[Entry]:
    """What becomes of one entry: whole, without replicas, or split in two."""
    if not _has(entry.get("fieldsV1"), keys) or (kept and entry["operation"] == "Apply"):
        yield entry
        return
    if kept:
        timeless = {key: value for key, value in entry.items() if key not in {"time", "fieldsV1"}}
        yield timeless | _replicas_only(keys)
    rest = _without(entry["fieldsV1"], keys)
    if rest:
        yield {**entry, "fieldsV1": rest}


def _replicas_only(keys: list[str]) -> Entry:
    fields: Entry = {}
    for key in reversed(keys):
        fields = {key: fields}
    return {"fieldsType": "FieldsV1", "fieldsV1": fields}


def _has(fields: Any, keys: list[str]) -> bool:
    for key in keys:
        fields = fields.get(key) if isinstance(fields, dict) else None
    return fields is not None


def _without(fields: Entry, keys: list[str]) -> Entry:
    """The field set without one field, and without what is empty then."""
    first, *more = keys
    rest = {key: value for key, value in fields.items() if key != first}
    below = _without(fields[first], more) if more else {}
    return {**rest, first: below} if below else rest
