"""Words that agree with their numbers."""

from __future__ import annotations

import pytest

from slurm_operator.api.plural import counted, share


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 errors"), (1, "1 error"), (2, "2 errors")], ids=["none", "one", "two"]
)
def test_one_is_one_and_the_rest_are_many(number: int, said: str) -> None:
    assert counted(number, "error") == said


def test_a_verb_agrees_too() -> None:
    assert [counted(number, "worker is", "workers are") for number in (1, 3)] == ["1 worker is", "3 workers are"]


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (0, 1, "0 of 1 worker is"),
        (1, 1, "1 of 1 worker is"),
        (1, 2, "1 of 2 workers is"),
        (0, 2, "0 of 2 workers are"),
        (2, 3, "2 of 3 workers are"),
    ],
)
def test_a_share_agrees_with_both_numbers(part: int, whole: int, said: str) -> None:
    assert share(part, whole, "worker") == said
