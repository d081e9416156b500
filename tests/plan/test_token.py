"""When a token is made anew: before it ends, when it speaks for another, when the key has changed."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode

import pytest

from slurm_operator.plan import token
from slurm_operator.plan.token import Held

KEY = b"0" * 32
CLAIMS = {"iat": 1000, "exp": 2000, "sun": "ada"}


def jwt(claims: object, key: bytes = KEY) -> str:
    parts = [_part(json.dumps(each).encode()) for each in ({"alg": "HS256"}, claims)]
    signature = hmac.new(key, ".".join(parts).encode(), hashlib.sha256).digest()
    return ".".join([*parts, _part(signature)])


def _part(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def test_a_token_of_our_key_is_read() -> None:
    assert token.read(jwt(CLAIMS), KEY) == Held(1000, 2000, "ada")


@pytest.mark.parametrize(
    "text",
    [
        jwt(CLAIMS, b"another key"),
        jwt({"iat": 1, "exp": 2}),
        jwt([1]),
        jwt({**CLAIMS, "exp": 10**12}),
        jwt({**CLAIMS, "iat": -1}),
        jwt(CLAIMS) + ".x",
        "a.b.c",
        "",
        "é.é.é",
    ],
    ids=[
        "other key",
        "nobody's",
        "a list",
        "no such year",
        "before time",
        "four parts",
        "letters",
        "empty",
        "not ASCII",
    ],
)
def test_anything_else_is_no_token(text: str) -> None:
    assert token.read(text, KEY) is None


@pytest.mark.parametrize(
    ("now", "needed", "wait"),
    [(1000, False, 700), (1699.5, False, 1), (1700, True, None), (3000, True, None), (999, True, None)],
    ids=["fresh", "nearly due", "due", "over", "issued in the future"],
)
def test_a_token_is_renewed_when_seven_tenths_of_its_life_are_over(
    now: float, needed: bool, wait: float | None
) -> None:
    found = token.renewal(Held(1000, 2000, "ada"), user="ada", refresh=True, exists=True, now=now)
    assert (found.needed, found.wait) == (needed, wait)


def test_a_token_for_another_user_is_made_anew() -> None:
    assert token.renewal(Held(1000, 2000, "ada"), user="bob", refresh=True, exists=True, now=1000).needed


@pytest.mark.parametrize(
    ("held", "exists", "needed"),
    [(None, False, True), (None, True, False), (Held(1000, 2000, "ada"), True, False)],
    ids=["not there yet", "its Secret cannot be changed", "made"],
)
def test_without_refresh_a_token_is_made_once(held: Held | None, exists: bool, needed: bool) -> None:
    assert token.renewal(held, user="ada", refresh=False, exists=exists, now=9000).needed is needed
