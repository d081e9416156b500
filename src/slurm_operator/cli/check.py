"""`slurm-operator check`: everything that is wrong with a set of manifests, found without a cluster.

In: a world of files. Out: findings of the reader, the rules of admission, the references and the slurm.conf linter,
each led back to the file and line that a person wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slurm_operator.admission import rules
from slurm_operator.admission.rules import reach
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import SecretKeySelector
from slurm_operator.api.partition import Partition
from slurm_operator.api.problem import FieldProblem, Path
from slurm_operator.build import images
from slurm_operator.build.controller import CGROUP_CONF, CGROUP_FILE
from slurm_operator.build.errors import BuildError
from slurm_operator.build.partition import ACCEPTED
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import FILE, OWNED_KEYS, SlurmConf, slurm_conf
from slurm_operator.cli import findings
from slurm_operator.cli.findings import Finding
from slurm_operator.cli.manifests import Manifest
from slurm_operator.cli.render import render
from slurm_operator.cli.world import Loaded, Namespace, World, text_data
from slurm_operator.slurm import conf_lint
from slurm_operator.slurm.conf import Finding as LintFinding

EXTRA_HEADER = "### EXTRA CONFIG ###"
# Within extraConf these are mistakes; against the operator's own lines they are how a default is overridden.
ONLY_IN_EXTRA = frozenset({"DuplicateKey", "OwnedKey"})
# Lines of the operator's own that are there because a field asks for them.
ASKED_FOR: dict[str, Path] = {"MetricsType": ("spec", "metrics", "enabled")}


def check(world: World, version: str | None = None, features: frozenset[str] | None = None) -> list[Finding]:
    """Everything that is wrong, by place; `features` are those that the operator allows templates, None all."""
    refs = {namespace: world.refs(namespace) for namespace in world.namespaces}
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
    # A Secret that is not among the files is no error of the builder's either: it may be in the cluster.
    mentioned = {
        (each.file, each.line, each.path) for each in found if each.severity == "error" or each.code == "SecretNotGiven"
    }
    return (each for each in new if (each.file, each.line, each.path) not in mentioned)


def _resource(loaded: Loaded, refs: Refs, world: World) -> Iterator[Finding]:
    for problem in rules.check(loaded.resource, None, refs):
        yield findings.of_field(loaded.manifest, problem, "Refused")
    yield from _secrets(loaded, refs)
    if isinstance(loaded.resource, Partition):
        yield from _partition(loaded, refs, world)


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


def _partition(loaded: Loaded, refs: Refs, world: World) -> Iterator[Finding]:
    """A Partition's Controller: unlike the other kinds, a Partition is no object of its own that would miss it."""
    resource = loaded.resource
    name = resource.spec.controller_ref.name if isinstance(resource, Partition) else ""
    if name and name not in refs.controllers and (resource.namespace, "Controller", name) not in world.broken:
        problem = FieldProblem(("spec", "controllerRef", "name"), f"Controller {name!r} is not in this namespace")
        yield findings.of_field(loaded.manifest, problem, "ReferenceNotFound")


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
    origins = _Origins(cr, conf, here)
    yield from _refused_partitions(conf, here)
    files, owners = _files(cr, here, conf.text)
    slurm_version = version or _version(cr)
    for finding in conf_lint.lint(files, version=slurm_version, known_nodes=()):
        if finding.file == FILE and finding.code not in ONLY_IN_EXTRA:
            yield origins.finding(finding)
        elif finding.file in owners:
            problem = FieldProblem(("data", finding.file), _text(finding), finding.severity)
            yield findings.of_field(owners[finding.file], problem, finding.code, finding.line)
    for finding in conf_lint.lint({FILE: cr.spec.extra_conf or ""}, version=slurm_version, owned=OWNED_KEYS):
        if finding.code in ONLY_IN_EXTRA:
            yield origins.of_extra(finding, finding.line)


def _version(cr: Controller) -> str | None:
    version = images.slurm_version(images.of(cr.spec.slurmctld, "slurmctld"))
    return f"{version[0]}.{version[1]:02}" if version else None


def _refused_partitions(conf: SlurmConf, here: Namespace) -> Iterator[Finding]:
    for acceptance in conf.partitions:
        if acceptance.reason != ACCEPTED:
            manifest = here.resources[acceptance.kind, acceptance.resource].manifest
            yield findings.of_field(manifest, FieldProblem(acceptance.path, acceptance.message), acceptance.reason)


def _files(cr: Controller, here: Namespace, text: str) -> tuple[dict[str, str], dict[str, Manifest]]:
    files, owners = {FILE: text, CGROUP_FILE: CGROUP_CONF}, {}
    for ref in cr.spec.config_file_refs or ():
        manifest = here.config_maps.get(ref.name)
        for name, content in text_data(manifest.value) if manifest else ():
            if manifest and name != FILE:
                files[name], owners[name] = content, manifest
    return files, owners


def _text(finding: LintFinding) -> str:
    expected = f" (expected {finding.expected})" if finding.expected else ""
    suggestion = f"; did you mean {finding.suggestion}?" if finding.suggestion else ""
    return f"{finding.message}{expected}{suggestion}"


@dataclass(slots=True)
class _Origins:
    """Where each line of a generated slurm.conf was written."""

    controller: Manifest
    first_extra: int
    lines: dict[int, tuple[Manifest, Path]]

    def __init__(self, cr: Controller, conf: SlurmConf, here: Namespace) -> None:
        self.controller = here.resources["Controller", cr.name].manifest
        self.first_extra = 0
        self.lines = {}
        by_line = {acceptance.line: acceptance for acceptance in conf.partitions if acceptance.line}
        for number, line in enumerate(conf.text.split("\n"), start=1):
            if line == EXTRA_HEADER and not self.first_extra:
                self.first_extra = number + 1
            elif line in by_line and not self.first_extra:
                acceptance = by_line[line]
                path: Path = ("spec", "partition", "config") if acceptance.kind == "NodeSet" else ("spec",)
                self.lines[number] = (here.resources[acceptance.kind, acceptance.resource].manifest, path)
            elif line.partition("=")[0] in ASKED_FOR and not self.first_extra:
                self.lines[number] = (self.controller, ASKED_FOR[line.partition("=")[0]])

    def finding(self, finding: LintFinding) -> Finding:
        """A finding of the linter where its line was written."""
        if finding.line in self.lines:
            manifest, path = self.lines[finding.line]
            return findings.of_field(manifest, FieldProblem(path, _text(finding), finding.severity), finding.code)
        if self.first_extra and finding.line >= self.first_extra:
            return self.of_extra(finding, finding.line - self.first_extra + 1)
        problem = FieldProblem(("spec",), f"{_text(finding)} (in line {finding.line} of slurm.conf)", finding.severity)
        return findings.of_field(self.controller, problem, finding.code)

    def of_extra(self, finding: LintFinding, line: int) -> Finding:
        """A finding on a line of extraConf."""
        problem = FieldProblem(("spec", "extraConf"), _text(finding), finding.severity)
        # A block of text starts on the line below its key; one quoted line stands on it.
        text = self.controller.value["spec"].get("extraConf") or ""
        return findings.of_field(self.controller, problem, finding.code, line if "\n" in text else 0)
