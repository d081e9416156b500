"""Nodes right before a write: what was listed a moment ago, and what has changed since.

How lists and single records are read for decisions is in `tests/reconcile/test_clusters.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from slurm_operator.slurm.decision import NOTHING_DECIDED, Decision
from slurm_operator.slurm.decoding import MAX_PAUSE_SECONDS
from slurm_operator.slurm.model import Node, NodeView, SlurmList, Unchanged, Unknown
from slurm_operator.slurm.node_records import LISTED_NOW_SECONDS, NodeRecords

NAMES = tuple(f"w-{number}" for number in range(40))
DRAINED = frozenset({"IDLE", "DRAIN"})


def listing(last_update: int, *, complete: bool = True, **states: frozenset[str]) -> SlurmList[Node]:
    """Forty idle nodes, some of them in other states."""
    nodes = (Node(name=name, states=states.get(name.replace("-", ""), frozenset({"IDLE"}))) for name in NAMES)
    return SlurmList(tuple(nodes), complete, last_update)


@dataclass
class Slurm:
    """Answers with what it has now, and notes what it was asked."""

    now: SlurmList[Node] = field(default_factory=lambda: listing(100))
    asked: list[str] = field(default_factory=list)
    due_in: float = 0.0

    def nodes_due_in(self) -> float:
        return self.due_in

    async def nodes(self, since: int | None = None) -> SlurmList[Node] | Unchanged:
        self.asked.append("what has changed" if since is not None else "all")
        return Unchanged() if since is not None and since >= self.now.last_update else self.now

    async def all_nodes(self) -> SlurmList[Node]:
        self.asked.append("all")
        return self.now

    async def node(self, name: str) -> NodeView:
        self.asked.append(name)
        return Unknown("it is only asked for lists here")


async def records(slurm: Slurm, clock: list[float]) -> NodeRecords:
    found = NodeRecords(slurm, lambda: clock[0])
    await found.read(Decision(frozenset(NAMES)), is_poll=False)
    assert slurm.asked == ["all"]
    slurm.asked.clear()
    return found


async def test_right_after_a_list_slurm_is_asked_only_what_has_changed() -> None:
    slurm, clock = Slurm(), [0.0]
    found = await records(slurm, clock)
    assert await found.read_now(NAMES) == slurm.now.items
    assert slurm.asked == ["what has changed"]


async def test_what_has_changed_meanwhile_is_seen() -> None:
    slurm, clock = Slurm(), [0.0]
    found = await records(slurm, clock)
    slurm.now = listing(101, w7=DRAINED)
    assert [node.name for node in await found.read_now(NAMES) if node.states == DRAINED] == ["w-7"]


@pytest.mark.parametrize(
    ("seconds", "complete"),
    [
        pytest.param(LISTED_NOW_SECONDS + 0.1, True, id="a while after the list"),
        pytest.param(0.0, False, id="after an incomplete list"),
    ],
)
async def test_otherwise_all_nodes_are_read(seconds: float, complete: bool) -> None:
    slurm, clock = Slurm(), [0.0]
    found = await records(slurm, clock)
    if not complete:
        found.listed = msgspec.structs.replace(slurm.now, complete=False)
    clock[0] += seconds
    await found.read_now(NAMES)
    assert slurm.asked == ["all"]


async def test_who_only_looks_goes_on_with_the_last_list_while_another_would_have_to_wait() -> None:
    slurm, clock = Slurm(), [0.0]
    found = await records(slurm, clock)
    slurm.now = listing(101, w1=frozenset({"DOWN"}))
    slurm.due_in, clock[0] = 0.5, 1.0
    assert await found.read(NOTHING_DECIDED, is_poll=False) == listing(100)
    assert slurm.asked == []
    slurm.due_in, clock[0] = 0.0, 1.5
    assert await found.read(NOTHING_DECIDED, is_poll=False) == slurm.now


async def test_a_list_that_always_has_to_wait_is_waited_for_in_the_end() -> None:
    slurm, clock = Slurm(), [0.0]
    found = await records(slurm, clock)
    slurm.now = listing(101)
    slurm.due_in, clock[0] = 0.5, MAX_PAUSE_SECONDS
    assert await found.read(NOTHING_DECIDED, is_poll=False) == slurm.now
