"""What the log says of an apply, and which of many failures is told."""

from __future__ import annotations

from typing import Any

import pytest

from kube_runtime.client.compare import Difference
from kube_runtime.client.errors import Forbidden
from kube_runtime.client.write import Applied, Effect
from slurm_operator.plan.ownership import NameTaken
from slurm_operator.reconcile.execute import _first_of, _outcome
from slurm_operator.slurm.errors import SlurmRejected

NOT_LOOKED_AT: Any = None


@pytest.mark.parametrize(
    ("effect", "why", "said"),
    [
        (Effect.CREATED, [Difference("", "missing")], "created"),
        (Effect.CHANGED, [Difference("", "not applied by us yet")], "changed: not applied by us yet"),
        (
            Effect.CHANGED,
            [Difference(".a", "differs"), Difference(".b", "missing")],
            "changed: .a: differs, .b: missing",
        ),
    ],
    ids=["created", "taken over", "changed"],
)
def test_an_apply_is_told_in_one_clause(effect: Effect, why: list[Difference], said: str) -> None:
    """It read "created : missing"."""
    assert _outcome(Applied(effect, NOT_LOOKED_AT, tuple(why))) == said


def raised(*failed: Exception) -> Exception:
    return _first_of(list(failed))


def test_failures_of_several_kinds_are_told_as_one_that_a_condition_can_tell() -> None:
    """A taken name beside an exhausted quota was an ExceptionGroup, which no status told of."""
    taken, refused, rejected = NameTaken("taken"), Forbidden("quota"), SlurmRejected("no")
    assert raised(taken, refused) is taken
    assert raised(rejected, refused) is refused
    assert raised(rejected, rejected) is rejected


def test_an_error_that_nobody_foresaw_is_not_hidden_by_others() -> None:
    fault = RuntimeError("oops")
    found = raised(NameTaken("taken"), fault)
    assert isinstance(found, ExceptionGroup)
    assert fault in found.exceptions
    assert raised(fault) is fault
