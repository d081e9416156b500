"""OpenAPI pages: what `kubectl explain` prints and what its validation looks up.

In: the registry and the definitions. Out: /openapi/v3 (an index and one document for each group version) and
/openapi/v2 (which says nothing). Called by `handlers`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from . import definitions
from .registry import Kind, Registry
from .request import Request, Response, encode, json_response

Object = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_V3 = "#/components/schemas/"
_ACTIONS = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}
_COLLECTION_ACTIONS = {"get": "list", "post": "post"}
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")


def page(registry: Registry, request: Request) -> Response | None:
    """The answer to an OpenAPI path."""
    path = request.path.rstrip("/")
    if path == "/openapi/v2":
        return Response(200, _empty_document(), {"Content-Type": _V2_PROTOBUF.replace("@", ".")})
    if path == "/openapi/v3":
        return json_response(
            {"paths": {_key(*gv): {"serverRelativeURL": _url(registry, *gv)} for gv in _all(registry)}}
        )
    if path.startswith("/openapi/v3/"):
        wanted = path.removeprefix("/openapi/v3/")
        found = next((gv for gv in _all(registry) if _key(*gv) == wanted), None)
        return json_response(document(registry, *found)) if found else None
    return None


def _empty_document() -> bytes:
    """A v2 document in protobuf that says nothing: kubectl only wants one before it reports an unknown kind."""
    title, version = b"slurm-operator local", definitions.release().encode()
    info = b"\x0a%c%s\x12%c%s" % (len(title), title, len(version), version)
    return b"\x0a\x032.0\x12%c%s" % (len(info), info)


def _all(registry: Registry) -> list[tuple[str, str]]:
    return [(group, version) for group, versions in registry.versions().items() for version in versions]


def _key(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _url(registry: Registry, group: str, version: str) -> str:
    parts = [encode([kind.kind, kind.plural, kind.crd_version]) for kind in registry.in_version(group, version)]
    digest = hashlib.sha256(definitions.release().encode() + b"".join(parts)).hexdigest().upper()
    return f"/openapi/v3/{_key(group, version)}?hash={digest}"


def document(registry: Registry, group: str, version: str) -> Object:
    """The OpenAPI v3 document of one group version."""
    kinds = registry.in_version(group, version)
    schemas: Object = {}
    for kind in kinds:
        if kind.custom:
            schemas[custom_name(kind)] = _custom_schema(kind)
    roots = [definitions.name_of(kind.group, kind.version, kind.kind) for kind in kinds if not kind.custom]
    schemas.update(_closure([_META, *(name for name in roots if name)]))
    return {
        "openapi": "3.0.0",
        "info": {"title": "slurm-operator local", "version": definitions.release()},
        "paths": {path: item for kind in kinds for path, item in _paths(kind)},
        "components": {"schemas": schemas},
    }


def _closure(names: Iterable[str]) -> Object:
    known = definitions.load()
    found: Object = {}
    queue = list(names)
    while queue:
        name = queue.pop()
        if name in found or name not in known:
            continue
        found[name] = _as_v3(known[name], queue)
    return found


def _as_v3(node: Any, referred: list[str]) -> Any:
    """A v2 definition with v3 references; the names that it refers to are noted."""
    if isinstance(node, list):
        return [_as_v3(item, referred) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return {key: _as_v3(value, referred) for key, value in node.items()}
    name = reference.rpartition("/")[2]
    referred.append(name)
    rest = {key: value for key, value in node.items() if key != "$ref"}
    # Siblings of a $ref are ignored by readers of v3, so the reference is wrapped.
    return {**rest, "allOf": [{"$ref": _V3 + name}]} if rest else {"$ref": _V3 + name}


def custom_name(kind: Kind) -> str:
    """The definition's name of a custom kind: its group backwards, version, kind."""
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _custom_schema(kind: Kind) -> Object:
    schema = ((kind.crd_version or {}).get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    text = {"type": "string"}
    metadata = {"allOf": [{"$ref": _V3 + _META}], "description": "Standard object's metadata."}
    properties = {"apiVersion": text, "kind": text, **(schema.get("properties") or {}), "metadata": metadata}
    return {**schema, "properties": properties, "x-kubernetes-group-version-kind": [_gvk(kind)]}


def _gvk(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _paths(kind: Kind) -> list[tuple[str, Object]]:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = f"{base}/namespaces/{{namespace}}" if kind.namespaced else base
    name = custom_name(kind) if kind.custom else definitions.name_of(kind.group, kind.version, kind.kind)
    found = [
        (f"{inside}/{kind.plural}", _item(kind, name, _COLLECTION_ACTIONS)),
        (f"{inside}/{kind.plural}/{{name}}", _item(kind, name, _ACTIONS)),
    ]
    if kind.namespaced:
        found.append((f"{base}/{kind.plural}", _item(kind, name, {"get": "list"})))
    return found


def _item(kind: Kind, schema: str | None, actions: dict[str, str]) -> Object:
    return {method: _operation(kind, schema, method, action) for method, action in actions.items()}


def _operation(kind: Kind, schema: str | None, method: str, action: str) -> Object:
    content = {"application/json": {"schema": {"$ref": f"{_V3}{schema}"} if schema else {"type": "object"}}}
    operation: Object = {
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }
    if method in {"post", "put", "patch"}:
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in _WRITE_PARAMETERS
        ]
    return operation
