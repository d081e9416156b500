"""All that a Controller's reconcile knows when it plans.

In: the caches, Slurm and the logs of sidecars, read by `reconcile/cluster_world.py`, and what the reconcile before
learned. Out: a frozen `ClusterWorld` for `plan/cluster.py`. Nobody reads anything later. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kube_runtime.client.objects import Pod, RawObject
from slurm_operator.api.controller import Controller
from slurm_operator.build import controller
from slurm_operator.build.controller import Built
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import FILE, SlurmConf
from slurm_operator.plan.config import ControllerPod, Files
from slurm_operator.plan.owned import OwnedWorld
from slurm_operator.plan.partition import Declared, declared, edited, with_lines
from slurm_operator.plan.partition_memory import PartitionLines, PartitionMemory
from slurm_operator.plan.verdict_poll import VerdictPoll
from slurm_operator.plan.worker_trial import TrialMemory, WorkersWorld
from slurm_operator.slurm.conf_lint import Finding
from slurm_operator.slurm.model import Job, Node, Partition, SlurmList, Unknown


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """What Slurm answered in this reconcile."""

    partitions: SlurmList[Partition] | Unknown
    jobs: tuple[Job, ...] | Unknown
    nodes: SlurmList[Node] | Unknown
    supports_live_partitions: bool = False
    # Whether there is a slurmrestd to ask at all.
    has_restapi: bool = True
    # The nodes of the last look, whoever took it; None before the first.
    known_nodes: tuple[Node, ...] | None = None

    @classmethod
    def without(cls, why: Unknown, *, has_restapi: bool = True) -> PartitionSnapshot:
        """A snapshot of a Slurm that could not be asked."""
        return cls(why, why, why, has_restapi=has_restapi)


@dataclass(frozen=True, slots=True)
class ClusterMemory:
    """What one reconcile of a Controller leaves to the next; a restart forgets it, and it is learned again."""

    partitions: PartitionMemory = field(default_factory=PartitionMemory)
    # The sidecars that are asked for their verdict; None when none is waited for.
    poll: VerdictPoll | None = None
    # The slurm.conf that was last handed to the sidecars: what was written a moment ago may not have come back yet.
    offered: str | None = None
    # By hash of the files that were last linted: what came of it.
    linted: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    # The trial by slurmd that has no result yet; None if there is none.
    worker_trial: TrialMemory | None = None


@dataclass(frozen=True, slots=True)
class ConfigMaps:
    """The two ConfigMaps of a configuration, as they are."""

    good: Files | None = None
    # With the note to the sidecar beside the files.
    candidate: Files | None = None

    @property
    def candidate_files(self) -> Files | None:
        """The candidate without the note."""
        held = self.candidate
        return {name: text for name, text in held.items() if name != controller.NOTE} if held else None

    @property
    def note(self) -> str:
        """The note to the sidecar."""
        return (self.candidate or {}).get(controller.NOTE, "")


@dataclass(frozen=True, slots=True)
class HistoryWorld:
    """What the revisions of a configuration are made of; empty while none is due."""

    # The highest number that a revision of this name has.
    highest: int = 0
    # By `Kind/name`: who wrote a resource last.
    managers: Mapping[str, str] = field(default_factory=dict)
    present: tuple[RawObject, ...] = ()
    is_due: bool = False
    # Whether one becomes due when the configuration has been in force for a while.
    is_pending: bool = False


@dataclass(frozen=True)
class ClusterWorld:
    """One cluster, seen once."""

    cr: Controller
    refs: Refs
    built: Built
    objects: OwnedWorld
    maps: ConfigMaps
    slurm: PartitionSnapshot
    # slurm.conf for what slurmrestd offers, what it declares, and what the one that Slurm may have read declares.
    conf_text: str
    wanted: Declared
    in_force: Declared
    memory: ClusterMemory
    # Monotonic, and as Kubernetes writes it.
    now: float
    time: str
    pods: tuple[ControllerPod, ...] = ()
    # What the sidecars said, as it was read in this reconcile or a moment before.
    poll: VerdictPoll | None = None
    # By daemon: its pods, and why nobody can say which configuration they have.
    daemon_pods: Sequence[tuple[str, Sequence[Pod], str]] = ()
    history: HistoryWorld = field(default_factory=HistoryWorld)
    workers: WorkersWorld = field(default_factory=WorkersWorld)

    @property
    def files(self) -> Files:
        """The files as they were built."""
        return config_files(self.built, self.cr)

    @cached_property
    def lines(self) -> PartitionLines:
        """The wanted lines, and the same with the hosts that Partitions add or take away; made once, of all nodes."""
        wanted, nodes = self.wanted, self.slurm.nodes
        if not self.slurm.supports_live_partitions or isinstance(nodes, Unknown) or not has_edits(self.built.conf):
            return PartitionLines(wanted.lines, wanted.lines)
        # The operator's NodeSets are features; "" are all.
        members = {name: frozenset(node.name for node in nodes.items if name in node.features) for name in wanted.sets}
        members[""] = frozenset(node.name for node in nodes.items)
        changed = {
            each.partition: edited(wanted.lines[each.partition], each.live_nodes, each.removed_nodes, members)
            for each in self.built.conf.partitions
            if (each.live_nodes or each.removed_nodes) and each.partition in wanted.lines
        }
        return PartitionLines(wanted.lines, {**wanted.lines, **changed})


def has_edits(conf: SlurmConf) -> bool:
    """Whether Partitions add or take away hosts that slurm.conf cannot name."""
    return any(each.live_nodes or each.removed_nodes for each in conf.partitions)


def config_files(built: Built, cr: Controller) -> Files:
    """The files of a configuration as they were built."""
    files: Files = next(each for each in built.objects if controller.is_config_map(each, cr))["data"]
    return files


def last_known(maps: ConfigMaps, offered: str | None) -> Files | None:
    """What slurmctld runs with as far as is known, also where somebody took a ConfigMap away; None before the first."""
    if maps.good is not None or maps.candidate is not None:
        return maps.good if maps.good is not None else maps.candidate_files
    return {FILE: offered} if offered else None


def declared_in_force(maps: ConfigMaps, offered: str | None, wanted: Declared) -> Declared:
    """What Slurm may have read: the last good one, and partitions of a candidate that are not wanted any more."""
    known = last_known(maps, offered)
    if known is None:
        return Declared({}, {})
    good, candidate = known.get(FILE, ""), handed_over(maps, offered)
    if candidate == good:
        return declared(good, known)
    tried = declared(candidate)
    others = {*declared(good).lines, *wanted.lines}
    text = with_lines(good, {name: line for name, line in tried.lines.items() if name not in others}, tried.sets)
    return declared(text, known)


def handed_over(maps: ConfigMaps, offered: str | None) -> str:
    """The slurm.conf of the last candidate."""
    return (maps.candidate or {}).get(FILE, "") if offered is None else offered
