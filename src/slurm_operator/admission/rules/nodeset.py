"""Rules for NodeSets: names of workers, size, update strategy, ssh, extra options, partition line, claims.

Called by `rules.check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kube_runtime.text import shown
from slurm_operator.admission.rules import fields
from slurm_operator.api import text
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.problem import FieldProblem, Path
from slurm_operator.build import hostnames, images, names
from slurm_operator.build.nodeset import OWN_IDENTITY
from slurm_operator.build.partition import config_problem, name_problem
from slurm_operator.build.refs import Refs
from slurm_operator.build.same_slurm import is_one_slurm
from slurm_operator.build.slurm_conf import MAX_NODES
from slurm_operator.build.token import duration
from slurm_operator.slurm import conf_lint

HOSTNAME: Path = ("spec", "template", "spec", "hostname")
CLAIMS: Path = ("spec", "volumeClaimTemplates")
STRATEGY: Path = ("spec", "updateStrategy")
MIN_WINDOW_SECONDS = 60.0

_PERCENT = re.compile(r"(100|[1-9]?[0-9])%")
_FLAG = re.compile(r"[A-Za-z_]+")


def check(new: NodeSet, old: NodeSet | None, refs: Refs) -> Iterator[FieldProblem]:  # noqa: ARG001
    """Everything that is wrong with a NodeSet."""
    yield from _names(new)
    yield from _identity(new)
    yield from _replicas(new)
    yield from fields.controller_ref(new, old)
    yield from _update_strategy(new)
    yield from _ssh(new)
    yield from _extra_conf(new, old)
    yield from _partition(new)
    yield from _claims(new)
    if old is not None:
        yield from fields.immutable(CLAIMS, old.spec.volume_claim_templates, new.spec.volume_claim_templates)


_OR_HOSTNAME = ", unless template.spec.hostname is set"


def _names(new: NodeSet) -> Iterator[FieldProblem]:
    highest = max(new.spec.replicas - 1, 0)
    yield from fields.name(new, f"-{names.ordinal(new, highest)}")
    hostname = new.spec.template.spec.get("hostname")
    if not hostname:
        # The name is then the prefix of host names, which have no dots.
        if "." in new.name:
            yield FieldProblem(
                fields.NAME, f"{shown(new.name)} must not contain a dot: workers are named after it{_OR_HOSTNAME}"
            )
        return
    problem = text.hostname_prefix(str(hostname))
    if problem:
        yield FieldProblem(HOSTNAME, problem)
    elif len(names.worker_hostname(new, highest)) > 63:
        yield FieldProblem(HOSTNAME, f"{shown(hostname)} leaves no room for the ordinal in 63 characters")


def _identity(new: NodeSet) -> Iterator[FieldProblem]:
    for field in OWN_IDENTITY:
        if new.spec.template.spec.get(field):
            message = "is ignored: the operator sets it, so that a worker has the name of its Slurm node"
            yield FieldProblem(("spec", "template", "spec", field), message, severity="warning")


def duplicates(new: NodeSet, old: NodeSet | None, refs: Refs) -> Iterator[FieldProblem]:
    """Host names, and so Slurm nodes, that another NodeSet of the Slurm has; what was so before is only a warning."""
    for other in refs.nodesets:
        same_cluster = is_one_slurm(refs, new.spec.controller_ref.name, other.spec.controller_ref.name)
        if other.name == new.name or not same_cluster or other.metadata.deletion_timestamp:
            continue
        if not _collides(new, other):
            continue
        example = hostnames.shared(new, other) or f"{hostnames.prefix(new)}0"
        path = HOSTNAME if new.spec.template.spec.get("hostname") else fields.NAME
        message = (
            f"workers would have the same names as those of NodeSet {shown(other.name)}, such as {shown(example)}, and "
            "a name is one node in Slurm; give the NodeSets of a cluster different prefixes"
        )
        yield FieldProblem(path, message, severity="warning" if old is not None and _collides(old, other) else "error")


def _collides(one: NodeSet, other: NodeSet) -> bool:
    same = hostnames.are_related(one, other) and hostnames.prefix(one) == hostnames.prefix(other)
    return same or bool(hostnames.shared(one, other))


def _replicas(new: NodeSet) -> Iterator[FieldProblem]:
    if new.spec.replicas > MAX_NODES:
        yield FieldProblem(
            ("spec", "replicas"),
            f"{new.spec.replicas} is more than the {MAX_NODES} nodes that a Slurm cluster can have",
        )


def _update_strategy(new: NodeSet) -> Iterator[FieldProblem]:
    strategy = new.spec.update_strategy
    yield from _max_unavailable(strategy.rolling_update.max_unavailable)
    window = strategy.scheduled_update
    if strategy.type == "ScheduledUpdate" and (window is None or not window.start_time):
        yield FieldProblem(
            (*STRATEGY, "scheduledUpdate", "startTime"),
            "scheduledUpdate.startTime and scheduledUpdate.duration must be set when type is ScheduledUpdate",
        )
    if window is None:
        return
    seconds = duration(window.duration)
    if seconds is None:
        yield FieldProblem(
            (*STRATEGY, "scheduledUpdate", "duration"), f"{shown(window.duration)} is not a duration such as 30m or 2h"
        )
    elif 0 < seconds < MIN_WINDOW_SECONDS:
        yield FieldProblem((*STRATEGY, "scheduledUpdate", "duration"), "must be at least 1m")
    for index, flag in enumerate(window.flags or ()):
        if not _FLAG.fullmatch(flag):
            yield FieldProblem(
                (*STRATEGY, "scheduledUpdate", "flags", index), f"{shown(flag)} is not a reservation flag such as DAILY"
            )


def _max_unavailable(value: int | str) -> Iterator[FieldProblem]:
    path: Path = (*STRATEGY, "rollingUpdate", "maxUnavailable")
    if isinstance(value, int):
        if value < 1:
            yield FieldProblem(path, f"{value} would block every update; the minimum is 1")
    elif not _PERCENT.fullmatch(value):
        yield FieldProblem(path, f"{shown(value)} is neither a number nor a percentage such as 25%")
    elif value == "0%":
        yield FieldProblem(path, "0% would block every update; the minimum is 1%")


def _ssh(new: NodeSet) -> Iterator[FieldProblem]:
    ssh = new.spec.ssh
    if ssh.enabled and not (ssh.sssd_conf_ref and ssh.sssd_conf_ref.name):
        yield FieldProblem(("spec", "ssh", "sssdConfRef", "name"), "must name a Secret when ssh is enabled")
    yield from fields.checked(text.config_text, ssh.extra_sshd_config, ("spec", "ssh", "extraSshdConfig"))


def _extra_conf(new: NodeSet, old: NodeSet | None) -> Iterator[FieldProblem]:
    """Options that would break out of the command line, and those that slurmd does not start with."""
    options, path = new.spec.extra_conf or "", ("spec", "extraConf")
    # An option that is already there does not block other changes of its NodeSet.
    is_new = old is None or old.spec.extra_conf != new.spec.extra_conf
    broken = False
    for option in text.options(options):
        problem = option if isinstance(option, str) else text.shell_quoted(option[1])
        if problem:
            broken = True
            yield FieldProblem(path, problem)
    version = images.slurm_version(images.of(new.spec.slurmd, "slurmd"))
    for finding in () if broken else conf_lint.lint_node_options(options, version):
        yield FieldProblem(path, finding.without_place, finding.severity if is_new else "warning")


def _partition(new: NodeSet) -> Iterator[FieldProblem]:
    problem = config_problem(new.spec.partition.config or "")
    if problem:
        yield FieldProblem(("spec", "partition", "config"), problem)
    problem = name_problem(new.slurm_name) if new.spec.partition.enabled else None
    if problem:
        # Its workers can do without.
        yield FieldProblem(("spec", "partition"), f"{problem}; it is left out", severity="warning")


def _claims(new: NodeSet) -> Iterator[FieldProblem]:
    seen: set[str] = set()
    for index, template in enumerate(new.spec.volume_claim_templates or ()):
        path: Path = (*CLAIMS, index, "metadata", "name")
        name = str((template.get("metadata") or {}).get("name") or "")
        problem = text.dns_label(name) if name else "is required"
        if problem:
            yield FieldProblem(path, problem)
        elif name in seen:
            yield FieldProblem(path, f"{shown(name)} is listed twice")
        seen.add(name)
