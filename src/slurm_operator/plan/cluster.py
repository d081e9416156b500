"""One plan for a cluster: live partitions first, then what may be published of its configuration and objects.

In: a `ClusterWorld`. Out: `plan_cluster` gives the live changes, each with what slurm.conf holds if Slurm refuses it;
`release` gives, from plan and outcomes, the files, objects and nudges that follow, what the next reconcile remembers,
and the outcome of each Partition. Called by `reconcile/controller.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from slurm_operator.api.partition import Partition as PartitionResource
from slurm_operator.build import controller, labels
from slurm_operator.build.config_revision import inputs
from slurm_operator.build.metadata import Object
from slurm_operator.build.slurm_conf import FILE
from slurm_operator.plan.actions import (
    Action,
    DeletePartition,
    FileLines,
    Outcomes,
    PartitionAction,
    PatchMetadata,
    Plan,
    Reconfigure,
    RecordEvent,
    SetPartition,
    partitions_of,
)
from slurm_operator.plan.cluster_world import ClusterMemory, ClusterWorld, handed_over, has_edits
from slurm_operator.plan.config import (
    ConfigDecision,
    ConfigWorld,
    ControllerPod,
    Files,
    Stage,
    content_hash,
    note,
    plan_config,
    reconfigure_hash,
)
from slurm_operator.plan.config_history import InForce, plan_history
from slurm_operator.plan.lint import is_checked, lint_cluster, lint_files, placed, placed_decision
from slurm_operator.plan.owned import plan_owned
from slurm_operator.plan.partition import REVERT, PartitionWorld, declared, plan_partitions, with_lines
from slurm_operator.plan.partition_events import OwnerEvent, revert_events
from slurm_operator.plan.partition_fields import Line, line_hash
from slurm_operator.plan.partition_memory import PartitionMemory, learned
from slurm_operator.plan.partition_outcome import INCOMPLETE, OutcomeWorld, PartitionOutcome, partition_outcomes
from slurm_operator.plan.verdict_poll import VerdictPoll, poll_of, poll_over, reporting
from slurm_operator.plan.worker_trial import TrialStage, WorkerTrial, is_needed, judge, plan_trial
from slurm_operator.slurm.conf_lint import Finding
from slurm_operator.slurm.model import Partition, SlurmList, Unknown


@dataclass(frozen=True, slots=True)
class Release:
    """What follows from a plan and its outcomes."""

    config: ConfigDecision
    # The objects as they shall be; and, once these are there, pods to nudge and revisions to keep.
    objects: Plan
    afterwards: Plan
    # The pods in which slurmd tries the configuration, and their ConfigMap.
    trial_pods: Plan
    memory: ClusterMemory
    # By partition that Slurm would not take, and by partition whose line the linter refuses: why.
    refused: Mapping[str, str] = field(default_factory=dict)
    refused_by_linter: Mapping[str, str] = field(default_factory=dict)
    # By the name of the Partition.
    partitions: Mapping[str, PartitionOutcome] = field(default_factory=dict)
    # Reverts of changes made in Slurm, each on the resource that has the partition.
    events: tuple[OwnerEvent, ...] = ()


def plan_cluster(world: ClusterWorld) -> Plan:
    """The live changes of a cluster's partitions, one after the other."""
    partitions, lint = partition_world(world), lint_cluster(world)
    plan = plan_partitions(partitions)
    lasting = _remembered(world).seeing(plan.partitions.drift, world.now).lasting(world.now)
    if world.objects.waits_for_key:
        # A reconfigure would take the new key too.
        lasting = frozenset()
    due = (each for each in _due(plan.actions, lasting) if not _is_held(each, lint.held))
    actions = tuple(_with_fallback(each, world, plan) for each in due)
    judged = [(action, world.memory.partitions.rest(action, world.now)) for action in actions]
    deleted = {name for each in actions if isinstance(each, DeletePartition) for name in partitions_of(each)}
    kept = {name: line for name, line in plan.partitions.kept_lines.items() if name not in deleted}
    resting = tuple(refused for _, refused in judged if refused is not None)
    return replace(
        plan,
        stages=tuple((action,) for action, refused in judged if refused is None),
        partitions=replace(plan.partitions, kept_lines=kept, resting=resting, lint=lint),
    )


def _is_held(action: PartitionAction, held: Mapping[str, str]) -> bool:
    """Only what sets a partition is held back: a reconfigure brings what is in force, a delete hands over nothing."""
    return isinstance(action, SetPartition) and action.change.name in held


def _with_fallback(action: PartitionAction, world: ClusterWorld, plan: Plan) -> PartitionAction:
    """An action with the lines that the file holds if Slurm refuses it: it follows Slurm, and never runs ahead."""
    kept, lines = plan.partitions.kept_lines, dict[str, Line | None]()
    for name in partitions_of(action):
        if name in kept:
            lines[name] = kept[name]
        elif name in world.wanted.lines:
            lines |= _fallback(world, name)
    return replace(action, if_refused=lines)


def _fallback(world: ClusterWorld, name: str) -> FileLines:
    """The line in force where the wanted one is refused; a refused revert asks for what the file has already."""
    before = world.in_force.lines.get(name)
    return {name: before} if world.wanted.lines[name] != before else {}


def _due(actions: Iterable[Action], lasting: frozenset[str]) -> Iterator[PartitionAction]:
    """A reconfigure keeps waiting jobs waiting: only for drift that does not pass by itself, whatever others do."""
    for action in actions:
        if isinstance(action, Reconfigure):
            if names := tuple(name for name in action.partitions if name in lasting):
                yield Reconfigure(names)
        elif isinstance(action, PartitionAction):
            yield action


def partition_world(world: ClusterWorld) -> PartitionWorld:
    """The partitions of a cluster, as they are wanted and as Slurm has them."""
    live, memory = world.slurm.supports_live_partitions, _remembered(world)
    return PartitionWorld(
        world.lines.edited,
        _known_to_slurm(world) if live else world.in_force.lines,
        planned_on(world),
        world.slurm.jobs,
        live,
        _policies(world),
        sets_in_force=frozenset(world.in_force.sets),
        unreverted=frozenset(memory.given_up) | memory.just_reverted(world.now),
        on_trial=_partitions_on_trial(world),
    )


def planned_on(world: ClusterWorld) -> SlurmList[Partition] | Unknown:
    """The list that partitions are planned on: one in which a missing partition, or host, is one that Slurm lacks."""
    partitions, nodes = world.slurm.partitions, world.slurm.nodes
    if isinstance(partitions, Unknown) or not partitions.complete:
        return partitions if isinstance(partitions, Unknown) else INCOMPLETE
    if not world.slurm.supports_live_partitions or not has_edits(world.built.conf):
        return partitions
    # A host that is not in the list would be taken out of the partitions that name it.
    return nodes if isinstance(nodes, Unknown) else partitions


def _known_to_slurm(world: ClusterWorld) -> dict[str, Line]:
    """The lines that Slurm follows, so that every other difference is drift: those sent live, else the file's.

    A line can be in the file while Slurm has never read it: it changed while slurmrestd was away.
    """
    known, sent = dict(world.in_force.lines), world.memory.partitions.sent
    seen = dict(_seen_lines(world.refs.partitions_of(world.cr)))
    for name, line in world.wanted.lines.items():
        if name in sent:
            known[name] = sent[name]
        elif name in known and known[name].text == line.text and seen.get(name, "") not in ("", line_hash(line)):
            del known[name]
    return known


def _seen_lines(partitions: Iterable[PartitionResource]) -> Iterator[tuple[str, str | None]]:
    """Of each Partition whose drift is left: the hash of the line that was last seen in force, None where none was."""
    for each in partitions:
        last = each.status.last_apply
        # A status of an older operator does not tell which line it was; it was in force then.
        if each.spec.drift_policy != REVERT and (last is None or last.line):
            yield each.slurm_name, last.line if last else None


def _partitions_on_trial(world: ClusterWorld) -> frozenset[str]:
    """The partitions of a candidate that a sidecar is trying."""
    if world.memory.poll is None or (world.poll is not None and world.poll.is_decided):
        return frozenset()
    return frozenset(declared(handed_over(world.maps, world.memory.offered)).lines)


def _policies(world: ClusterWorld) -> dict[str, str]:
    return {each.slurm_name: str(each.spec.drift_policy) for each in world.refs.partitions_of(world.cr)}


def _remembered(world: ClusterWorld) -> PartitionMemory:
    """What is remembered of the lines that are still to be held."""
    policies, lines = _policies(world), world.lines.edited
    held = {name: line.text for name, line in lines.items() if policies.get(name, REVERT) == REVERT}
    return world.memory.partitions.holding(held)


def release(world: ClusterWorld, plan: Plan, outcomes: Outcomes) -> Release:
    """What is published, what follows, and the outcomes, once Slurm has answered the live changes."""
    planned = partition_world(world)
    outcomes = replace(outcomes, refused=(*outcomes.refused, *plan.partitions.resting))
    is_answered = not isinstance(planned.slurm, Unknown)
    partitions = _partitions_after(world, plan, outcomes) if is_answered else world.memory.partitions
    refused, lines = _refused(world, plan, outcomes, is_answered=is_answered)
    lint = plan.partitions.lint
    files = {**world.files, FILE: with_lines(world.conf_text, {**lines, **lint.lines}, world.in_force.sets)}
    hash_ = content_hash(files)
    judged = lint.judged[hash_] if hash_ in lint.judged else lint_files(world, files)
    findings = lint.findings or placed(world, files, judged)
    config = placed_decision(world, files, _config(world, files, findings))
    outcome_world = OutcomeWorld(
        acceptances=world.built.conf.partitions,
        wanted=world.wanted,
        in_force=world.in_force,
        planned=planned,
        listed=world.slurm.partitions,
        nodes=world.slurm.nodes,
        memory=partitions,
        held=lint.held,
    )
    return Release(
        config=config,
        objects=plan_owned(world.objects, list(_objects(world, config))),
        afterwards=Plan((tuple(_afterwards(world, config, files)),)),
        trial_pods=plan_trial(config.worker_trial, world.workers),
        memory=ClusterMemory(
            partitions=partitions,
            poll=_next_poll(world, config),
            offered=(config.candidate or {}).get(FILE, ""),
            linted={**lint.judged, hash_: judged},
            worker_trial=config.worker_trial.memory,
        ),
        refused=refused,
        refused_by_linter=lint.refused,
        partitions=partition_outcomes(outcome_world, world.refs.partitions_of(world.cr)),
        events=_events(world, plan, outcomes, partitions),
    )


def _events(world: ClusterWorld, plan: Plan, outcomes: Outcomes, after: PartitionMemory) -> tuple[OwnerEvent, ...]:
    given_up = after.given_up.keys() - world.memory.partitions.given_up.keys()
    return revert_events(world.cr.name, world.built.conf.partitions, plan, outcomes, given_up)


def _partitions_after(world: ClusterWorld, plan: Plan, outcomes: Outcomes) -> PartitionMemory:
    before = _remembered(world).seeing(plan.partitions.drift, world.now)
    return learned(before, world.lines, plan, outcomes, world.now)


def _refused(
    world: ClusterWorld, plan: Plan, outcomes: Outcomes, *, is_answered: bool
) -> tuple[dict[str, str], FileLines]:
    """Who was refused and why, and the lines that the file holds instead of the wanted ones."""
    lines: dict[str, Line | None] = dict(plan.partitions.kept_lines)
    if is_answered:
        for each in outcomes.refused:
            lines |= each.action.if_refused
        return {name: each.why for name, each in outcomes.by_partition.items()}, lines
    # Slurm could not be asked: what it refused before stays refused, as long as the same is wanted.
    still = world.memory.partitions.still_refused(world.wanted.lines) if world.slurm.has_restapi else {}
    for name in still.keys() & world.wanted.lines.keys():
        lines = {**_fallback(world, name), **lines}
    return still, lines


def _config(world: ClusterWorld, files: Files, findings: tuple[Finding, ...]) -> ConfigDecision:
    cr, hash_ = world.cr, content_hash(files)
    applied = (cr.status.config.hash if cr.status.config else None) or ""
    poll = world.poll if world.poll is not None and world.poll.hash == hash_ else None
    verdicts = poll.heard if poll is not None else {}
    seen = ConfigWorld(
        good=world.maps.good,
        candidate=world.maps.candidate_files,
        note=world.maps.note,
        pods=tuple(replace(pod, verdict=verdicts.get(pod.uid)) for pod in world.pods),
        applied="" if _is_in_doubt(world.memory.poll, hash_, world.now) else applied,
        in_place=cr.spec.inplace_reconfigure,
        frozen=bool(world.objects.waits_for_key),
        nudges=poll.nudges(world.now) if poll is not None else 1,
        nudge_may_wait=_nudge_may_wait(world, files, hash_),
        nudge_is_owed=_is_nudge_owed(world),
        worker_trial=_worker_trial(world, files, hash_),
    )
    live = world.slurm.supports_live_partitions
    return plan_config(files, note(files, live_partitions=live, check=is_checked(cr)), seen, findings)


def _worker_trial(world: ClusterWorld, files: Files, hash_: str) -> WorkerTrial:
    """The trial of the files by slurmd, if slurmd would read something new in them."""
    workers, maps = world.workers, world.maps
    if not is_needed(maps.good, maps.candidate_files, files, is_one_version=workers.is_one_version):
        return WorkerTrial()
    return judge(world.cr, workers, files, hash_, world.memory.worker_trial, world.now)


def _nudge_may_wait(world: ClusterWorld, files: Files, hash_: str) -> bool:
    """Whether all that is new is what Slurm takes live, and is new for no longer than that may wait."""
    good, candidate, live = world.maps.good, world.maps.candidate_files, world.slurm.supports_live_partitions
    if good is None or (files == good == candidate and not _is_nudge_owed(world)):
        return False
    if _poll_of(world, hash_).nudge_due_in(world.now) <= 0.0:
        return False
    wanted = reconfigure_hash(files, live_partitions=live)
    return all(reconfigure_hash(each, live_partitions=live) == wanted for each in (good, candidate or good))


def _is_nudge_owed(world: ClusterWorld) -> bool:
    """Whether pods were not told of a candidate yet, since more might follow: of whatever it is now, they are to be."""
    return world.memory.poll is not None and world.memory.poll.waits_since is not None


def _is_in_doubt(poll: VerdictPoll | None, hash_: str, now: float) -> bool:
    """Whether a sidecar may be trying another one, though this one was in force before."""
    return poll is not None and poll.is_recent(now) and (poll.overtook or poll.hash != hash_)


def _next_poll(world: ClusterWorld, config: ConfigDecision) -> VerdictPoll | None:
    if config.stage is Stage.TRYING_ON_SLURMD:
        # A sidecar may still be trying the previous one.
        return _after_nudges(world.memory.poll, world, config) if world.memory.poll is not None else None
    if not config.is_open or config.stage is Stage.WAITING:
        return None
    poll = _poll_of(world, config.hash)
    return _after_nudges(replace(poll, doubted=poll.still_doubted(world.now)), world, config)


def _after_nudges(poll: VerdictPoll, world: ClusterWorld, config: ConfigDecision) -> VerdictPoll:
    """The poll once pods were nudged, or not yet: then they still are to be."""
    if config.nudge:
        return replace(poll, waits_since=None, nudged_at=world.now)
    is_first = config.nudges_later and poll.waits_since is None
    return replace(poll, waits_since=world.now) if is_first else poll


def _poll_of(world: ClusterWorld, hash_: str) -> VerdictPoll:
    read, known, pods = world.poll, world.memory.poll, reporting(world.pods)
    if read is not None and known is None and read.hash != hash_:
        return poll_over(read, hash_, pods, world.now)
    # The one of this reconcile has what was read last.
    return poll_of(hash_, pods, read or known, world.now)


def _objects(world: ClusterWorld, config: ConfigDecision) -> Iterator[Object]:
    cr = world.cr
    for value in world.built.objects:
        if controller.is_config_map(value, cr):
            if config.good is not None:
                yield controller.good_map(cr, config.good)
            if config.candidate is not None and cr.spec.inplace_reconfigure:
                yield controller.candidate_map(cr, config.candidate, config.note)
        elif value["kind"] != "StatefulSet":
            yield value
        elif config.good is not None:
            # Its hash, where it has one, is that of what is published.
            yield controller.stateful_set(cr, world.refs, controller.good_map(cr, config.good))
        elif any(key[1] == "StatefulSet" for key in world.objects.owned):
            yield value


def _afterwards(world: ClusterWorld, config: ConfigDecision, files: Files) -> Iterator[Action]:
    if world.objects.waits_for_key:
        return
    if config.worker_trial.stage is TrialStage.UNTRIED and world.maps.candidate_files != files:
        yield RecordEvent("WorkersNotTried", f"slurmd has not tried it: {config.untried}", warning=True)
    yield from (_nudge(pod) for pod in config.nudge)
    status, history = world.cr.status.config, world.history
    if status is not None and status.hash == config.hash and config.stage is Stage.APPLIED and history.is_due:
        in_force = InForce(config.hash, files, inputs(world.cr, world.refs), status.last_applied or world.time)
        yield from plan_history(world.cr, in_force, history.present, history.managers, history.highest)


def _nudge(pod: ControllerPod) -> Action:
    """Any change of a pod makes its kubelet read the ConfigMaps again at once."""
    text = pod.nudged if pod.times == 1 else f"{pod.nudged}/{pod.times}"
    return PatchMetadata("v1", "Pod", pod.seen, annotations={labels.CONFIG_CANDIDATE: text})
