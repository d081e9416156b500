"""Defaults of the built-in kinds, as kube-apiserver sets them when an object is written.

In: an object of a built-in kind. Out: a new object with every default that a reader of the API counts on; kinds without
defaults come back unchanged. Knows fields by name and needs no definitions. Called by `schema`.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Iterator
from typing import Any

Object = dict[str, Any]


def builtin_defaults(kind: str, value: Object) -> Object:
    """The object with its defaults; anything that is not shaped like the kind is left as it is."""
    fill = _BY_KIND.get(kind)
    if fill is None:
        return value
    result = copy.deepcopy(value)
    fill(result)
    return result


def _map(parent: Any, key: str) -> Object:
    """The object below a key, or a throw-away one where there is none."""
    found = parent.get(key) if isinstance(parent, dict) else None
    return found if isinstance(found, dict) else {}


def _made(parent: Object, key: str) -> Object:
    """The object below a key, made where there is none."""
    if parent.get(key) is None:
        parent[key] = {}
    return _map(parent, key)


def _maps(parent: Any, key: str) -> Iterator[Object]:
    found = parent.get(key) if isinstance(parent, dict) else None
    return (item for item in found if isinstance(item, dict)) if isinstance(found, list) else iter(())


def _fill(target: Object, **defaults: Any) -> None:
    for key, value in defaults.items():
        if target.get(key) is None:
            target[key] = copy.copy(value)


def _fill_empty(target: Object, **defaults: Any) -> None:
    """Defaults of plain Go fields, where the zero value means unset."""
    for key, value in defaults.items():
        if not target.get(key):
            target[key] = value


# --- pods ------------------------------------------------------------------------------------------------------------


def _pod(pod: Object) -> None:
    spec = _made(pod, "spec")
    _pod_spec(spec)
    _fill(spec, enableServiceLinks=True)
    for container in (*_maps(spec, "containers"), *_maps(spec, "initContainers")):
        _requests_from_limits(container)
        if spec.get("hostNetwork") is True:
            for port in _maps(container, "ports"):
                if port.get("containerPort"):
                    _fill_empty(port, hostPort=port["containerPort"])


def _requests_from_limits(container: Object) -> None:
    resources = _map(container, "resources")
    limits = _map(resources, "limits")
    if limits:
        _fill(_made(resources, "requests"), **limits)


def _template(owner: Object) -> None:
    template = _map(_map(owner, "spec"), "template")
    if template:
        _pod_spec(_made(template, "spec"))


def _pod_spec(spec: Object) -> None:
    _fill_empty(spec, dnsPolicy="ClusterFirst", restartPolicy="Always", schedulerName="default-scheduler")
    _fill(spec, securityContext={}, terminationGracePeriodSeconds=30)
    _service_account(spec)
    for volume in _maps(spec, "volumes"):
        _volume(volume)
    for key in ("initContainers", "containers"):
        for container in _maps(spec, key):
            _container(container)


def _service_account(spec: Object) -> None:
    """The old name of the field is kept equal to the new one."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _container(container: Object) -> None:
    image = container.get("image")
    if isinstance(image, str):
        _fill_empty(container, imagePullPolicy="Always" if tag_of(image) == "latest" else "IfNotPresent")
    else:
        _fill_empty(container, imagePullPolicy="IfNotPresent")
    _fill_empty(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")
    _fill(container, resources={})
    for port in _maps(container, "ports"):
        _fill_empty(port, protocol="TCP")
    for variable in _maps(container, "env"):
        _field_ref(_map(variable, "valueFrom"))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        _probe(_map(container, name))
    for hook in ("postStart", "preStop"):
        _http_get(_map(_map(_map(container, "lifecycle"), hook), "httpGet"))


def tag_of(image: str) -> str:
    """The tag of an image reference: `latest` where neither tag nor digest is given, empty for a digest alone."""
    name, at, _ = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    if colon:
        return tag
    return "" if at else "latest"


def _probe(probe: Object) -> None:
    if not probe:
        return
    _fill_empty(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    _http_get(_map(probe, "httpGet"))


def _http_get(action: Object) -> None:
    if action:
        _fill_empty(action, path="/", scheme="HTTP")


def _field_ref(source: Object) -> None:
    reference = _map(source, "fieldRef")
    if reference:
        _fill_empty(reference, apiVersion="v1")


def _volume(volume: Object) -> None:
    if not any(isinstance(value, dict) for value in volume.values()):
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "projected", "downwardAPI"):
        if isinstance(volume.get(name), dict):
            _fill(volume[name], defaultMode=420)
    if isinstance(volume.get("hostPath"), dict):
        _fill(volume["hostPath"], type="")
    for item in _maps(_map(volume, "downwardAPI"), "items"):
        _field_ref(item)
    for source in _maps(_map(volume, "projected"), "sources"):
        for item in _maps(_map(source, "downwardAPI"), "items"):
            _field_ref(item)
        if isinstance(source.get("serviceAccountToken"), dict):
            _fill(source["serviceAccountToken"], expirationSeconds=3600)


# --- workloads -------------------------------------------------------------------------------------------------------


def _stateful_set(value: Object) -> None:
    spec = _made(value, "spec")
    _template(value)
    _fill_empty(spec, podManagementPolicy="OrderedReady")
    strategy = _made(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        _fill(strategy, rollingUpdate={})
    if strategy["type"] == "RollingUpdate" and isinstance(strategy.get("rollingUpdate"), dict):
        _fill(strategy["rollingUpdate"], partition=0)
    retention = _made(spec, "persistentVolumeClaimRetentionPolicy")
    _fill_empty(retention, whenDeleted="Retain", whenScaled="Retain")
    _fill(spec, replicas=1, revisionHistoryLimit=10)
    for claim in _maps(spec, "volumeClaimTemplates"):
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        _claim(claim)


def _deployment(value: Object) -> None:
    spec = _made(value, "spec")
    _template(value)
    _fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = _made(spec, "strategy")
    _fill_empty(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_made(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")


def _replica_set(value: Object) -> None:
    _template(value)
    _fill(_made(value, "spec"), replicas=1)


# --- network and storage ---------------------------------------------------------------------------------------------


def _service(value: Object) -> None:
    spec = _made(value, "spec")
    _fill_empty(spec, sessionAffinity="None", type="ClusterIP")
    for port in _maps(spec, "ports"):
        _fill_empty(port, protocol="TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    kind = spec["type"]
    if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs")):
        _fill_empty(spec, externalTrafficPolicy="Cluster")
    if kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        _fill(spec, internalTrafficPolicy="Cluster")
    if kind == "LoadBalancer":
        _fill(spec, allocateLoadBalancerNodePorts=True)
    _fill(_made(value, "status"), loadBalancer={})


def _claim(value: Object) -> None:
    _fill(_made(value, "spec"), volumeMode="Filesystem")
    _fill_empty(_made(value, "status"), phase="Pending")


def _volume_object(value: Object) -> None:
    spec = _made(value, "spec")
    _fill_empty(spec, persistentVolumeReclaimPolicy="Retain")
    _fill(spec, volumeMode="Filesystem")
    if isinstance(spec.get("hostPath"), dict):
        _fill(spec["hostPath"], type="")
    _fill_empty(_made(value, "status"), phase="Pending")


def _storage_class(value: Object) -> None:
    _fill(value, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _endpoint_slice(value: Object) -> None:
    for port in _maps(value, "ports"):
        _fill(port, name="", protocol="TCP")


def _network_policy(value: Object) -> None:
    spec = _made(value, "spec")
    for rule in (*_maps(spec, "ingress"), *_maps(spec, "egress")):
        for port in _maps(rule, "ports"):
            _fill(port, protocol="TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


# --- the rest --------------------------------------------------------------------------------------------------------


def _secret(value: Object) -> None:
    _fill_empty(value, type="Opaque")
    plain = value.pop("stringData", None)
    if isinstance(plain, dict) and plain:
        encoded = {key: base64.b64encode(str(text).encode()).decode() for key, text in plain.items()}
        value["data"] = {**_map(value, "data"), **encoded}


def _namespace(value: Object) -> None:
    metadata = _map(value, "metadata")
    if metadata.get("name"):
        _made(metadata, "labels")["kubernetes.io/metadata.name"] = metadata["name"]
    _fill_empty(_made(value, "status"), phase="Active")


def _node(value: Object) -> None:
    status = _map(value, "status")
    if status.get("capacity") and status.get("allocatable") is None:
        status["allocatable"] = dict(_map(status, "capacity"))


def _role_binding(value: Object) -> None:
    group = "rbac.authorization.k8s.io"
    if isinstance(value.get("roleRef"), dict):
        _fill_empty(value["roleRef"], apiGroup=group)
    for subject in _maps(value, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            _fill_empty(subject, apiGroup=group)


def _priority_class(value: Object) -> None:
    _fill(value, preemptionPolicy="PreemptLowerPriority")


def _webhooks(value: Object) -> None:
    for hook in _maps(value, "webhooks"):
        _fill(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        _fill(hook, namespaceSelector={}, objectSelector={})
        service = _map(_map(hook, "clientConfig"), "service")
        if service:
            _fill(service, port=443)
        for rule in _maps(hook, "rules"):
            _fill(rule, scope="*")


def _definition(value: Object) -> None:
    spec = _made(value, "spec")
    names = _made(spec, "names")
    kind = str(names.get("kind") or "")
    _fill_empty(names, singular=kind.lower(), listKind=f"{kind}List")
    conversion = _made(spec, "conversion")
    _fill_empty(conversion, strategy="None")


_BY_KIND: dict[str, Callable[[Object], None]] = {
    "Pod": _pod,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
    "Deployment": _deployment,
    "Service": _service,
    "EndpointSlice": _endpoint_slice,
    "NetworkPolicy": _network_policy,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume_object,
    "StorageClass": _storage_class,
    "Secret": _secret,
    "Namespace": _namespace,
    "Node": _node,
    "RoleBinding": _role_binding,
    "ClusterRoleBinding": _role_binding,
    "PriorityClass": _priority_class,
    "ValidatingWebhookConfiguration": _webhooks,
    "CustomResourceDefinition": _definition,
}
