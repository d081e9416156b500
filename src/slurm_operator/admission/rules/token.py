"""Rules for Tokens: user, key, lifetime, the Secret that it goes to. Called by `rules.check`."""

from __future__ import annotations

from collections.abc import Iterator

from kube_runtime.text import shown
from slurm_operator.admission.rules import fields
from slurm_operator.api import text
from slurm_operator.api.problem import FieldProblem
from slurm_operator.api.token import Token
from slurm_operator.build import names
from slurm_operator.build.refs import Refs
from slurm_operator.build.token import duration

# Times in a token are whole seconds: one of a second is due the moment that it is made.
MIN_LIFETIME_SECONDS = 5


def check(new: Token, old: Token | None, refs: Refs) -> Iterator[FieldProblem]:  # noqa: ARG001
    """Everything that is wrong with a Token."""
    yield from fields.name(new, max_characters=253)
    if new.jwt_key_ref is None:
        yield FieldProblem(("spec", "jwtKeyRef"), "jwtKeyRef or jwtHs256KeyRef must be set")
    yield from fields.key_ref(new.jwt_key_ref, fields.jwt_path(new))
    yield from fields.jwt_immutable(new, old)
    yield from fields.checked(text.user_name, new.spec.username or None, ("spec", "username"))
    yield from _lifetime(new)
    yield from _secret(new)


def _lifetime(new: Token) -> Iterator[FieldProblem]:
    written = new.spec.lifetime
    if not written:
        return
    seconds = duration(written)
    if seconds is None:
        yield FieldProblem(("spec", "lifetime"), f"{shown(written)} is not a duration such as 15m or 1h30m")
    elif seconds < MIN_LIFETIME_SECONDS:
        message = f"must be at least {MIN_LIFETIME_SECONDS}s: a token is renewed again and again before it expires"
        yield FieldProblem(("spec", "lifetime"), message)


def _secret(new: Token) -> Iterator[FieldProblem]:
    yield from fields.key_ref(new.spec.secret_ref, ("spec", "secretRef"))
    secret = names.token_secret(new)
    key = new.jwt_key_ref
    if key and key.name == secret:
        yield FieldProblem(("spec", "secretRef", "name"), "must not be the Secret that holds the signing key")
    elif new.spec.secret_ref is None and text.dns_subdomain(secret):
        yield FieldProblem(
            ("spec", "username"), f"cannot be part of the name of a Secret ({shown(secret)}); set spec.secretRef"
        )
