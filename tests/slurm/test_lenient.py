"""Odd bytes are mended where they are odd, and nowhere else."""

from __future__ import annotations

import pytest
from tests.slurm.recorded_replies import MARK, recorded, reply

from slurm_operator.slurm import lenient, wire


def test_a_name_that_is_not_utf8_is_read_as_well_as_it_can_be() -> None:
    """T1: one such name stopped every NodeSet of its cluster."""
    document = recorded("26.05", "jobs")
    document["jobs"][0]["name"] = MARK
    answer = wire.jobs(reply(document, b'"a\xff\xfeb"'), "jobs")
    assert (answer.items[0].name, answer.complete) == ("a\ufffd\ufffdb", True)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param(rb'"\ud83d\ude00"', "\U0001f600", id="a whole pair stays"),
        pytest.param(rb'"\ud83d\ude00\ud83d"', "\U0001f600\ufffd", id="half a pair after a whole one"),
        pytest.param(rb'"\\ud800\udc00"', "\\ud800\ufffd", id="an escaped backslash is no escape"),
        pytest.param(b'"NaN, Infinity\x01"', "NaN, Infinity ", id="words in a text stay"),
        pytest.param(rb'"\\\""', '\\"', id="escapes stay"),
    ],
)
def test_only_what_is_wrong_is_mended(written: bytes, read: str) -> None:
    document = recorded("26.05", "jobs")
    document["jobs"][0]["name"] = MARK
    # An odd number elsewhere makes sure that the body is mended at all.
    document["jobs"][0]["qos"] = float("nan")
    answer = wire.jobs(reply(document, written), "jobs")
    assert (answer.items[0].name, answer.complete) == (read, True)


def test_a_broken_character_at_the_border_of_two_pieces_is_mended_too() -> None:
    odd = b"x" * (lenient._CHUNK_BYTES - 1) + "é".encode() + b"\xff"
    assert lenient.as_utf8(odd).decode().endswith("xé\ufffd")
    fine = odd[:-1]
    assert lenient.as_utf8(fine) is fine
