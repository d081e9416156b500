"""References of resources to what is not among the files of `check`.

In: a resource, and the world of files that it was read from. Out: findings. What may be in the cluster is a warning; it
is an error where the files hold others of its kind, so that a name is more likely wrong than missing. Called by
`cli/check.py`. A ConfigMap of a Controller is an error, since nothing of its cluster can be built without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import SecretKeySelector
from slurm_operator.api.problem import FieldProblem, Path
from slurm_operator.build.refs import Refs
from slurm_operator.cli import findings
from slurm_operator.cli.findings import Finding
from slurm_operator.cli.world import Loaded, World

# Findings on a resource that is not among the files, but may be in the cluster.
NOT_GIVEN = frozenset({"AccountingNotGiven", "ClaimNotGiven", "ControllerNotGiven", "SecretNotGiven"})

_SECRETS = (
    ("slurm_key_ref", "slurmKeyRef"),
    ("jwt_key_ref", "jwtKeyRef"),
    ("jwt_hs256_key_ref", "jwtHs256KeyRef"),
    ("sssd_conf_ref", "sssdConfRef"),
)
_CONFIG_MAPS = (
    ("config_file_refs", "configFileRefs"),
    ("prolog_script_refs", "prologScriptRefs"),
    ("epilog_script_refs", "epilogScriptRefs"),
    ("prolog_slurmctld_script_refs", "prologSlurmctldScriptRefs"),
    ("epilog_slurmctld_script_refs", "epilogSlurmctldScriptRefs"),
)


def unresolved(loaded: Loaded, refs: Refs, world: World) -> Iterator[Finding]:
    """Every reference of a resource that leads nowhere."""
    yield from _secrets(loaded, refs)
    spec = getattr(loaded.resource, "spec", None)
    for kind, attribute, field, known in (
        ("Controller", "controller_ref", "controllerRef", refs.controllers),
        ("Accounting", "accounting_ref", "accountingRef", refs.accountings),
    ):
        ref = getattr(spec, attribute, None)
        if ref is not None and ref.name:
            yield from _resource(loaded, world, kind, ref.name, ("spec", field, "name"), known)
    if isinstance(loaded.resource, Controller):
        yield from _config_maps(loaded, loaded.resource, refs)
        yield from _claim(loaded, loaded.resource, refs)


def _resource(
    loaded: Loaded, world: World, kind: str, name: str, path: Path, known: Collection[str]
) -> Iterator[Finding]:
    """One of our own kinds."""
    if name in known or (loaded.resource.namespace, kind, name) in world.broken:
        return
    if known:
        message = f"{kind} {name!r} is not in this namespace; the files have {', '.join(sorted(known))}"
        yield findings.of_field(loaded.manifest, FieldProblem(path, message), "ReferenceNotFound")
    else:
        message = f"{kind} {name!r} is not among the files, so this resource is not checked together with it"
        problem = FieldProblem(path, message, "warning")
        if kind == "Controller":
            yield findings.of_field(loaded.manifest, problem, "ControllerNotGiven")
        else:
            yield findings.of_field(loaded.manifest, problem, "AccountingNotGiven")


def _secrets(loaded: Loaded, refs: Refs) -> Iterator[Finding]:
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
    for attribute, field in _SECRETS:
        ref = getattr(spec, attribute, None)
        if ref is not None:
            yield ("spec", field), ref
    storage = getattr(spec, "storage_config", None)
    if storage is not None:
        yield ("spec", "storageConfig", "passwordKeyRef"), storage.password_key_ref
    ssh = getattr(spec, "ssh", None)
    if ssh is not None and ssh.enabled and ssh.sssd_conf_ref is not None:
        yield ("spec", "ssh", "sssdConfRef"), ssh.sssd_conf_ref


def _config_maps(loaded: Loaded, cr: Controller, refs: Refs) -> Iterator[Finding]:
    for attribute, field in _CONFIG_MAPS if not cr.spec.external else ():
        for index, ref in enumerate(getattr(cr.spec, attribute) or ()):
            # Without a name, a rule complains.
            if ref.name and ref.name not in refs.config_maps:
                message = f"ConfigMap {ref.name!r} is not in this namespace"
                problem = FieldProblem(("spec", field, index, "name"), message)
                yield findings.of_field(loaded.manifest, problem, "ReferenceNotFound")


def _claim(loaded: Loaded, cr: Controller, refs: Refs) -> Iterator[Finding]:
    name = cr.spec.persistence.existing_claim if cr.spec.persistence.enabled else None
    if name and name not in refs.claims:
        path: Path = ("spec", "persistence", "existingClaim")
        problem = FieldProblem(path, f"PersistentVolumeClaim {name!r} is not among the files", "warning")
        yield findings.of_field(loaded.manifest, problem, "ClaimNotGiven")
