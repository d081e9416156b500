"""What the server serves, told to clients: /api, /apis, /version and the health pages.

In: the registry and a path. Out: a response, or None when the page is not one of these. Called by `handlers`.
"""

from __future__ import annotations

from typing import Any

from . import definitions
from .registry import Kind, Registry
from .request import Request, Response, json_response

Object = dict[str, Any]

_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_SUBRESOURCE_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "eviction": ("policy", "v1", "Eviction"),
    "binding": ("", "v1", "Binding"),
    "exec": ("", "v1", "PodExecOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
}
_SUBRESOURCE_VERBS = {
    "eviction": ("create",),
    "binding": ("create",),
    "exec": ("create", "get"),
    "portforward": ("create", "get"),
    "log": ("get",),
}


def page(registry: Registry, request: Request, address: str) -> Response | None:
    """The answer to a discovery path."""
    path = request.path.rstrip("/") or "/"
    if path in _HEALTH:
        return Response(200, b"ok", {"Content-Type": "text/plain; charset=utf-8"})
    if path == "/version":
        return json_response(version())
    if path in {"/api", "/apis"}:
        return _root(registry, path, address)
    if path == "/":
        return json_response(
            {"paths": ["/api", "/api/v1", "/apis", "/healthz", "/openapi/v2", "/openapi/v3", "/version"]}
        )
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) == 2:
        return _resources(registry, "", parts[1])
    if parts[0] == "apis" and len(parts) == 2:
        return _group_page(registry, parts[1])
    return _resources(registry, parts[1], parts[2]) if parts[0] == "apis" and len(parts) == 3 else None


def version() -> Object:
    """The version that clients adapt to: that of the definitions which are served."""
    release = definitions.release().lstrip("v")
    major, minor, *_ = [*release.split("."), "0", "0"]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{release}+slurm-operator",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def _root(registry: Registry, path: str, address: str) -> Response:
    if path == "/api":
        where = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        return json_response({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": where})
    groups = [_group(registry, group) for group in registry.versions() if group]
    return json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})


def _group(registry: Registry, group: str) -> Object:
    versions = [{"groupVersion": f"{group}/{one}", "version": one} for one in registry.versions()[group]]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _group_page(registry: Registry, group: str) -> Response | None:
    if not group or group not in registry.versions():
        return None
    return json_response({"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)})


def _resources(registry: Registry, group: str, version_name: str) -> Response | None:
    kinds = registry.in_version(group, version_name)
    if not kinds:
        return None
    resources = [entry for kind in kinds for entry in _entries(kind)]
    body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": kinds[0].api_version}
    return json_response({**body, "resources": resources})


def _entries(kind: Kind) -> list[Object]:
    main: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    return [main, *(_subresource_entry(kind, name) for name in kind.subresources)]


def _subresource_entry(kind: Kind, name: str) -> Object:
    group, version_name, response = _SUBRESOURCE_KINDS.get(name, ("", "", kind.kind))
    entry: Object = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": response,
        "verbs": list(_SUBRESOURCE_VERBS.get(name, ("get", "patch", "update"))),
    }
    return {**entry, "group": group, "version": version_name} if name in _SUBRESOURCE_KINDS else entry
