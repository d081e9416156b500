"""From stored rows to what the client asked to see: another version of the object, a table, or metadata alone.

Called by `reads`, `watch` and `writes` for every answer that carries objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import errors, tables
from .event_versions import to_core, to_new
from .registry import Kind
from .request import JSON, Request, encode
from .store import Row

Object = dict[str, Any]

_ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class Form:
    """The form that the client accepts: '' for the object itself, `Table` or `PartialObjectMetadata`."""

    name: str = ""
    include_object: str = "Metadata"


def negotiate(request: Request, kind: Kind) -> Form:
    """The first form of the Accept header that can be served; 406 when there is none."""
    accept = request.headers.get("accept", "") or "*/*"
    for media in accept.split(","):
        media_type, *parameters = [part.strip() for part in media.split(";")]
        if media_type not in {JSON, "*/*", "application/*"}:
            continue
        form = next((part.removeprefix("as=") for part in parameters if part.startswith("as=")), "")
        if form in {"", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"}:
            return Form(form.removesuffix("List"), request.query.get("includeObject", "Metadata"))
    raise errors.not_acceptable(_ACCEPTED, by_router=not kind.custom)


def to_version(kind: Kind, obj: Object) -> Object:
    """A stored object in the version of this kind."""
    if kind.stored_as and kind.group:
        return to_new(obj)
    if obj.get("apiVersion") != kind.api_version:
        return {**obj, "apiVersion": kind.api_version}
    return obj


def to_stored(kind: Kind, obj: Object) -> Object:
    """An object of this kind as it is stored."""
    if kind.stored_as and kind.group:
        return to_core(obj)
    if obj.get("apiVersion") != kind.stored_api_version:
        return {**obj, "apiVersion": kind.stored_api_version}
    return obj


def object_bytes(kind: Kind, row: Row) -> bytes:
    """One object as JSON; stored bytes are passed on where the version is the same."""
    if kind.api_version == kind.stored_api_version:
        return row.raw
    return encode(to_version(kind, row.load()))


def _item_bytes(kind: Kind, row: Row) -> bytes:
    """One item of a list: those of built-in kinds do not repeat apiVersion and kind."""
    whole = object_bytes(kind, row)
    if kind.custom:
        return whole
    head = encode({"apiVersion": kind.api_version, "kind": kind.kind})[:-1] + b","
    if whole.startswith(head):
        return b"{" + whole[len(head) :]
    obj = to_version(kind, row.load())
    return encode({key: value for key, value in obj.items() if key not in {"apiVersion", "kind"}})


def one(kind: Kind, row: Row, form: Form, now: float) -> bytes:
    """One object in the asked form."""
    if form.name == "Table":
        return encode(tables.table(kind, [to_version(kind, row.load())], now, form.include_object, str(row.revision)))
    if form.name == "PartialObjectMetadata":
        return encode(tables.partial(row.load()))
    return object_bytes(kind, row)


def many(
    kind: Kind, rows: Sequence[Row], form: Form, now: float, *, revision: int, token: str, remaining: int | None
) -> bytes:
    """A list in the asked form."""
    metadata: Object = {"resourceVersion": str(revision)}
    if token or (kind.custom and not form.name):
        metadata["continue"] = token
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    if form.name == "Table":
        objects = [to_version(kind, row.load()) for row in rows]
        return encode({**tables.table(kind, objects, now, form.include_object, ""), "metadata": metadata})
    if form.name == "PartialObjectMetadata":
        items = [tables.partial(row.load()) for row in rows]
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        # Go writes a list that was never made as null.
        return encode({**head, "items": items or None})
    head = {"kind": kind.list_name, "apiVersion": kind.api_version, "metadata": metadata}
    items_json = b",".join([_item_bytes(kind, row) for row in rows])
    return encode(head)[:-1] + b',"items":[' + items_json + b"]}"
