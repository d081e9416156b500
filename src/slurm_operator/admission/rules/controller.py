"""Rules for Controllers: names, keys, state on disk, configuration files, scripts, metrics, what never changes.

Called by `rules.check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from slurm_operator.admission.rules import fields
from slurm_operator.api import text
from slurm_operator.api.controller import Controller, Persistence
from slurm_operator.api.meta import LocalObjectReference
from slurm_operator.api.problem import FieldProblem, Path, Severity, did_you_mean
from slurm_operator.build import images
from slurm_operator.build.controller import RESERVED_FILES
from slurm_operator.build.refs import Refs

# A StatefulSet's pods carry its name and a hash of eleven characters in a label.
MAX_STATEFUL_SET_CHARACTERS = 52
KNOWN_FILES = frozenset(
    {
        "acct_gather.conf",
        "burst_buffer.conf",
        "burst_buffer.lua",
        "cgroup.conf",
        "cli_filter.lua",
        "fake_gpus.conf",
        "gres.conf",
        "helpers.conf",
        "job_container.conf",
        "job_submit.lua",
        "jobcomp.lua",
        "knl_generic.conf",
        "mpi.conf",
        "namespace.yaml",
        "oci.conf",
        "plugstack.conf",
        "resources.yaml",
        "rpc_queue.yaml",
        "scrun.lua",
        "slurm.jwks",
        "topology.conf",
        "topology.yaml",
    }
)
MAX_GLOBS = 50
_FILE_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
# The last part of a path with a star, as in `include plugstack.d/*.conf`.
_GLOB = re.compile(r"(?im)^[ \t]*include[ \t]+(?:[^\s*]*/)?([^\s/]{0,100}\*[^\s/]{0,100})[ \t]*$")
PERSISTENCE: Path = ("spec", "persistence")
SHARED = "ReadWriteMany"


def check(new: Controller, old: Controller | None, refs: Refs) -> Iterator[FieldProblem]:
    """Everything that is wrong with a Controller."""
    yield from fields.name(new, "-controller", MAX_STATEFUL_SET_CHARACTERS)
    yield from fields.daemon_keys(new)
    yield from fields.service(new.spec.service)
    yield from fields.checked(text.config_text, new.spec.extra_conf, ("spec", "extraConf"))
    yield from _cluster_name(new, old)
    yield from _high_availability(new, refs)
    yield from _persistence(new.spec.persistence, new.namespace)
    yield from _config_files(new, refs)
    yield from _scripts(new, refs)
    yield from _metrics(new)
    if old is not None:
        yield from _immutable(new, old)


def _cluster_name(new: Controller, old: Controller | None) -> Iterator[FieldProblem]:
    # Nobody has written down yet what an external Slurm is called.
    if old is None or (old.spec.external and new.spec.external and not old.spec.cluster_name):
        yield from fields.checked(text.cluster_name, new.cluster_name, ("spec", "clusterName"))
    elif old.cluster_name != new.cluster_name:
        yield from fields.immutable(("spec", "clusterName"), old.cluster_name, new.cluster_name)


def _high_availability(new: Controller, refs: Refs) -> Iterator[FieldProblem]:
    """Backup controllers write to one claim from several nodes: it must allow that."""
    persistence = new.spec.persistence
    if new.replicas <= 1:
        return
    name, path = persistence.existing_claim, (*PERSISTENCE, "existingClaim")
    if not (persistence.enabled and name):
        yield FieldProblem(
            path, f"slurm high availability (HA) mode requires existing PVC with an access mode of {SHARED}"
        )
    elif name in refs.claims and SHARED not in refs.claims[name]:
        modes = ", ".join(refs.claims[name]) or "nothing"
        yield FieldProblem(path, f"claim {name!r} allows {modes}; backup controllers need {SHARED}")


def _persistence(persistence: Persistence, namespace: str) -> Iterator[FieldProblem]:
    if persistence.existing_claim:
        yield from fields.checked(text.dns_subdomain, persistence.existing_claim, (*PERSISTENCE, "existingClaim"))
    source = persistence.data_source_ref
    if source and source.namespace not in (None, "", namespace):
        yield FieldProblem((*PERSISTENCE, "dataSourceRef", "namespace"), "must be the namespace of this resource")


def _config_files(new: Controller, refs: Refs) -> Iterator[FieldProblem]:
    named: _Named | None = None
    for path, name in _named(new.spec.config_file_refs, "configFileRefs"):
        yield from _missing(path, name, refs)
        for file in sorted(refs.config_maps.get(name, {})):
            if file in RESERVED_FILES:
                yield FieldProblem(path, f"ConfigMap {name!r} holds {file}, which the operator writes")
            elif file not in KNOWN_FILES:
                named = named or _Named(new, refs)
                if not named.has(file):
                    message = f"ConfigMap {name!r} holds {file}, which Slurm does not read and no other file mentions"
                    yield FieldProblem(path, message + did_you_mean(file, KNOWN_FILES), "warning")


class _Named:
    """The files that extraConf and other files mention: by an Include, as a program, in a script."""

    def __init__(self, new: Controller, refs: Refs) -> None:
        maps = (refs.config_maps.get(ref.name, {}) for ref in new.spec.config_file_refs or ())
        texts = {"": new.spec.extra_conf or ""} | {file: content for files in maps for file, content in files.items()}
        # By anything that may be a file name: the file that mentions it, None if several do.
        self.names: dict[str, str | None] = {}
        self.patterns: list[str] = []
        for file, content in texts.items():
            text = content.replace("%c", new.cluster_name)
            for name in set(_FILE_NAME.findall(text)):
                self.names[name] = file if name not in self.names else None
            self.patterns += _GLOB.findall(text)[:MAX_GLOBS]

    def has(self, file: str) -> bool:
        """Whether another file mentions this one."""
        if file in self.names and self.names[file] != file:
            return True
        return any(fnmatchcase(file, pattern) for pattern in self.patterns[:MAX_GLOBS])


def _missing(path: Path, name: str, refs: Refs) -> Iterator[FieldProblem]:
    if name in refs.config_maps:
        return
    # With `kubectl apply -f folder` it may come right after. An empty name is always an error.
    waits = "; the configuration waits for it" if name else ""
    severity: Severity = "warning" if name else "error"
    yield FieldProblem(path, f"ConfigMap {name!r} is not in this namespace{waits}", severity)


def _scripts(new: Controller, refs: Refs) -> Iterator[FieldProblem]:
    spec = new.spec
    for field, wanted in (
        ("prologScriptRefs", spec.prolog_script_refs),
        ("epilogScriptRefs", spec.epilog_script_refs),
        ("prologSlurmctldScriptRefs", spec.prolog_slurmctld_script_refs),
        ("epilogSlurmctldScriptRefs", spec.epilog_slurmctld_script_refs),
    ):
        for path, name in _named(wanted, field):
            yield from _missing(path, name, refs)
            for file in sorted(refs.config_maps.get(name, {})):
                problem = text.file_name(file)
                if problem:
                    yield FieldProblem(path, f"ConfigMap {name!r}: {problem}")


def _named(wanted: tuple[LocalObjectReference, ...] | None, field: str) -> Iterator[tuple[Path, str]]:
    for index, ref in enumerate(wanted or ()):
        yield ("spec", field, index, "name"), ref.name


def _metrics(new: Controller) -> Iterator[FieldProblem]:
    version = images.slurm_version(images.of(new.spec.slurmctld, "slurmctld"))
    if new.spec.metrics.enabled and version and version < images.HTTP_PROBES:
        yield FieldProblem(
            ("spec", "metrics", "enabled"),
            f"Slurm {version[0]}.{version[1]:02} has no metrics; 25.11 is the first that does",
        )


def _immutable(new: Controller, old: Controller) -> Iterator[FieldProblem]:
    yield from fields.jwt_immutable(new, old)
    if old.spec.slurm_key_ref is not None:
        was, now = old.spec.slurm_key_ref.name, new.spec.slurm_key_ref.name if new.spec.slurm_key_ref else None
        yield from fields.immutable(("spec", "slurmKeyRef", "name"), was, now)
    before, after = old.spec.persistence, new.spec.persistence
    yield from fields.immutable((*PERSISTENCE, "enabled"), before.enabled, after.enabled)
    if before.enabled and after.enabled:
        yield from fields.immutable((*PERSISTENCE, "existingClaim"), before.existing_claim, after.existing_claim)
