"""`slurm-operator check`: everything that is wrong with a set of manifests, found without a cluster.

In: a world of files. Out: findings of the reader, the rules of admission, the references and the slurm.conf linter,
each led back to the file and line that a person wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from slurm_operator.admission import rules
from slurm_operator.admission.rules import reach
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import SecretKeySelector
from slurm_operator.api.problem import FieldProblem, Path
from slurm_operator.build.conf_origin import Origin, Origins
from slurm_operator.build.controller import CGROUP_CONF, CGROUP_FILE, extra_names
from slurm_operator.build.errors import BuildError
from slurm_operator.build.images import TRUSTED
from slurm_operator.build.partition import ACCEPTED
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import FILE, SlurmConf, slurm_conf
from slurm_operator.cli import findings
from slurm_operator.cli.findings import Finding
from slurm_operator.cli.manifests import Manifest
from slurm_operator.cli.render import render
from slurm_operator.cli.world import Loaded, Namespace, World
from slurm_operator.plan.lint import lint_all, slurm_version
from slurm_operator.slurm.conf import Finding as LintFinding

# Findings on a resource that is not among the files, but may be in the cluster.
NOT_GIVEN = frozenset({"ControllerNotGiven", "SecretNotGiven"})


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
    return sorted(found)


def _unmentioned(new: Iterator[Finding], found: set[Finding]) -> Iterator[Finding]:
    """What is new: an error that a rule already found in a field is not said again by the linter or the builder."""
    # What is not among the files is no error of the builder's either: it may be in the cluster.
    mentioned = {
        (each.file, each.line, each.path) for each in found if each.severity == "error" or each.code in NOT_GIVEN
    }
    return (each for each in new if (each.file, each.line, each.path) not in mentioned)


def _resource(loaded: Loaded, refs: Refs, world: World) -> Iterator[Finding]:
    for problem in rules.check(loaded.resource, None, refs):
        yield findings.of_field(loaded.manifest, problem, "Refused")
    yield from _secrets(loaded, refs)
    yield from _controller(loaded, refs, world)


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


def _is_known_broken(finding: Finding, world: World) -> bool:
    # A reference to a resource that is there but broken: its own findings say so.
    return finding.code == "ReferenceNotFound" and any(
        f"{kind} '{name}'" in finding.message for _, kind, name in world.broken
    )


def _controller(loaded: Loaded, refs: Refs, world: World) -> Iterator[Finding]:
    """A Controller that is not among the files: an error if they have another one, else it may be in the cluster."""
    ref = getattr(getattr(loaded.resource, "spec", None), "controller_ref", None)
    namespace, name = loaded.resource.namespace, ref.name if ref else ""
    if not name or name in refs.controllers or (namespace, "Controller", name) in world.broken:
        return
    path: Path = ("spec", "controllerRef", "name")
    if refs.controllers:
        known = ", ".join(sorted(refs.controllers))
        problem = FieldProblem(path, f"Controller {name!r} is not in this namespace; the files have {known}")
        yield findings.of_field(loaded.manifest, problem, "ReferenceNotFound")
    else:
        message = f"Controller {name!r} is not among the files, so this resource is not checked together with it"
        yield findings.of_field(loaded.manifest, FieldProblem(path, message, "warning"), "ControllerNotGiven")


def _secrets(loaded: Loaded, refs: Refs) -> Iterator[Finding]:
    """References to Secrets that are not among the files: they may well be in the cluster, so only a warning."""
    for path, ref in _secret_refs(loaded):
        if not ref.name or ref.optional:
            continue
        if ref.name not in refs.secrets:
            problem = FieldProblem((*path, "name"), f"Secret {ref.name!r} is not among the files", "warning")
            yield findings.of_field(loaded.manifest, problem, "SecretNotGiven")
        elif ref.key not in refs.secrets[ref.name]:
            problem = FieldProblem((*path, "key"), f"Secret {ref.name!r} has no key {ref.key!r}")
            yield findings.of_field(loaded.manifest, problem, "ReferenceNotFound")


def _secret_refs(loaded: Loaded) -> Iterator[tuple[Path, SecretKeySelector]]:
    spec = getattr(loaded.resource, "spec", None)
    for attribute, field in (
        ("slurm_key_ref", "slurmKeyRef"),
        ("jwt_key_ref", "jwtKeyRef"),
        ("jwt_hs256_key_ref", "jwtHs256KeyRef"),
        ("sssd_conf_ref", "sssdConfRef"),
    ):
        ref = getattr(spec, attribute, None)
        if ref is not None:
            yield ("spec", field), ref
    storage = getattr(spec, "storage_config", None)
    if storage is not None:
        yield ("spec", "storageConfig", "passwordKeyRef"), storage.password_key_ref
    ssh = getattr(spec, "ssh", None)
    if ssh is not None and ssh.enabled and ssh.sssd_conf_ref is not None:
        yield ("spec", "ssh", "sssdConfRef"), ssh.sssd_conf_ref


def _slurm_conf(cr: Controller, refs: Refs, here: Namespace, version: str | None) -> Iterator[Finding]:
    """What the linter says of the generated configuration, led back to where it was written."""
    try:
        conf = slurm_conf(cr, refs)
    except BuildError:
        return
    yield from _refused_partitions(conf, here)
    files = _files(cr, refs, conf.text)
    origins = Origins(cr, refs, conf, files)
    for finding in lint_all(files, cr.spec.extra_conf or "", version or slurm_version(cr)):
        yield _at_origin(finding, origins, here, cr.name)


def _refused_partitions(conf: SlurmConf, here: Namespace) -> Iterator[Finding]:
    for acceptance in conf.partitions:
        if acceptance.reason != ACCEPTED:
            manifest = here.resources[acceptance.kind, acceptance.resource].manifest
            yield findings.of_field(manifest, FieldProblem(acceptance.path, acceptance.message), acceptance.reason)


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
