"""What is remembered of partitions between reconciles: reverts that do not hold, and drift that lasts."""

from __future__ import annotations

from functools import reduce

from slurm_operator.plan.partition_memory import (
    MAX_REVERTS,
    PATIENCE_SECONDS,
    REVERT_PACE_SECONDS,
    WINDOW_SECONDS,
    PartitionMemory,
)

LINE = "PartitionName=p Nodes=ALL"


def reverted(times: int, apart: float = 1.0) -> PartitionMemory:
    return reduce(lambda held, at: held.reverted({"p": LINE}, at * apart), range(times), PartitionMemory())


def test_a_line_is_given_up_after_so_many_reverts_within_the_window() -> None:
    assert not reverted(MAX_REVERTS - 1).given_up
    assert set(reverted(MAX_REVERTS).given_up) == {"p"}
    assert not reverted(MAX_REVERTS, apart=WINDOW_SECONDS).given_up


def test_another_line_is_a_new_try() -> None:
    held = reverted(MAX_REVERTS)
    assert held.holding({"p": LINE}).given_up == held.given_up
    assert not held.holding({"p": f"{LINE} MaxTime=5"}).given_up


def test_what_was_given_up_is_tried_again_when_it_was_long_as_wanted() -> None:
    held, since = reverted(MAX_REVERTS), MAX_REVERTS - 1
    assert held.without_drift(frozenset({"p"}), since + WINDOW_SECONDS - 1).given_up
    assert not held.without_drift(frozenset({"p"}), since + WINDOW_SECONDS).given_up
    assert held.without_drift(frozenset({"q"}), since + WINDOW_SECONDS).given_up


def test_drift_lasts_while_it_is_the_same() -> None:
    seen = PartitionMemory().seeing({"p": "MaxTime", "q": "MaxTime"}, 0.0)
    later = seen.seeing({"p": "MaxTime", "q": "State"}, PATIENCE_SECONDS)
    assert later.lasting(PATIENCE_SECONDS) == {"p"}


def test_a_revert_is_not_sent_again_before_it_can_be_seen() -> None:
    held = reverted(1)
    assert held.just_reverted(REVERT_PACE_SECONDS / 2) == {"p"}
    assert held.just_reverted(REVERT_PACE_SECONDS) == frozenset()


def test_a_memory_is_never_changed() -> None:
    held = PartitionMemory()
    held.reverted({"p": LINE}, 1.0)
    held.seeing({"p": "MaxTime"}, 1.0)
    assert held == PartitionMemory()
