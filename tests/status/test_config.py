"""What is said of a configuration at each stage."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_operator.api.controller import ConfigStages, ConfigStatus
from slurm_operator.plan.config import ConfigPlan, Stage, Verdict
from slurm_operator.slurm.conf_lint import Finding
from slurm_operator.status.config import fields, statements

NOW = "2026-01-02T03:04:05Z"
NEW, OLD = "a" * 64, "b" * 64
BEFORE = ConfigStatus(
    hash=OLD,
    last_applied="2026-01-01T00:00:00Z",
    milliseconds=7,
    stages=ConfigStages(parse=1, trial=2, reconfigure=3),
)
VERDICT = Verdict(NEW, "applied", 400, 10, 120, 150)
FINDING = Finding(
    file="slurm.conf", line=42, column=1, severity="error", code="UnknownKey", message="unknown key Bogus"
)


def plan(stage: Stage, **more: Any) -> ConfigPlan:
    return ConfigPlan(stage, NEW, None, **{"good_hash": OLD, **more})


def said(made: ConfigPlan) -> dict[str, tuple[str, str]]:
    return {each.type: (each.truth.value, each.reason) for each in statements(made, BEFORE)}


@pytest.mark.parametrize(
    ("made", "valid", "published", "applied"),
    [
        pytest.param(
            plan(Stage.APPLIED, verdict=VERDICT, good_hash=NEW),
            ("True", "Tried"),
            ("True", "Published"),
            ("True", "InForce"),
            id="in force",
        ),
        pytest.param(
            plan(Stage.TRYING), ("Unknown", "Trying"), ("False", "Trying"), ("False", "Trying"), id="being tried"
        ),
        pytest.param(
            plan(Stage.REFUSED, verdict=VERDICT),
            ("False", "SlurmRefused"),
            ("False", "HeldBack"),
            ("False", "NotValid"),
            id="refused",
        ),
        pytest.param(
            plan(Stage.ROLLED_BACK, verdict=VERDICT),
            ("False", "RolledBack"),
            ("False", "HeldBack"),
            ("False", "RolledBack"),
            id="rolled back",
        ),
        pytest.param(
            plan(Stage.INVALID, findings=(FINDING,)),
            ("False", "LinterRefused"),
            ("False", "HeldBack"),
            ("False", "NotValid"),
            id="refused by the linter",
        ),
        pytest.param(
            plan(Stage.DIRECT, good_hash=NEW),
            ("True", "Linted"),
            ("True", "Published"),
            ("Unknown", "NotReported"),
            id="nobody reports",
        ),
        pytest.param(
            plan(Stage.FIRST, good_hash=NEW),
            ("True", "Linted"),
            ("True", "Published"),
            ("False", "WaitingForSlurmctld"),
            id="the first one",
        ),
    ],
)
def test_three_conditions_tell_how_far_it_has_come(made: ConfigPlan, valid: Any, published: Any, applied: Any) -> None:
    assert said(made) == {"ConfigValid": valid, "ConfigPublished": published, "ConfigApplied": applied}


def test_a_refusal_names_place_reason_and_what_stays() -> None:
    made = plan(Stage.REFUSED, verdict=Verdict(NEW, "refused", reason="no such node"), place="slurm.conf:7")
    message = statements(made, BEFORE)[0].message
    assert message.startswith("slurm.conf:7: no such node")
    assert f"{OLD[:12]} stays in force" in message


def test_a_finding_of_the_linter_names_its_line() -> None:
    assert statements(plan(Stage.INVALID, findings=(FINDING,)), BEFORE)[0].message == (
        "slurm.conf:42: unknown key Bogus"
    )


def test_the_status_keeps_the_time_of_what_is_in_force() -> None:
    kept = {"hash": OLD, "lastApplied": "2026-01-01T00:00:00Z", "milliseconds": 7}
    stages = {"parse": 1, "trial": 2, "reconfigure": 3}
    assert fields(plan(Stage.TRYING), BEFORE, NOW) == {**kept, "stages": stages, "candidate": NEW}


def test_the_status_of_a_new_one_has_its_own_time_and_stages() -> None:
    assert fields(plan(Stage.APPLIED, verdict=VERDICT, good_hash=NEW), BEFORE, NOW) == {
        "hash": NEW,
        "lastApplied": NOW,
        "milliseconds": 400,
        "stages": {"parse": 10, "trial": 120, "reconfigure": 150},
    }
