"""Every status and every number of Slurm becomes a typed error, and none of them shows a secret."""

from __future__ import annotations

import pytest

from slurm_operator.slurm.errors import KINDS, SlurmBadAnswer, SlurmBusy, SlurmFailed, from_number, from_status, shorten


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "SlurmUnauthorized"),
        (403, "SlurmForbidden"),
        (404, "SlurmUnsupported"),
        (422, "SlurmRejected"),
        (500, "SlurmFailed"),
        (503, "SlurmUnreachable"),
        (511, "SlurmUnauthorized"),
    ],
)
def test_a_status_without_a_slurm_error_has_its_type(status: int, reason: str) -> None:
    assert from_status(status, "x", call="GET y").reason == reason


def test_a_slurm_number_has_its_type_and_the_rest_is_a_plain_failure() -> None:
    assert type(from_number(2016, "busy", call="", status=500)) is SlurmBusy
    assert type(from_number(4242, "what", call="", status=500)) is SlurmFailed
    assert all(number > 0 for number in KINDS)


def test_a_database_that_is_away_is_no_slurmctld_that_is_away() -> None:
    """One list that needs the database must not keep the operator from draining."""
    assert type(from_number(7000, "Unable to connect to database", call="", status=502)) is SlurmFailed


def test_a_servers_text_is_shortened_to_one_printable_line_without_tokens() -> None:
    assert shorten("a\n\tb\x00c eyJhbGciOiJI.eyJzdW4iOiJz.c2ln end") == "a b c [token] end"
    assert len(shorten("x" * 1000)) == 300
    assert str(SlurmBadAnswer("text", call="GET nodes")) == "GET nodes: text"
