"""Times as Kubernetes writes them, and whatever else somebody may have written into a status."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kube_runtime.times import parse_seconds, parse_time, time_text

MOMENT = datetime(2030, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "written", ["2030-01-01T10:00:00Z", "2030-01-01T12:00:00+02:00", "2030-01-01T10:00:00", "2030-01-01 10:00:00.000"]
)
def test_every_form_of_a_time_is_the_same_moment(written: str) -> None:
    """T13: a time without a zone cannot be compared with one that has it."""
    assert parse_time(written) == MOMENT
    assert parse_seconds(written) == MOMENT.timestamp()


@pytest.mark.parametrize(
    "written", ["", None, "soon", "2026-01-01T23:59:60Z", "9" * 5000, "99999-01-01T00:00:00Z", "2030-02-30"]
)
def test_what_is_no_time_is_none(written: str | None) -> None:
    assert parse_time(written) is None
    assert parse_seconds(written) is None


@pytest.mark.parametrize("written", ["0001-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_at_the_end_of_the_calendar_can_still_be_compared(written: str) -> None:
    found = parse_time(written)
    assert found is not None
    assert (found < MOMENT) == ((parse_seconds(written) or 0.0) < MOMENT.timestamp())


def test_a_moment_is_written_as_it_is_read() -> None:
    assert time_text(MOMENT) == "2030-01-01T10:00:00Z"
    assert parse_time(time_text(MOMENT)) == MOMENT
