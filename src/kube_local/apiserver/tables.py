"""What `kubectl get` prints: columns and cells of the built-in kinds used most, and of custom kinds. Pure.

Cells follow the real server's printers; kinds without columns of their own show name and age.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kube_runtime.times import parse_seconds

from . import definitions, json_path
from .pod_cells import container_list, pod_cells
from .registry import Kind
from .selectors import label_selector_text
from .type_tree import OBJECT_META

Object = dict[str, Any]
Cells = Callable[[Object, float], list[Any]]

NONE = "<none>"
UNKNOWN = "<unknown>"


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns of a kind (`!` marks those of `-o wide`) and what fills them."""

    columns: str
    cells: Cells


def table(kind: Kind, objects: Sequence[Object], now: float, include: str, revision: str) -> Object:
    """A Table of the objects; `include` is None, Metadata or Object."""
    if kind.custom:
        columns, cells = _custom(kind)
    else:
        printer = _PRINTERS.get(kind.resource, _DEFAULT)
        columns, cells = _columns(printer.columns), printer.cells
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": revision} if revision else {},
        "columnDefinitions": columns,
        "rows": [_row(obj, cells(obj, now), include) for obj in objects],
    }


def _row(obj: Object, cells: list[Any], include: str) -> Object:
    row: Object = {"cells": cells}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = partial(obj)
    return row


def partial(obj: Object) -> Object:
    """The metadata of an object alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj.get("metadata") or {}}


def _columns(text: str) -> list[Object]:
    found = []
    for column in text.split(","):
        name = column.strip().lstrip("!#")
        number = "#" in column
        found.append(
            {
                "name": name,
                "type": "integer" if number else "string",
                "format": "name" if name == "Name" else "",
                "description": _description(name),
                "priority": 1 if "!" in column else 0,
            }
        )
    return found


def _description(column: str) -> str:
    field = {"Name": "name", "Age": "creationTimestamp"}.get(column)
    if field is None:
        return column
    return str(definitions.load()[OBJECT_META]["properties"][field]["description"])


# --- custom kinds -------------------------------------------------------------------------------------------


def _custom(kind: Kind) -> tuple[list[Object], Cells]:
    wanted = (kind.crd_version or {}).get("additionalPrinterColumns") or [
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    ]
    columns = _columns("Name") + [
        {
            "name": one["name"],
            "type": one.get("type", "string"),
            "format": one.get("format", ""),
            "description": one.get(
                "description", f"Custom resource definition column (in JSONPath format): {one['jsonPath']}"
            ),
            "priority": one.get("priority", 0),
        }
        for one in wanted
    ]

    def cells(obj: Object, now: float) -> list[Any]:
        values = [_custom_cell(obj, one["jsonPath"], one.get("type", "string"), now) for one in wanted]
        return [_name(obj), *values]

    return columns, cells


def _custom_cell(obj: Object, path: str, kind: str, now: float) -> Any:
    values = json_path.find(obj, path)
    value = values[0] if values else None
    if value is None:
        return None
    if kind == "date":
        return age(str(value), now)
    if kind == "string":
        return _text(value)
    matches: dict[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}
    return value if isinstance(value, matches.get(kind, (object,))) else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, separators=(",", ":"))
    return str(value)


# --- ages ---------------------------------------------------------------------------------------------------


def age(timestamp: str, now: float) -> str:
    """How long ago, as `kubectl get` shows it."""
    then = parse_seconds(timestamp)
    return UNKNOWN if then is None else human_duration(int(now - then))


def human_duration(seconds: int) -> str:
    """2 to 3 digits of a duration: 45s, 3m12s, 5h1m, 2d4h, 1y20d."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"


def _age(obj: Object, now: float) -> str:
    created = obj["metadata"].get("creationTimestamp")
    return age(created, now) if created else UNKNOWN


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _status(obj: Object) -> Object:
    return obj.get("status") or {}


def _size(obj: Object, key: str) -> int:
    return len(obj.get(key) or ())


# --- built-in kinds -----------------------------------------------------------------------------------------


def _plain(obj: Object, now: float) -> list[Any]:
    return [_name(obj), _age(obj, now)]


def _namespace(obj: Object, now: float) -> list[Any]:
    return [_name(obj), _status(obj).get("phase", ""), _age(obj, now)]


def _node(obj: Object, now: float) -> list[Any]:
    labels = obj["metadata"].get("labels") or {}
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix)
    status, info = _status(obj), _status(obj).get("nodeInfo") or {}
    addresses = {one.get("type"): one.get("address") for one in reversed(status.get("addresses") or [])}
    return [
        _name(obj),
        _node_status(obj),
        ",".join(roles) or NONE,
        _age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(obj: Object) -> str:
    ready = [one for one in _status(obj).get("conditions") or () if one.get("type") == "Ready"]
    states = [("Ready" if ready[0].get("status") == "True" else "NotReady") if ready else "Unknown"]
    if _spec(obj).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _service(obj: Object, now: float) -> list[Any]:
    spec = _spec(obj)
    ingress = (_status(obj).get("loadBalancer") or {}).get("ingress") or ()
    external = [*(spec.get("externalIPs") or ()), *(one.get("ip") or one.get("hostname", "") for one in ingress)]
    if spec.get("type") == "ExternalName":
        external = [spec.get("externalName", "")]
    shown = ",".join(external) or ("<pending>" if spec.get("type") == "LoadBalancer" else NONE)
    ports = ",".join(_port(port) for port in spec.get("ports") or ()) or NONE
    selector = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items())) or NONE
    return [_name(obj), spec.get("type", ""), spec.get("clusterIP") or NONE, shown, ports, _age(obj, now), selector]


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"


def _config_map(obj: Object, now: float) -> list[Any]:
    return [_name(obj), _size(obj, "data") + _size(obj, "binaryData"), _age(obj, now)]


def _secret(obj: Object, now: float) -> list[Any]:
    return [_name(obj), obj.get("type", ""), _size(obj, "data"), _age(obj, now)]


def _stateful_set(obj: Object, now: float) -> list[Any]:
    ready = f"{_status(obj).get('readyReplicas', 0)}/{_spec(obj).get('replicas', 1)}"
    return [_name(obj), ready, _age(obj, now), *container_list(_template(obj))]


def _template(obj: Object) -> Object:
    return (_spec(obj).get("template") or {}).get("spec") or {}


def _deployment(obj: Object, now: float) -> list[Any]:
    status = _status(obj)
    ready = f"{status.get('readyReplicas', 0)}/{_spec(obj).get('replicas', 1)}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    selector = label_selector_text(_spec(obj).get("selector")) or NONE
    return [_name(obj), ready, *counts, _age(obj, now), *container_list(_template(obj)), selector]


def _replica_set(obj: Object, now: float) -> list[Any]:
    status = _status(obj)
    counts = [_spec(obj).get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)]
    selector = label_selector_text(_spec(obj).get("selector")) or NONE
    return [_name(obj), *counts, _age(obj, now), *container_list(_template(obj)), selector]


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: Any) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in modes or ())


def _claim(obj: Object, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    capacity = (status.get("capacity") or {}).get("storage", "") if bound else ""
    modes = _modes(status.get("accessModes")) if bound else ""
    more = [spec.get("storageClassName", ""), spec.get("volumeAttributesClassName") or "<unset>"]
    return [
        _name(obj),
        phase,
        spec.get("volumeName", ""),
        capacity,
        modes,
        *more,
        _age(obj, now),
        spec.get("volumeMode", ""),
    ]


def _volume(obj: Object, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    reference = spec.get("claimRef") or {}
    claim = f"{reference.get('namespace')}/{reference.get('name')}" if reference else ""
    capacity = (spec.get("capacity") or {}).get("storage", "")
    return [
        _name(obj),
        capacity,
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        claim,
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        _age(obj, now),
        spec.get("volumeMode", ""),
    ]


def _event(obj: Object, now: float) -> list[Any]:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    series = obj.get("series") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    count = series.get("count") or obj.get("count") or obj.get("deprecatedCount") or 1
    return [
        age(last, now) if last else UNKNOWN,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        ", ".join(one for one in (component, source.get("host", "")) if one),
        (obj.get("message") or obj.get("note") or "").strip(),
        age(first, now) if first else UNKNOWN,
        count,
        _name(obj),
    ]


def _lease(obj: Object, now: float) -> list[Any]:
    return [_name(obj), _spec(obj).get("holderIdentity") or "", _age(obj, now)]


def _budget(obj: Object, now: float) -> list[Any]:
    spec = _spec(obj)
    limits = [str(spec[key]) if key in spec else "N/A" for key in ("minAvailable", "maxUnavailable")]
    return [_name(obj), *limits, _status(obj).get("disruptionsAllowed", 0), _age(obj, now)]


def _definition(obj: Object, _: float) -> list[Any]:
    return [_name(obj), obj["metadata"].get("creationTimestamp", "")]


def _account(obj: Object, now: float) -> list[Any]:
    return [_name(obj), _size(obj, "secrets"), _age(obj, now)]


def _storage_class(obj: Object, now: float) -> list[Any]:
    name = _name(obj)
    if (obj["metadata"].get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class") == "true":
        name = f"{name} (default)"
    more = [obj.get(key, "") for key in ("provisioner", "reclaimPolicy", "volumeBindingMode")]
    return [name, *more, bool(obj.get("allowVolumeExpansion")), _age(obj, now)]


def _controller_revision(obj: Object, now: float) -> list[Any]:
    owner = next((one for one in obj["metadata"].get("ownerReferences") or () if one.get("controller")), None)
    group = owner["apiVersion"].rpartition("/")[0] if owner else ""
    shown = f"{owner['kind'].lower()}{f'.{group}' if group else ''}/{owner['name']}" if owner else NONE
    return [_name(obj), shown, obj.get("revision", 0), _age(obj, now)]


_DEFAULT = Printer("Name,Age", _plain)
_WIDE = "!Containers,!Images"
_PRINTERS: dict[str, Printer] = {
    "pods": Printer(
        "Name,Ready,Status,Restarts,Age,!IP,!Node,!Nominated Node,!Readiness Gates",
        lambda obj, now: pod_cells(obj, _age(obj, now), lambda text: age(text, now)),
    ),
    "nodes": Printer(
        "Name,Status,Roles,Age,Version,!Internal-IP,!External-IP,!OS-Image,!Kernel-Version,!Container-Runtime", _node
    ),
    "services": Printer("Name,Type,Cluster-IP,External-IP,Port(s),Age,!Selector", _service),
    "configmaps": Printer("Name,Data,Age", _config_map),
    "secrets": Printer("Name,Type,Data,Age", _secret),
    "namespaces": Printer("Name,Status,Age", _namespace),
    "persistentvolumeclaims": Printer(
        "Name,Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age,!VolumeMode", _claim
    ),
    "persistentvolumes": Printer(
        "Name,Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age,"
        "!VolumeMode",
        _volume,
    ),
    "events": Printer("Last Seen,Type,Reason,Object,!Subobject,!Source,Message,!First Seen,!Count,!Name", _event),
    "serviceaccounts": Printer("Name,Secrets,Age", _account),
    "statefulsets.apps": Printer(f"Name,Ready,Age,{_WIDE}", _stateful_set),
    "deployments.apps": Printer(f"Name,Ready,Up-to-date,Available,Age,{_WIDE},!Selector", _deployment),
    "replicasets.apps": Printer(f"Name,#Desired,#Current,#Ready,Age,{_WIDE},!Selector", _replica_set),
    "controllerrevisions.apps": Printer("Name,Controller,Revision,Age", _controller_revision),
    "leases.coordination.k8s.io": Printer("Name,Holder,Age", _lease),
    "poddisruptionbudgets.policy": Printer("Name,Min Available,Max Unavailable,#Allowed Disruptions,Age", _budget),
    "storageclasses.storage.k8s.io": Printer(
        "Name,Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age", _storage_class
    ),
    "customresourcedefinitions.apiextensions.k8s.io": Printer("Name,Created At", _definition),
}
