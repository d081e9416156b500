"""Token: a Slurm JWT for one user, kept fresh in a Secret.

Read by `build/token.py`.
"""

from typing import Annotated

from slurm_operator.api.meta import (
    ATOMIC,
    MAX_DURATION_CHARACTERS,
    Conditions,
    ObservedGeneration,
    Part,
    Resource,
    SecretKeySelector,
    Time,
    doc,
    rule,
)

JWT_RULE = rule("has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)", "jwtKeyRef or jwtHs256KeyRef must be set")
DEFAULT_LIFETIME = "15m"
DEFAULT_KEY = "SLURM_JWT"


class TokenSpec(Part, frozen=True, kw_only=True):
    """Desired token: for whom, for how long, and in which Secret."""

    username: Annotated[str, doc("The user that the token authenticates as.")]
    jwt_hs256_key_ref: Annotated[
        SecretKeySelector | None, doc("Older name of jwtKeyRef, which wins when both are set.", **ATOMIC)
    ] = None
    jwt_key_ref: Annotated[SecretKeySelector | None, doc("The auth/jwt HS256 key to sign with.", **ATOMIC)] = None
    lifetime: Annotated[
        str | None,
        doc("How long a token lives, such as 15m or 1h30m; 15m by default.", maxLength=MAX_DURATION_CHARACTERS),
    ] = None
    refresh: Annotated[
        bool, doc("Renew the token before it expires; false creates it once, in an immutable Secret.")
    ] = True
    secret_ref: Annotated[
        SecretKeySelector | None,
        doc("Where to write the token; `<token>-jwt-<username>`, key SLURM_JWT, by default.", **ATOMIC),
    ] = None


class TokenStatus(Part, frozen=True, kw_only=True):
    """What is true of the token."""

    observed_generation: ObservedGeneration = None
    issued_at: Annotated[Time | None, doc("When the token in the Secret was issued.")] = None
    expires_at: Annotated[Time | None, doc("When the token in the Secret expires.")] = None
    conditions: Conditions = ()


class Token(Resource, frozen=True, kw_only=True, tag_field="kind", tag="Token"):
    """A Slurm JWT for one user, in a Secret."""

    spec: Annotated[
        TokenSpec,
        doc("Desired token: for whom, for how long, and in which Secret.", x_kubernetes_validations=[JWT_RULE]),
    ]
    status: Annotated[TokenStatus, doc("Observed state.")] = TokenStatus()

    @property
    def jwt_key_ref(self) -> SecretKeySelector | None:
        """The JWT key reference in force."""
        return self.spec.jwt_key_ref or self.spec.jwt_hs256_key_ref
