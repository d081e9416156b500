"""A reconcile that looks only at what has changed decides and reports the same as one that looks at everything.

`HISTORIES=10000` for as many lives, of which each run has other ones; by default the same 150.
"""

from __future__ import annotations

import os
from dataclasses import replace
from time import time

import pytest
from tests.property.histories import History

from slurm_operator.build.errors import BuildError
from slurm_operator.plan.nodeset import finalizer_removal, is_at_rest, plan_nodeset
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.plan.settled import NONE_SETTLED, Settled, settled_after, terms
from slurm_operator.status import nodeset as status

STEPS = 14
PARTS = 10
ASKED = int(os.environ.get("HISTORIES", "0"))
FIRST = int(time()) * 100_000 if ASKED else 0


def outcome(world: NodeSetWorld) -> tuple[object, ...]:
    """All that comes of one reconcile."""
    plan = plan_nodeset(world)
    removal = finalizer_removal(world) if world.deleting else None
    return plan, is_at_rest(world, plan), removal, status.fields(world), status.drafts(world)


def live(seed: int) -> int:
    """One life, step by step; how many workers were settled, over all steps."""
    history, before, settled = History(seed), NONE_SETTLED, 0
    for step in range(STEPS):
        whole = history.world()
        world = replace(whole, settled_before=before)
        try:
            expected = outcome(whole)
        except BuildError:
            return settled
        found = outcome(world)
        for one, other in zip(found, expected, strict=True):
            assert one == other, f"seed {seed}, step {step}: {len(world.settled)} of {len(world.pods)} were settled"
        settled += len(world.settled)
        before = settled_after(world)
        history.carry_out(plan_nodeset(whole))
        history.happen()
    return settled


@pytest.mark.parametrize("part", range(PARTS))
def test_looking_at_changes_alone_comes_to_the_same(part: int) -> None:
    each = (ASKED or 150) // PARTS
    settled = sum(live(FIRST + part * each + number) for number in range(each))
    # Otherwise nothing was compared.
    assert settled > each * STEPS / 2


def test_a_settled_worker_that_nobody_looks_at_again_is_found() -> None:
    """The comparison itself: one that believes in what was settled before, whatever has changed, must fail."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slurm_operator.plan.nodeset_world.still_settled", _believed)
        with pytest.raises(AssertionError):
            _ = [live(seed) for seed in range(40)]


def _believed(before: Settled, world: NodeSetWorld) -> Settled:
    uids = {pod.metadata.uid for pod in world.pods}
    return replace(before, terms=terms(world), rows={uid: row for uid, row in before.rows.items() if uid in uids})
