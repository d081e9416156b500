"""Files as a world: which resources there are, and what each namespace holds for them to refer to.

In: manifests. Out: typed resources with their places, one `Refs` for each namespace, and what could not be read. Used
by `render`, `check` and `kubectl slurm plan`; no cluster is asked here.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, BinaryIO

from kube_runtime.text import shown
from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.meta import GROUP, Resource
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import Partition
from slurm_operator.api.problem import FieldProblem, Path
from slurm_operator.api.restapi import RestApi
from slurm_operator.api.validate import decode, decode_part
from slurm_operator.build import labels
from slurm_operator.build.nodeset import WorkerIdentity
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import may_serve_partitions
from slurm_operator.cli import findings
from slurm_operator.cli.findings import Finding
from slurm_operator.cli.manifests import Manifest, read
from slurm_operator.cli.places import Problem

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A resource and the manifest that it came from."""

    resource: Resource
    manifest: Manifest
    # Fields that could not be read: the resource is what the others say.
    left_out: tuple[Path, ...] = ()


@dataclass(slots=True)
class Namespace:
    """What one namespace holds, while it is being read."""

    resources: dict[tuple[str, str], Loaded] = field(default_factory=dict)
    config_maps: dict[str, Manifest] = field(default_factory=dict)
    secrets: dict[str, Manifest] = field(default_factory=dict)
    claims: dict[str, Manifest] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """Everything that was read."""

    namespaces: dict[str, Namespace] = field(default_factory=dict)
    nodes: list[WorkerIdentity] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    documents: int = 0
    manifests: list[Manifest] = field(default_factory=list)
    # Whether resources with wrong fields are kept, without those fields: for whoever looks for further mistakes.
    is_partial: bool = False
    # By namespace, kind and name.
    broken: set[tuple[str, str, str]] = field(default_factory=set)
    # What a cluster holds now of the same name: some fields may not change.
    before: dict[tuple[str, str, str], Resource] = field(default_factory=dict)

    def refs(self, namespace: str) -> Refs:
        """What the builders may look at in a namespace."""
        here = self.namespaces[namespace]
        by_kind = {kind: _of_kind(here, kind) for kind in (Controller, Accounting, NodeSet, Partition, RestApi)}
        return Refs(
            controllers={each.name: each for each in by_kind[Controller] if isinstance(each, Controller)},
            accountings={each.name: each for each in by_kind[Accounting] if isinstance(each, Accounting)},
            nodesets=tuple(each for each in by_kind[NodeSet] if isinstance(each, NodeSet)),
            partitions=tuple(each for each in by_kind[Partition] if isinstance(each, Partition)),
            served=frozenset(_served(by_kind[RestApi])),
            config_maps={name: dict(text_data(manifest.value)) for name, manifest in here.config_maps.items()},
            secrets={name: dict(_secret_data(manifest.value)) for name, manifest in here.secrets.items()},
            claims={name: access_modes(manifest.value) for name, manifest in here.claims.items()},
            kubernetes_nodes=len(self.nodes),
        )

    def given(self) -> tuple[dict[str, Mapping[str, str]], dict[str, Mapping[str, bytes]]]:
        """The ConfigMaps and Secrets of every namespace that was read, by name."""
        every = [self.refs(namespace) for namespace in sorted(self.namespaces)]
        return (
            {name: data for each in every for name, data in each.config_maps.items()},
            {name: data for each in every for name, data in each.secrets.items()},
        )

    def loaded(self) -> Iterator[Loaded]:
        """Every resource, in an order that does not depend on the files."""
        order = {kind: position for position, kind in enumerate(BY_NAME)}
        for namespace in sorted(self.namespaces):
            resources = self.namespaces[namespace].resources
            for key in sorted(resources, key=lambda key: (order[key[0]], key[1])):
                yield resources[key]


def _of_kind(namespace: Namespace, kind: type[Resource]) -> list[Resource]:
    loaded = (each.resource for each in namespace.resources.values() if isinstance(each.resource, kind))
    return sorted(loaded, key=lambda resource: resource.name)


def _served(restapis: Iterable[Resource]) -> Iterator[str]:
    mine = (each for each in restapis if isinstance(each, RestApi))
    return (each.spec.controller_ref.name for each in mine if may_serve_partitions(each))


def load(paths: Iterable[str], stdin: BinaryIO | None = None, *, partial: bool = False) -> World:
    """Read files, folders or standard input; `partial` keeps what can be read of resources that have errors."""
    world = World(is_partial=partial)
    for path in paths:
        in_folder = path != "-" and FilePath(path).is_dir()
        for item in read([path], stdin):
            if isinstance(item, Problem):
                world.findings.append(findings.of_problem(item))
            # In a folder, values of a chart, say, may lie beside the manifests.
            elif not in_folder or is_manifest(item.value):
                world.documents += 1
                world.manifests.append(item)
                add(world, item)
    return world


def is_manifest(value: Mapping[str, Any]) -> bool:
    """Whether a document means to be an object of Kubernetes."""
    return "kind" in value or "apiVersion" in value


def add(world: World, manifest: Manifest) -> None:
    """Take one more manifest into a world; of two with the same name, the first counts."""
    value = manifest.value
    kind = value.get("kind")
    if not is_manifest(value):
        place, message = manifest.places.root, "this is no manifest: it has neither apiVersion nor kind"
        world.findings.append(findings.of_problem(Problem(manifest.source, place.line, place.column, message)))
    elif not isinstance(kind, str):
        problem = FieldProblem(("kind",), "is required" if kind is None else f"must be a string, not {shown(kind)}")
        world.findings.append(findings.of_field(manifest, problem, "InvalidField"))
    elif str(value.get("apiVersion", "")).partition("/")[0] == GROUP or kind in BY_NAME:
        _add_resource(world, manifest)
    elif kind in ("ConfigMap", "Secret"):
        _add_data(world, manifest)
    elif kind == "PersistentVolumeClaim":
        namespace, name = _key(value)
        world.namespaces.setdefault(namespace, Namespace()).claims[name] = manifest
    elif kind == "Node":
        world.nodes.append(_worker(value))


def _add_resource(world: World, manifest: Manifest) -> None:
    decoded = decode(_in_namespace(manifest.value))
    world.findings += [findings.of_field(manifest, problem, "InvalidField") for problem in decoded.problems]
    namespace, name = _key(manifest.value)
    resource = decoded.resource
    left_out: tuple[Path, ...] = ()
    if resource is None:
        # Others may refer to it: that it is broken is said once, here.
        world.broken.add((namespace, str(manifest.value.get("kind")), name))
        resource, left_out = decode_part(_in_namespace(manifest.value)) if world.is_partial else (None, ())
    if resource is None:
        return
    here = world.namespaces.setdefault(namespace, Namespace())
    key = (type(resource).__name__, name)
    if key in here.resources:
        _report_twin(world, manifest, here.resources[key].manifest)
    else:
        here.resources[key] = Loaded(resource, manifest, left_out)


def _add_data(world: World, manifest: Manifest) -> None:
    namespace, name = _key(manifest.value)
    here = world.namespaces.setdefault(namespace, Namespace())
    table = here.config_maps if manifest.value["kind"] == "ConfigMap" else here.secrets
    if name in table:
        _report_twin(world, manifest, table[name])
    else:
        table[name] = manifest
    world.findings += [
        findings.of_field(manifest, problem, "InvalidField") for problem in _data_problems(manifest.value)
    ]


def _report_twin(world: World, manifest: Manifest, first: Manifest) -> None:
    where = f"{first.source}:{first.places.line(('metadata', 'name'))}"
    problem = FieldProblem(("metadata", "name"), f"{findings.title(manifest.value)} is defined twice; first in {where}")
    world.findings.append(findings.of_field(manifest, problem, "Duplicate"))


def _key(value: Mapping[str, Any]) -> tuple[str, str]:
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return str(metadata.get("namespace") or DEFAULT_NAMESPACE), str(metadata.get("name") or "")


def _in_namespace(value: Mapping[str, Any]) -> dict[str, Any]:
    metadata = value.get("metadata")
    if not isinstance(metadata, Mapping):
        return {**value, "metadata": {"namespace": DEFAULT_NAMESPACE}} if metadata is None else dict(value)
    return {**value, "metadata": {**metadata, "namespace": metadata.get("namespace") or DEFAULT_NAMESPACE}}


def text_data(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The text entries of a ConfigMap."""
    data = value.get("data")
    if isinstance(data, Mapping):
        yield from ((str(key), text) for key, text in data.items() if isinstance(text, str))


def access_modes(value: Mapping[str, Any]) -> tuple[str, ...]:
    """What a PersistentVolumeClaim allows."""
    spec = value.get("spec")
    modes = spec.get("accessModes") if isinstance(spec, Mapping) else None
    return tuple(str(mode) for mode in modes) if isinstance(modes, list) else ()


def _secret_data(value: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    data, strings = value.get("data"), value.get("stringData")
    if isinstance(data, Mapping):
        yield from ((str(key), raw) for key, text in data.items() if (raw := _decoded(text)) is not None)
    if isinstance(strings, Mapping):
        yield from ((str(key), text.encode()) for key, text in strings.items() if isinstance(text, str))


def _decoded(text: object) -> bytes | None:
    # Kubernetes skips line breaks in base64, and only those.
    try:
        return b64decode(re.sub(r"[\r\n]", "", text), validate=True) if isinstance(text, str) else None
    except (Base64Error, ValueError):
        return None


def _data_problems(value: Mapping[str, Any]) -> Iterator[FieldProblem]:
    for name in ("data", "stringData"):
        entries = value.get(name)
        if entries is None:
            continue
        if not isinstance(entries, Mapping):
            yield FieldProblem((name,), "must be a mapping")
            continue
        for key, text in entries.items():
            if not isinstance(text, str):
                yield FieldProblem((name, str(key)), "must be a string; put it in quotes")
            elif value["kind"] == "Secret" and name == "data" and _decoded(text) is None:
                yield FieldProblem((name, str(key)), "is not base64; plain text belongs in stringData")


def _worker(value: Mapping[str, Any]) -> WorkerIdentity:
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    annotations = metadata.get("annotations")
    annotations = annotations if isinstance(annotations, Mapping) else {}
    override = annotations.get(labels.HOSTNAME_OVERRIDE)
    return WorkerIdentity(node=str(metadata.get("name")), hostname_override=str(override) if override else None)
