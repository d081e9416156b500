"""Where a job fits: the nodes that have what it asks for, those that are free now, and who uses the others.

In: a job that waits, and what Slurm reports. Out: a `Room`. Pure; used by `diagnose/waiting.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass

from slurm_operator.diagnose.facts import Slurm, SlurmJob, SlurmNode, known_hosts
from slurm_operator.diagnose.scontrol import NONE
from slurm_operator.diagnose.wording import code_of

# States in which a node takes no new job, whoever asks.
OUT = frozenset(
    {
        *("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "INVALID_REG", "FUTURE", "UNKNOWN", "BLOCKED"),
        *("POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "REBOOT_REQUESTED", "REBOOT_ISSUED"),
    }
)
RESERVED = frozenset({"RESERVED", "MAINTENANCE", "MAINT"})
ON_NODES = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "STAGE_OUT", "RESIZING"})
# Features that all must be there; anything with brackets or alternatives is Slurm's to judge.
_ALL_OF = re.compile(r"[\w.-]+(?:[&,][\w.-]+)*")


@dataclass(frozen=True, slots=True)
class Room:
    """The nodes of a job's partitions, sorted by whether they can run it."""

    # What it needs of each node.
    cpus: int
    memory_mib: int = 0
    # Has all that it asks for, and would take it at once.
    free: tuple[str, ...] = ()
    # Has all that it asks for, and is in use.
    busy: tuple[str, ...] = ()
    # Has all that it asks for, and is in a reservation that is not the job's.
    reserved: tuple[str, ...] = ()
    # Would fit, but takes no jobs at all.
    out: tuple[str, ...] = ()
    # Is too small, or of another kind.
    unfit: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every node that it may use."""
        return self.free + self.busy + self.reserved + self.out + self.unfit

    @property
    def all(self) -> int:
        """How many nodes its partitions have."""
        return self.able + len(self.out) + len(self.unfit)

    @property
    def able(self) -> int:
        """How many could run it one day, as they are."""
        return len(self.free) + len(self.busy) + len(self.reserved)


def room_for(job: SlurmJob, slurm: Slurm) -> Room:
    """Every node of its partitions, judged."""
    mine = frozenset[str]().union(*(nodes_of(each, slurm) for each in partitions_of(job)))
    names = [name for name in slurm.nodes if name in mine and _may_use(job, name)]
    cpus = _cpus_each(job, [slurm.nodes[name] for name in names])
    kinds: dict[str, list[str]] = {"free": [], "busy": [], "reserved": [], "out": [], "unfit": []}
    for name in names:
        kinds[_kind(job, slurm.nodes[name], cpus, reservation_of(job, slurm, name))].append(name)
    return Room(cpus, memory_each(job, cpus), **{kind: tuple(found) for kind, found in kinds.items()})


def partitions_of(job: SlurmJob) -> list[str]:
    """The partitions that it may run in."""
    return [name for name in job.partition.split(",") if name]


def nodes_of(partition: str, slurm: Slurm) -> Set[str]:
    """The nodes of a partition that Slurm has."""
    found = slurm.partitions.get(partition)
    if found is None:
        return frozenset()
    return slurm.once(f"nodes of partition {partition}", lambda: known_hosts(found.nodes, slurm.nodes.keys()))


def jobs_on(slurm: Slurm, hosts: Collection[str]) -> list[SlurmJob]:
    """The jobs that hold one of these nodes, in the order of their ends; jobs without an end come last."""
    wanted = frozenset(hosts)
    if len(wanted) == 1 and wanted <= slurm.nodes.keys():
        return slurm.once("jobs by host", lambda: _by_host(slurm)).get(min(wanted), [])
    return [job for job in _in_order(slurm) if _meet(wanted, job.nodes)]


def _in_order(slurm: Slurm) -> list[SlurmJob]:
    found = (job for job in slurm.jobs.values() if job.state in ON_NODES)
    return sorted(found, key=lambda job: (not job.end, job.end))


def _by_host(slurm: Slurm) -> dict[str, list[SlurmJob]]:
    found: dict[str, list[SlurmJob]] = {}
    known = slurm.nodes.keys()
    for job in _in_order(slurm):
        for name in known_hosts(job.nodes, known):
            found.setdefault(name, []).append(job)
    return found


def _meet(hosts: frozenset[str], held: Collection[str]) -> bool:
    # Whichever is shorter is gone through: there may be thousands of either.
    return any(host in held for host in hosts) if len(hosts) < len(held) else any(host in hosts for host in held)


def _may_use(job: SlurmJob, name: str) -> bool:
    is_another = bool(job.required) and name not in job.required and job.node_count <= len(job.required)
    return name not in job.excluded and not is_another


def _cpus_each(job: SlurmJob, nodes: Iterable[SlurmNode]) -> int:
    """CPUs on each node; a job that spreads by itself takes what the largest node has, but a task is never split."""
    least = max(cpus_together(job), 1)
    share = max(-(-job.cpus // job.node_count), least)
    largest = max((node.cpus for node in nodes), default=0)
    whole = max(largest // least * least, least)
    return min(share, whole) if largest and _may_spread(job) else share


def cpus_together(job: SlurmJob) -> int:
    """The CPUs that must be on one node, however far it spreads."""
    return max(job.cpus_per_task * max(job.tasks_per_node, 1), job.min_cpus_per_node)


def _may_spread(job: SlurmJob) -> bool:
    return job.node_count == 1 and job.max_nodes != 1


def memory_each(job: SlurmJob, cpus: int) -> int:
    """MiB on each node that gives so many CPUs."""
    return job.memory_mib or job.memory_per_cpu_mib * cpus


def memory_free(node: SlurmNode) -> int:
    """MiB that no job has."""
    return max(node.memory_mib - node.memory_used_mib, 0)


def is_short_of_memory(job: SlurmJob, node: SlurmNode, cpus: int) -> bool:
    """Whether too little memory is left; a job that does not say how much it needs gets a node's memory whole."""
    # Where Slurm does not count memory, none is in use.
    if job.whole_memory_mib:
        return node.memory_used_mib > 0
    return node.memory_mib > 0 and memory_free(node) < memory_each(job, cpus)


def reservation_of(job: SlurmJob, slurm: Slurm, name: str) -> str:
    """The reservation that keeps the job from a node; a future one counts if Slurm's reason is ReqNodeNotAvail."""
    node, own = slurm.nodes[name], job.wants.get("Reservation")
    if node.states & RESERVED and node.reservation != own:
        return node.reservation or "of somebody else"
    if code_of(job) != "ReqNodeNotAvail":
        return ""
    # The first to begin is the one that a job must end before.
    others = sorted((slurm.reservations or {}).values(), key=lambda each: each.start)
    return next((each.name for each in others if each.name != own and name in each.nodes), "")


def _kind(job: SlurmJob, node: SlurmNode, cpus: int, reservation: str) -> str:
    if not _has(job, node, cpus):
        return "unfit"
    if node.states & OUT:
        return "out"
    if reservation:
        return "reserved"
    return "free" if _is_free(job, node, cpus) else "busy"


def _has(job: SlurmJob, node: SlurmNode, cpus: int) -> bool:
    features = features_of(job)
    big = node.cpus >= cpus and node.memory_mib >= (memory_each(job, cpus) if node.memory_mib else 0)
    return big and features <= node.features and _covers(node.gres, job.gres)


def features_of(job: SlurmJob) -> frozenset[str]:
    """The features that each of its nodes must have; none where only Slurm can tell."""
    text = job.wants.get("Features", "")
    return frozenset(re.split("[&,]", text)) if text != NONE and _ALL_OF.fullmatch(text) else frozenset()


def _covers(there: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    return all(there.get(name, 0) >= number for name, number in wanted.items())


def _is_free(job: SlurmJob, node: SlurmNode, cpus: int) -> bool:
    return not is_short_of_memory(job, node, cpus) and is_free_but_for_memory(job, node, cpus)


def is_free_but_for_memory(job: SlurmJob, node: SlurmNode, cpus: int) -> bool:
    """Whether a node has left all that the job needs beside memory."""
    if job.exclusive and node.cpus_used:
        return False
    left = {name: number - node.gres_used.get(name, 0) for name, number in node.gres.items()}
    return node.cpus - node.cpus_used >= cpus and _covers(left, job.gres)


def nodes_needed(job: SlurmJob, room: Room) -> int:
    """How many nodes it needs; one that spreads by itself needs as many as hold its CPUs."""
    return max(job.node_count, -(-job.cpus // room.cpus) if room.cpus else 1)
