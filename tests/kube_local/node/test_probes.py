"""When probes are asked and when their answers count."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from kube_local.node import probes
from kube_local.node.errors import ConfigInvalid
from kube_local.node.probes import Tally, Thresholds


@pytest.mark.parametrize(
    ("answers", "verdicts"),
    [
        ("+", [True]),
        ("-", [None]),
        ("---", [None, None, False]),
        ("--+--", [None, None, True, None, None]),
        ("-----", [None, None, False, False, False]),
    ],
    ids=["one good answer", "one bad answer", "three bad answers", "a good one in between", "and on"],
)
def test_enough_answers_in_a_row_decide(answers: str, verdicts: list[bool | None]) -> None:
    tally = Tally(Thresholds(failures=3, successes=1))
    assert [tally.note(answer == "+") for answer in answers] == verdicts


def test_a_container_that_starts_is_asked_soon_but_failures_count_once_a_period() -> None:
    pauses = list(islice(probes.pauses(Thresholds(period=2.0)), 12))
    assert pauses[0].seconds == probes.FIRST_PAUSE_SECONDS
    waited, counted = 0.0, []
    for pause in pauses:
        waited += pause.seconds
        if pause.counts:
            counted.append(round(waited, 6))
    assert counted[:2] == [2.0, 4.0]


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ({}, Thresholds(0.0, 10.0, 1.0, 1, 3)),
        (
            {
                "initialDelaySeconds": 5,
                "periodSeconds": 2,
                "timeoutSeconds": 4,
                "successThreshold": 2,
                "failureThreshold": 6,
            },
            Thresholds(5.0, 2.0, 4.0, 2, 6),
        ),
        ({"periodSeconds": 0}, Thresholds()),
    ],
    ids=["defaults", "all given", "zero means default"],
)
def test_thresholds_are_those_of_kubernetes(probe: dict[str, Any], expected: Thresholds) -> None:
    assert Thresholds.of(probe) == expected


def test_ports_are_numbers_or_names() -> None:
    container = {"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}
    assert [probes.port(container, wanted) for wanted in (80, "81", "web")] == [80, 81, 8080]
    with pytest.raises(ConfigInvalid, match="'other' is no port of container 'c'"):
        probes.port(container, "other")
