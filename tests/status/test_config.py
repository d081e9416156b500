"""What is said of a configuration at each stage."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_operator.api.controller import ConfigStages, ConfigStatus, DaemonCensus
from slurm_operator.plan.config import ConfigDecision, Stage, Verdict
from slurm_operator.plan.daemons import Census
from slurm_operator.slurm.conf_lint import Finding
from slurm_operator.status.config import drafts, fields, is_catching_up

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


def plan(stage: Stage, **more: Any) -> ConfigDecision:
    return ConfigDecision(stage, NEW, None, **{"good_hash": OLD, **more})


def said(made: ConfigDecision) -> dict[str, tuple[str, str]]:
    return {each.type: (each.truth.value, each.reason) for each in drafts(made, BEFORE)}


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
            plan(Stage.UNREADABLE, verdict=Verdict("", "unreadable", reason="version 3")),
            ("Unknown", "VerdictNotUnderstood"),
            ("False", "Trying"),
            ("Unknown", "VerdictNotUnderstood"),
            id="a verdict that is not understood",
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
        pytest.param(
            plan(Stage.HELD),
            ("Unknown", "KeyRotation"),
            ("False", "KeyRotation"),
            ("False", "KeyRotation"),
            id="a key goes round",
        ),
    ],
)
def test_three_conditions_tell_how_far_it_has_come(
    made: ConfigDecision, valid: Any, published: Any, applied: Any
) -> None:
    assert said(made) == {"ConfigValid": valid, "ConfigPublished": published, "ConfigApplied": applied}


def test_what_was_in_force_and_is_wanted_again_is_valid_at_once() -> None:
    again = ConfigDecision(Stage.FIRST, OLD, None, good_hash=OLD)
    assert said(again)["ConfigValid"] == ("True", "Tried")


def test_the_daemons_are_counted_with_the_first_few_names() -> None:
    behind = tuple(f"n{number}" for number in range(9))
    found = fields(plan(Stage.APPLIED), BEFORE, NOW, [Census("slurmd", 20, behind, ("n9",), "old")])
    row = {"daemon": "slurmd", "total": 20, "current": 10, "behind": 9, "unknown": 1, "why": "old"}
    assert found["daemons"] == [{**row, "names": ["n0", "n1", "n2", "n3", "n4"]}]


def test_right_after_a_reconfigure_slurmds_are_still_as_they_were_counted() -> None:
    counted = DaemonCensus(daemon="slurmd", total=2, current=2)
    before = ConfigStatus(hash=OLD, last_read="2026-01-02T03:04:00Z", daemons=(counted,))
    found = [Census("slurmd", 2, ("n0", "n1"))]
    early = fields(plan(Stage.TRYING), before, NOW, found)
    later = fields(plan(Stage.TRYING), before, "2026-01-02T03:04:30Z", found)
    assert early["daemons"] == [{"daemon": "slurmd", "total": 2, "current": 2}]
    assert later["daemons"][0]["behind"] == 2


@pytest.mark.parametrize(
    ("read", "waits"),
    [
        pytest.param("2026-01-02T03:04:05Z", True, id="just now"),
        pytest.param("2026-01-02T03:03:56Z", True, id="nine seconds ago"),
        pytest.param("2026-01-02T03:03:55Z", False, id="ten seconds ago"),
        pytest.param("2026-01-02T03:04:08Z", True, id="by a clock that is a little ahead"),
        pytest.param("2027-01-02T03:04:05Z", False, id="by a clock that is a year ahead"),
        pytest.param(None, False, id="nobody knows when"),
    ],
)
def test_slurmds_are_waited_for_while_they_may_still_restart(read: str | None, waits: bool) -> None:
    before = ConfigStatus(hash=OLD, last_read=read)
    assert is_catching_up(plan(Stage.APPLIED), before, "2026-01-02T03:04:05Z") is waits


@pytest.mark.parametrize(
    ("at", "told"), [(1_700_000_000, "2023-11-14T22:13:20Z"), (0, "2026-01-01T00:00:00Z")], ids=["read", "only swapped"]
)
def test_the_time_of_reading_moves_only_when_slurmctld_read(at: int, told: str) -> None:
    before = ConfigStatus(hash=OLD, last_read="2026-01-01T00:00:00Z")
    verdict = Verdict(NEW, "applied", 5, at=at)
    assert fields(plan(Stage.APPLIED, verdict=verdict), before, NOW)["lastRead"] == told


def test_a_refusal_names_place_reason_and_what_stays() -> None:
    made = plan(Stage.REFUSED, verdict=Verdict(NEW, "refused", reason="no such node"), place="slurm.conf:7")
    message = drafts(made, BEFORE)[0].message
    assert message.startswith("slurm.conf:7: no such node")
    assert f"{OLD[:12]} stays in force" in message


def test_a_finding_of_the_linter_names_its_line() -> None:
    assert drafts(plan(Stage.INVALID, findings=(FINDING,)), BEFORE)[0].message == ("slurm.conf:42: unknown key Bogus")


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
