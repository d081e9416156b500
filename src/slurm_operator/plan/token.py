"""When a token is created, and when it is renewed.

In: a Token, its key, the content of its Secret, the time. Out: what to do and when to look again. Called by
`reconcile/token.py`. Pure.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from dataclasses import dataclass

from slurm_operator.slurm.model import MAX_EPOCH_SECONDS

# A token is renewed when this share of its life is over.
RENEW_AT_LIFETIME_SHARE = 0.7
MIN_WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Held:
    """A token that is valid: when it was issued and when it ends."""

    issued: int
    ends: int
    user: str


@dataclass(frozen=True, slots=True)
class Renewal:
    """Whether a new token is needed, why, and when to look again."""

    needed: bool
    why: str
    wait: float | None


def read(jwt: str, key: bytes) -> Held | None:
    """What a token says, when the key signed it; None for anything else."""
    parts = jwt.split(".")
    if len(parts) != 3:
        return None
    expected = hmac.new(key, f"{parts[0]}.{parts[1]}".encode("utf-8", "replace"), hashlib.sha256).digest()
    try:
        if not hmac.compare_digest(_decoded(parts[2]), expected):
            return None
        claims = json.loads(_decoded(parts[1]))
        held = Held(int(claims["iat"]), int(claims["exp"]), str(claims["sun"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, Base64Error):
        return None
    # Whoever else has the key may have written times that no calendar has.
    return held if min(held.issued, held.ends) >= 0 and max(held.issued, held.ends) <= MAX_EPOCH_SECONDS else None


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def renewal(held: Held | None, *, user: str, refresh: bool, exists: bool, now: float) -> Renewal:
    """Whether a token must be made now."""
    if held is None:
        if exists and not refresh:
            return Renewal(False, "its Secret is immutable, and the key has changed since", None)
        return Renewal(True, "there is no token signed with the current key", None)
    if not refresh:
        return Renewal(False, "it is made once", None)
    due = held.issued + (held.ends - held.issued) * RENEW_AT_LIFETIME_SHARE
    if held.user != user or now >= due or now < held.issued:
        return Renewal(True, "it is due" if held.user == user else "it is for another user", None)
    return Renewal(False, "it is fresh", max(due - now, MIN_WAIT_SECONDS))
