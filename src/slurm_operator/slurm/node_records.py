"""The nodes of one cluster: all in one list, and single records of those that something is decided about.

In: what is about to be decided (`Decision`). Out: all nodes, or Unknown. A list of ten thousand is 25 MB and takes
slurmrestd seconds, so it is asked for as seldom as possible: only if something has changed, with rests between, and for
a decision about few nodes these are read by name. Nothing that was read before a decision is believed for it.
One `NodeRecords` per cluster, kept by `reconcile/clusters.py` beside its `JobRecords`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

import msgspec

from slurm_operator.slurm.decision import Decision
from slurm_operator.slurm.decoding import MAX_PAUSE_SECONDS
from slurm_operator.slurm.errors import SlurmError
from slurm_operator.slurm.kept import kept
from slurm_operator.slurm.model import Known, Node, NodeView, SlurmList, Unchanged, Unknown
from slurm_operator.slurm.one_by_one import ask_each

# A server whose clock went back would call everything unchanged: so often it is asked without condition.
FULL_LIST_SECONDS = 60.0
# A long list less often: one of 10,000 nodes takes a second of CPU to read.
FULL_LIST_SECONDS_PER_NODE = 0.12
MAX_FULL_LIST_SECONDS = 600.0
# So few nodes are always read by name right before a write, however short the list; more, where they are few of it.
ALWAYS_BY_NAME_BEFORE_WRITE = 8
# So old a list may be to which a look right before a write adds what has changed: too short for a clock to be set back.
LISTED_NOW_SECONDS = 5.0
# Up to this many nodes are read by name for a decision, or one in NODE_COST of the list.
FEW_NODES = 2
NODE_COST = 20
MAX_NODES_BY_NAME = 200
# After a list of nodes that no decision needed, slurmrestd is left alone for this many times as long as the list took:
# by polls, and by whoever waits for something.
POLL_REST_FACTOR = 4.0
WAIT_REST_FACTOR = 1.0
MAX_REST_SECONDS = 60.0
OLDER = Unknown("Slurm's list of nodes is older than the one before")
NOT_LISTED = Unknown("Slurm reports an unchanged list of nodes, but no earlier one is known")


class NodeSource(Protocol):
    """The calls of `SlurmClient` that are needed here."""

    async def nodes(self, since: int | None = None) -> SlurmList[Node] | Unchanged:
        """All nodes, or that nothing has changed since."""
        ...

    def nodes_due_in(self) -> float:
        """In how many seconds a list may be asked for; who asks sooner waits."""
        ...

    async def all_nodes(self) -> SlurmList[Node]:
        """All nodes, without condition."""
        ...

    async def node(self, name: str) -> NodeView:
        """One node."""
        ...


@dataclass(slots=True)
class NodeRecords:
    """What is known of one cluster's nodes."""

    source: NodeSource
    monotonic: Callable[[], float]
    # The last list; None where none has come, or none after a failure.
    listed: SlurmList[Node] | None = None
    # How new it was, by Slurm's clock.
    newest: int = 0
    # When Slurm was last asked for all its nodes, and when the last list was read.
    asked_at: float = float("-inf")
    listed_at: float = float("-inf")
    # Whether the last `read` has listed all nodes, without any condition.
    has_read_all: bool = False
    _list_seconds: float = 0.0
    _full_list_due_at: float = float("-inf")

    async def read(self, decision: Decision, *, is_poll: bool) -> SlurmList[Node] | Unknown:
        """All nodes; raises SlurmError.

        (1) Nothing is decided and lists are paused: the last list. (2) Few nodes are decided about and no full list is
        due: the last list, with these read by name. (3) No node is decided about and no full list is due: what has
        changed since. (4) Otherwise a full list.
        """
        self.has_read_all = False
        now, known = self.monotonic(), self.listed if self.listed is not None and self.listed.complete else None
        is_due = now >= self._full_list_due_at
        if known is not None and not decision and now < self._rests_until(now, is_poll=is_poll):
            return known
        if known is not None and not is_due and _is_small(decision, len(known.items)):
            merged = await self._merged(known, decision.nodes)
            if merged is not None:
                self.listed = merged
                return merged
        whole = bool(decision.nodes) or decision.every_node or is_due
        return await self._list(None if whole or known is None else known.last_update)

    def end_rest(self) -> None:
        """The next read asks Slurm."""
        self._list_seconds = 0.0

    def _rests_until(self, now: float, *, is_poll: bool) -> float:
        """Until when whoever only looks goes on with the last list, rather than wait until another may be asked for."""
        factor = POLL_REST_FACTOR if is_poll else WAIT_REST_FACTOR
        rest = min(factor * self._list_seconds, MAX_REST_SECONDS)
        # What other lists cost may make it wait again and again, but not for ever.
        return max(self.listed_at + rest, min(now + self.source.nodes_due_in(), self.listed_at + MAX_PAUSE_SECONDS))

    async def _merged(self, known: SlurmList[Node], names: frozenset[str]) -> SlurmList[Node] | None:
        """The last list with the records of these nodes as they are now; None if one of them cannot be asked for.

        None also if a record has gone since: how many others have gone with it only a list can say.
        """
        records = await self._by_name(sorted(names))
        listed = {node.name for node in known.items}
        if records is None or not names & listed <= records.keys():
            return None
        there = (records.get(node.name, node) for node in known.items if node.name not in names or node.name in records)
        added = (node for name, node in records.items() if name not in listed)
        return msgspec.structs.replace(known, items=_kept(known.items, (*there, *added)))

    async def _list(self, since: int | None) -> SlurmList[Node] | Unknown:
        began = self.asked_at = self.monotonic()
        try:
            answer = await self.source.nodes(since)
        except SlurmError:
            self.listed = None
            raise
        if isinstance(answer, Unchanged):
            return self.listed if self.listed is not None else NOT_LISTED
        self.has_read_all = since is None
        now = self.listed_at = self.monotonic()
        self._list_seconds = now - began
        by_length = min(FULL_LIST_SECONDS_PER_NODE * len(answer.items), MAX_FULL_LIST_SECONDS)
        self._full_list_due_at = now + max(FULL_LIST_SECONDS, by_length)
        before, self.newest = self.newest, answer.last_update
        if answer.last_update < before:
            self.listed = None
            return OLDER
        if before and self.listed is not None:
            answer = msgspec.structs.replace(answer, items=_kept(self.listed.items, answer.items))
        self.listed = answer
        return answer

    # Right before a write

    async def read_now(self, hosts: tuple[str, ...]) -> tuple[Node, ...]:
        """The records of these nodes, as near to a write as can be: Slurm knows no preconditions."""
        count = len(self.listed.items) if self.listed is not None else 0
        known = (
            await self._by_name(hosts)
            if len(hosts) <= ALWAYS_BY_NAME_BEFORE_WRITE or _are_few(len(hosts), count)
            else None
        )
        if known is None:
            known = {node.name: node for node in await self._listed_now()}
        return tuple(known[name] for name in hosts if name in known)

    async def _listed_now(self) -> tuple[Node, ...]:
        """All nodes; if they were listed a moment ago, Slurm is only asked what has changed since."""
        known = self.listed
        if known is None or not known.complete or self.monotonic() - self.listed_at > LISTED_NOW_SECONDS:
            return (await self.source.all_nodes()).items
        answer = await self.source.nodes(known.last_update)
        return known.items if isinstance(answer, Unchanged) else answer.items

    async def _by_name(self, names: Collection[str]) -> dict[str, Node] | None:
        """The records that Slurm has of these nodes; None if one of them cannot be asked for."""
        views = await ask_each(self.source.node, names, self.monotonic)
        if len(views) < len(names) or any(isinstance(view, Unknown) for view in views.values()):
            return None
        return {name: view.node for name, view in views.items() if isinstance(view, Known)}


def _is_small(decision: Decision, nodes: int) -> bool:
    """Whether what is decided is about few of so many nodes."""
    return not decision.every_node and _are_few(len(decision.nodes), nodes)


def _are_few(names: int, nodes: int) -> bool:
    """Whether so many nodes are asked for by name rather than in a list of so many."""
    return 0 < names <= FEW_NODES or (0 < names <= MAX_NODES_BY_NAME and names * NODE_COST <= nodes)


def _kept(before: tuple[Node, ...], now: tuple[Node, ...]) -> tuple[Node, ...]:
    return kept(before, now, lambda node: node.name)
