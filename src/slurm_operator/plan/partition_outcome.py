"""What became of one Partition in the reconcile of its Controller: all that its own reconcile reports.

In: the builder's `Acceptance`, the lines, Slurm's list, and what was refused. Out: a frozen `PartitionOutcome`, left by
the Controller's reconcile for `reconcile/partition.py` and turned into conditions by `status/partition.py`. Called by
`plan/cluster.py`. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slurm_operator.api.partition import Partition as PartitionResource
from slurm_operator.build.partition import DELETING, Acceptance
from slurm_operator.plan.partition import (
    MISSING_PARTITION,
    REVERT,
    Declared,
    JobsByPartition,
    PartitionWorld,
    blocking_jobs,
    jobs_by_partition,
    split_differences,
)
from slurm_operator.plan.partition_fields import Difference, line_hash
from slurm_operator.plan.partition_memory import PartitionMemory
from slurm_operator.slurm.model import Node, Partition, SlurmList, Unknown
from slurm_operator.slurm.policy import is_over

INCOMPLETE = Unknown("Slurm's list of partitions is incomplete")


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """What is known of a partition after its Controller's reconcile."""

    acceptance: Acceptance
    # None: Slurm does not have it.
    found: Partition | Unknown | None
    # Fields that are on their way, and fields that somebody changed by hand.
    pending: tuple[Difference, ...] = ()
    drift: tuple[Difference, ...] = ()
    policy: str = REVERT
    given_up: bool = False
    supports_live_partitions: bool = False
    # What Slurm said to the last change, and what no live change can set.
    refused: str | None = None
    unsettable: tuple[str, ...] = ()
    # Hosts that it adds and that Slurm does not have.
    unknown_nodes: tuple[str, ...] = ()
    # Why the linter keeps it as it is.
    held: str | None = None
    # Which object it was, in which generation.
    uid: str = ""
    generation: int = 0
    # Nodes, CPUs and jobs, as far as Slurm could be asked.
    counts: Mapping[str, int] = field(default_factory=dict)
    # The hash of the line that is wanted; empty where none is.
    line: str = ""
    # Of one that is being deleted: the jobs that it waits for, and whether nothing is left of it.
    waits: tuple[int, ...] | Unknown = ()
    has_left: bool = False

    @property
    def is_in_force(self) -> bool:
        """Whether Slurm has it as asked."""
        return isinstance(self.found, Partition) and not self.pending and not self.refused and not self.held

    @property
    def is_leaving(self) -> bool:
        """Whether its object is being deleted."""
        return self.acceptance.reason == DELETING

    @property
    def is_awaited(self) -> bool:
        """Whether it may become as asked without anybody's doing: not where drift is left as it is."""
        if self.held or (self.drift and (self.given_up or self.policy != REVERT)):
            return False
        return self.acceptance.accepted and (bool(self.drift) or not self.is_in_force)


@dataclass(frozen=True, slots=True)
class OutcomeWorld:
    """What the outcomes of a cluster's partitions are made of."""

    acceptances: Sequence[Acceptance]
    # As slurm.conf declares them, wanted and in force.
    wanted: Declared
    in_force: Declared
    # As they were planned.
    planned: PartitionWorld
    # The list as it came, also an incomplete one.
    listed: SlurmList[Partition] | Unknown
    nodes: SlurmList[Node] | Unknown
    # What is remembered after the plan was carried out.
    memory: PartitionMemory
    # By partition that the linter keeps as it is: why.
    held: Mapping[str, str] = field(default_factory=dict)


def partition_outcomes(world: OutcomeWorld, resources: Iterable[PartitionResource]) -> dict[str, PartitionOutcome]:
    """The outcome of each Partition, by the name of the resource."""
    acceptances = {each.resource: each for each in world.acceptances if each.kind == "Partition"}
    slurm = _indexed(world)
    return {
        each.name: _outcome(world, slurm, each, acceptances[each.name])
        for each in resources
        if each.name in acceptances
    }


@dataclass(frozen=True, slots=True)
class Usage:
    """How many CPUs and jobs the partitions of a cluster have, by partition; None where Slurm could not be asked."""

    cpus: Mapping[str, int] | None
    running: Mapping[str, int] | None
    pending: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class _Indexed:
    """Slurm's answers by partition, made once: a thousand Partitions need not look at all nodes and jobs each."""

    found: Mapping[str, Partition]
    jobs: JobsByPartition
    usage: Usage


def _indexed(world: OutcomeWorld) -> _Indexed:
    listed = () if isinstance(world.listed, Unknown) else world.listed.items
    jobs = jobs_by_partition(world.planned.jobs)
    known = not isinstance(world.planned.jobs, Unknown)
    return _Indexed({each.name: each for each in reversed(listed)}, jobs, usage(world.nodes, jobs if known else None))


def _outcome(
    world: OutcomeWorld, slurm: _Indexed, resource: PartitionResource, acceptance: Acceptance
) -> PartitionOutcome:
    name, found = resource.slurm_name, _found(world, slurm, resource.slurm_name)
    line = world.wanted.lines.get(name)
    outcome = PartitionOutcome(
        acceptance,
        found,
        policy=str(resource.spec.drift_policy),
        supports_live_partitions=world.planned.supports_live_partitions and not isinstance(found, Unknown),
        uid=resource.metadata.uid,
        generation=resource.metadata.generation,
        counts=counts(found, slurm.usage),
        line=line_hash(line) if line is not None else "",
    )
    if resource.metadata.deletion_timestamp:
        return _leaving(world, slurm, outcome, resource)
    if isinstance(found, Unknown) or not acceptance.accepted or line is None:
        return outcome
    return _judged(world, outcome, name)


def _judged(world: OutcomeWorld, outcome: PartitionOutcome, name: str) -> PartitionOutcome:
    """With what differs in Slurm, and why."""
    planned, found, acceptance = world.planned, outcome.found, outcome.acceptance
    is_edited = bool(acceptance.live_nodes or acceptance.removed_nodes)
    if planned.supports_live_partitions and is_edited and isinstance(world.nodes, Unknown):
        # Which hosts it should have depends on those that Slurm has.
        return replace(outcome, found=world.nodes)
    drift, pending = _differences(planned, name, found if isinstance(found, Partition) else None)
    return replace(
        outcome,
        drift=drift,
        pending=pending,
        given_up=name in world.memory.given_up,
        refused=world.memory.refused[name].why if name in world.memory.refused else None,
        unsettable=world.memory.unsettable.get(name, ()),
        held=world.held.get(name),
        unknown_nodes=_unknown_nodes(world, acceptance),
    )


def _unknown_nodes(world: OutcomeWorld, acceptance: Acceptance) -> tuple[str, ...]:
    """The hosts that a live change leaves out, since Slurm knows no such node."""
    nodes = world.nodes
    if not acceptance.live_nodes or isinstance(nodes, Unknown) or not nodes.complete:
        return ()
    known = {node.name for node in nodes.items}
    return tuple(host for host in acceptance.live_nodes if host not in known)


def _differences(
    planned: PartitionWorld, name: str, found: Partition | None
) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    line, before = planned.wanted[name], planned.in_force.get(name)
    if found is not None:
        return split_differences(line, before, found, supports_live_partitions=planned.supports_live_partitions)
    # Without live changes one that is not there may still be on its way.
    gone = before is not None and planned.supports_live_partitions
    return ((MISSING_PARTITION,) if gone else ()), ()


def _leaving(
    world: OutcomeWorld, slurm: _Indexed, outcome: PartitionOutcome, resource: PartitionResource
) -> PartitionOutcome:
    name, found, jobs = resource.slurm_name, outcome.found, world.planned.jobs
    if name in world.wanted.lines:
        # Somebody else has the name now.
        return replace(outcome, has_left=True)
    if isinstance(found, Unknown):
        return replace(outcome, waits=found)
    never_was_ours = name not in world.in_force.lines and resource.status.last_apply is None
    finished_too = not world.planned.supports_live_partitions
    waits = jobs if isinstance(jobs, Unknown) else blocking_jobs(name, slurm.jobs, finished_too=finished_too)
    # A list that lacks it, though jobs are in it or nobody can say, has lost it.
    is_gone = found is None and not isinstance(jobs, Unknown)
    is_gone = is_gone and not blocking_jobs(name, slurm.jobs, finished_too=False)
    return replace(outcome, waits=waits, has_left=is_gone or never_was_ours)


def _found(world: OutcomeWorld, slurm: _Indexed, name: str) -> Partition | Unknown | None:
    if isinstance(world.listed, Unknown):
        return world.listed
    found = slurm.found.get(name)
    return found if found is not None or world.listed.complete else INCOMPLETE


def usage(nodes: SlurmList[Node] | Unknown, jobs: JobsByPartition | None) -> Usage:
    """What the partitions have, of nodes and of jobs."""
    cpus = None if isinstance(nodes, Unknown) else cpus_by_partition(nodes.items)
    return Usage(cpus, _in_state(jobs, "RUNNING"), _in_state(jobs, "PENDING"))


def cpus_by_partition(nodes: Iterable[Node]) -> Mapping[str, int]:
    """The CPUs of each partition's nodes. Most nodes are alike, and are counted before they are looked at."""
    cpus = Counter[str]()
    for (partitions, each), count in Counter((node.partitions, node.cpus) for node in nodes).items():
        for name in set(partitions):
            cpus[name] += count * each
    return cpus


def _in_state(jobs: JobsByPartition | None, state: str) -> Mapping[str, int] | None:
    if jobs is None:
        return None
    return {name: sum(state in job.states and not is_over(job) for job in mine) for name, mine in jobs.items()}


def counts(found: Partition | Unknown | None, used: Usage) -> dict[str, int]:
    """How large and how full it is; what Slurm cannot be asked for is left out, not 0."""
    if found is None or isinstance(found, Unknown):
        return {}
    known = (("cpus", used.cpus), ("runningJobs", used.running), ("pendingJobs", used.pending))
    return {
        "nodes": found.total_nodes,
        **{field: by_name.get(found.name, 0) for field, by_name in known if by_name is not None},
    }
