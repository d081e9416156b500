"""What the linter refuses of a cluster's configuration, and which partitions therefore stay as they are.

In: a `ClusterWorld`. Out: a `LintDecision`. Nothing that the linter refuses reaches Slurm, by the file or live. The
line of a Partition or NodeSet that is refused by itself is held back alone, so that one typo does not block the
configuration of others; anything else refuses the whole file. Messages name the resource, the field and the line that
the user wrote, also for errors that Slurm itself reports. Called by `plan/cluster.py`; `lint_all` and
`without_mounted` also by `cli/check.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from msgspec import structs

from slurm_operator.api.controller import Controller
from slurm_operator.build import images, labels
from slurm_operator.build.conf_origin import Origins
from slurm_operator.build.nodeset import slurmd_overlays
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import EXTRA_HEADER, FILE, OWNED_KEYS
from slurm_operator.plan.actions import LintDecision
from slurm_operator.plan.cluster_world import ClusterWorld
from slurm_operator.plan.config import ConfigDecision, Files, content_hash
from slurm_operator.plan.partition import with_lines
from slurm_operator.slurm import conf, conf_lint, conf_programs
from slurm_operator.slurm.conf_lint import Finding

Findings = tuple[Finding, ...]
# Mistakes within the user's own lines; against the operator's lines, they are the way to override a default.
ONLY_IN_EXTRA = frozenset({"DuplicateKey", "OwnedKey"})
# Mistakes only where no template mounts files of its own below /etc/slurm.
BY_MOUNTS = frozenset({"MissingProgram"})


def lint_cluster(world: ClusterWorld) -> LintDecision:
    """Judge the wanted files, and again without the lines that are refused by themselves."""
    wanted = {**world.files, FILE: world.conf_text}
    findings = lint_files(world, wanted)
    judged = {content_hash(wanted): findings}
    refused = _refused_lines(world, placed(world, wanted, findings))
    if not refused:
        findings = placed(world, wanted, findings)
        return LintDecision(judged, findings, _held(world, findings))
    lines = {name: world.in_force.lines.get(name) for name in refused}
    rest = {**wanted, FILE: with_lines(world.conf_text, lines, world.in_force.sets)}
    judged[content_hash(rest)] = lint_files(world, rest)
    findings = placed(world, rest, judged[content_hash(rest)])
    return LintDecision(judged, findings, {**_held(world, findings), **refused}, refused, lines)


def placed(world: ClusterWorld, files: Files, findings: Findings) -> Findings:
    """Findings with the places where their lines were written; two lines with the same origin give one finding."""
    if not findings:
        return ()
    origins = Origins(world.cr, world.refs, world.built.conf, files)
    found: dict[tuple[str, str], Finding] = {}
    for each in map(origins.placed, findings):
        found.setdefault((each.place or f"{each.file}:{each.line}", each.without_place), each)
    return tuple(found.values())


def placed_decision(world: ClusterWorld, files: Files, decision: ConfigDecision) -> ConfigDecision:
    """A decision in which Slurm's error names the places where the lines were written."""
    if decision.verdict is None or not decision.verdict.reason:
        return decision
    origins = Origins(world.cr, world.refs, world.built.conf, files)
    verdict = replace(decision.verdict, reason=origins.translated(decision.verdict.reason))
    return replace(decision, verdict=verdict, place=origins.translated(decision.place))


def _held(world: ClusterWorld, findings: Findings) -> dict[str, str]:
    """If the whole file is refused: the partitions whose line in it differs from the one in force."""
    if not findings:
        return {}
    why = f"the configuration of Controller {world.cr.name!r} is refused: {findings[0]}"
    return {name: why for name, line in world.wanted.lines.items() if world.in_force.lines.get(name) != line}


def lint_files(world: ClusterWorld, files: Files) -> Findings:
    """What the linter will not let pass; nothing where the check is off."""
    if not is_checked(world.cr):
        return ()
    known = world.memory.linted.get(content_hash(files))
    # Whether a program is missing depends on templates too, of which the hash knows nothing.
    if known is not None and not any(each.code in BY_MOUNTS for each in known):
        return known
    found = linted(files, world.cr.spec.extra_conf or "", slurm_version(world.cr))
    return tuple(without_mounted(found, world.cr, world.refs))


def without_mounted(findings: Iterable[Finding], cr: Controller, refs: Refs) -> list[Finding]:
    """Without programs that are called missing, if templates mount files of their own where these are looked for."""
    found = list(findings)
    if not any(each.code in BY_MOUNTS for each in found):
        return found
    overlays = [cr.spec.slurmctld, *(cr.spec.template.spec.get("containers") or ())]
    overlays += [user for each in refs.nodesets_of(cr) for _, user in slurmd_overlays(each)]
    mounts = (mount for each in overlays if isinstance(each, Mapping) for mount in each.get("volumeMounts") or ())
    paths = [f"{str(mount.get('mountPath')).rstrip('/')}/" for mount in mounts if isinstance(mount, Mapping)]
    is_theirs = any(path.startswith(conf_programs.FOLDER) for path in paths)
    return [each for each in found if not is_theirs or each.code not in BY_MOUNTS]


def slurm_version(cr: Controller) -> str | None:
    """The version in the tag of a Controller's image, such as 26.05."""
    version = images.slurm_version(images.of(cr.spec.slurmctld, "slurmctld"))
    return f"{version[0]}.{version[1]:02}" if version else None


def linted(files: Files, extra_conf: str, version: str | None) -> Findings:
    """The errors that the linter finds."""
    return tuple(each for each in lint_all(files, extra_conf, version) if each.severity == "error")


def lint_all(files: Files, extra_conf: str, version: str | None) -> list[Finding]:
    """Everything that the linter finds in a cluster's files; `extra_conf` is the user's part of slurm.conf."""
    everything = conf_lint.lint(files, version=version, known_nodes=(), complete=True)
    found = [
        each for each in everything if each.code not in ONLY_IN_EXTRA or _stands_alone(each.file) or _repeats(each)
    ]
    included = {name: text for name, text in files.items() if not _stands_alone(name)}
    theirs = conf_lint.lint({**included, FILE: extra_conf}, version=version, owned=OWNED_KEYS)
    return found + list(_shifted((each for each in theirs if each.code in ONLY_IN_EXTRA), files.get(FILE, "")))


def _stands_alone(file: str) -> bool:
    """Whether Slurm reads a file by itself, not as a part of slurm.conf."""
    return file != FILE and conf_lint.is_judged(file)


def _repeats(finding: Finding) -> bool:
    """Whether a record has an option twice, as when a NodeSet's partition sets the Nodes that the operator has set."""
    return finding.other == (finding.file, finding.line)


def _shifted(findings: Iterable[Finding], text: str) -> Iterable[Finding]:
    """Findings on extraConf, moved to the lines of slurm.conf."""
    lines = text.splitlines()
    first = lines.index(EXTRA_HEADER) + 1 if EXTRA_HEADER in lines else 0
    for each in findings:
        other = (FILE, each.other[1] + first) if each.other and each.other[0] == FILE else each.other
        message = each.message
        if each.other and other and other != each.other:
            message = message.replace(f"{FILE}:{each.other[1]}", f"{FILE}:{other[1]}")
        line = each.line + first if each.file == FILE else each.line
        yield structs.replace(each, line=line, other=other, message=message)


def is_checked(cr: Controller) -> bool:
    """Whether a configuration is linted and tried before it is in force."""
    return cr.metadata.annotations.get(labels.CONFIG_CHECK) != "off"


def _refused_lines(world: ClusterWorld, findings: Findings) -> dict[str, str]:
    """By partition of a Partition or NodeSet: what is wrong with its line. Lines of extraConf are the Controller's."""
    if not findings:
        return {}
    resources = {each.partition: f"{each.kind} {each.resource!r}" for each in world.built.conf.partitions}
    records = conf.parse(world.conf_text).all("PartitionName")
    names = {entry.line: entry.value for entry in records if entry.file == FILE and entry.value in resources}
    refused: dict[str, str] = {}
    for each in findings:
        if each.file == FILE and each.line in names:
            name = names[each.line]
            place = f"{each.place}: " if each.place else ""
            refused.setdefault(
                name, f"the linter refuses the options of {resources[name]}: {place}{each.without_place}"
            )
    return refused
