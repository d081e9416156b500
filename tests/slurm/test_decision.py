"""What is decided, and what has to be read for it. That jobs are read accordingly: `test_job_records.py`."""

from __future__ import annotations

import pytest

from slurm_operator.slurm.decision import EVERYTHING, NOTHING_DECIDED, Decision

ONE, TWO = Decision(frozenset({"n1"})), Decision(frozenset({"n1", "n2"}))
RECORD = Decision(frozenset({"n1"}), every_job=True)


@pytest.mark.parametrize(
    ("read", "decided", "is_enough"),
    [
        (NOTHING_DECIDED, NOTHING_DECIDED, True),
        (NOTHING_DECIDED, ONE, False),
        (TWO, ONE, True),
        (ONE, TWO, False),
        (ONE, RECORD, False),
        (RECORD, ONE, True),
        (RECORD, EVERYTHING, False),
        (EVERYTHING, RECORD | TWO, True),
        (EVERYTHING, EVERYTHING, True),
        (Decision(every_node=True), TWO, True),
        (Decision(every_node=True), RECORD, False),
        (TWO, Decision(every_node=True), False),
    ],
)
def test_what_was_read_for_one_decision_may_be_enough_for_another(
    read: Decision, decided: Decision, is_enough: bool
) -> None:
    assert read.covers(decided) == is_enough


def test_two_decisions_need_what_each_of_them_needs() -> None:
    both = ONE | Decision(frozenset({"n2"}), every_holder=True) | RECORD
    assert both == Decision(frozenset({"n1", "n2"}), every_holder=True, every_job=True)
    assert both | EVERYTHING == Decision(frozenset({"n1", "n2"}), every_node=True, every_holder=True, every_job=True)


@pytest.mark.parametrize(
    ("decision", "decides"),
    [(NOTHING_DECIDED, False), (ONE, True), (EVERYTHING, True), (Decision(every_job=True), True)],
)
def test_only_nothing_decides_nothing(decision: Decision, decides: bool) -> None:
    assert bool(decision) == decides
