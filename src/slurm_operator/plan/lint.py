"""What the linter refuses of a cluster's configuration, and which partitions therefore stay as they are.

In: a `ClusterWorld`. Out: a `LintDecision`. Nothing that the linter refuses reaches Slurm, by the file or live. The
line of a Partition or NodeSet that is refused by itself is held back alone, so that nobody's typo stops the
configuration of others; anything else refuses the whole file. Called by `plan/cluster.py`. Pure.
"""

from __future__ import annotations

from slurm_operator.api.controller import Controller
from slurm_operator.build import images, labels
from slurm_operator.build.slurm_conf import FILE
from slurm_operator.plan.actions import LintDecision
from slurm_operator.plan.cluster_world import ClusterWorld
from slurm_operator.plan.config import Files, content_hash, linted
from slurm_operator.plan.partition import with_lines
from slurm_operator.slurm import conf
from slurm_operator.slurm.conf_lint import Finding

Findings = tuple[Finding, ...]


def lint_cluster(world: ClusterWorld) -> LintDecision:
    """Judge the wanted files, and again without the lines that are refused by themselves."""
    wanted = {**world.files, FILE: world.conf_text}
    findings = lint_files(world, wanted)
    judged = {content_hash(wanted): findings}
    refused = _refused_lines(world, findings)
    if not refused:
        return LintDecision(judged, findings, _held(world, findings))
    lines = {name: world.in_force.lines.get(name) for name in refused}
    rest = {**wanted, FILE: with_lines(world.conf_text, lines, world.in_force.sets)}
    judged[content_hash(rest)] = lint_files(world, rest)
    findings = judged[content_hash(rest)]
    return LintDecision(judged, findings, {**_held(world, findings), **refused}, refused, lines)


def _held(world: ClusterWorld, findings: Findings) -> dict[str, str]:
    """Where the whole file is refused: the partitions whose line in it is another one than in force."""
    if not findings:
        return {}
    why = f"the configuration of Controller {world.cr.name!r} is refused: {findings[0]}"
    return {name: why for name, line in world.wanted.lines.items() if world.in_force.lines.get(name) != line}


def lint_files(world: ClusterWorld, files: Files) -> Findings:
    """What the linter will not let pass; nothing where the check is off."""
    if not is_checked(world.cr):
        return ()
    known = world.memory.linted.get(content_hash(files))
    if known is not None:
        return known
    version = images.slurm_version(images.of(world.cr.spec.slurmctld, "slurmctld"))
    return linted(files, world.cr.spec.extra_conf or "", f"{version[0]}.{version[1]:02}" if version else None)


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
            refused.setdefault(name, f"the linter refuses the options of {resources[name]}: {each.without_place}")
    return refused
