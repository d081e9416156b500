"""What stands in volumes that are made of API objects: ConfigMap, Secret, projected, downwardAPI. Pure.

In: a volume of the pod's spec and a `Lookup`. Out: files with bytes and modes. `volumes` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kube_local.node import sources
from kube_local.node.errors import MountFailed
from kube_local.node.paths import file_path
from kube_local.node.sources import Lookup, Object, Place

KINDS = ("configMap", "secret", "projected", "downwardAPI")
DEFAULT_MODE = 0o644


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume."""

    data: bytes
    mode: int


def files(pod: Object, volume: Object, lookup: Lookup, place: Place) -> dict[str, File]:
    """Every file of a volume, by its path in it."""
    # Checked here, where all sources meet: a path comes from a spec, a key from an object.
    return {file_path(path, "path"): file for path, file in _all(pod, volume, lookup, place)}


def _all(pod: Object, volume: Object, lookup: Lookup, place: Place) -> Iterator[tuple[str, File]]:
    kind = next(kind for kind in KINDS if kind in volume)
    source: Mapping[str, Any] = volume[kind] or {}
    mode = int(source.get("defaultMode", DEFAULT_MODE))
    if kind != "projected":
        yield from _of_source(pod, kind, source, lookup, place, mode)
        return
    for each in source.get("sources") or ():
        for part, inner in each.items():
            yield from _of_source(pod, part, inner or {}, lookup, place, mode)


def _of_source(
    pod: Object, kind: str, source: Object, lookup: Lookup, place: Place, mode: int
) -> Iterator[tuple[str, File]]:
    if kind == "downwardAPI":
        yield from _downward(pod, source, place, mode)
    elif kind in {"configMap", "secret"}:
        yield from _of_object(kind, source, lookup, mode)
    elif kind == "serviceAccountToken":
        yield str(source.get("path", "token")), File(b"", 0o600)
    else:
        raise MountFailed(f"a projected volume of {kind} is not supported in local mode")


def _of_object(kind: str, source: Object, lookup: Lookup, mode: int) -> Iterator[tuple[str, File]]:
    # A secret volume says secretName, everything else says name.
    name = str(source.get("secretName") or source.get("name") or "")
    found = lookup.config_map(name) if kind == "configMap" else lookup.secret(name)
    if found is None:
        if source.get("optional"):
            return
        raise MountFailed(f'{kind.lower()} "{name}" not found')
    items = source.get("items")
    if items is None:
        yield from ((key, File(data, mode)) for key, data in found.items())
        return
    for item in items:
        if item["key"] in found:
            yield str(item["path"]), File(found[item["key"]], int(item.get("mode") or mode))
        elif not source.get("optional"):
            raise MountFailed(f"{kind.lower()} references non-existent {kind.lower()} key: {item['key']}")


def _downward(pod: Object, source: Object, place: Place, mode: int) -> Iterator[tuple[str, File]]:
    for item in source.get("items") or ():
        if "fieldRef" in item:
            text = sources.of_pod(pod, place, str(item["fieldRef"].get("fieldPath", "")))
        else:
            text = sources.of_resources(pod, {}, place, item.get("resourceFieldRef") or {})
        yield str(item["path"]), File(text.encode(), int(item.get("mode") or mode))
