"""What a resource names and the namespace does not have: Secrets and their keys, ConfigMaps, claims, an Accounting.

In: facts, and a resource. Out: a cause, or None. Used by `diagnose/resource.py`. Pods that run keep what they mounted,
so such a gap shows nowhere else before the next restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slurm_operator.api import text as texts
from slurm_operator.build import labels
from slurm_operator.diagnose.cause import Cause, quoted
from slurm_operator.diagnose.facts import Facts, Object, condition_of, controller_of, name_of, spec_of

SECRET, CONFIG_MAP = "Secret", "ConfigMap"
# By the name of the field: what it names.
SINGLE = {
    "slurmKeyRef": SECRET,
    "jwtKeyRef": SECRET,
    "jwtHs256KeyRef": SECRET,
    "passwordKeyRef": SECRET,
    "sssdConfRef": SECRET,
    "jwksKeyRef": CONFIG_MAP,
    "accountingRef": "Accounting",
}
MANY = {
    "configFileRefs": CONFIG_MAP,
    "prologScriptRefs": CONFIG_MAP,
    "epilogScriptRefs": CONFIG_MAP,
    "prologSlurmctldScriptRefs": CONFIG_MAP,
    "epilogSlurmctldScriptRefs": CONFIG_MAP,
}
# Where the rest of the spec may hold such fields too.
NESTED = ("storageConfig", "ssh")
# The files of slurmctld that a running pod still has when their Secret is gone.
KEPT = {"slurmKeyRef": "slurm.key", "jwtKeyRef": "jwt.key", "jwtHs256KeyRef": "jwt.key"}


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference of a resource."""

    path: str
    kind: str
    name: str
    key: str = ""

    @property
    def field(self) -> str:
        """The field's own name."""
        return self.path.rpartition(".")[2]


def why(facts: Facts, kind: str, resource: Object) -> Cause | None:
    """The first thing that is named and not there."""
    for reference in references(spec_of(resource)):
        cluster = name_of(resource) if kind == "Controller" else controller_of(resource)
        cause = _missing(facts, reference, (kind, name_of(resource)), cluster)
        if cause is not None:
            return cause
    return _claim(facts, kind, resource)


def references(spec: Mapping[str, Any], path: str = "spec") -> Iterator[Reference]:
    """Everything that a spec names beside a Controller."""
    for field, value in spec.items():
        if field in SINGLE and isinstance(value, Mapping) and value.get("name") and not value.get("optional"):
            yield Reference(f"{path}.{field}", SINGLE[field], str(value["name"]), str(value.get("key") or ""))
        elif field in MANY:
            for each in value or ():
                yield Reference(f"{path}.{field}", MANY[field], str(each.get("name", "")))
        elif field in NESTED and isinstance(value, Mapping) and value.get("enabled", True):
            yield from references(value, f"{path}.{field}")


def _missing(facts: Facts, reference: Reference, named_by: tuple[str, str], cluster: str) -> Cause | None:
    kind, owner = named_by
    there = facts.secrets if reference.kind == SECRET else facts.objects.get(reference.kind)
    if there is None:
        # Whoever asks may not read them.
        return None
    root = f"{reference.kind}/{reference.name}"
    names = f"{kind} {owner} names it in {reference.path}"
    if reference.name not in there:
        text = f"{reference.kind} {reference.name!r} does not exist in namespace {facts.namespace}; {names}"
        can_exist = texts.dns_subdomain(reference.name) is None
        make = create(facts, reference.kind, reference.name, cluster)
        command = make if can_exist else f"kubectl -n {facts.namespace} edit {kind.lower()} {owner}"
        return Cause(f"{reference.kind}Missing", text, command, root=root)
    keys = there[reference.name] if reference.kind == SECRET else there[reference.name].get("data") or {}
    if reference.key and reference.key not in keys:
        text = f"{reference.kind} {reference.name!r} has no key {reference.key!r}; {names}"
        edit = f"kubectl -n {facts.namespace} edit {reference.kind.lower()} {reference.name}"
        return Cause(f"{reference.kind}KeyMissing", text, edit, root=root)
    return None


def create(facts: Facts, kind: str, name: str, cluster: str) -> str:
    """The command that creates what is missing, with every key of it that a resource in the namespace names."""
    kubectl = f"kubectl -n {facts.namespace}"
    if kind == "Accounting":
        return f"{kubectl} get accountings.slinky.slurm.net"
    if kind == CONFIG_MAP:
        return f"{kubectl} create configmap {quoted(name)} --from-file=DIRECTORY"
    wanted = _keys(facts, name)
    make, holder = f"{kubectl} create secret generic {quoted(name)}", _holder(facts, cluster)
    read = {
        # Read from a pod that still has it, and never shown: a newly generated key would not be the cluster's.
        key: f"{kubectl} exec {holder} -c slurmctld -- cat /etc/slurm/{KEPT[field]}"
        for key, field in wanted.items()
        if holder and field in KEPT
    }
    if len(wanted) == 1 and read:
        ((key, command),) = read.items()
        return f"{command} | {make} --from-file={quoted(key)}=/dev/stdin"
    files = [
        f"--from-file={quoted(key)}=<({read[key]})" if key in read else _new(key, field)
        for key, field in wanted.items()
    ]
    return " ".join([make, *(files or ["--from-file=KEY=FILE"])])


def _new(key: str, field: str) -> str:
    """A key that is made anew, for a cluster that never had one."""
    if field in KEPT:
        return f"--from-literal={quoted(key)}=$(openssl rand -hex 64)"
    return f"--from-file={quoted(key)}=FILE"


def _keys(facts: Facts, name: str) -> dict[str, str]:
    """By key of a Secret that somebody names: the field."""
    found: dict[str, str] = {}
    for kind in ("Controller", "Accounting", "RestApi", "LoginSet", "NodeSet", "Token"):
        for each in facts.every(kind):
            for reference in references(spec_of(each)):
                if reference.kind == SECRET and reference.name == name:
                    found.setdefault(reference.key or "KEY", reference.field)
    return found


def _holder(facts: Facts, cluster: str) -> str:
    """A pod of the cluster that has its keys; if no cluster is given, a pod of the only one."""
    names = [cluster] if cluster else [name_of(each) for each in facts.every("Controller")]
    pods = facts.pods_of(labels.CONTROLLER, names[0]) if len(names) == 1 else []
    return next((name_of(pod) for pod in pods if (condition_of(pod, "Ready") or {}).get("status") == "True"), "")


def _claim(facts: Facts, kind: str, resource: Object) -> Cause | None:
    name = (spec_of(resource).get("persistence") or {}).get("existingClaim")
    claims = facts.objects.get("PersistentVolumeClaim")
    if not name or claims is None or name in claims:
        return None
    return Cause(
        "ClaimMissing",
        f"{kind} {name_of(resource)} keeps its state in the claim {name!r}, which does not exist",
        f"kubectl -n {facts.namespace} get pvc",
        root=f"PersistentVolumeClaim/{name}",
    )
