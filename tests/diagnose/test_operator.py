"""Whether the operator has seen a change: it is about to, it is busy, it is behind, or it is not there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.diagnose.broken import Object, cluster, resource

from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts
from slurm_operator.program import FIELD_MANAGER

CHANGED = "2026-11-16T00:01:00Z"


def written(item: Object, time: str, manager: str = FIELD_MANAGER, subresource: str = "status") -> Object:
    entry = {"manager": manager, "time": time, "subresource": subresource}
    return {**item, "metadata": {**item["metadata"], "managedFields": [entry]}}


def facts_of(now: str, wrote: str, manager: str = FIELD_MANAGER) -> Facts:
    """A NodeSet that nobody has reconciled, beside a Controller that somebody wrote to."""
    changed = written({**resource("NodeSet", "compute"), "status": {}}, CHANGED, "kubectl", "")
    return replace(cluster(changed, written(resource("Controller", "slurm"), wrote, manager)), now=now)


@pytest.mark.parametrize(
    ("now", "wrote", "manager", "code"),
    [
        ("2026-11-16T00:01:02Z", "2026-11-16T00:00:00Z", FIELD_MANAGER, "JustChanged"),
        ("2026-11-16T00:01:40Z", "2026-11-16T00:01:35Z", FIELD_MANAGER, "JustChanged"),
        ("2026-11-16T00:04:00Z", "2026-11-16T00:03:50Z", FIELD_MANAGER, "OperatorBehind"),
        ("2026-11-16T00:01:40Z", "2026-11-16T00:00:59Z", FIELD_MANAGER, "OperatorAbsent"),
        ("2026-11-16T00:02:40Z", "2026-11-16T00:01:05Z", FIELD_MANAGER, "OperatorAbsent"),
        ("2026-11-16T00:01:40Z", "2026-11-16T00:01:35Z", "somebody", "OperatorAbsent"),
    ],
    ids=[
        "a moment ago",
        "it writes elsewhere since",
        "it writes elsewhere for minutes",
        "it wrote before the change alone",
        "it wrote, and then no more",
        "somebody else wrote",
    ],
)
def test_an_operator_that_writes_elsewhere_is_busy_and_not_absent(
    now: str, wrote: str, manager: str, code: str
) -> None:
    answer = explained(facts_of(now, wrote, manager), "nodeset/compute")
    assert isinstance(answer, Cause)
    assert answer.code == code
    assert answer.wrong == (code != "JustChanged")


def test_an_operator_that_is_behind_is_told_with_both_times() -> None:
    answer = explained(facts_of("2026-11-16T00:04:00Z", "2026-11-16T00:03:50Z"), "nodeset/compute")
    assert isinstance(answer, Cause)
    assert answer.sentence.startswith(
        "the operator wrote something 10 s ago, and has not reconciled the change of NodeSet compute for 180 s"
    )
