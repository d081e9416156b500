"""Tokens for slurmrestd: HS256 over the raw key bytes, made here, short-lived, never printed.

In: the key (asked for at every request, so that a new key is used at once) and a clock. Out: the text for the
X-SLURM-USER-TOKEN header. A slurmctld goes by its old key until it is restarted: whoever is refused with the new one
tries the one before. Called by `client.py`; `mint` also serves the Token kind.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Callable, Mapping

from slurm_operator.slurm.errors import SlurmUnauthorized

ISSUER = "slurm-operator"
LIFE_SECONDS = 15 * 60
RENEW_AT_LIFETIME_SHARE = 0.7
MAX_LIFETIME_SECONDS = 2**31 - 2


def mint(key: bytes, *, user: str, now: int, life: int, token_id: str) -> str:
    """One signed token. The life is held within what Slurm can read."""
    if not key:
        raise SlurmUnauthorized("the JWT key is empty: check the Secret that holds it")
    end = now + max(0, min(life, MAX_LIFETIME_SECONDS))
    claims: dict[str, str | int] = {"jti": token_id, "iss": ISSUER, "iat": now, "nbf": now, "exp": end, "sun": user}
    signed = f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part(claims)}"
    return f"{signed}.{_base64(hmac.new(key, signed.encode(), hashlib.sha256).digest())}"


def _part(content: Mapping[str, str | int]) -> str:
    return _base64(json.dumps(content, separators=(",", ":")).encode())


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class TokenSource:
    """Gives a token that is valid now; makes a new one at 70 % of its life, and when the key or the clock changed."""

    def __init__(
        self,
        key: Callable[[], bytes],
        *,
        user: str = "slurm",
        life: int = LIFE_SECONDS,
        now: Callable[[], float] = time.time,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._key = key
        self._user = user
        self._life = life
        self._now = now
        self._new_id = new_id
        self._token = ""
        self._made_with = b""
        self._made_at = 0
        self._newest = b""
        self._before = b""
        self._goes_back = False

    def current(self) -> str:
        """A token made with the key that works."""
        key, now = self._chosen(), int(self._now())
        if not self._token or key != self._made_with or not self._is_fresh(now):
            self._token = mint(key, user=self._user, now=now, life=self._life, token_id=self._new_id())
            self._made_with, self._made_at = key, now
        return self._token

    def _chosen(self) -> bytes:
        key = self._key()
        if key != self._newest:
            self._before, self._newest, self._goes_back = self._newest, key, False
        return self._before if self._goes_back else key

    def discard(self) -> None:
        """Forget the token that was refused; the next one is made with the other key, if there was one."""
        self._token = ""
        self._goes_back = bool(self._before) and not self._goes_back

    def _is_fresh(self, now: int) -> bool:
        return self._made_at <= now < self._made_at + self._life * RENEW_AT_LIFETIME_SHARE

    def __repr__(self) -> str:
        return f"TokenSource(user={self._user!r})"
