"""What `slurm-operator check` says of a namespace as it would be with manifests applied, for `kubectl slurm plan`.

In: facts, and a world of files. Out: findings, and what a forecast says of all that would not be refused. The rules,
references and the linter are those of `cli/check.py`: what it finds in files, it finds here, with what the namespace
holds besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.validate import decode
from slurm_operator.cli.check import check
from slurm_operator.cli.findings import INVALID_FIELD, Finding
from slurm_operator.cli.manifests import Manifest
from slurm_operator.cli.places import Place, Places
from slurm_operator.cli.world import World, add
from slurm_operator.diagnose.facts import Facts, Object, name_of
from slurm_operator.diagnose.forecast import Effect, forecast, secrets_of

# What else `check` looks at, with the parts that it reads.
OTHERS = {"ConfigMap": ("data",), "PersistentVolumeClaim": ("spec",), "Node": ()}
# With these the API server, or the operator, takes nothing of a resource; others concern its configuration alone.
REFUSED_WHOLE = frozenset({"Refused", INVALID_FIELD, "Duplicate", "ReferenceNotFound"})
KEPT_METADATA = ("name", "namespace", "labels", "annotations", "creationTimestamp", "deletionTimestamp")


@dataclass(frozen=True, slots=True)
class Planned:
    """What would happen, and what is wrong with the manifests."""

    effects: list[Effect]
    findings: list[Finding]

    @property
    def is_refused(self) -> bool:
        """Whether something would not come about."""
        wrong = any(each.severity == "error" for each in self.findings)
        return wrong or any(each.way == "refused" for each in self.effects)


def planned(facts: Facts, world: World) -> Planned:
    """What would happen if the manifests of these files were applied."""
    given = [_in_namespace(facts, each) for each in world.manifests]
    known = set(check(_world(facts, [])))
    unread = {each for each in world.findings if not each.object}
    found = sorted({*check(_world(facts, given)), *unread} - known)
    errors = [each for each in found if each.severity == "error" and each.object]
    whole = {_what(each) for each in errors if each.code in REFUSED_WHOLE or each.object.startswith("Partition ")}
    wanted = [each.value for each in given if _is_ours(each.value) and _title(each.value) not in whole]
    # What the configuration of a Controller would be, nobody can say while it is refused.
    unclear = any(each.object.startswith(("Controller ", "ConfigMap ")) for each in errors)
    effects = [
        each
        for each in forecast(facts, wanted, world.given())
        if not (unclear and each.what.startswith("slurm.conf of "))
    ]
    refused = [Effect(_what(each), "refused", str(each)) for each in errors]
    return Planned([*refused, *(each for each in effects if not _is_repeated(each, refused))], found)


def _is_repeated(effect: Effect, refused: Iterable[Effect]) -> bool:
    """Whether a builder refuses what a rule has already refused."""
    return effect.way == "refused" and any(each.what == effect.what for each in refused)


def _what(finding: Finding) -> str:
    kind, _, name = finding.object.partition(" ")
    return f"{kind} {name.rpartition('/')[2]}"


def _title(value: Mapping[str, Any]) -> str:
    return f"{value.get('kind')} {name_of(value)}"


def _is_ours(value: Mapping[str, Any]) -> bool:
    return value.get("kind") in BY_NAME and isinstance(value.get("metadata"), dict) and bool(name_of(value))


def _in_namespace(facts: Facts, manifest: Manifest) -> Manifest:
    """A manifest as it would be applied here; one that is there already stays as old as it is."""
    metadata = manifest.value.get("metadata")
    if not isinstance(metadata, dict):
        return manifest
    there = facts.get(str(manifest.value.get("kind")), str(metadata.get("name"))) or {}
    born = (there.get("metadata") or {}).get("creationTimestamp")
    placed = {**metadata, "namespace": facts.namespace, **({"creationTimestamp": born} if born else {})}
    return replace(manifest, value={**manifest.value, "metadata": placed})


def _world(facts: Facts, given: list[Manifest]) -> World:
    """The namespace as it would be."""
    world = World(is_partial=True)
    taken = set[str]()
    for each in given:
        taken.add(_title(each.value))
        add(world, each)
    readable = [each.value for each in given if _is_ours(each.value) and decode(each.value).resource is not None]
    for value in _objects(facts, readable):
        if _title(value) not in taken:
            add(world, Manifest(f"{_title(value)} (in the cluster)", 0, value, Places(Place(0, 0))))
    for kind in BY_NAME:
        for raw in facts.every(kind):
            old = decode(raw, served=True).readable
            if old is not None:
                world.before[facts.namespace, kind, name_of(raw)] = old
    return world


def _objects(facts: Facts, given: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What the namespace holds now, in the form of manifests."""
    for kind in BY_NAME:
        yield from (_kept(facts, kind, str(each.get("apiVersion")), each, ("spec",)) for each in facts.every(kind))
    for kind, parts in OTHERS.items():
        yield from (_kept(facts, kind, "v1", each, parts) for each in facts.every(kind))
    for name, keys in secrets_of(facts, given).items():
        # Fingerprints: that a key is there is all that matters.
        texts = {key: value.decode() for key, value in keys.items()}
        metadata = {"name": name, "namespace": facts.namespace}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": texts}


def _kept(facts: Facts, kind: str, version: str, item: Object, parts: Iterable[str]) -> dict[str, Any]:
    metadata = {key: value for key, value in (item.get("metadata") or {}).items() if key in KEPT_METADATA}
    metadata = {**metadata, "name": name_of(item)}
    if kind != "Node":
        metadata["namespace"] = facts.namespace
    given = {part: item[part] for part in parts if item.get(part) is not None}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **given}
