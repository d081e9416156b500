"""Tokens: what is in them, when a new one is made, and that nothing leaks."""

from __future__ import annotations

import jwt
import pytest

from slurm_operator.slurm.errors import SlurmUnauthorized
from slurm_operator.slurm.token import LIFE_SECONDS, MAX_LIFETIME_SECONDS, TokenSource, mint

KEY = bytes(range(32))


class Source:
    """A token source with a clock and a key that the test moves."""

    def __init__(self) -> None:
        self.time = 1_000_000.0
        self.key = KEY
        self.made = 0
        self.tokens = TokenSource(lambda: self.key, now=lambda: self.time, new_id=self._id)

    def _id(self) -> str:
        self.made += 1
        return f"id-{self.made}"


def claims(token: str, key: bytes = KEY) -> dict[str, object]:
    return dict(jwt.decode(token, key, algorithms=["HS256"], options={"verify_exp": False, "verify_nbf": False}))


def test_another_library_reads_the_token_and_its_claims() -> None:
    token = mint(KEY, user="slurm", now=1000, life=900, token_id="a")
    assert claims(token) == {"jti": "a", "iss": "slurm-operator", "iat": 1000, "nbf": 1000, "exp": 1900, "sun": "slurm"}
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT"}


def test_the_signature_depends_on_the_key() -> None:
    with pytest.raises(jwt.InvalidSignatureError):
        claims(mint(KEY, user="slurm", now=1000, life=900, token_id="a"), b"y" * 32)


@pytest.mark.parametrize(
    ("life", "end"),
    [(-5, 1000), (0, 1000), (900, 1900), (2**40, 1000 + MAX_LIFETIME_SECONDS)],
    ids=["negative is none", "none", "usual", "longer than Slurm can read"],
)
def test_the_life_is_held_within_bounds(life: int, end: int) -> None:
    assert claims(mint(KEY, user="u", now=1000, life=life, token_id="a"))["exp"] == end


def test_an_empty_key_is_refused_with_advice() -> None:
    with pytest.raises(SlurmUnauthorized, match="Secret"):
        mint(b"", user="slurm", now=0, life=900, token_id="a")


@pytest.mark.parametrize(
    ("seconds", "made"),
    [(0, 1), (LIFE_SECONDS * 0.69, 1), (LIFE_SECONDS * 0.7, 2), (LIFE_SECONDS * 5, 2), (-1, 2)],
    ids=["at once", "before 70 %", "at 70 %", "after its end", "clock went back"],
)
def test_a_token_is_renewed_at_seventy_percent_of_its_life(seconds: float, made: int) -> None:
    source = Source()
    source.tokens.current()
    source.time += seconds
    source.tokens.current()
    assert source.made == made


def test_a_new_key_is_used_at_once() -> None:
    source = Source()
    first = source.tokens.current()
    source.key = b"n" * 32
    second = source.tokens.current()
    assert claims(second, b"n" * 32)["jti"] == "id-2"
    assert first != second


def test_a_discarded_token_is_not_given_again() -> None:
    source = Source()
    first = source.tokens.current()
    source.tokens.discard()
    assert source.tokens.current() != first


def test_whoever_is_refused_with_a_new_key_tries_the_one_before_and_then_the_new_again() -> None:
    source, new = Source(), b"n" * 32
    source.tokens.current()
    source.key = new
    assert claims(source.tokens.current(), new)
    source.tokens.discard()
    assert claims(source.tokens.current(), KEY)
    assert claims(source.tokens.current(), KEY)
    source.tokens.discard()
    assert claims(source.tokens.current(), new)


def test_neither_key_nor_token_is_shown() -> None:
    source = Source()
    token = source.tokens.current()
    assert repr(source.tokens) == "TokenSource(user='slurm')"
    assert token not in repr(source.tokens)
