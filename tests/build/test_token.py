"""Tokens: the Secret that a JWT is kept in, and how long it lives."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build.resources import token

from slurm_operator.build import token as build
from slurm_operator.build.errors import InvalidSpec


def test_the_secret_belongs_to_the_token() -> None:
    secret = build.secret(token("ci"), "a.b.c")
    assert secret["metadata"]["name"] == "ci-jwt-alice"
    assert secret["metadata"]["ownerReferences"][0]["kind"] == "Token"
    assert "labels" not in secret["metadata"]
    assert secret["data"] == {"SLURM_JWT": "YS5iLmM="}
    assert secret["immutable"] is False


def test_labels_of_the_token_are_on_the_secret() -> None:
    assert build.secret(token(metadata={"labels": {"a": "b"}}), "x")["metadata"]["labels"] == {"a": "b"}


def test_a_token_that_is_made_once_is_immutable() -> None:
    assert build.secret(token(refresh=False), "x")["immutable"] is True


def test_a_token_elsewhere() -> None:
    secret = build.secret(token(secretRef={"name": "there", "key": "jwt"}), "x")
    assert (secret["metadata"]["name"], list(secret["data"])) == ("there", ["jwt"])


@pytest.mark.parametrize(("written", "name"), [("alice", "alice"), ("", "nobody"), ("svc-a@b.c", "svc-a@b.c")])
def test_the_user_of_a_token(written: str, name: str) -> None:
    assert build.username(token(username=written)) == name


@pytest.mark.parametrize("written", ["a b", "a\nb", "1up", "a" * 300, "a;b"])
def test_what_is_no_user_name(written: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        build.username(token(username=written))
    assert caught.value.path == ("spec", "username")


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        pytest.param({}, 900, id="by default"),
        pytest.param({"lifetime": ""}, 900, id="empty"),
        pytest.param({"lifetime": "1h30m"}, 5400, id="hours and minutes"),
        pytest.param({"lifetime": "0.5h"}, 1800, id="a fraction"),
        pytest.param({"lifetime": "999999h"}, 2**31 - 2, id="longer than Slurm can count"),
    ],
)
def test_the_life_of_a_token(written: dict[str, Any], seconds: float) -> None:
    assert build.lifetime(token(**written)) == seconds


@pytest.mark.parametrize("written", ["forever", "5", "1h 30m", "-5m", "1d", "h", "1h30"])
def test_what_is_no_life_of_a_token(written: str) -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.lifetime: .* is not a duration such as 15m"):
        build.lifetime(token(lifetime=written))


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("1s", 1), ("1ms", 0.001), ("1us", 1e-6), ("1µs", 1e-6), ("1ns", 1e-9), ("1m1s", 61), ("0s", 0)],
)
def test_durations(written: str, seconds: float) -> None:
    assert build.duration(written) == pytest.approx(seconds)
