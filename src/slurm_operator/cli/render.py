"""`slurm-operator render`: every object and file that custom resources become.

In: a world of files. Out: Kubernetes objects in a stable order, or the text of slurm.conf. Nothing is asked and nothing
is written. Keys and tokens that the operator generates once are not shown: a note says which.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from slurm_operator.api.controller import Controller
from slurm_operator.api.loginset import LoginSet
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import Partition
from slurm_operator.api.token import Token
from slurm_operator.build import accounting, controller, loginset, names, nodeset, restapi
from slurm_operator.build.errors import BuildError
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import slurm_conf
from slurm_operator.cli import findings
from slurm_operator.cli.findings import Finding
from slurm_operator.cli.world import Loaded, World

BUILDERS: dict[str, Callable[[Any, Refs], list[Object]]] = {
    "Controller": controller.objects,
    "Accounting": accounting.objects,
    "RestApi": restapi.objects,
    "LoginSet": loginset.objects,
}


@dataclass(slots=True)
class Rendered:
    """What a world becomes."""

    objects: list[tuple[str, Object]] = field(default_factory=list)
    slurm_confs: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def of_kinds(self, kinds: Iterable[str]) -> list[Object]:
        """The objects of some kinds, or made by resources of some kinds; all when none are named."""
        wanted = {kind.lower() for kind in kinds}
        return [each for source, each in self.objects if not wanted or {source.lower(), each["kind"].lower()} & wanted]


def nothing_to_show(result: Rendered, kinds: Iterable[str], slurm_conf: bool) -> str:
    """Why there is nothing of what was asked for; empty when there is something."""
    if slurm_conf:
        return "" if result.slurm_confs else "there is no Controller in these files, so there is no slurm.conf"
    if not kinds or result.of_kinds(kinds):
        return ""
    there = sorted({each["kind"] for _, each in result.objects})
    return f"these files give no {' or '.join(kinds)}; they give: {', '.join(there) or 'nothing'}"


def render(world: World) -> Rendered:
    """Build everything that can be built."""
    result = Rendered()
    refs = {namespace: world.refs(namespace) for namespace in world.namespaces}
    for loaded in world.loaded():
        try:
            _one(result, loaded, refs[loaded.resource.namespace], world)
        except BuildError as error:
            result.findings.append(_finding(loaded, error))
    return result


def _finding(loaded: Loaded, error: BuildError) -> Finding:
    return findings.of_field(loaded.manifest, error.problem, error.reason)


def _one(result: Rendered, loaded: Loaded, refs: Refs, world: World) -> None:
    resource = loaded.resource
    kind = type(resource).__name__
    if isinstance(resource, NodeSet):
        built = nodeset.objects(resource, refs, sorted(set(world.nodes), key=lambda worker: str(worker.node)))
    elif kind in BUILDERS:
        built = BUILDERS[kind](resource, refs)
    else:
        built = []
    if isinstance(resource, Controller):
        built += nodeset.shared_objects(resource, refs)
        result.slurm_confs[f"{resource.namespace}/{resource.name}"] = slurm_conf(resource, refs).text
    result.objects += [(kind, each) for each in built]
    result.notes += _notes(loaded, world)


def _notes(loaded: Loaded, world: World) -> Iterator[str]:
    resource = loaded.resource
    if isinstance(resource, LoginSet):
        yield f"Secret {names.ssh_host_keys(resource)}: ssh host keys, generated once by the operator"
    elif isinstance(resource, Token):
        yield f"Secret {names.token_secret(resource)}: a token, signed and renewed by the operator"
    elif isinstance(resource, NodeSet) and resource.is_daemon and not world.nodes:
        yield f"Pods of NodeSet {resource.name}: one for each matching Node; add Node manifests to see them"
    elif isinstance(resource, Partition):
        yield f"Partition {resource.name}: a line in slurm.conf of Controller {resource.spec.controller_ref.name}"


def as_json(objects: list[Object]) -> str:
    """Objects as one JSON list that kubectl takes."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2) + "\n"


def as_yaml(objects: list[Object], notes: Iterable[str] = ()) -> Iterator[str]:
    """Objects as YAML documents, one by one."""
    import yaml

    dumper = _dumper()
    for note in notes:
        yield f"# not shown: {note}\n"
    for each in objects:
        yield "---\n"
        yield yaml.dump(each, Dumper=dumper, sort_keys=False, width=120, allow_unicode=True)


def _dumper() -> Any:
    import yaml

    # Text of several lines becomes a block, and nothing an alias: the output is for people to read.
    dumper: Any = type("Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
    dumper.ignore_aliases = lambda *_: True
    dumper.add_representer(str, _represent_text)
    return dumper


def _represent_text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value and not any(line.endswith(" ") for line in value.splitlines()) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)
