"""Partitions in the Controller's turn: Slurm first, the file second.

In: the slurm.conf that was just rendered, the one in force, and the way to Slurm. Out: `Settled`: what is now true in
Slurm has been done, and `text` is the slurm.conf that may be published: lines that Slurm does not follow yet stay as
they are in force, partitions that still have jobs stay in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from slurm_operator.api.partition import Partition as PartitionResource
from slurm_operator.build.slurm_conf import SlurmConf
from slurm_operator.kube.objects import RawObject
from slurm_operator.loop.clock import Clock
from slurm_operator.plan.actions import DeletePartition, PartitionAction, Plan, Reconfigure, SetPartition
from slurm_operator.plan.partition import (
    REVERT,
    Declared,
    PartitionPlan,
    declared,
    edited,
    plan_partitions,
    with_lines,
)
from slurm_operator.plan.partition_fields import Line
from slurm_operator.reconcile.clusters import PARTITION_SECONDS, Cluster, shown
from slurm_operator.reconcile.execute import Executor
from slurm_operator.slurm.errors import SlurmError
from slurm_operator.slurm.model import Answer, Job, Node, Partition, Unknown


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the partitions."""

    # The slurm.conf to publish.
    text: str
    live_way: bool = False
    plan: PartitionPlan = field(default_factory=PartitionPlan)
    # By partition: why Slurm refused its change.
    refused: Mapping[str, str] = field(default_factory=dict)
    # Why Slurm could not be asked; empty when it was.
    unknown: str = ""

    @property
    def is_waiting(self) -> bool:
        """Whether to look again soon: jobs are waited for, or a change is to be tried again."""
        return bool((self.plan.waits and not self.unknown) or self.refused)


@dataclass(frozen=True, slots=True)
class Question:
    """What one turn wants of the partitions of a cluster."""

    conf: SlurmConf
    # The slurm.conf that Slurm has read, None before the first one.
    in_force: str | None
    # driftPolicy by partition.
    policies: Mapping[str, str] = field(default_factory=dict)
    # By partition whose drift is left: the hash of the line that was last seen in force, as its status says.
    seen_lines: Mapping[str, str | None] = field(default_factory=dict)
    # Files that slurm.conf may include, wanted and in force.
    includes: Mapping[str, str] = field(default_factory=dict)
    includes_in_force: Mapping[str, str] = field(default_factory=dict)
    # Whether nothing may be reconfigured.
    frozen: bool = False
    # Partitions of a candidate that a sidecar is trying.
    on_the_way: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Word:
    """Slurm's word on partitions."""

    partitions: Answer[Partition] | Unknown
    jobs: tuple[Job, ...] | Unknown
    nodes: tuple[Node, ...]
    live_way: bool


async def settle(
    question: Question, cluster: Cluster | Unknown, executor: Executor, regarding: RawObject, clock: Clock
) -> Settled:
    """One turn: ask, plan, change live, and say what the file should hold."""
    wanted = declared(question.conf.text, question.includes)
    in_force = declared(question.in_force or "", question.includes_in_force)
    if isinstance(cluster, Unknown):
        plan = plan_partitions(wanted.lines, in_force.lines, cluster, cluster, False, question.policies)
        return Settled(with_lines(question.conf.text, plan.kept_lines, in_force.sets), plan=plan, unknown=cluster.why)
    word = await _ask(question, cluster, wanted, in_force, ("Controller", regarding.metadata.uid))
    lines = dict(wanted.lines) if not word.live_way else with_edits(question.conf, wanted, word.nodes)
    notes = cluster.partition_notes
    before = in_force.lines
    if word.live_way:
        before = known_to_slurm(wanted.lines, in_force.lines, notes.told, question.seen_lines)
    plan = plan_partitions(
        lines,
        before,
        word.partitions,
        word.jobs,
        word.live_way,
        question.policies,
        sets_in_force=frozenset(in_force.sets),
        given_up=notes.given_up({name: line.text for name, line in lines.items()}),
        on_the_way=question.on_the_way,
    )
    lasting = notes.lasting(plan.drift, clock.monotonic())
    # A reconfigure keeps waiting jobs waiting: only for what does not pass by itself.
    may_reload = lasting and not question.frozen
    actions = tuple(each for each in plan.actions if may_reload or not isinstance(each, Reconfigure))
    plan = replace(plan, actions=actions)
    refused = await _execute(plan.actions, cluster, executor, regarding)
    _note(plan, lines, refused, cluster, clock)
    unknown = word.partitions.why if isinstance(word.partitions, Unknown) else ""
    text = _text(question.conf.text, plan, refused, in_force)
    return Settled(text, word.live_way, plan, refused, unknown)


def known_to_slurm(
    wanted: Mapping[str, Line],
    in_force: Mapping[str, Line],
    told: Mapping[str, Line],
    seen_lines: Mapping[str, str | None],
) -> dict[str, Line]:
    """The lines that Slurm follows, so that all else is somebody's hand: those it was told live, else the file's.

    A line can be in the file while Slurm has never heard of it: it changed while slurmrestd was away.
    """
    known = dict(in_force)
    for name, line in wanted.items():
        if name in told:
            known[name] = told[name]
        elif name in known and known[name].text == line.text and seen_lines.get(name, "") not in ("", line_hash(line)):
            del known[name]
    return known


def seen_lines(partitions: Iterable[PartitionResource]) -> dict[str, str | None]:
    """Which line of each Partition whose drift is left was last seen in force; None where none was."""
    left = [each for each in partitions if each.spec.drift_policy != REVERT]
    # A status of an older operator does not tell which line it was; it was in force then.
    told = [each for each in left if each.status.last_apply is None or each.status.last_apply.line]
    return {each.slurm_name: each.status.last_apply.line if each.status.last_apply else None for each in told}


def line_hash(line: Line) -> str:
    """Enough to tell one line of a partition from another."""
    return sha256(line.text.encode()).hexdigest()[:12]


async def _ask(question: Question, cluster: Cluster, wanted: Declared, in_force: Declared, who: Hashable) -> _Word:
    going = in_force.lines.keys() - wanted.lines.keys()
    is_edited = any(each.live_nodes or each.removed_nodes for each in question.conf.partitions)
    partitions = await cluster.partitions(who, fresh=wanted.lines != in_force.lines, patience=PARTITION_SECONDS)
    live_way = cluster.live_partitions
    if isinstance(partitions, Unknown):
        return _Word(partitions, partitions, (), live_way)
    if not going and not is_edited:
        return _Word(partitions, (), (), live_way)
    world = await cluster.world(who=who, fresh=bool(going))
    nodes = world.nodes.items if isinstance(world.nodes, Answer) else ()
    return _Word(partitions, world.jobs, nodes, live_way)


def with_edits(conf: SlurmConf, wanted: Declared, nodes: Iterable[Node]) -> dict[str, Line]:
    """The wanted lines with the hosts that Partitions add or take away."""
    members = _members(wanted.sets, nodes)
    edits = {each.partition: each for each in conf.partitions if each.live_nodes or each.removed_nodes}
    return {
        name: line if name not in edits else edited(line, edits[name].live_nodes, edits[name].removed_nodes, members)
        for name, line in wanted.lines.items()
    }


def _members(sets: Iterable[str], nodes: Iterable[Node]) -> dict[str, frozenset[str]]:
    """The hosts of each NodeSet: the operator's NodeSets are features; "" are all."""
    known = tuple(nodes)
    members = {name: frozenset(node.name for node in known if name in node.features) for name in sets}
    return {**members, "": frozenset(node.name for node in known)}


async def _execute(
    actions: Iterable[PartitionAction], cluster: Cluster, executor: Executor, regarding: RawObject
) -> dict[str, str]:
    """One after the other; what Slurm refuses of one partition does not keep the others waiting."""
    refused: dict[str, str] = {}
    for action in actions:
        try:
            await executor.execute(Plan(((action,),)), regarding, "Controller", cluster)
        except SlurmError as error:
            refused[_name(action)] = shown(error)
    return refused


def _name(action: PartitionAction) -> str:
    if isinstance(action, SetPartition):
        return action.change.name
    return action.name if isinstance(action, DeletePartition) else ""


def _note(
    plan: PartitionPlan, lines: Mapping[str, Line], refused: Mapping[str, str], cluster: Cluster, clock: Clock
) -> None:
    notes = cluster.partition_notes
    notes.refused, notes.waits, notes.unsettable = dict(refused), dict(plan.waits), dict(plan.unsettable)
    acted = {_name(action) for action in plan.actions}
    now = clock.monotonic()
    notes.told = {name: line for name, line in notes.told.items() if name in lines}
    notes.told |= {name: lines[name] for name in acted if name in lines and name not in refused}
    for name in plan.drift:
        if name in acted or "" in acted:
            notes.reverted(name, lines[name].text, now)
    notes.without_drift((name for name in lines if name not in plan.drift), now)


def _text(text: str, plan: PartitionPlan, refused: Mapping[str, str], in_force: Declared) -> str:
    """The file follows Slurm: without what it refused to make, and without what it has just deleted."""
    deleted = {each.name for each in plan.actions if isinstance(each, DeletePartition)} - refused.keys()
    kept: dict[str, Line | None] = {name: line for name, line in plan.kept_lines.items() if name not in deleted}
    for action in plan.actions:
        if isinstance(action, SetPartition) and action.change.name in refused:
            kept.setdefault(action.change.name, in_force.lines.get(action.change.name))
    return with_lines(text, kept, in_force.sets)
