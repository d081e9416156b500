"""A request and its answer, without sockets. `http` makes them from aiohttp, campaigns make them by hand.

`resolve` turns a path into what is asked for: a resource with namespace, name and subresource, or a plain page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from . import errors, protobuf
from .registry import Kind, Registry

JSON = "application/json"
BODY_LIMIT = 3 * 1024 * 1024
_READABLE = f"application/json, application/yaml, {protobuf.MEDIA_TYPE}"
_decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Response:
    """Status, headers, warnings for the user, and either a whole body or a stream of chunks."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": JSON})
    stream: AsyncIterator[bytes] | None = None
    warnings: list[str] = field(default_factory=list)

    def json(self) -> Any:
        """The decoded body."""
        return _decode(self.body)


def json_response(value: Any, status: int = 200) -> Response:
    """A body that is encoded here; bytes are taken as JSON already."""
    body = value if isinstance(value, bytes) else encode(value)
    return Response(status, body)


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str = "admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes | Mapping[str, Any] | list[Any] | None
    user: User = User()
    # What the client should be told beside the answer, good or bad.
    warnings: list[str] = field(default_factory=list)

    @property
    def dry_run(self) -> bool:
        """Everything happens but the commit."""
        return self.query.get("dryRun") == "All"

    @property
    def manager(self) -> str:
        """Who owns the fields that this request sets."""
        agent = self.headers.get("user-agent", "").partition("/")[0]
        return self.query.get("fieldManager") or agent or "unknown"

    @property
    def content_type(self) -> str:
        """The type of the body, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def flag(self, name: str) -> bool:
        """A boolean query parameter."""
        return self.query.get(name, "").lower() in {"true", "1", "t"}


class _PlainYaml(yaml.SafeLoader):
    """YAML as Kubernetes reads it: times stay text."""


_PlainYaml.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def decode_body(request: Request, *, expected: str) -> Any:
    """The body as plain data, from JSON or YAML; raises 400, 413 or 415."""
    body = request.body
    if body is None or not isinstance(body, bytes):
        # In-process callers hand over data: a round trip keeps them from sharing it with the store.
        return _decode(encode(body)) if body is not None else {}
    if len(body) > BODY_LIMIT:
        raise errors.ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")
    if not body.strip():
        return {}
    kind = request.content_type
    if kind not in {"", JSON, "*/*", protobuf.MEDIA_TYPE} and not kind.endswith(("+json", "+yaml", "/yaml")):
        raise errors.unsupported_media_type(_READABLE)
    try:
        if kind == protobuf.MEDIA_TYPE:
            return protobuf.decode(body)
        return yaml.load(body, _PlainYaml) if kind.endswith("yaml") else _decode(body)  # noqa: S506 - a SafeLoader
    except protobuf.Unreadable as error:
        raise errors.bad_request(str(error)) from error
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {expected}): "
            f"couldn't get version/kind; json parse error: {error}"
        ) from error


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names."""

    kind: Kind
    namespace: str
    name: str
    subresource: str

    @property
    def all_namespaces(self) -> bool:
        """A namespaced kind asked for without a namespace."""
        return self.kind.namespaced and not self.namespace


def resolve(registry: Registry, path: str) -> Target | None:
    """The resource behind a path; None when it is none: an unknown kind, or a page such as /version."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    return _resource(registry, group, version, rest)


def _resource(registry: Registry, group: str, version: str, rest: list[str]) -> Target | None:
    namespace = ""
    # /namespaces/NAME and its subresources are the namespace itself, not something in it.
    if rest and rest[0] == "namespaces" and len(rest) > 2 and not _own_subresource(registry, group, version, rest):
        namespace, rest = rest[1], rest[2:]
    if not rest:
        return None
    kind = registry.find(group, version, rest[0])
    if kind is None or (namespace and not kind.namespaced):
        return None
    name, subresource = [*rest[1:3], ""][0], [*rest[2:3], ""][0]
    if name and kind.namespaced and not namespace:
        return None
    return Target(kind, namespace, name, subresource)


def _own_subresource(registry: Registry, group: str, version: str, rest: list[str]) -> bool:
    kind = registry.find(group, version, "namespaces")
    return kind is not None and len(rest) == 3 and rest[2] in kind.subresources
