"""metadata.managedFields: read, written back and sorted.

In: the entries of an object. Out: `Ownership` by `Owner`, and entries again. Called by `apply` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .field_sets import FieldSet

APPLY, UPDATE = "Apply", "Update"


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """Who: the name of a client, how it writes, and through which door. Appliers are one owner in all versions."""

    manager: str
    operation: str
    version: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        """As kube-apiserver names it in a conflict."""
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.version}" if self.operation == UPDATE else text


@dataclass(frozen=True, slots=True)
class Ownership:
    """What an owner owns, in which version it said so, and when its set last changed."""

    fields: FieldSet
    version: str
    time: str | None = None

    def owning(self, fields: FieldSet) -> Ownership:
        return replace(self, fields=fields)


Owners = dict[Owner, Ownership]


def owner(manager: str, operation: str, version: str, subresource: str) -> Owner:
    return Owner(manager or "unknown", operation, "" if operation == APPLY else version, subresource)


def read(entries: Any) -> Owners:
    """The owners of an object. ValueError where the entries are not well formed."""
    owners: Owners = {}
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(entry, dict):
            raise ValueError(f"managed fields entry {index} is not an object")  # noqa: TRY004
        operation, version = entry.get("operation"), entry.get("apiVersion")
        if operation not in (APPLY, UPDATE):
            raise ValueError("operation must be `Apply` or `Update`")
        if not version:
            raise ValueError("apiVersion must not be empty")
        if entry.get("fieldsType") != "FieldsV1":
            raise ValueError(_fields_type_problem(entry.get("fieldsType"), index))
        who = Owner(
            str(entry.get("manager") or ""),
            operation,
            "" if operation == APPLY else str(version),
            str(entry.get("subresource") or ""),
        )
        fields = FieldSet.from_fields_v1(entry.get("fieldsV1") or {})
        owners[who] = Ownership(fields, str(version), entry.get("time"))
    return owners


def _fields_type_problem(fields_type: Any, index: int) -> str:
    if not fields_type:
        return f"missing fieldsType in managed fields entry {index}"
    return f'invalid fieldsType "{fields_type}" in managed fields entry {index}'


def is_reset(entries: Any) -> bool:
    """An empty list, or one empty entry: the client wants ownership forgotten."""
    return entries in ([], [{}])


def write(owners: Owners) -> list[dict[str, Any]]:
    """Entries in the order of Kubernetes: appliers first, then by time and name."""

    def order(item: tuple[Owner, Ownership]) -> tuple[str, ...]:
        who, what = item
        return (who.operation, what.time or "", who.manager, what.version, who.subresource)

    return [_entry(who, what) for who, what in sorted(owners.items(), key=order)]


def _entry(who: Owner, what: Ownership) -> dict[str, Any]:
    entry: dict[str, Any] = {"manager": who.manager, "operation": who.operation, "apiVersion": what.version}
    if what.time is not None:
        entry["time"] = what.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = what.fields.to_fields_v1()
    if who.subresource:
        entry["subresource"] = who.subresource
    return entry
