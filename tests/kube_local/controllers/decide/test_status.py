"""Patches that say only what changed, and shares of a number."""

from __future__ import annotations

from typing import Any

import pytest

from kube_local.controllers.decide.status import difference, share, with_conditions


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
    ],
)
def test_a_patch_holds_what_changed(old: Any, new: Any, patch: Any) -> None:
    assert difference(old, new) == patch


@pytest.mark.parametrize(
    ("amount", "up", "expected"),
    [(3, True, 3), (None, True, 0), ("25%", True, 3), ("25%", False, 2), ("100%", False, 10), ("x", True, 0)],
)
def test_shares_are_rounded_as_asked(amount: int | str | None, up: bool, expected: int) -> None:
    assert share(amount, 10, up=up) == expected


def test_a_condition_keeps_its_time_until_its_status_changes(make: Any) -> None:
    old = [{"type": "Ready", "status": "True", "reason": "Old", "lastTransitionTime": "then", "extra": 1}]
    (same,) = with_conditions(old, [{"type": "Ready", "status": "True", "reason": "New"}], make.now)
    assert same == {"type": "Ready", "status": "True", "reason": "New", "lastTransitionTime": "then", "extra": 1}
    (other,) = with_conditions(old, [{"type": "Ready", "status": "False", "reason": "New"}], make.now)
    assert other["lastTransitionTime"] == "2030-01-01T12:00:00Z"
