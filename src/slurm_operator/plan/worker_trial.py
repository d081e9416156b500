"""The trial of a configuration by slurmd: whether one is needed, its result, and the pods that it needs.

In: the last good files and the wanted ones, the kinds of workers, the trial pods that exist, and since when the trial
has been running. Out: a `WorkerTrial`, on which `plan/config.py` decides, and a `Plan` that creates and deletes trial
pods. Called by `plan/cluster.py`; `is_needed` also by `reconcile/cluster_world.py`, before it builds any pods. Pure.

A trial is needed if slurmd would read anything that differs from the last good configuration. Pods that have ended are
the memory: a restarted operator finds their verdicts. They are deleted once the candidate is handed over, or slurmd
would read something else. If only other lines change meanwhile, the trial goes on, with the pods and the time that it
has; but a refusal counts for the very files that were tried: it may be about a line that slurmd only parses. If a trial
gives no result within `LIMIT_SECONDS`, the configuration proceeds, and its status says that slurmd did not try it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256

from kube_runtime.client.objects import ObjectMeta, Pod
from kube_runtime.text import printable
from kube_runtime.times import parse_seconds
from slurm_operator.api.controller import Controller
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import images, names, worker_trial
from slurm_operator.build.metadata import Object
from slurm_operator.build.worker_trial import ACCEPTED, MAX_KINDS, REFUSED, UNCLEAR, TrialLine, WorkerKind
from slurm_operator.plan.actions import Action, Create, Delete, Plan
from slurm_operator.plan.worker_trial_refusal import lacking
from slurm_operator.slurm.conf_of_slurmd import part_of_slurmd

# How long to wait for a trial: a full cluster, or an image that cannot be pulled, must not block a change forever.
LIMIT_SECONDS = 60.0
MAX_WHY_CHARACTERS = 300


class TrialStage(Enum):
    """How far a trial has come."""

    NOT_NEEDED = "slurmd reads nothing that differs from the last good configuration"
    RUNNING = "slurmd is trying it"
    ACCEPTED = "slurmd starts with it"
    REFUSED = "slurmd does not start with it"
    UNTRIED = "slurmd could not try it"


@dataclass(frozen=True, slots=True)
class WorkersWorld:
    """The workers of a cluster as a trial sees them; without kinds if no trial is needed."""

    kinds: tuple[WorkerKind, ...] = ()
    # All trial pods that exist, of any configuration, and the ConfigMaps that they read.
    pods: tuple[Pod, ...] = ()
    files: tuple[ObjectMeta, ...] = ()
    is_one_version: bool = False
    # In seconds since 1970, as the creation of pods is; None if nobody looked at the clock.
    time: float | None = None


@dataclass(frozen=True, slots=True)
class TrialMemory:
    """A running trial: of what, since when, and why its pods could not be created."""

    # Of what slurmd reads, and of the kinds of workers.
    hash: str
    since: float
    denied: str = ""


@dataclass(frozen=True, slots=True)
class WorkerTrial:
    """The state of a trial, and the objects that it needs: a ConfigMap, then Pods."""

    stage: TrialStage = TrialStage.NOT_NEEDED
    # If refused: slurmd's own line. If untried: why.
    reason: str = ""
    # The NodeSets that refuse it, that could not try it, or whose trial is running.
    nodesets: tuple[str, ...] = ()
    objects: tuple[Object, ...] = field(default=(), repr=False)
    # ConfigMaps that its pods read and that are not made again: they have older files, with the same for slurmd.
    kept: frozenset[str] = frozenset()
    # What the next reconcile has to know of one that has no result: its time is over only once.
    memory: TrialMemory | None = None

    @property
    def blocks_hand_over(self) -> bool:
        """Whether the candidate must not be handed over to the sidecars."""
        return self.stage in (TrialStage.RUNNING, TrialStage.REFUSED)


@dataclass(frozen=True, slots=True)
class _Tried:
    """The files to try, their hash, and that of what slurmd reads of them."""

    files: Mapping[str, str]
    hash: str
    part_hash: str


@dataclass(frozen=True, slots=True)
class _KindTrial:
    """The trial of one kind of worker: the files, its pod, if there is one, and its verdict, once there is one."""

    kind: WorkerKind
    files_hash: str
    pod: Pod | None = None
    verdict: TrialLine | None = None


def is_needed(
    good: Mapping[str, str] | None,
    candidate: Mapping[str, str] | None,
    wanted: Mapping[str, str],
    *,
    is_one_version: bool,
) -> bool:
    """Whether slurmd would read something new; a candidate that was handed over has been tried already."""
    if good is None or wanted in (good, candidate):
        return False
    before, after = (part_of_slurmd(each, is_one_version=is_one_version) for each in (good, wanted))
    return before != after


def is_one_version(cr: Controller, nodesets: Iterable[NodeSet]) -> bool:
    """Whether slurmctld and every slurmd are known to have the same version, and so to know the same keys."""
    versions = {images.slurm_version(images.of(each.spec.slurmd, "slurmd")) for each in nodesets}
    return versions <= {images.slurm_version(images.of(cr.spec.slurmctld, "slurmctld"))} - {None}


def judge(
    cr: Controller,
    world: WorkersWorld,
    wanted: Mapping[str, str],
    hash_: str,
    memory: TrialMemory | None,
    now: float,
) -> WorkerTrial:
    """The trial of these files as its pods show it; NOT_NEEDED if there are no workers to try them."""
    kinds = world.kinds[:MAX_KINDS]
    if not kinds:
        return WorkerTrial()
    tried = _Tried(wanted, hash_, _hash([*part_of_slurmd(wanted, is_one_version=world.is_one_version)]))
    existing = [pod for pod in world.pods if not pod.metadata.deletion_timestamp]
    trials = [_trial_of(cr, kind, existing, tried) for kind in kinds]
    judged = replace(_result(trials, world, tried, memory, now), objects=tuple(_objects(cr, trials, tried)))
    older = {each.files_hash for each in trials} - {hash_}
    return replace(judged, kept=frozenset(names.worker_trial_config(cr, each) for each in older))


def _hash(value: Sequence[object]) -> str:
    return sha256(json.dumps(value).encode()).hexdigest()


def _trial_of(cr: Controller, kind: WorkerKind, pods: Sequence[Pod], tried: _Tried) -> _KindTrial:
    """The trial of these files, or of others that are the same for slurmd; what those are refused for may be gone."""
    by_name = {pod.metadata.name: pod for pod in pods}
    same = (pod.metadata.annotations for pod in pods if _part_hash(pod) == tried.part_hash)
    for hash_ in (tried.hash, *sorted(each.get(worker_trial.FILES_HASH, "") for each in same)):
        pod = by_name.get(worker_trial.pod_name(cr, kind, hash_))
        verdict = _verdict(kind, pod, tried.files)
        is_of_others = verdict is not None and verdict.stage == REFUSED and hash_ != tried.hash
        if pod is not None and not is_of_others:
            return _KindTrial(kind, hash_, pod, verdict)
    return _KindTrial(kind, tried.hash)


def _part_hash(pod: Pod) -> str | None:
    return pod.metadata.annotations.get(worker_trial.PART_HASH)


def _objects(cr: Controller, trials: Sequence[_KindTrial], tried: _Tried) -> Iterator[Object]:
    """What a trial needs; no files if all pods have older ones."""
    if any(each.files_hash == tried.hash for each in trials):
        yield worker_trial.config_map(cr, tried.files, tried.hash)
    yield from (worker_trial.pod(cr, each.kind, each.files_hash, tried.part_hash) for each in trials)


def _result(
    trials: Sequence[_KindTrial], world: WorkersWorld, tried: _Tried, before: TrialMemory | None, now: float
) -> WorkerTrial:
    refused = [each for each in trials if each.verdict is not None and each.verdict.stage == REFUSED]
    if refused:
        reason = refused[0].verdict.reason if refused[0].verdict else ""
        return WorkerTrial(TrialStage.REFUSED, reason, _nodesets(refused))
    memory = _memory_of(trials, tried, before, world.time, now)
    running = [each for each in trials if _is_running(each, memory, now)]
    if running:
        return WorkerTrial(TrialStage.RUNNING, "", _nodesets(running), memory=memory)
    untried = {**dict(_untried(trials, memory)), **dict(_beyond_limit(world.kinds[MAX_KINDS:]))}
    if not untried:
        return WorkerTrial(TrialStage.ACCEPTED)
    why = "; ".join(dict.fromkeys(untried.values()))
    return WorkerTrial(TrialStage.UNTRIED, why, tuple(untried), memory=memory)


def _nodesets(trials: Iterable[_KindTrial]) -> tuple[str, ...]:
    return tuple(name for each in trials for name in each.kind.nodesets)


def _memory_of(
    trials: Sequence[_KindTrial], tried: _Tried, before: TrialMemory | None, time: float | None, now: float
) -> TrialMemory:
    """What is remembered of this trial; one of something else for slurmd, or by other workers, does not count."""
    key = _hash(sorted(worker_trial.kind_hash(each.kind, tried.part_hash) for each in trials))
    if before is not None and before.hash == key:
        return before
    return TrialMemory(key, now - _age(trials, time))


def _age(trials: Sequence[_KindTrial], time: float | None) -> float:
    """How long the pods of an operator before this one have been waited for; 0 while one is still to be made."""
    open_ = [each.pod for each in trials if each.verdict is None]
    made = [parse_seconds(pod.metadata.creation_timestamp) if pod is not None else None for pod in open_]
    known = [each for each in made if each is not None]
    # Clocks may differ.
    return max(0.0, time - min(known)) if time is not None and known and len(known) == len(made) else 0.0


def _is_running(trial: _KindTrial, memory: TrialMemory, now: float) -> bool:
    """Whether a verdict is still to come; if the API server denied the pod, none is."""
    is_denied = trial.pod is None and bool(memory.denied)
    return trial.verdict is None and not is_denied and now - memory.since < LIMIT_SECONDS


def _beyond_limit(kinds: Iterable[WorkerKind]) -> Iterator[tuple[str, str]]:
    for kind in kinds:
        yield from ((name, f"there are more than {MAX_KINDS} kinds of workers") for name in kind.nodesets)


def _verdict(kind: WorkerKind, pod: Pod | None, wanted: Mapping[str, str]) -> TrialLine | None:
    """The verdict of a trial pod; None while it may still give one."""
    if pod is None:
        return None
    states = (each.state for each in pod.status.container_statuses if each.name == worker_trial.CONTAINER)
    ended = next((state.terminated for state in states if state.terminated is not None), None)
    if ended is not None and (ended.message or ended.exit_code == 0):
        line = worker_trial.read(ended.message)
        missing = lacking(kind, line.reason, wanted) if line.stage == REFUSED else ""
        return TrialLine(UNCLEAR, f"the trial pod does not have {missing}: {line.reason}") if missing else line
    if pod.status.phase in ("Failed", "Succeeded"):
        why = pod.status.message or pod.status.reason or (ended.reason if ended is not None else "")
        return TrialLine(UNCLEAR, printable(f"the trial pod failed: {why or 'no reason given'}", MAX_WHY_CHARACTERS))
    return None


def _untried(trials: Iterable[_KindTrial], memory: TrialMemory) -> Iterator[tuple[str, str]]:
    """Each NodeSet whose slurmd did not try it, and why."""
    for trial in trials:
        if trial.verdict is not None and trial.verdict.stage == ACCEPTED:
            continue
        why = trial.verdict.reason if trial.verdict is not None else _why_no_verdict(trial.pod, memory)
        yield from ((name, why) for name in trial.kind.nodesets)


def _why_no_verdict(pod: Pod | None, memory: TrialMemory) -> str:
    """Why a trial has not started, or has not ended, in time."""
    limit = f"within {LIMIT_SECONDS:.0f} s"
    if pod is None:
        return f"the trial pod cannot be created: {memory.denied}" if memory.denied else f"no trial pod {limit}"
    waiting = (each.state.waiting for each in pod.status.container_statuses if each.state.waiting is not None)
    texts = [f"{each.reason}: {each.message}".rstrip(": ") for each in waiting if each.reason]
    texts += [f"{each.reason}: {each.message}" for each in pod.status.conditions if each.reason == "Unschedulable"]
    return printable(f"no verdict {limit}" + (f": {texts[0]}" if texts else ""), MAX_WHY_CHARACTERS)


def plan_trial(trial: WorkerTrial, world: WorkersWorld) -> Plan:
    """Create what a running trial lacks, the files first; delete what no trial needs any more."""
    existing: dict[tuple[str, str], ObjectMeta] = {("Pod", pod.metadata.name): pod.metadata for pod in world.pods}
    existing |= {("ConfigMap", each.name): each for each in world.files}
    wanted = {(str(each["kind"]), str(each["metadata"]["name"])): each for each in trial.objects}
    leaving: tuple[Action, ...] = tuple(
        Delete("v1", key[0], existing[key], "its trial is over")
        for key in sorted(existing.keys() - wanted.keys() - {("ConfigMap", name) for name in trial.kept})
        if not existing[key].deletion_timestamp
    )
    missing = [each for key, each in wanted.items() if key not in existing] if trial.stage is TrialStage.RUNNING else []
    files, pods = (tuple(Create(each) for each in missing if each["kind"] == kind) for kind in ("ConfigMap", "Pod"))
    return Plan(tuple(stage for stage in (leaving, files, pods) if stage))
