"""Is this an object of its built-in kind? Types, required fields and closed sets of words; deeper rules are left out.

In: an object and the types of its kind. Out: problems, or why it cannot be read at all. Called by `schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .problems import FieldProblem
from .type_tree import TypeNode

_CORE = "io.k8s.api.core.v1."
_APPS = "io.k8s.api.apps.v1."
# Fields whose words are fixed; the published definitions do not list them.
ALLOWED_VALUES: dict[tuple[str, str], tuple[str, ...]] = {
    (_CORE + "PodSpec", "restartPolicy"): ("Always", "Never", "OnFailure"),
    (_CORE + "PodSpec", "dnsPolicy"): ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    (_CORE + "Container", "imagePullPolicy"): ("Always", "IfNotPresent", "Never"),
    (_CORE + "Container", "terminationMessagePolicy"): ("FallbackToLogsOnError", "File"),
    (_CORE + "ContainerPort", "protocol"): ("SCTP", "TCP", "UDP"),
    (_CORE + "ServicePort", "protocol"): ("SCTP", "TCP", "UDP"),
    (_CORE + "ServiceSpec", "type"): ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    (_CORE + "ServiceSpec", "sessionAffinity"): ("ClientIP", "None"),
    (_CORE + "Toleration", "operator"): ("Equal", "Exists", "Gt", "Lt"),
    (_CORE + "HTTPGetAction", "scheme"): ("HTTP", "HTTPS"),
    (_CORE + "PersistentVolumeClaimSpec", "volumeMode"): ("Block", "Filesystem"),
    (_CORE + "TopologySpreadConstraint", "whenUnsatisfiable"): ("DoNotSchedule", "ScheduleAnyway"),
    (_APPS + "StatefulSetSpec", "podManagementPolicy"): ("OrderedReady", "Parallel"),
    (_APPS + "StatefulSetUpdateStrategy", "type"): ("OnDelete", "RollingUpdate"),
    (_APPS + "DeploymentStrategy", "type"): ("Recreate", "RollingUpdate"),
    (_APPS + "StatefulSetPersistentVolumeClaimRetentionPolicy", "whenDeleted"): ("Delete", "Retain"),
    (_APPS + "StatefulSetPersistentVolumeClaimRetentionPolicy", "whenScaled"): ("Delete", "Retain"),
}
# Listed as required because Go always writes them; nothing demands them from a client.
ALWAYS_WRITTEN = frozenset(
    {
        ("io.k8s.api.discovery.v1.EndpointSlice", "endpoints"),
        (_CORE + "Event", "metadata"),
        (_CORE + "Event", "involvedObject"),
        ("io.k8s.api.rbac.v1.Role", "rules"),
        ("io.k8s.api.rbac.v1.ClusterRole", "rules"),
    }
)


def builtin_problems(root: TypeNode, kind: str, obj: Mapping[str, Any]) -> list[FieldProblem]:
    """Missing fields and unknown words; status is written by controllers and not judged."""
    if not kind:
        return []
    found: list[FieldProblem] = []
    for key, value in obj.items():
        if key not in ("status", "metadata") and key in root.fields:
            _check(root.fields[key], value, key, found)
    _check_fields(root, obj, "", found)
    return found


def _check(node: TypeNode, value: Any, path: str, found: list[FieldProblem]) -> None:
    if isinstance(value, list) and node.is_list:
        for index, item in enumerate(value):
            _check(node.items, item, f"{path}[{index}]", found)
    elif isinstance(value, dict) and node.is_map and node.name != "io.k8s.api.core.v1.ObjectMeta":
        _check_fields(node, value, f"{path}.", found)
        for key, item in value.items():
            below = node.fields.get(key)
            if below is not None and not (key == "status" and below.name):
                _check(below, item, f"{path}.{key}", found)


def _check_fields(node: TypeNode, value: Mapping[str, Any], prefix: str, found: list[FieldProblem]) -> None:
    found.extend(
        FieldProblem(prefix + key, "Required")
        for key in node.raw.get("required", ())
        if (node.name, key) not in ALWAYS_WRITTEN and _is_missing(node, key, value.get(key))
    )
    for key, item in value.items():
        allowed = ALLOWED_VALUES.get((node.name, key))
        if allowed is not None and item not in allowed and item not in ("", None):
            listed = ", ".join(f'"{each}"' for each in allowed)
            found.append(FieldProblem(prefix + key, "NotSupported", f"supported values: {listed}", item))


def _is_missing(node: TypeNode, key: str, value: Any) -> bool:
    if value is None:
        return True
    return value == "" or (value == [] and (node.name, key) == (_CORE + "PodSpec", "containers"))


# --- decoding --------------------------------------------------------------------------------------------------------


def decode_problem(node: TypeNode, value: Any, path: str = "", owner: str = "") -> str | None:
    """The first value that does not fit the Go type of its field."""
    if value is None:
        return None
    found = _json_type(value)
    if isinstance(value, dict) and node.is_map:
        return _decode_entries(node, value, path, owner)
    if isinstance(value, list) and node.is_list:
        problems = (decode_problem(node.items, item, path, owner) for item in value)
        return next((problem for problem in problems if problem is not None), None)
    if not isinstance(value, dict | list) and node.scalar is not None and _fits(node, value):
        return None
    field = f"Go struct field {owner}.{path}" if path else "Go value"
    return f"json: cannot unmarshal {found} into {field} of type {_go_type(node)}"


def _decode_entries(node: TypeNode, value: dict[str, Any], path: str, owner: str) -> str | None:
    name = node.name.rsplit(".", 1)[-1] if node.name and node.fields else owner
    for key, item in value.items():
        below = node.entry(key)
        if below is None:
            continue
        where = (f"{path}.{key}" if path else key) if key in node.fields else path
        problem = decode_problem(below, item, where, name)
        if problem is not None:
            return problem
    return None


def _fits(node: TypeNode, value: Any) -> bool:
    if node.scalar == "untyped":
        return True
    if node.scalar == "boolean":
        return isinstance(value, bool)
    if node.scalar == "string":
        return isinstance(value, str)
    if isinstance(value, bool):
        return False
    if node.raw.get("type") == "number":
        return isinstance(value, int | float)
    return isinstance(value, int)


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float):
        return f"number {value}"
    names = {str: "string", int: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _go_type(node: TypeNode) -> str:
    if node.name and node.fields:
        package, _, name = node.name.rpartition(".")
        return f"{package.rsplit('.', 1)[-1]}.{name}"
    kind, form = node.raw.get("type", ""), node.raw.get("format", "")
    if kind == "array":
        return f"[]{_go_type(node.items)}"
    if kind == "object":
        return f"map[string]{_go_type(node.element)}" if node.element is not None else "object"
    names = {"integer": form or "int64", "boolean": "bool", "string": "string", "number": "float64"}
    return names.get(kind, "interface {}")
