"""What a pod may refer to: ConfigMaps, Secrets, and its own fields and resources. Pure.

In: the pod as a dictionary and a `Lookup` of the namespace's objects. Out: text and bytes, or `ConfigInvalid` in the
words that kubectl users know. `environment` and `content` call it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

from kube_local.node.errors import ConfigInvalid
from kube_runtime import quantity

Object = Mapping[str, Any]
_KEYED = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")


class Lookup(Protocol):
    """The ConfigMaps and Secrets of one namespace, decoded."""

    def config_map(self, name: str) -> Mapping[str, bytes] | None:
        """The files of a ConfigMap; None when there is none."""
        ...

    def secret(self, name: str) -> Mapping[str, bytes] | None:
        """The files of a Secret; None when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """What the node gave a pod."""

    ip: str = ""
    host_ip: str = ""
    allocatable: Mapping[str, str] = field(default_factory=dict)


def of_pod(pod: Object, place: Place, path: str) -> str:
    """One field of a pod, as `fieldRef` names it."""
    metadata = pod.get("metadata") or {}
    keyed = _KEYED.match(path)
    if keyed:
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        values = metadata.get(path.partition(".")[2]) or {}
        return "\n".join(f"{key}={_go_quoted(value)}" for key, value in sorted(values.items()))
    plain = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "spec.nodeName": (pod.get("spec") or {}).get("nodeName"),
        "spec.serviceAccountName": (pod.get("spec") or {}).get("serviceAccountName", "default"),
        "status.podIP": place.ip,
        "status.podIPs": place.ip,
        "status.hostIP": place.host_ip,
        "status.hostIPs": place.host_ip,
    }
    if path not in plain:
        raise ConfigInvalid(f"field path {path!r} is not supported: use one of {', '.join(sorted(plain))}")
    return str(plain[path] or "")


def _go_quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def of_resources(pod: Object, container: Object, place: Place, ref: Object) -> str:
    """A request or limit, as `resourceFieldRef` names it; without a limit, what the node has."""
    name = ref.get("containerName")
    if name:
        container = next((one for one in containers(pod) if one.get("name") == name), container)
    kind, _, resource = str(ref.get("resource", "")).partition(".")
    given = ((container.get("resources") or {}).get(kind) or {}).get(resource)
    if given is None and kind == "limits":
        given = place.allocatable.get(resource, "0")
    value = quantity.parse(given if given is not None else 0)
    divisor = quantity.parse(ref.get("divisor") or 1) or Fraction(1)
    if value is None:
        raise ConfigInvalid(f"{given!r} in resources.{kind}.{resource} is no quantity")
    return str(-(-value // (divisor or Fraction(1))))


def containers(pod: Object) -> list[Object]:
    """Every container of a pod, init containers first."""
    spec = pod.get("spec") or {}
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


@dataclass(frozen=True, slots=True)
class References:
    """The objects that a pod refers to, by name."""

    config_maps: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()


def references(pod: Object) -> References:
    """Every ConfigMap, Secret and claim that a pod's volumes and variables name."""
    found: dict[str, set[str]] = {"configMap": set(), "secret": set(), "claim": set()}
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        for source in ((volume.get("projected") or {}).get("sources")) or (volume,):
            _note(found, "configMap", source.get("configMap"), "name")
            _note(found, "secret", source.get("secret"), "secretName", "name")
        _note(found, "claim", volume.get("persistentVolumeClaim"), "claimName")
    for container in containers(pod):
        for source in container.get("envFrom") or ():
            _note(found, "configMap", source.get("configMapRef"), "name")
            _note(found, "secret", source.get("secretRef"), "name")
        for variable in container.get("env") or ():
            origin = variable.get("valueFrom") or {}
            _note(found, "configMap", origin.get("configMapKeyRef"), "name")
            _note(found, "secret", origin.get("secretKeyRef"), "name")
    return References(frozenset(found["configMap"]), frozenset(found["secret"]), frozenset(found["claim"]))


def _note(found: dict[str, set[str]], kind: str, ref: Object | None, *keys: str) -> None:
    name = next((ref[key] for key in keys if ref.get(key)), None) if ref else None
    if name:
        found[kind].add(str(name))


def key_of(lookup: Lookup, kind: str, ref: Object, namespace: str) -> bytes | None:
    """One key of a ConfigMap or Secret; None when it may be missing and is."""
    name, key = str(ref.get("name", "")), str(ref.get("key", ""))
    files = lookup.config_map(name) if kind == "configMap" else lookup.secret(name)
    if files is None:
        if ref.get("optional"):
            return None
        raise missing(kind, name)
    if key not in files:
        if ref.get("optional"):
            return None
        shown = "ConfigMap" if kind == "configMap" else "Secret"
        raise ConfigInvalid(f"couldn't find key {key} in {shown} {namespace}/{name}")
    return files[key]


def missing(kind: str, name: str) -> ConfigInvalid:
    """No such ConfigMap or Secret."""
    return ConfigInvalid(f'{kind.lower()} "{name}" not found')
