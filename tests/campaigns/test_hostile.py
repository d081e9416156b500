"""A rotating part of the hostile campaigns: answers that no honest Slurm gives, manifests that no honest user writes.

A point that fails is named in the message: `python -m tests.campaigns --point R7/26.05/jobs/jobs.0.name/bidi`.
"""

from __future__ import annotations

import datetime as dt
from typing import TypeVar

import pytest
from tests.campaigns import hostile_answers, hostile_door, hostile_manifests
from tests.campaigns.campaign import Result
from tests.campaigns.hostile_values import BY_NAME, VALUES, hollow, paths, repeated

TODAY = dt.datetime.now(dt.UTC).timetuple().tm_yday
P = TypeVar("P")
# Enough to see each kind of value; the whole runs by `python -m tests.campaigns --campaign R7`.
DOOR_POINTS = 2500
ADMISSION_POINTS = 1500
RIG_POINTS = 12


def _passes(result: Result) -> None:
    print(result)
    assert result.outcomes
    assert result.violations == []


def _rotating(points: list[P], count: int) -> list[P]:
    step = max(1, len(points) // count)
    return points[TODAY % step :: step]


@pytest.mark.parametrize("release", ["24.11", "26.05"])
def test_a_hostile_answer_is_model_values_or_an_error_and_sets_nobody_free(release: str) -> None:
    chosen = _rotating(list(hostile_door.usual(release)), DOOR_POINTS // 2)
    _passes(hostile_answers.run_door(chosen))


@pytest.mark.parametrize("release", ["24.11", "26.05"])
def test_under_hostile_answers_the_operator_keeps_its_promises(release: str) -> None:
    chosen = _rotating(list(hostile_answers.rig_points(release)), RIG_POINTS)
    _passes(Result(hostile_answers.run_rig(release, chosen)))


def test_a_hostile_manifest_is_let_in_or_refused_with_its_place() -> None:
    points = [point for kind in hostile_manifests.SPECS for point in hostile_manifests.every_point(kind, in_rig=False)]
    chosen = [point for point in _rotating(points, ADMISSION_POINTS * 2) if hostile_manifests.is_let_through(point)]
    _passes(hostile_manifests.run_admission(chosen))


def test_beside_hostile_manifests_the_operator_keeps_its_promises() -> None:
    known = [point for kind in hostile_manifests.SPECS for point in hostile_manifests.telling_points(kind, in_rig=True)]
    chosen = [point for point in _rotating(known, RIG_POINTS) if hostile_manifests.is_let_through(point)]
    _passes(Result(hostile_manifests.run_rig(chosen)))


def test_a_point_is_played_again_by_its_name() -> None:
    outcome = hostile_answers.replay("R7/26.05/live-jobs/jobs.2.job_state/list")
    assert outcome.violations == ()
    outcome = hostile_manifests.replay("R8/NodeSet/spec.replicas/minus-one")
    assert outcome.violations == ()


def test_values_have_names_of_their_own_and_every_place_is_reached() -> None:
    assert len(BY_NAME) == len(VALUES)
    document = {"a": [{"b": 1}, {"b": 2}], "c": None}
    assert len(list(paths(document))) == 7
    assert hollow(document, ("a", 1, "b")).filled(BY_NAME["utf8-invalid"]) == (
        b'{"a": [{"b": 1}, {"b": "\xff\xfe"}], "c": null}'
    )
    assert repeated(document, ("a", 0, "b"), BY_NAME["null"], 3).count(b'{"b": null}') == 3
