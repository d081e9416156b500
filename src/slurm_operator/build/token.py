"""Token: the Secret that a Slurm JWT is kept in.

In: a Token and the JWT that was signed for it. Out: the Secret, owned by the Token and so deleted with it.
Called by `reconcile/token.py`; signing needs a clock and a key, so it happens outside.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode

from slurm_operator.api import text
from slurm_operator.api.meta import MAX_DURATION_CHARACTERS
from slurm_operator.api.token import DEFAULT_KEY, DEFAULT_LIFETIME, Token
from slurm_operator.build import metadata, names
from slurm_operator.build.errors import InvalidSpec
from slurm_operator.build.metadata import Object

NOBODY_ID = "nobody"
# Slurm keeps times in 32 bits.
MAX_LIFETIME_SECONDS = 2**31 - 2

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def secret(cr: Token, jwt: str) -> Object:
    """The Secret that holds the token."""
    meta = metadata.child(cr, names.token_secret(cr), {})
    if not meta["labels"]:
        del meta["labels"]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "immutable": not cr.spec.refresh,
        "type": "Opaque",
        "data": {secret_key(cr): b64encode(jwt.encode()).decode()},
    }


def secret_key(cr: Token) -> str:
    """The key within the Secret."""
    return cr.spec.secret_ref.key if cr.spec.secret_ref else DEFAULT_KEY


def username(cr: Token) -> str:
    """The user that the token speaks for."""
    name = cr.spec.username or NOBODY_ID
    problem = text.user_name(name)
    if problem:
        raise InvalidSpec(("spec", "username"), problem)
    return name


def lifetime(cr: Token) -> float:
    """How long the token lives, in seconds."""
    seconds = duration(cr.spec.lifetime or DEFAULT_LIFETIME)
    if seconds is None:
        raise InvalidSpec(("spec", "lifetime"), f"{cr.spec.lifetime!r} is not a duration such as 15m or 1h30m")
    return min(seconds, MAX_LIFETIME_SECONDS)


def duration(written: str) -> float | None:
    """A duration such as 1h30m in seconds, or None when it is none."""
    if len(written) > MAX_DURATION_CHARACTERS:
        # The search below starts anew at every digit.
        return None
    parts = _DURATION.findall(written)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != written:
        return None
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return seconds if math.isfinite(seconds) else None
