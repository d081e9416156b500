"""Times as Kubernetes writes them: `2030-01-01T10:00:00Z`.

In: the text of a field, or a moment. Out: a moment that can be compared with any other, or the text. Whoever may write
a status may write any text into it: one that is no time is None, never an error. Pure; used at every stage.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=4096)
def parse_time(text: str | None) -> datetime | None:
    """The moment, or None; without a zone it is in UTC, since it could not be compared otherwise."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        # Also for 23:59:60, which is a time to others.
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


def parse_seconds(text: str | None) -> float | None:
    """The same in seconds since 1970."""
    found = parse_time(text)
    return found.timestamp() if found is not None else None


def time_text(moment: datetime) -> str:
    """A moment in UTC, to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_text(seconds: float) -> str:
    """The same for seconds since 1970."""
    return time_text(datetime.fromtimestamp(int(seconds), UTC))
