"""Every request to the API server, built without sending it.

In: a resource descriptor and what to do with it. Out: a frozen `Request`, which says of itself whether repeating it
is harmless. `client` and `remote` call it, `transport` sends what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

import msgspec

from kube_runtime.client.objects import LEASES, Resource

JSON = "application/json"
# For what nobody reads: the object without spec and status, from a server that can.
METADATA_ONLY = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1, {JSON}"
APPLY = "application/apply-patch+yaml"  # JSON is YAML
MERGE_PATCH = "application/merge-patch+json"

Query = tuple[tuple[str, str], ...]


class Repeat(Enum):
    """When a request may be sent again."""

    ALWAYS = "reading changes nothing"
    UNPROCESSED = "the first one was certainly not acted on"
    NEVER = "a second one could do harm; the reconciler decides"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request; `what` names it in errors and metrics, `fence` raises when it may not be sent any more."""

    method: str
    path: str
    what: str
    repeat: Repeat
    query: Query = ()
    content_type: str = ""
    body: bytes = b""
    accept: str = JSON
    stream: bool = False
    seconds: float | None = None
    fence: Callable[[], None] | None = None

    @property
    def is_urgent(self) -> bool:
        """Whether it waits behind no other: whoever renews its lease too late has to stop."""
        return self.path.startswith(f"/apis/{LEASES.group}/")

    def __repr__(self) -> str:
        # The body may be a Secret.
        return f"Request({self.what}, {len(self.body)} bytes)"


def path_of(resource: Resource[Any], namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The URL path of a collection, an object or a part of it. Every segment is quoted: a name is never a path."""
    parts = ["apis", resource.group] if resource.group else ["api"]
    parts.append(resource.version)
    if resource.namespaced and namespace:
        parts += ["namespaces", namespace]
    parts.append(resource.plural)
    if name:
        parts.append(name)
    if subresource:
        parts.append(subresource)
    return "/" + "/".join(_segment(part) for part in parts)


@lru_cache(maxsize=4096)
def _segment(text: str) -> str:
    if text in {".", ".."}:
        raise ValueError(f"{text!r} is not a name")
    return quote(text, safe="")


def _object(
    method: str,
    resource: Resource[Any],
    namespace: str,
    name: str,
    subresource: str = "",
    *,
    repeat: Repeat,
    query: Query = (),
    content_type: str = "",
    body: Any = None,
    verb: str = "",
) -> Request:
    # Without these, an empty name would turn the delete of one object into the delete of them all.
    if not name:
        raise ValueError(f"{verb or method} of a {resource.kind} needs a name")
    if resource.namespaced and not namespace:
        raise ValueError(f"{verb or method} of {resource.kind} {name!r} needs a namespace")
    where = f"{namespace}/{name}" if resource.namespaced else name
    part = f"/{subresource}" if subresource else ""
    return Request(
        method=method,
        path=path_of(resource, namespace, name, subresource),
        what=f"{verb or method.lower()} {resource.plural}{part} {where}",
        repeat=repeat,
        query=query,
        content_type=content_type,
        body=b"" if body is None else msgspec.json.encode(body),
    )


class Selection(TypedDict, total=False):
    """Which objects of a collection."""

    label_selector: str
    field_selector: str


class WriteOptions(TypedDict, total=False):
    """How to write."""

    subresource: str
    field_manager: str
    dry_run: bool


class DeleteOptions(TypedDict, total=False):
    """What to delete, and how."""

    uid: str
    resource_version: str
    propagation: str
    grace_seconds: int | None
    dry_run: bool


class LogOptions(TypedDict, total=False):
    """Which lines of a log."""

    container: str
    follow: bool
    tail: int | None
    limit_bytes: int | None
    previous: bool
    timestamps: bool
    since_seconds: int | None


def _write_query(options: WriteOptions, *, force: bool = False) -> Query:
    wanted = {
        "fieldManager": options.get("field_manager", ""),
        "force": "true" if force else "",
        "dryRun": "All" if options.get("dry_run") else "",
    }
    return tuple((key, value) for key, value in wanted.items() if value)


def _selectors(selection: Selection) -> list[tuple[str, str]]:
    wanted = (
        ("labelSelector", selection.get("label_selector", "")),
        ("fieldSelector", selection.get("field_selector", "")),
    )
    return [(key, value) for key, value in wanted if value]


def get(resource: Resource[Any], namespace: str, name: str, subresource: str = "") -> Request:
    """Read one object or one of its subresources."""
    return _object("GET", resource, namespace, name, subresource, repeat=Repeat.ALWAYS)


def discovery(resource: Resource[Any]) -> Request:
    """Read which kinds the resource's group has."""
    path, _, _ = path_of(resource).rpartition("/")
    return Request(method="GET", path=path, what=f"discovery of {resource.plural}", repeat=Repeat.ALWAYS)


def list_page(
    resource: Resource[Any], namespace: str = "", *, limit: int = 0, token: str = "", **selection: Unpack[Selection]
) -> Request:
    """Read one page of a collection; `token` continues an earlier page."""
    pairs = _selectors(selection)
    pairs += [("limit", str(limit))] if limit else []
    pairs += [("continue", token)] if token else []
    return Request(
        method="GET",
        path=path_of(resource, namespace),
        what=f"list {resource.plural}",
        repeat=Repeat.ALWAYS,
        query=tuple(pairs),
    )


def watch(
    resource: Resource[Any],
    namespace: str = "",
    *,
    resource_version: str,
    seconds: int,
    **selection: Unpack[Selection],
) -> Request:
    """Follow a collection from a resourceVersion for `seconds`, with bookmarks."""
    pairs = [
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", resource_version),
        ("timeoutSeconds", str(seconds)),
        *_selectors(selection),
    ]
    return Request(
        method="GET",
        path=path_of(resource, namespace),
        what=f"watch {resource.plural}",
        repeat=Repeat.ALWAYS,
        query=tuple(pairs),
        stream=True,
    )


def create(
    resource: Resource[Any], namespace: str, body: Mapping[str, Any], **options: Unpack[WriteOptions]
) -> Request:
    """Create one object."""
    if resource.namespaced and not namespace:
        raise ValueError(f"create of a {resource.kind} needs a namespace")
    name = body.get("metadata", {}).get("name", "")
    return Request(
        method="POST",
        path=path_of(resource, namespace),
        what=f"create {resource.plural} {namespace}/{name}" if namespace else f"create {resource.plural} {name}",
        repeat=Repeat.NEVER,
        query=_write_query(options),
        content_type=JSON,
        body=msgspec.json.encode(body),
    )


def replace(
    resource: Resource[Any], namespace: str, name: str, body: Mapping[str, Any], **options: Unpack[WriteOptions]
) -> Request:
    """Put a whole object in place of another; harmless to repeat only with a resourceVersion in it."""
    versioned = bool(body.get("metadata", {}).get("resourceVersion"))
    return _object(
        "PUT",
        resource,
        namespace,
        name,
        options.get("subresource", ""),
        repeat=Repeat.UNPROCESSED if versioned else Repeat.NEVER,
        query=_write_query(options),
        content_type=JSON,
        body=body,
        verb="update",
    )


def apply(
    resource: Resource[Any],
    namespace: str,
    name: str,
    body: Mapping[str, Any],
    *,
    force: bool = True,
    **options: Unpack[WriteOptions],
) -> Request:
    """Server-side apply: own exactly these fields."""
    if not options.get("field_manager"):
        raise ValueError("apply needs the name of a field manager")
    return _object(
        "PATCH",
        resource,
        namespace,
        name,
        options.get("subresource", ""),
        repeat=Repeat.UNPROCESSED,
        query=_write_query(options, force=force),
        content_type=APPLY,
        body={"apiVersion": resource.api_version, "kind": resource.kind, **body},
        verb="apply",
    )


def patch(
    resource: Resource[Any], namespace: str, name: str, body: Mapping[str, Any], **options: Unpack[WriteOptions]
) -> Request:
    """Merge a patch into one object (RFC 7386)."""
    return _object(
        "PATCH",
        resource,
        namespace,
        name,
        options.get("subresource", ""),
        repeat=Repeat.NEVER,
        query=_write_query(options),
        content_type=MERGE_PATCH,
        body=body,
        verb="patch",
    )


def delete(resource: Resource[Any], namespace: str, name: str, **options: Unpack[DeleteOptions]) -> Request:
    """Delete one object, only while it is the one that was seen. Without a uid it is never repeated."""
    return _object(
        "DELETE",
        resource,
        namespace,
        name,
        repeat=Repeat.UNPROCESSED if options.get("uid") else Repeat.NEVER,
        content_type=JSON,
        body=_delete_body(options),
    )


def _delete_body(options: DeleteOptions) -> dict[str, Any]:
    seen = {"uid": options.get("uid"), "resourceVersion": options.get("resource_version")}
    wanted: dict[str, Any] = {
        "preconditions": {key: value for key, value in seen.items() if value} or None,
        "propagationPolicy": options.get("propagation") or None,
        "gracePeriodSeconds": options.get("grace_seconds"),
        "dryRun": ["All"] if options.get("dry_run") else None,
    }
    given = {key: value for key, value in wanted.items() if value is not None}
    return {"apiVersion": "v1", "kind": "DeleteOptions", **given}


def logs(pods: Resource[Any], namespace: str, name: str, **options: Unpack[LogOptions]) -> Request:
    """Read what a container printed."""
    tail, since, limit = options.get("tail"), options.get("since_seconds"), options.get("limit_bytes")
    wanted = {
        "container": options.get("container", ""),
        "follow": "true" if options.get("follow") else "",
        "tailLines": "" if tail is None else str(tail),
        "limitBytes": "" if limit is None else str(limit),
        "previous": "true" if options.get("previous") else "",
        "timestamps": "true" if options.get("timestamps") else "",
        "sinceSeconds": "" if since is None else str(since),
    }
    query = tuple((key, value) for key, value in wanted.items() if value)
    request = _object("GET", pods, namespace, name, "log", repeat=Repeat.ALWAYS, query=query, verb="logs")
    return msgspec.structs.replace(request, accept="*/*", stream=True)


def run_in_pod(
    pods: Resource[Any], namespace: str, name: str, command: Sequence[str], *, container: str, stdin: bool
) -> Request:
    """Open a websocket that runs a command in a container. The command is a list: no shell takes part."""
    query = [("command", arg) for arg in command]
    query += [("container", container)] if container else []
    query += [("stdin", "true")] if stdin else []
    query += [("stdout", "true"), ("stderr", "true")]
    request = _object("GET", pods, namespace, name, "exec", repeat=Repeat.NEVER, query=tuple(query), verb="exec")
    # There is no JSON to be had here: asked for it, an API server answers 406.
    return msgspec.structs.replace(request, accept="*/*")
