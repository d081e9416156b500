"""Partitions in the Controller's turn: Slurm first, the file second.

In: the slurm.conf that was just rendered, the one in force, and the way to Slurm. Out: `Settled`: what is now true in
Slurm has been done, and `text` is the slurm.conf that may be published: lines that Slurm does not follow yet stay as
they are in force, partitions that still have jobs stay in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TypeVar

from kube_runtime.client.objects import RawObject
from kube_runtime.loop.clock import Clock
from slurm_operator.api.partition import Partition as PartitionResource
from slurm_operator.build.slurm_conf import SlurmConf
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
from slurm_operator.reconcile.partition_notes import Refusal
from slurm_operator.slurm.errors import SlurmBadAnswer, SlurmError, SlurmUnauthorized, SlurmUnreachable
from slurm_operator.slurm.model import Answer, Job, Node, Partition, Unknown

# After one of these nobody knows what Slurm thinks of the change.
NO_ANSWER = (SlurmUnreachable, SlurmUnauthorized, SlurmBadAnswer)

T = TypeVar("T")


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
        return bool(self.plan.waits or self.refused) and not self.unknown


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
        return _unanswered(question, wanted, in_force, cluster)
    word = await _ask(question, cluster, wanted, in_force, ("Controller", regarding.metadata.uid))
    notes = cluster.partition_notes
    if isinstance(word.partitions, Unknown):
        refused = notes.still_refused(wanted.lines)
        return _unanswered(question, wanted, in_force, word.partitions, refused, live_way=word.live_way)
    lines = dict(wanted.lines) if not word.live_way else with_edits(question.conf, wanted, word.nodes)
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
        given_up=notes.given_up(_revertible(lines, question.policies)),
        on_the_way=question.on_the_way,
    )
    lasting = notes.lasting(plan.drift, clock.monotonic())
    plan = replace(plan, actions=tuple(_due(plan.actions, frozenset() if question.frozen else lasting)))
    refusals = await _execute(plan.actions, wanted.lines, cluster, executor, regarding)
    _note(plan, lines, refusals, cluster, clock)
    refused = {name: each.why for name, each in refusals.items()}
    return Settled(_text(question.conf.text, plan, refused, wanted, in_force), word.live_way, plan, refused)


def _unanswered(
    question: Question,
    wanted: Declared,
    in_force: Declared,
    why: Unknown,
    refused: Mapping[str, str] | None = None,
    *,
    live_way: bool = False,
) -> Settled:
    """Slurm could not be asked: nothing is changed live, and what is known of drift and refusals stays as it is."""
    plan = plan_partitions(wanted.lines, in_force.lines, why, why, live_way, question.policies)
    text = _text(question.conf.text, plan, refused or {}, wanted, in_force)
    return Settled(text, live_way, plan, refused or {}, why.why)


def _revertible(lines: Mapping[str, Line], policies: Mapping[str, str]) -> dict[str, str]:
    """The lines of the partitions whose drift may be reverted."""
    return {name: line.text for name, line in lines.items() if policies.get(name, REVERT) == REVERT}


def _due(actions: Iterable[PartitionAction], lasting: frozenset[str]) -> Iterator[PartitionAction]:
    """A reconfigure keeps waiting jobs waiting: only for drift that does not pass by itself, whatever others do."""
    for action in actions:
        if not isinstance(action, Reconfigure):
            yield action
        elif names := tuple(name for name in action.partitions if name in lasting):
            yield Reconfigure(names)


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
    answer = await cluster.partitions(who, fresh=wanted.lines != in_force.lines, patience=PARTITION_SECONDS)
    live_way = cluster.live_partitions
    partitions = complete(answer, "partitions")
    if isinstance(partitions, Unknown):
        return _Word(partitions, partitions, (), live_way)
    if not going and not is_edited:
        return _Word(partitions, (), (), live_way)
    world = await cluster.world(who=who, fresh=bool(going))
    nodes = complete(world.nodes, "nodes")
    if isinstance(nodes, Unknown):
        # A host that is not in the list would be taken out of the partitions that name it.
        return _Word(nodes if is_edited and live_way else partitions, world.jobs, (), live_way)
    return _Word(partitions, world.jobs, nodes.items, live_way)


def complete(answer: Answer[T] | Unknown, what: str) -> Answer[T] | Unknown:
    """A list in which a missing item means that Slurm has none; any other list is Unknown."""
    if isinstance(answer, Unknown) or answer.complete:
        return answer
    return Unknown(f"Slurm's list of {what} is incomplete")


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
    actions: Iterable[PartitionAction],
    wanted: Mapping[str, Line],
    cluster: Cluster,
    executor: Executor,
    regarding: RawObject,
) -> dict[str, Refusal]:
    """One after the other; what Slurm refuses of one partition does not keep the others waiting."""
    refused: dict[str, Refusal] = {}
    for action in actions:
        try:
            await executor.execute(Plan(((action,),)), regarding, "Controller", cluster)
        except SlurmError as error:
            what = "the reconfigure that would revert it failed: " if isinstance(action, Reconfigure) else ""
            why, is_answer = f"{what}{shown(error)}", not isinstance(error, NO_ANSWER)
            refused |= {name: Refusal(why, wanted.get(name), is_answer) for name in _names(action)}
    return refused


def _names(action: PartitionAction) -> tuple[str, ...]:
    """The partitions that an action is for."""
    if isinstance(action, Reconfigure):
        return action.partitions
    return (action.change.name if isinstance(action, SetPartition) else action.name,)


def _note(
    plan: PartitionPlan, lines: Mapping[str, Line], refused: Mapping[str, Refusal], cluster: Cluster, clock: Clock
) -> None:
    notes, now = cluster.partition_notes, clock.monotonic()
    notes.refused, notes.unsettable = dict(refused), dict(plan.unsettable)
    live = {each.change.name for each in plan.actions if isinstance(each, SetPartition)} - refused.keys()
    notes.told = {name: line for name, line in notes.told.items() if name in lines}
    notes.told |= {name: lines[name] for name in live if name in lines}
    # Accepted is enough: whoever insists may change it again before it is read back.
    accepted = {name for each in plan.actions for name in _names(each)} - refused.keys()
    for name in plan.reverts & accepted:
        notes.reverted(name, lines[name].text, now)
    notes.without_drift((name for name in lines if name not in plan.drift), now)


def _text(text: str, plan: PartitionPlan, refused: Mapping[str, str], wanted: Declared, in_force: Declared) -> str:
    """The file follows Slurm: without what it refused to make, and without what it has just deleted."""
    deleted = {each.name for each in plan.actions if isinstance(each, DeletePartition)} - refused.keys()
    kept: dict[str, Line | None] = {name: line for name, line in plan.kept_lines.items() if name not in deleted}
    for name in refused.keys() & wanted.lines.keys():
        # A refused revert asks for what the file has already.
        if wanted.lines[name] != in_force.lines.get(name):
            kept.setdefault(name, in_force.lines.get(name))
    return with_lines(text, kept, in_force.sets)
