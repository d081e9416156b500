"""Rules of the built-in kinds beyond their schema: what may not change, and what must fit together. Pure.

`check` answers every broken rule; called by `writes` next to the schema's own validation.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import selectors
from .problems import OMITTED, FieldProblem

Object = dict[str, Any]
IMMUTABLE = "field is immutable"
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def check(resource: str, new: Object, old: Object | None) -> list[FieldProblem]:
    """Everything that is wrong with a new object, or with the step from the old to the new one."""
    rule = _RULES.get(resource)
    return list(rule(new, old)) if rule else []


def finalizers_added_late(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldProblem]:
    """A dying object takes no new finalizers."""
    if not old["metadata"].get("deletionTimestamp"):
        return []
    had = old["metadata"].get("finalizers") or []
    added = [one for one in new["metadata"].get("finalizers") or () if one not in had]
    if not added:
        return []
    listed = ", ".join(f'"{one}"' for one in added)
    text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
    return [FieldProblem("metadata.finalizers", "Forbidden", text)]


def _config_map(new: Object, old: Object | None) -> Iterator[FieldProblem]:
    for field in ("data", "binaryData"):
        yield from _keys(field, new)
    yield from _frozen(new, old, ("data", "binaryData"))


def _secret(new: Object, old: Object | None) -> Iterator[FieldProblem]:
    yield from _keys("data", new)
    for key, value in (new.get("data") or {}).items():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError):
            yield FieldProblem(f"data[{key}]", "Invalid", "illegal base64 data", "<redacted>")
    if old is not None and old.get("type") != new.get("type"):
        yield FieldProblem("type", "Invalid", IMMUTABLE, new.get("type"))
    yield from _frozen(new, old, ("data",))


def _keys(field: str, obj: Object) -> Iterator[FieldProblem]:
    for key in obj.get(field) or {}:
        if len(key) > 253 or not _CONFIG_KEY.fullmatch(key) or key in {".", ".."} or key.startswith(".."):
            yield FieldProblem(f"{field}[{key}]", "Invalid", _CONFIG_KEY_TEXT, key)


def _frozen(new: Object, old: Object | None, fields: tuple[str, ...]) -> Iterator[FieldProblem]:
    if old is None or not old.get("immutable"):
        return
    text = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield FieldProblem("immutable", "Forbidden", text)
    for field in fields:
        if (old.get(field) or {}) != (new.get(field) or {}):
            yield FieldProblem(field, "Forbidden", text)


_POD_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_POD_FREE = frozenset({"activeDeadlineSeconds", "tolerations", "schedulingGates"})


def _pod(new: Object, old: Object | None) -> Iterator[FieldProblem]:
    yield from _host_ports(new.get("spec") or {})
    if old is None:
        return
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if [c.get("name") for c in before.get("containers") or ()] != [
        c.get("name") for c in after.get("containers") or ()
    ]:
        yield FieldProblem("spec.containers", "Forbidden", "pod updates may not add or remove containers")
        return
    if not _tolerates_all(before, after):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield FieldProblem("spec.tolerations", "Forbidden", text)
    if _pod_fixed(before) != _pod_fixed(after):
        yield FieldProblem("spec", "Forbidden", _POD_TEXT)


def _tolerates_all(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    kept = [_without(one, frozenset({"tolerationSeconds"})) for one in after.get("tolerations") or ()]
    return all(_without(one, frozenset({"tolerationSeconds"})) in kept for one in before.get("tolerations") or ())


def _host_ports(spec: Mapping[str, Any]) -> Iterator[FieldProblem]:
    taken: set[str] = set()
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            key = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{port.get('hostPort')}"
            if port.get("hostPort") and key in taken:
                path = f"spec.containers[{index}].ports[{number}].hostPort"
                yield FieldProblem(path, "Duplicate", bad_value=key)
            taken.add(key)


def _pod_fixed(spec: Mapping[str, Any]) -> Object:
    fixed = {key: value for key, value in spec.items() if key not in _POD_FREE}
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [{**one, "image": ""} for one in fixed[field]]
    return fixed


_STATEFUL_SET_FREE = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)
_STATEFUL_SET_TEXT = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _stateful_set(new: Object, old: Object | None) -> Iterator[FieldProblem]:
    yield from _template_labels(new)
    yield from _replicas(new)
    if old is not None and _without(old["spec"], _STATEFUL_SET_FREE) != _without(new["spec"], _STATEFUL_SET_FREE):
        yield FieldProblem("spec", "Forbidden", _STATEFUL_SET_TEXT)


def _without(spec: Mapping[str, Any], keys: frozenset[str]) -> Object:
    return {key: value for key, value in spec.items() if key not in keys}


def _workload(new: Object, old: Object | None) -> Iterator[FieldProblem]:
    yield from _template_labels(new)
    yield from _replicas(new)
    selector = new["spec"].get("selector")
    if old is not None and old["spec"].get("selector") != selector:
        yield FieldProblem("spec.selector", "Invalid", IMMUTABLE, selector)


def _deployment(new: Object, old: Object | None) -> Iterator[FieldProblem]:
    yield from _workload(new, old)
    strategy = new["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate") is not None:
        text = "may not be specified when strategy `type` is 'Recreate'"
        yield FieldProblem("spec.strategy.rollingUpdate", "Forbidden", text)


def _budget(new: Object, _: Object | None) -> Iterator[FieldProblem]:
    spec = new.get("spec") or {}
    if spec.get("minAvailable") is None or spec.get("maxUnavailable") is None:
        return
    fields = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
    shown = {name[0].upper() + name[1:]: spec.get(name) for name in fields}
    text = f"{json.dumps(shown, separators=(',', ':'))}: minAvailable and maxUnavailable cannot be both set"
    yield FieldProblem("spec", "Invalid", text, OMITTED)


def _replicas(new: Object) -> Iterator[FieldProblem]:
    replicas = new["spec"].get("replicas", 0)
    if isinstance(replicas, int) and replicas < 0:
        text = "must be greater than or equal to 0"
        yield FieldProblem("spec.replicas", "Invalid", text, replicas)


def _template_labels(new: Object) -> Iterator[FieldProblem]:
    spec = new["spec"]
    selector = spec.get("selector")
    if not selector:
        yield FieldProblem("spec.selector", "Required")
        return
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield FieldProblem("spec.selector", "Invalid", "empty selector is invalid for deployment", selector)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not selectors.from_object(selector).matches(labels):
        text = "`selector` does not match template `labels`"
        yield FieldProblem("spec.template.metadata.labels", "Invalid", text, labels)


def _service(new: Object, old: Object | None) -> Iterator[FieldProblem]:
    spec = new["spec"]
    if spec.get("selector") and spec.get("ipFamilyPolicy") == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        yield FieldProblem("spec.ipFamilyPolicy", "Invalid", text, "RequireDualStack")
        if "IPv6" in (spec.get("ipFamilies") or ())[1:]:
            yield FieldProblem("spec.ipFamilies[1]", "Invalid", "not configured on this cluster", "IPv6")
    if spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None" and not spec.get("ports"):
        yield FieldProblem("spec.ports", "Required")
    names = [port.get("name", "") for port in spec.get("ports") or ()]
    for index, name in enumerate(names):
        if len(names) > 1 and not name:
            yield FieldProblem(f"spec.ports[{index}].name", "Required")
        elif name and name in names[:index]:
            yield FieldProblem(f"spec.ports[{index}].name", "Duplicate", bad_value=name)
    if old is None:
        return
    before, after = old["spec"].get("clusterIP"), spec.get("clusterIP")
    if before and before != after and spec.get("type") != "ExternalName":
        text = "may not change once set"
        yield FieldProblem("spec.clusterIPs[0]", "Invalid", text, [after] if after else None)


def _claim(new: Object, old: Object | None) -> Iterator[FieldProblem]:
    if not new["spec"].get("accessModes"):
        yield FieldProblem("spec.accessModes", "Required", "at least 1 access mode is required")
    if old is None:
        return
    bound = (old.get("status") or {}).get("phase") == "Bound"
    free = {"resources", "volumeAttributesClassName"} if bound else set()
    free |= {name for name in ("volumeName", "storageClassName") if old["spec"].get(name) is None}
    if _without(old["spec"], frozenset(free)) != _without(new["spec"], frozenset(free)):
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield FieldProblem("spec", "Forbidden", text)


def _revision(new: Object, old: Object | None) -> Iterator[FieldProblem]:
    if old is not None and old.get("data") != new.get("data"):
        yield FieldProblem("data", "Invalid", IMMUTABLE, new.get("data"))


def _binding(new: Object, old: Object | None) -> Iterator[FieldProblem]:
    if old is not None and old.get("roleRef") != new.get("roleRef"):
        yield FieldProblem("roleRef", "Invalid", "cannot change roleRef", new.get("roleRef"))


def _lease(new: Object, _: Object | None) -> Iterator[FieldProblem]:
    duration = (new.get("spec") or {}).get("leaseDurationSeconds")
    if isinstance(duration, int) and duration <= 0:
        yield FieldProblem("spec.leaseDurationSeconds", "Invalid", "must be greater than 0", duration)


_RULES: dict[str, Callable[[Object, Object | None], Iterator[FieldProblem]]] = {
    "configmaps": _config_map,
    "secrets": _secret,
    "pods": _pod,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "statefulsets.apps": _stateful_set,
    "deployments.apps": _deployment,
    "poddisruptionbudgets.policy": _budget,
    "replicasets.apps": _workload,
    "controllerrevisions.apps": _revision,
    "rolebindings.rbac.authorization.k8s.io": _binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _binding,
    "leases.coordination.k8s.io": _lease,
}
