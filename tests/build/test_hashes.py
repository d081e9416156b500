"""Hashes that earlier releases wrote: SHA-256 over the values in the order of their keys."""

from __future__ import annotations

import pytest

from slurm_operator.build import hashes

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"k": ""}, EMPTY, id="an empty value"),
        pytest.param({"k": "abc"}, ABC, id="text"),
        pytest.param({"k": b"abc"}, ABC, id="bytes"),
        pytest.param({"2": "bc", "1": "a"}, ABC, id="in the order of keys"),
    ],
)
def test_the_hash_of_a_map(data: dict[str, str], expected: str) -> None:
    assert hashes.of_map(data) == expected


def test_the_hash_of_text_and_bytes() -> None:
    assert hashes.of_text("abc") == hashes.of_bytes(b"abc") == ABC
    assert hashes.of_bytes(b"") == EMPTY
