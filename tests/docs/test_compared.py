"""What a page shows is held against what a command said."""

from __future__ import annotations

import pytest
from tests.docs.compared import is_as_shown


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ("NAME  AGE\na     5s", "NAME   AGE\na      3m12s", True),
        ("NAME  AGE\na     5s", "NAME   AGE\nb      5s", False),
        ("a …", "a b c", True),
        ("error: …", "warning: it is so", False),
        ("…\nlast", "first\nsecond\nlast", True),
        ("…\nlast", "first\nsecond", False),
        ("one\ntwo", "one\ntwo\nthree", False),
        ("…", "", True),
        ("1 9fc0f2b1a4cc live;", "1 74ea8cb30274 live;", True),
        ("back to 1 of 2026-01-09T09:12:44Z:", "back to 1 of 2026-11-16T04:00:00Z:", True),
        ("back to 1 of 2026-01-09T09:12:44Z:", "back to 2 of 2026-11-16T04:00:00Z:", False),
        ("after 0.62 s: done", "after 12.1 s: done", True),
    ],
    ids=[
        "times and spaces may differ",
        "names may not",
        "an ellipsis is anything",
        "but only where it stands",
        "alone it is any lines",
        "but not the line behind it",
        "a line too many is seen",
        "alone it is also nothing",
        "a hash",
        "a moment",
        "a number is compared",
        "seconds",
    ],
)
def test_what_is_shown_is_compared(shown: str, said: str, same: bool) -> None:
    assert is_as_shown(shown, said) is same
