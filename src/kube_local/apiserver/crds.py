"""CustomResourceDefinitions: accepted at once, served from the next request on.

`establish` writes the status that clients wait for, `check` refuses what cannot be served, `serve` keeps the registry
in step with the store (also when a store is opened again).
"""

from __future__ import annotations

from typing import Any

from .problems import FieldProblem
from .registry import Kind, Registry, ScalePaths
from .store import Change
from .strategy import CRD_RESOURCE

Object = dict[str, Any]
_MAX_REPLICAS = 2**31 - 1
_GO_TYPES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def establish(crd: Object, now: str) -> None:
    """The status of an accepted definition."""
    spec = crd.get("spec") or {}
    status = crd.setdefault("status", {})
    versions = [one for one in spec.get("versions") or () if isinstance(one, dict)]
    storage = [one.get("name") for one in versions if one.get("storage")]
    stored = list(status.get("storedVersions") or [])
    status["acceptedNames"] = spec.get("names") or {}
    status["storedVersions"] = stored + [name for name in storage if name not in stored]
    held = {one.get("type"): one for one in status.get("conditions") or ()}
    status["conditions"] = [
        held.get(kind) or _condition(kind, reason, message, now)
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]


def _condition(kind: str, reason: str, message: str, now: str) -> Object:
    return {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}


def check(crd: Object) -> list[FieldProblem]:
    """What keeps a definition from being served."""
    spec = crd["spec"]
    problems: list[FieldProblem] = []
    wanted = f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}"
    if crd["metadata"]["name"] != wanted:
        text = 'must be spec.names.plural+"."+spec.group'
        problems.append(FieldProblem("metadata.name", "Invalid", text, crd["metadata"]["name"]))
    versions = spec.get("versions") or []
    if sum(bool(one.get("storage")) for one in versions) != 1:
        text = "must have exactly one version marked as storage version"
        problems.append(FieldProblem("spec.versions", "Invalid", text, [one.get("name") for one in versions]))
    if spec.get("scope") not in {"Namespaced", "Cluster"}:
        text = 'supported values: "Cluster", "Namespaced"'
        problems.append(FieldProblem("spec.scope", "NotSupported", text, spec.get("scope")))
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            problems.append(FieldProblem(path, "Required", "schemas are required"))
    return problems


def scale_problems(kind: Kind, obj: Object, *, status_only: bool) -> list[FieldProblem]:
    """What the scale subresource could not read in an object."""
    if not kind.custom or kind.scale is None:
        return []
    paths = [kind.scale.status] if status_only else [kind.scale.spec, kind.scale.status]
    problems = [problem for path in paths for problem in _replica_problems(obj, path)]
    selector, missing = _nested(obj, kind.scale.selector)
    if kind.scale.selector and not missing and not isinstance(selector, str):
        problems.append(_unreadable(kind.scale.selector, selector, "string", ""))
    return problems


def replicas(kind: Kind, obj: Object) -> Any:
    """What the scale subresource reads as the wanted replicas."""
    return _nested(obj, kind.scale.spec)[0] if kind.scale else None


def _replica_problems(obj: Object, path: tuple[str, ...]) -> list[FieldProblem]:
    value, missing = _nested(obj, path)
    where = "." + ".".join(path)
    if missing or not path:
        return []
    if not isinstance(value, int) or isinstance(value, bool):
        return [_unreadable(path, value, "int64", 0)]
    if value < 0:
        return [FieldProblem(where, "Invalid", "should be a non-negative integer", value)]
    if value > _MAX_REPLICAS:
        return [FieldProblem(where, "Invalid", f"should be less than or equal to {_MAX_REPLICAS}", value)]
    return []


def _nested(obj: Object, path: tuple[str, ...]) -> tuple[Any, bool]:
    value: Any = obj
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return None, True
        value = value[part]
    return value, False


def _unreadable(path: tuple[str, ...], value: Any, wanted: str, shown: Any) -> FieldProblem:
    where = "." + ".".join(path)
    found = _GO_TYPES.get(type(value), "<nil>")
    text = f"{where} accessor error: {_go_text(value)} is of the type {found}, expected {wanted}"
    return FieldProblem(where, "Invalid", text, shown)


def _go_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


def serve(registry: Registry, change: Change) -> None:
    """Follows one change of the store."""
    if change.row.resource != CRD_RESOURCE:
        return
    if change.before is not None:
        spec = change.before.load()["spec"]
        registry.remove(spec["group"], spec["names"]["plural"])
    if change.type != "DELETED":
        for kind in kinds_of(change.row.load()):
            registry.add(kind)


def kinds_of(crd: Object) -> list[Kind]:
    """The kinds that a definition adds: one for each served version."""
    spec = crd["spec"]
    names = spec["names"]
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    return [
        Kind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=tuple(sorted(version.get("subresources") or {})),
            list_kind=names.get("listKind") or "",
            scale=_scale(version),
            stored_version=f"{spec['group']}/{storage}",
            crd_version=version,
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def _scale(version: Object) -> ScalePaths | None:
    scale = (version.get("subresources") or {}).get("scale")
    if not scale:
        return None
    return ScalePaths(
        spec=_path(scale.get("specReplicasPath")),
        status=_path(scale.get("statusReplicasPath")),
        selector=_path(scale.get("labelSelectorPath")),
    )


def _path(text: str | None) -> tuple[str, ...]:
    return tuple(part for part in (text or "").split(".") if part)
