"""What is about to be decided, and so what has to be read from Slurm in that very reconcile.

In: the nodes that a plan is about, and whether jobs that wait matter to it. Out: whether one decision covers another,
and whether it depends on a job. Made by `plan/decided.py` of a plan, and by `reconcile/nodeset.py` of what will be
planned; kept in a snapshot (`NodeSnapshot.fresh`); used by `reconcile/clusters.py`, `node_records.py` and
`job_records.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slurm_operator.slurm import policy
from slurm_operator.slurm.model import Job

ONLY_RUNNING = frozenset({"RUNNING"})


@dataclass(frozen=True, slots=True)
class Decision:
    """Which records have to be read now."""

    # Nodes whose workers may be removed, or whose records are written.
    nodes: frozenset[str] = frozenset()
    # The whole list of nodes is needed: any node may be affected, or one is said to be missing.
    every_node: bool = False
    # Every job that has nodes is needed: Slurm has no record of one of `nodes`, which would show that it is at work.
    every_holder: bool = False
    # Node records or a partition may go, which jobs that wait need too.
    every_job: bool = False

    def __bool__(self) -> bool:
        """Whether anything is decided."""
        return bool(self.nodes) or self.every_node or self.every_holder or self.every_job

    def __or__(self, other: Decision) -> Decision:
        """Both."""
        return Decision(
            self.nodes | other.nodes,
            self.every_node or other.every_node,
            self.every_holder or other.every_holder,
            self.every_job or other.every_job,
        )

    def covers(self, other: Decision) -> bool:
        """Whether what was read for this one is enough for the other."""
        has_holders = self.every_holder or self.every_node or self.every_job or not other.every_holder
        return self.has_nodes_of(other) and has_holders and (self.every_job or not other.every_job)

    def has_nodes_of(self, other: Decision) -> bool:
        """Whether the nodes that were read for this one are enough for the other."""
        return self.every_node or (not other.every_node and other.nodes <= self.nodes)

    @classmethod
    def all_of(cls, decisions: Iterable[Decision]) -> Decision:
        """All of these in one."""
        some = list(decisions)
        return cls(
            frozenset().union(*(each.nodes for each in some)),
            any(each.every_node for each in some),
            any(each.every_holder for each in some),
            any(each.every_job for each in some),
        )

    def depends_on(self, job: Job) -> bool:
        """Whether the record of an unfinished job must be of this very moment."""
        if self.every_job:
            return True
        if not self or job.states == policy.ONLY_PENDING:
            return False
        # A node shows that a job runs on it. It does not show a suspended one.
        if job.states != ONLY_RUNNING or self.every_holder or self.every_node:
            return True
        return bool(job.nodes.within(self.nodes))


NOTHING_DECIDED = Decision()
EVERYTHING = Decision(every_node=True, every_job=True)
