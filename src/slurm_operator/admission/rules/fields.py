"""Rules that several kinds share: names, references, immutable fields, services, text for files.

Used by every module in `admission/rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kube_runtime.text import shown
from slurm_operator.api import text
from slurm_operator.api.meta import (
    ConfigMapKeySelector,
    ControllerRef,
    ExternalConfig,
    Resource,
    SecretKeySelector,
    ServiceTemplate,
)
from slurm_operator.api.problem import FieldProblem, Path

NAME: Path = ("metadata", "name")
NAMESPACE: Path = ("metadata", "namespace")
CONTROLLER_REF: Path = ("spec", "controllerRef")


def name(cr: Resource, longest_suffix: str = "", max_characters: int = 63) -> Iterator[FieldProblem]:
    """The object's name, with room for the names of its children, and its namespace, which hosts are named by."""
    yield from checked(text.dns_label, cr.namespace or None, NAMESPACE)
    problem = text.dns_subdomain(cr.name) if cr.name else "is required"
    if problem:
        yield FieldProblem(NAME, problem)
    elif len(cr.name) + len(longest_suffix) > max_characters:
        yield FieldProblem(
            NAME,
            f"is {len(cr.name)} characters long; at most {max_characters - len(longest_suffix)} leave room for"
            f" {cr.name[:8]}…{longest_suffix}",
        )


def controller_ref(cr: Any, old: Any) -> Iterator[FieldProblem]:
    """A reference to a Controller: named, in this namespace, for good."""
    ref: ControllerRef = cr.spec.controller_ref
    if not ref.name:
        yield FieldProblem((*CONTROLLER_REF, "name"), "must name a Controller")
    yield from checked(text.dns_subdomain, ref.name or None, (*CONTROLLER_REF, "name"))
    if ref.namespace not in (None, "", cr.namespace):
        yield FieldProblem(
            (*CONTROLLER_REF, "namespace"),
            f"must be {shown(cr.namespace)}, the namespace of this resource; references do not leave it",
        )
    if old is not None:
        yield from immutable((*CONTROLLER_REF, "name"), old.spec.controller_ref.name, ref.name)


def immutable(path: Path, old: object, new: object) -> Iterator[FieldProblem]:
    """A field that never changes."""
    if old != new:
        yield FieldProblem(path, f"must not change; it was {shown(old)}")


def key_ref(ref: SecretKeySelector | ConfigMapKeySelector | None, path: Path) -> Iterator[FieldProblem]:
    """A reference to a key of a Secret or ConfigMap."""
    if ref is None:
        return
    if not ref.name:
        yield FieldProblem((*path, "name"), "must not be empty")
    if not ref.key:
        yield FieldProblem((*path, "key"), "must not be empty")


def jwt_path(cr: Any) -> Path:
    """Where the JWT key reference in force stands."""
    return ("spec", "jwtKeyRef" if cr.spec.jwt_key_ref else "jwtHs256KeyRef")


def jwt_immutable(cr: Any, old: Any) -> Iterator[FieldProblem]:
    """The JWT key reference in force never changes."""
    if old is not None and old.jwt_key_ref is not None:
        yield from immutable(jwt_path(cr), old.jwt_key_ref, cr.jwt_key_ref)


def daemon_keys(cr: Any) -> Iterator[FieldProblem]:
    """The keys of slurmctld and slurmdbd, or where they run instead."""
    spec = cr.spec
    if spec.external and spec.external_config is None:
        yield FieldProblem(("spec", "externalConfig"), "externalConfig must be set when external is true")
    if not spec.external and spec.slurm_key_ref is None:
        yield FieldProblem(("spec", "slurmKeyRef"), "slurmKeyRef must be set when external is false")
    if not spec.external and cr.jwt_key_ref is None:
        yield FieldProblem(("spec", "jwtKeyRef"), "jwtKeyRef or jwtHs256KeyRef must be set when external is false")
    yield from key_ref(spec.slurm_key_ref, ("spec", "slurmKeyRef"))
    yield from key_ref(cr.jwt_key_ref, jwt_path(cr))
    yield from key_ref(spec.jwks_key_ref, ("spec", "jwksKeyRef"))
    yield from external(spec.external_config)


def external(config: ExternalConfig | None) -> Iterator[FieldProblem]:
    """Where a daemon outside Kubernetes listens."""
    if config is None:
        return
    yield from checked(text.host, config.host, ("spec", "externalConfig", "host"))
    if config.port == 0:
        yield FieldProblem(("spec", "externalConfig", "port"), "must not be 0")


def service(template: ServiceTemplate) -> Iterator[FieldProblem]:
    """A Service overlay."""
    if template.spec.get("externalIPs"):
        yield FieldProblem(
            ("spec", "service", "spec", "externalIPs"),
            "is ignored: a Service with external addresses can take over the traffic of others",
            "warning",
        )


def checked(rule: Callable[[str], str | None], value: str | None, path: Path) -> Iterator[FieldProblem]:
    """A string field held against a rule of `api/text.py`."""
    problem = rule(value) if value is not None else None
    if problem:
        yield FieldProblem(path, problem)
