"""What the server, not the client, decides about an object: status, generation, initial phase. Pure.

`prepare_create` and `prepare_update` change the new object in place; called by `writes` before validation.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from .registry import Kind

Object = dict[str, Any]

CRD_RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"
# Held by a finalizer from birth, which the collector takes off when the object is free to go.
_PROTECTED = {
    CRD_RESOURCE: CRD_FINALIZER,
    "persistentvolumeclaims": CLAIM_FINALIZER,
    "persistentvolumes": VOLUME_FINALIZER,
}

_WITH_GENERATION = frozenset(
    {
        "pods",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "poddisruptionbudgets.policy",
        "networkpolicies.networking.k8s.io",
        "endpointslices.discovery.k8s.io",
        "priorityclasses.scheduling.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        CRD_RESOURCE,
    }
)
_FIRST_STATUS: dict[str, Object] = {
    "namespaces": {"phase": "Active"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "persistentvolumes": {"phase": "Pending"},
    "services": {"loadBalancer": {}},
    "deployments.apps": {},
    "replicasets.apps": {"replicas": 0},
    "statefulsets.apps": {"replicas": 0, "availableReplicas": 0},
    "poddisruptionbudgets.policy": {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
}
# Kubelets create their node with a status in it.
STATUS_ON_CREATE = frozenset({"nodes"})
_DEFAULT_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def prepare_create(kind: Kind, obj: Object) -> None:
    """Resets what a client may not set at creation, and sets the first generation and status."""
    if kind.has_status and kind.resource not in STATUS_ON_CREATE:
        obj.pop("status", None)
        if kind.resource in _FIRST_STATUS:
            obj["status"] = copy.deepcopy(_FIRST_STATUS[kind.resource])
    if kind.custom or kind.resource in _WITH_GENERATION:
        obj["metadata"]["generation"] = 1
    else:
        obj["metadata"].pop("generation", None)
    if kind.resource == "namespaces":
        obj["spec"] = {"finalizers": ["kubernetes"]}
    elif kind.resource == "pods":
        _prepare_pod(obj)
    elif kind.resource in _PROTECTED:
        finalizer = _PROTECTED[kind.resource]
        held = obj["metadata"].get("finalizers") or []
        obj["metadata"]["finalizers"] = held if finalizer in held else [*held, finalizer]


def _prepare_pod(pod: Object) -> None:
    spec = pod.setdefault("spec", {})
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    _tolerate(spec)


def _tolerate(spec: Object) -> None:
    """Every pod puts up with a lost node for a while, unless it says otherwise."""
    tolerations = [one for one in spec.get("tolerations") or () if isinstance(one, dict)]
    for key in _DEFAULT_TOLERATIONS:
        if not any(
            one.get("key") in {key, None, ""} and one.get("effect") in {"NoExecute", None, ""} for one in tolerations
        ):
            added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            spec.setdefault("tolerations", []).append(added)


def qos_class(spec: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort, from the requests and limits of a pod."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    pairs = [_requests_and_limits(container) for container in containers]
    if not any(requests or limits for requests, limits in pairs):
        return "BestEffort"
    if all(set(limits) == {"cpu", "memory"} and requests == limits for requests, limits in pairs):
        return "Guaranteed"
    return "Burstable"


def _requests_and_limits(container: Any) -> tuple[Object, Object]:
    resources = container.get("resources") if isinstance(container, dict) else None
    pair = [(resources or {}).get(side) or {} for side in ("requests", "limits")]
    requests, limits = ({k: v for k, v in one.items() if k in {"cpu", "memory"}} for one in pair)
    return requests, limits


_KEPT_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def prepare_update(kind: Kind, old: Object, new: Object, subresource: str) -> None:
    """Carries over what this request may not change, and bumps the generation when the spec changed."""
    if subresource == "status":
        _keep_all_but_status(kind, old, new)
    elif kind.has_status:
        _keep(old, new, "status")
    _keep_metadata(old["metadata"], new["metadata"])
    if kind.resource == "namespaces":
        _keep(old, new, "spec")
    if kind.resource == "pods" and not subresource and isinstance(new.get("spec"), dict):
        _tolerate(new["spec"])
    if kind.resource in _WITH_GENERATION or kind.custom:
        changed = subresource != "status" and _spec_changed(kind, old, new)
        new["metadata"]["generation"] = int(old["metadata"].get("generation", 0)) + (1 if changed else 0)
    if kind.resource == "pods" and "status" in new:
        new["status"].setdefault("qosClass", (old.get("status") or {}).get("qosClass", "BestEffort"))


def _keep(old: Object, new: Object, key: str) -> None:
    if key in old:
        new[key] = copy.deepcopy(old[key])
    else:
        new.pop(key, None)


def _keep_all_but_status(kind: Kind, old: Object, new: Object) -> None:
    for key in (set(old) | set(new)) - {"status", "metadata", "apiVersion", "kind"}:
        _keep(old, new, key)
    if kind.custom:
        managed = new["metadata"].get("managedFields")
        version = new["metadata"].get("resourceVersion")
        new["metadata"] = copy.deepcopy(old["metadata"])
        new["metadata"] |= {"managedFields": managed} if managed is not None else {}
        new["metadata"] |= {"resourceVersion": version} if version is not None else {}
    else:
        _keep(old["metadata"], new["metadata"], "ownerReferences")
        if kind.resource == "deployments.apps":
            _keep(old["metadata"], new["metadata"], "labels")


def _keep_metadata(old: Object, new: Object) -> None:
    for key in _KEPT_METADATA:
        _keep(old, new, key)
    if "selfLink" in new:
        del new["selfLink"]


def _spec_changed(kind: Kind, old: Object, new: Object) -> bool:
    if kind.resource == "deployments.apps":
        before, after = old["metadata"].get("annotations"), new["metadata"].get("annotations")
        if (before or {}) != (after or {}):
            return True
    ignored = {"metadata", "apiVersion", "kind"} | ({"status"} if kind.has_status or not kind.custom else set())
    return {k: v for k, v in old.items() if k not in ignored} != {k: v for k, v in new.items() if k not in ignored}
