"""`slurm-operator check`: everything that is wrong with a set of manifests, found without a cluster.

In: a world of files. Out: findings of the reader, the rules of admission, the references and the slurm.conf linter,
each led back to the file and line that a person wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kube_runtime.text import first_few
from slurm_operator.admission import rules
from slurm_operator.admission.rules import reach
from slurm_operator.api import text
from slurm_operator.api.controller import Controller, ControllerSpec
from slurm_operator.api.meta import ObjectMeta
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.problem import FieldProblem, Path, Severity, format_path
from slurm_operator.api.validate import decode_part
from slurm_operator.build import hostnames
from slurm_operator.build.conf_origin import EXTRA_CONF, Origin, Origins
from slurm_operator.build.controller import CGROUP_CONF, CGROUP_FILE, extra_names
from slurm_operator.build.errors import BuildError
from slurm_operator.build.images import TRUSTED
from slurm_operator.build.partition import ACCEPTED
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import FILE, SlurmConf, slurm_conf, takes_partitions_live
from slurm_operator.cli import devices, findings, references
from slurm_operator.cli.findings import INVALID_FIELD, Finding
from slurm_operator.cli.manifests import Manifest
from slurm_operator.cli.render import render
from slurm_operator.cli.world import Loaded, Namespace, World
from slurm_operator.plan.lint import lint_all, slurm_version, without_mounted
from slurm_operator.slurm import conf
from slurm_operator.slurm.conf import Finding as LintFinding
from slurm_operator.slurm.requests import name_problem

# Findings of the linter that depend on what else is in the cluster.
ABOUT_OTHERS = frozenset({"NoNodes", "SecondDefault", "UnknownNode"})


def check(
    world: World,
    version: str | None = None,
    features: frozenset[str] | None = None,
    worker_images: tuple[str, ...] = TRUSTED,
) -> list[Finding]:
    """Everything that is wrong, by place; `features` are those that the operator allows templates, None all."""
    refs = {each: replace(world.refs(each), worker_images=worker_images) for each in world.namespaces}
    found = set(world.findings)
    for loaded in world.loaded():
        found |= set(_resource(loaded, refs[loaded.resource.namespace], world))
        if features is not None:
            found |= set(_pod_features(loaded, refs[loaded.resource.namespace], features))
    found |= set(_unmentioned(_configurations(world, refs, version), found))
    unbuildable = (finding for finding in render(world).findings if not _is_known_broken(finding, world))
    found |= set(_unmentioned(unbuildable, found))
    hidden = _Hidden(world)
    return sorted(finding for finding in found if not hidden.has(finding) and not _is_said_worse(finding, found))


def _is_said_worse(finding: Finding, found: set[Finding]) -> bool:
    """Whether a warning is about a reference that an error calls missing: to the webhook it may still come."""
    return finding.severity == "warning" and any(
        each.code == "ReferenceNotFound"
        and each.severity == "error"
        and (each.file, each.line, each.path) == (finding.file, finding.line, finding.path)
        for each in found
    )


class _Hidden:
    """What a field that cannot be read may be the only cause of: findings on it, around it or in it."""

    def __init__(self, world: World) -> None:
        self.paths: dict[tuple[str, str], list[str]] = {}
        for each in world.loaded():
            key = (each.manifest.source, findings.title(each.manifest.value))
            self.paths.setdefault(key, []).extend(map(format_path, each.left_out))

    def has(self, finding: Finding) -> bool:
        """Whether a finding may only be a consequence of a field that cannot be read."""
        wrong = self.paths.get((finding.file, finding.object), ())
        return finding.code != INVALID_FIELD and any(
            _is_within(finding.path, each) or _is_within(each, finding.path) for each in wrong
        )


def _is_within(path: str, outer: str) -> bool:
    return path == outer or (path.startswith(outer) and path[len(outer)] in ".[")


def _unmentioned(new: Iterator[Finding], found: set[Finding]) -> Iterator[Finding]:
    """What is new: an error that a rule already found in a field is not said again by the linter or the builder."""
    # What is not among the files is no error of the builder's either: it may be in the cluster.
    mentioned = {
        (each.file, each.line, each.path)
        for each in found
        if each.severity == "error" or each.code in references.NOT_GIVEN
    }
    return (each for each in new if (each.file, each.line, each.path) not in mentioned)


def _resource(loaded: Loaded, refs: Refs, world: World) -> Iterator[Finding]:
    new = loaded.resource
    for problem in rules.check(new, world.before.get((new.namespace, type(new).__name__, new.name)), refs):
        yield findings.of_field(loaded.manifest, problem, "Refused")
    yield from references.unresolved(loaded, refs, world)


def _pod_features(loaded: Loaded, refs: Refs, allowed: frozenset[str]) -> Iterator[Finding]:
    """What an operator refuses without a flag: nobody can tell from files how yours was started."""
    for row, problem in reach.reaches(loaded.resource, refs, "warning"):
        if row.feature not in allowed:
            yield findings.of_field(loaded.manifest, problem, "PodFeature")


def _configurations(world: World, refs: Mapping[str, Refs], version: str | None) -> Iterator[Finding]:
    for loaded in world.loaded():
        resource = loaded.resource
        if isinstance(resource, Controller) and not resource.spec.external:
            here = world.namespaces[resource.namespace]
            yield from _slurm_conf(resource, refs[resource.namespace], here, version)
    yield from _strays(world, refs, version)


def _strays(world: World, refs: Mapping[str, Refs], version: str | None) -> Iterator[Finding]:
    """What the linter says of the partitions of a cluster whose Controller is not among the files."""
    for namespace, mine in refs.items():
        here = world.namespaces[namespace]
        named = {each.spec.controller_ref.name for each in mine.nodesets}
        named |= {each.spec.controller_ref.name for each in mine.partitions}
        for name in sorted(named - mine.controllers.keys() - {""}):
            stand_in = Controller(metadata=ObjectMeta(name=name, namespace=namespace), spec=ControllerSpec())
            yield from _lines_of_members(stand_in, mine, here, version)


def _lines_of_members(cr: Controller, refs: Refs, here: Namespace, version: str | None) -> Iterator[Finding]:
    try:
        built = slurm_conf(cr, _named_nodesets(refs))
    except BuildError:
        return
    files = {FILE: built.text}
    origins = Origins(cr, refs, built, files)
    for finding in lint_all(files, "", version):
        origin = origins.of(finding.file, finding.line, finding.column)
        # Whatever a line names may be in the cluster; only its form can be judged.
        if origin and origin.kind != "Controller" and finding.code not in ABOUT_OTHERS:
            yield _at_origin(finding, origins, here, cr.name)


def _named_nodesets(refs: Refs) -> Refs:
    """Without NodeSets that have no name in Slurm, of which a rule complains."""
    return replace(refs, nodesets=tuple(each for each in refs.nodesets if not text.slurm_name(each.slurm_name)))


def _is_known_broken(finding: Finding, world: World) -> bool:
    # A reference to a resource that is there but broken: its own findings say so.
    return finding.code == "ReferenceNotFound" and any(
        f"{kind} '{name}'" in finding.message for _, kind, name in world.broken
    )


def _slurm_conf(cr: Controller, refs: Refs, here: Namespace, version: str | None) -> Iterator[Finding]:
    """What the linter says of the generated configuration, led back to where it was written."""
    is_whole = all(name in refs.config_maps for name in extra_names(cr))
    built = _built(cr, refs, here)
    if built is None:
        return
    cr, refs, made = built
    yield from _refused_partitions(made, here)
    yield from _unmakeable_partitions(cr, refs, here)
    yield from _unknown_hosts(made, refs.nodesets_of(cr), here)
    files = _files(cr, refs, made.text)
    origins = Origins(cr, refs, made, files)
    found = lint_all(files, cr.spec.extra_conf or "", version or slurm_version(cr))
    for finding in (*without_mounted(found, cr, refs), *devices.unasked(cr, refs, files)):
        # A file may be in a ConfigMap that is not among these files; that ConfigMap has its own finding.
        if is_whole or finding.code not in ("MissingFile", "MissingInclude", "MissingProgram"):
            yield _at_origin(finding, origins, here, cr.name)


def _built(cr: Controller, refs: Refs, here: Namespace) -> tuple[Controller, Refs, SlurmConf] | None:
    """The slurm.conf, and what it was built from: without what cannot be built, which is reported by itself."""
    empty: dict[str, dict[str, str]] = {name: {} for name in extra_names(cr)}
    refs = replace(_named_nodesets(refs), config_maps={**empty, **refs.config_maps})
    left_out: list[Path] = []
    while True:
        try:
            return cr, refs, slurm_conf(cr, refs)
        except BuildError as error:
            if error.path in left_out or len(error.path) < 2:
                return None
            left_out.append(error.path)
        part, _ = decode_part(here.resources["Controller", cr.name].manifest.value, left_out)
        if not isinstance(part, Controller):
            return None
        cr = part


def _refused_partitions(made: SlurmConf, here: Namespace) -> Iterator[Finding]:
    for acceptance in made.partitions:
        if acceptance.reason != ACCEPTED:
            manifest = here.resources[acceptance.kind, acceptance.resource].manifest
            yield findings.of_field(manifest, FieldProblem(acceptance.path, acceptance.message), acceptance.reason)


def _unknown_hosts(made: SlurmConf, nodesets: tuple[NodeSet, ...], here: Namespace) -> Iterator[Finding]:
    """Hosts that a Partition adds and no worker can have; one that is outside of Kubernetes may still register."""
    if not all(map(hostnames.is_numbered, nodesets)):
        # Their workers have the names of Kubernetes nodes, of which the files say nothing.
        return
    for each in made.partitions:
        unknown = [host for host in each.live_nodes if not any(hostnames.may_have(one, host) for one in nodesets)]
        if each.accepted and unknown:
            message = f"no NodeSet has {first_few(unknown)}, nor does extraConf: the partition is without it"
            problem = FieldProblem(("spec", "nodes"), message, "warning")
            yield findings.of_field(here.resources[each.kind, each.resource].manifest, problem, "NodesNotAdded")


def _unmakeable_partitions(cr: Controller, refs: Refs, here: Namespace) -> Iterator[Finding]:
    """Partitions of extraConf whose names slurmrestd is never sent; where it makes partitions, nothing else does."""
    manifest = here.resources["Controller", cr.name].manifest
    severity: Severity = "error" if takes_partitions_live(cr, refs) else "warning"
    for entry in conf.parse(cr.spec.extra_conf or "").all("PartitionName"):
        problem = name_problem("partition", entry.value)
        if problem:
            text = f"{problem}; where slurmrestd makes partitions, as from Slurm 26.05 on, it is left out"
            below = _offset(Origin("Controller", cr.name, EXTRA_CONF, entry.line), manifest)
            yield findings.of_field(manifest, FieldProblem(EXTRA_CONF, text, severity), "InvalidSpec", below)


def _files(cr: Controller, refs: Refs, text: str) -> dict[str, str]:
    """The files as the operator publishes them together."""
    files = {FILE: text, CGROUP_FILE: CGROUP_CONF}
    for name in extra_names(cr):
        files |= {file: content for file, content in refs.config_maps.get(name, {}).items() if file != FILE}
    return files


def _at_origin(finding: LintFinding, origins: Origins, here: Namespace, controller: str) -> Finding:
    """A finding of the linter, at the place where its line was written."""
    # A finding in a file that the operator wrote is reported on the Controller.
    default = Origin("Controller", controller, ("spec",))
    origin = origins.of(finding.file, finding.line, finding.column) or default
    manifest, message = _manifest(origin, here), finding.without_place
    other = origins.of(*finding.other) if finding.other else None
    if finding.other and other:
        elsewhere = _manifest(other, here)
        place = f"{elsewhere.source}:{elsewhere.places.line(other.path) + _offset(other, elsewhere)}"
        message = message.replace(f"{finding.other[0]}:{finding.other[1]}", place)
    if origin.path == default.path:
        message = f"{message} (in line {finding.line} of {finding.file})"
    problem = FieldProblem(origin.path, message, finding.severity)
    return findings.of_field(manifest, problem, finding.code, _offset(origin, manifest))


def _manifest(origin: Origin, here: Namespace) -> Manifest:
    if origin.kind == "ConfigMap":
        return here.config_maps[origin.name]
    return here.resources[origin.kind, origin.name].manifest


def _offset(origin: Origin, manifest: Manifest) -> int:
    """How many lines below its key a line stands: a block starts on the next line, a quoted line on the same one."""
    text: Any = manifest.value
    for step in origin.path:
        text = text.get(step) if isinstance(text, dict) else None
    return origin.line if isinstance(text, str) and "\n" in text else 0
