"""What the log says of an apply."""

from __future__ import annotations

from typing import Any

import pytest

from kube_runtime.client.compare import Difference
from kube_runtime.client.write import Applied, Effect
from slurm_operator.reconcile.execute import _outcome

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
