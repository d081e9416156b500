"""From bytes to typed objects, lists and watch events; pure.

Called by `client`. The fast way decodes a whole page or event in one pass. Only when that fails is each object tried
alone, with nulls taken out, so that one object that nobody can read never hides the others or ends a watch. It is told
of by name: what cannot be read is there.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from kube_runtime.client.errors import BadAnswer, Status, from_status
from kube_runtime.client.objects import MAX_DEPTH_LEVELS, ObjectMeta, Resource, Slim, T, decode_hook

MAX_EVENT_BYTES = 64 * 1024 * 1024
R = TypeVar("R")

# The list, the event and the object around what is nested too deeply.
_OUTER_LEVELS = 8
_TOO_DEEP = b'"\\u0000nested too deeply"'
# Strings are one piece, so that brackets within them do not count.
_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[][{}]', re.DOTALL)
# What the decoders raise; the last one for values that are nested more deeply than the stack.
_UNFIT = (msgspec.ValidationError, RecursionError)
_FAILED = (msgspec.MsgspecError, RecursionError)


class ListMeta(Slim, frozen=True):
    """Where a list stands in time, and whether more follows."""

    resource_version: str = ""
    token: str = msgspec.field(default="", name="continue")


class _Envelope(Slim, frozen=True):
    kind: str = ""
    status: msgspec.Raw = msgspec.Raw()
    metadata: ListMeta = ListMeta()


class _Salvaged(msgspec.Struct, frozen=True):
    metadata: dict[str, Any] = {}


# By field: what is worth having of an object that cannot be read: which one it is, and whose.
_SALVAGED: dict[str, Any] = {
    field.name: field.type
    for field in msgspec.structs.fields(ObjectMeta)
    if field.name
    in {"name", "namespace", "uid", "resource_version", "deletion_timestamp", "labels", "owner_references"}
}
_CAMEL = {field.name: field.encode_name for field in msgspec.structs.fields(ObjectMeta)}


class _RawPage(Slim, frozen=True):
    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = ()


class _RawEvent(Slim, frozen=True):
    type: str
    object: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that does not fit its type: which one, and why."""

    metadata: ObjectMeta
    why: str


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    items: tuple[T, ...]
    resource_version: str
    token: str
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """An object was added or modified."""

    object: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    """An object is gone, or no longer selected; this is how it was last."""

    object: T


@dataclass(frozen=True, slots=True)
class UnreadableEvent:
    """An object that cannot be read was changed, or deleted."""

    object: Unreadable
    deleted: bool


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing happened up to this resourceVersion."""

    resource_version: str


WatchEvent = Changed[T] | Deleted[T] | UnreadableEvent | Bookmark


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """The decoders of one type."""

    one: msgspec.json.Decoder[T]
    page: msgspec.json.Decoder[Any]
    event: msgspec.json.Decoder[Any]


@lru_cache(maxsize=256)
def codec(wanted: type[T]) -> Codec[T]:
    """Decoders for a type, made once."""
    page = msgspec.defstruct(
        "Page",
        [("kind", str, ""), ("metadata", ListMeta, ListMeta()), ("items", tuple[wanted, ...] | None, ())],  # type: ignore[valid-type]
        frozen=True,
        gc=False,
    )
    event = msgspec.defstruct("Event", [("type", str), ("object", wanted)], frozen=True, gc=False)
    return Codec(
        msgspec.json.Decoder(wanted, dec_hook=decode_hook),
        msgspec.json.Decoder(page, dec_hook=decode_hook),
        msgspec.json.Decoder(event, dec_hook=decode_hook),
    )


class _ServedKind(msgspec.Struct, frozen=True):
    name: str = ""


class _ServedKinds(msgspec.Struct, frozen=True):
    resources: tuple[_ServedKind, ...] = ()


def decode_served(body: bytes) -> frozenset[str]:
    """The plural names in the discovery page of one group and version."""
    try:
        return frozenset(each.name for each in msgspec.json.decode(body, type=_ServedKinds).resources)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"discovery: the answer is not a list of kinds: {error}") from error


def decode_object(body: bytes, wanted: type[T], what: str) -> T:
    """One object; a Status where an object was asked for is an error even when the code was 200."""
    try:
        kind = msgspec.json.decode(body, type=_Envelope).kind
    except _FAILED as error:
        raise BadAnswer(f"{what}: the answer is not a JSON object: {error}") from error
    if kind == "Status":
        raise _status_instead(body, what)
    try:
        return _one(body, wanted)
    except _FAILED as error:
        raise BadAnswer(f"{what}: the object does not fit its type: {error}") from error


def _one(body: bytes, wanted: type[T]) -> T:
    try:
        item: T = codec(wanted).one.decode(body)
    except msgspec.ValidationError:
        return _leniently(body, wanted)
    return item


def decode_status(body: bytes, what: str) -> str:
    """The resourceVersion in an answer that nobody reads, if it has one; raises when it is a Failure.

    Deletes answer with an object or a Status.
    """
    try:
        status = msgspec.json.decode(body, type=_Envelope)
    except _FAILED as error:
        raise BadAnswer(f"{what}: the answer is not a JSON object: {error}") from error
    if status.kind == "Status" and b"Failure" in bytes(status.status):
        raise _status_instead(body, what)
    return status.metadata.resource_version


def _status_instead(body: bytes, what: str) -> Exception:
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        return BadAnswer(f"{what}: a broken Status came instead of the object")
    if status.status == "Failure" and status.code >= 400:
        return from_status(status.code, body, what)
    return BadAnswer(f"{what}: a Status came instead of the object: {status.message}", status=status)


def _leniently(body: bytes, wanted: type[T]) -> T:
    value = _without_nulls(msgspec.json.decode(body))
    converted: T = msgspec.convert(value, wanted, strict=False, dec_hook=decode_hook)
    return converted


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def decode_page(body: bytes, resource: Resource[T], what: str) -> Page[T]:
    """One page of a list."""
    try:
        page = codec(resource.type).page.decode(body)
    except _UNFIT:
        return _decode_page_singly(body, resource, what)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"{what}: broken JSON: {error}") from error
    _check_list(page.kind, page.metadata, body, what)
    return Page(page.items or (), page.metadata.resource_version, page.metadata.token)


def _decode_page_singly(body: bytes, resource: Resource[T], what: str) -> Page[T]:
    try:
        page = _outer(body, _RawPage)
    except _FAILED as error:
        raise BadAnswer(f"{what}: the answer is not a list: {error}") from error
    _check_list(page.kind, page.metadata, body, what)
    good: list[T] = []
    bad: list[Unreadable] = []
    for raw in page.items or ():
        item = _readable(bytes(raw), resource)
        if not item.metadata.name:
            # Nobody can tell what is missing from a list that holds something without a name.
            raise BadAnswer(f"{what}: the list has an item without a name")
        if isinstance(item, Unreadable):
            bad.append(item)
        else:
            good.append(item)
    return Page(tuple(good), page.metadata.resource_version, page.metadata.token, tuple(bad))


def _check_list(kind: str, metadata: ListMeta, body: bytes, what: str) -> None:
    if kind == "Status":
        raise _status_instead(body, what)
    if not kind.endswith("List") or not metadata.resource_version:
        raise BadAnswer(f"{what}: a {kind or 'object without a kind'} came instead of a list")


def _outer(body: bytes, wanted: type[R]) -> R:
    """Only what is around the objects; too deep a value within them is cut out, and its object is found unreadable."""
    try:
        return msgspec.json.decode(body, type=wanted)
    except RecursionError:
        return msgspec.json.decode(b"".join(_cut(body)), type=wanted)


def _cut(body: bytes) -> Iterator[bytes]:
    """The same JSON without the values that are nested too deeply."""
    depth, copied = 0, 0
    for token in _BRACKETS.finditer(body):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth == MAX_DEPTH_LEVELS + _OUTER_LEVELS:
                yield body[copied : token.start()]
        elif token[0] in (b"]", b"}"):
            if depth == MAX_DEPTH_LEVELS + _OUTER_LEVELS:
                yield _TOO_DEEP
                copied = token.end()
            depth -= 1
    yield body[copied:]


def _readable(body: bytes, resource: Resource[T]) -> "T | Unreadable":
    try:
        if _TOO_DEEP in body:
            raise RecursionError(f"nested deeper than {MAX_DEPTH_LEVELS} levels")
        return _one(body, resource.type)
    except _FAILED as error:
        return Unreadable(_metadata_of(body), f"{resource.kind}: {error}")


def _metadata_of(body: bytes) -> ObjectMeta:
    """As much of the metadata as can be read: at least which object it is."""
    try:
        found = msgspec.json.decode(body, type=_Salvaged).metadata
    except _FAILED:
        return ObjectMeta()
    return ObjectMeta(**{name: value for name in _SALVAGED if (value := _field(found, name)) is not None})


def _field(found: dict[str, Any], name: str) -> Any:
    try:
        return msgspec.convert(found.get(_CAMEL[name]), _SALVAGED[name], strict=False)
    except _FAILED:
        return None


def decode_event(line: bytes, resource: Resource[T], what: str) -> "WatchEvent[T]":
    """One line of a watch; an ERROR event raises the error that it carries."""
    try:
        event = codec(resource.type).event.decode(line)
        kind, item = event.type, event.object
    except _UNFIT:
        return _decode_event_slowly(line, resource, what)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"{what}: broken event: {error}") from error
    if kind in {"ADDED", "MODIFIED"}:
        return Changed(_named(item, what))
    if kind == "DELETED":
        return Deleted(_named(item, what))
    if kind == "BOOKMARK":
        return Bookmark(item.metadata.resource_version)
    return _decode_event_slowly(line, resource, what)


def _named(item: T, what: str) -> T:
    if not item.metadata.name:
        raise BadAnswer(f"{what}: an event without an object")
    return item


def _decode_event_slowly(line: bytes, resource: Resource[T], what: str) -> "WatchEvent[T]":
    try:
        event = _outer(line, _RawEvent)
    except _FAILED as error:
        raise BadAnswer(f"{what}: not a watch event: {error}") from error
    body = bytes(event.object)
    if event.type == "ERROR":
        raise _error_event(body, what)
    if event.type == "BOOKMARK":
        return Bookmark(_metadata_of(body).resource_version)
    if event.type not in {"ADDED", "MODIFIED", "DELETED"}:
        raise BadAnswer(f"{what}: unknown event type {event.type!r}")
    item = _readable(body, resource)
    gone = event.type == "DELETED"
    if isinstance(item, Unreadable):
        if not item.metadata.name:
            raise BadAnswer(f"{what}: an event without an object")
        return UnreadableEvent(item, gone)
    return Deleted(_named(item, what)) if gone else Changed(_named(item, what))


def _error_event(body: bytes, what: str) -> Exception:
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        return BadAnswer(f"{what}: an error event without a Status")
    return from_status(status.code or 500, body, what)


async def split_lines(
    chunks: AsyncIterator[bytes], what: str, *, whole: bool = True, limit: int = MAX_EVENT_BYTES
) -> AsyncGenerator[bytes, None]:
    """Split a stream into lines of any length up to `limit`; `whole` refuses a last line without its end.

    aiohttp's own readline refuses long lines, and an object may have a megabyte.
    """
    held: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            full = b"".join([*held, line]) if held else line
            held, size = [], 0
            if full:
                yield full
        if rest:
            held.append(rest)
            size += len(rest)
        if size > limit:
            raise BadAnswer(f"{what}: a line is longer than {limit} bytes")
    if held and whole:
        raise BadAnswer(f"{what}: the stream ended within a line")
    if held:
        yield b"".join(held)
