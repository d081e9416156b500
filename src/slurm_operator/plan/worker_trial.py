"""The trial of a configuration by slurmd: whether it is needed, what came of it, and which pods it takes.

In: the last good files and the wanted ones, the kinds of workers, the trial pods that are there, and since when they
are waited for. Out: a `WorkerTrial`, which `plan/config.py` goes by, and the pods to make and to take away. Called by
`plan/cluster.py`. Pure.

A trial is needed where slurmd would read something else than in the last good configuration. Pods that have ended are
the memory: an operator that starts anew finds their verdicts. They go once the candidate is handed over, or another
configuration is wanted. What could not be tried within `LIMIT_SECONDS` goes on, and says that it was not tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kube_runtime.client.objects import ObjectMeta, Pod
from kube_runtime.text import printable
from slurm_operator.api.controller import Controller
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import images, worker_trial
from slurm_operator.build.metadata import Object
from slurm_operator.build.worker_trial import ACCEPTED, REFUSED, UNCLEAR, TrialLine, WorkerKind
from slurm_operator.plan.actions import Action, Create, Delete, Plan
from slurm_operator.slurm import conf
from slurm_operator.slurm.conf_of_slurmd import FILE, part_of_slurmd

# How long a trial is waited for: a full cluster, or an image that cannot be had, must not hold a change for ever.
LIMIT_SECONDS = 60.0
# So many kinds of workers are tried; the rest is said to be untried.
MAX_KINDS = 8
MAX_WHY_CHARACTERS = 300


class TrialStage(Enum):
    """How far the trial has come."""

    NOT_NEEDED = "no slurmd can tell it from the last good one"
    RUNNING = "slurmd is trying it"
    ACCEPTED = "slurmd starts with it"
    REFUSED = "slurmd does not start with it"
    UNTRIED = "slurmd could not be tried"


@dataclass(frozen=True, slots=True)
class WorkersWorld:
    """The workers of a cluster as a trial sees them; no kinds where none is needed."""

    kinds: tuple[WorkerKind, ...] = ()
    # The trial pods that are there, whatever they try, and the ConfigMaps with what is tried.
    pods: tuple[Pod, ...] = ()
    files: tuple[ObjectMeta, ...] = ()
    is_one_version: bool = False


@dataclass(frozen=True, slots=True)
class TrialMemory:
    """A trial that is waited for: of which configuration, since when, and why its pods may not be made."""

    hash: str
    since: float
    denied: str = ""


@dataclass(frozen=True, slots=True)
class WorkerTrial:
    """What is known of a trial, and the objects that it takes: a ConfigMap, then Pods."""

    stage: TrialStage = TrialStage.NOT_NEEDED
    # slurmd's own line where it refuses; why it could not be tried where it could not.
    reason: str = ""
    # Who refuses, who could not be tried, or who is waited for.
    nodesets: tuple[str, ...] = ()
    objects: tuple[Object, ...] = field(default=(), repr=False)

    @property
    def holds(self) -> bool:
        """Whether the candidate may not be handed over."""
        return self.stage in (TrialStage.RUNNING, TrialStage.REFUSED)


def is_needed(
    good: Mapping[str, str] | None,
    candidate: Mapping[str, str] | None,
    wanted: Mapping[str, str],
    *,
    is_one_version: bool,
) -> bool:
    """Whether slurmd would read something new; what has been handed over already was tried before."""
    if good is None or wanted in (good, candidate):
        return False
    before, after = (part_of_slurmd(each, is_one_version=is_one_version) for each in (good, wanted))
    return before != after


def is_one_version(cr: Controller, nodesets: Iterable[NodeSet]) -> bool:
    """Whether slurmctld and every slurmd are known to be of one version, and so know the same keys."""
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
    """What the trial of these files has come to; one that is needed by nobody is none."""
    kinds = world.kinds[:MAX_KINDS]
    if not kinds:
        return WorkerTrial()
    pods = tuple(worker_trial.pod(cr, kind, hash_) for kind in kinds)
    made = (worker_trial.config_map(cr, wanted, hash_), *pods)
    there = {pod.metadata.name: pod for pod in world.pods if not pod.metadata.deletion_timestamp}
    found = [there.get(str(each["metadata"]["name"])) for each in pods]
    lines = [_line(kind, pod, wanted) for kind, pod in zip(kinds, found, strict=True)]
    if any(line is not None and line.stage == REFUSED for line in lines):
        return _refused(kinds, lines, made)
    mine = memory if memory is not None and memory.hash == hash_ else TrialMemory(hash_, now)
    tries = tuple(zip(kinds, lines, found, strict=True))
    waited_for = tuple(name for kind, line, pod in tries if _may_end(line, pod, mine, now) for name in kind.nodesets)
    if waited_for:
        return WorkerTrial(TrialStage.RUNNING, "", waited_for, made)
    whys = {**dict(_whys(tries, mine)), **dict(_beyond(world.kinds[MAX_KINDS:]))}
    if not whys:
        return WorkerTrial(TrialStage.ACCEPTED, objects=made)
    return WorkerTrial(TrialStage.UNTRIED, "; ".join(dict.fromkeys(whys.values())), tuple(whys), made)


def _may_end(line: TrialLine | None, pod: Pod | None, memory: TrialMemory, now: float) -> bool:
    """Whether a trial is still waited for; one whose pod nobody lets in is not."""
    is_denied = pod is None and bool(memory.denied)
    return line is None and not is_denied and now - memory.since < LIMIT_SECONDS


def _beyond(kinds: Iterable[WorkerKind]) -> Iterator[tuple[str, str]]:
    for kind in kinds:
        yield from ((name, f"there are more than {MAX_KINDS} kinds of workers") for name in kind.nodesets)


def _refused(kinds: Sequence[WorkerKind], lines: Sequence[TrialLine | None], made: tuple[Object, ...]) -> WorkerTrial:
    against = [(kind, line) for kind, line in zip(kinds, lines, strict=True) if line and line.stage == REFUSED]
    named = tuple(name for kind, _ in against for name in kind.nodesets)
    return WorkerTrial(TrialStage.REFUSED, against[0][1].reason, named, made)


def _line(kind: WorkerKind, pod: Pod | None, wanted: Mapping[str, str]) -> TrialLine | None:
    """What a trial says; None while it may still say something."""
    if pod is None:
        return None
    states = (each.state for each in pod.status.container_statuses if each.name == worker_trial.CONTAINER)
    ended = next((state.terminated for state in states if state.terminated is not None), None)
    if ended is not None and (ended.message or ended.exit_code == 0):
        line = worker_trial.read(ended.message)
        lacking = _lacking(kind, line.reason, wanted) if line.stage == REFUSED else ""
        return TrialLine(UNCLEAR, f"a trial has no {lacking}: {line.reason}") if lacking else line
    if pod.status.phase in ("Failed", "Succeeded"):
        why = pod.status.message or pod.status.reason or (ended.reason if ended is not None else "")
        return TrialLine(UNCLEAR, printable(f"its trial failed: {why or 'nobody knows why'}", MAX_WHY_CHARACTERS))
    return None


def _lacking(kind: WorkerKind, reason: str, wanted: Mapping[str, str]) -> str:
    """The folder that workers have and a trial has not, where the complaint may be about it."""
    plugins = conf.parse(wanted.get(FILE, ""), includes=wanted).get("PluginDir") or ""
    return next((path for path in kind.left_out if path in reason or path in plugins), "")


def _whys(
    tries: Iterable[tuple[WorkerKind, TrialLine | None, Pod | None]], memory: TrialMemory
) -> Iterator[tuple[str, str]]:
    """By NodeSet whose slurmd was not tried: why."""
    for kind, line, pod in tries:
        if line is not None and line.stage == ACCEPTED:
            continue
        why = line.reason if line is not None else _waits(pod, memory)
        yield from ((name, why) for name in kind.nodesets)


def _waits(pod: Pod | None, memory: TrialMemory) -> str:
    """Why a trial has not begun, or has not ended, in its time."""
    if pod is None:
        return f"its pod cannot be made: {memory.denied}" if memory.denied else "its pod was not made in time"
    waiting = (each.state.waiting for each in pod.status.container_statuses if each.state.waiting is not None)
    texts = [f"{each.reason}: {each.message}".rstrip(": ") for each in waiting if each.reason]
    texts += [f"{each.reason}: {each.message}" for each in pod.status.conditions if each.reason == "Unschedulable"]
    limit = f"within {LIMIT_SECONDS:.0f} s"
    return printable(f"its pod has not ended {limit}: {texts[0]}", MAX_WHY_CHARACTERS) if texts else f"not {limit}"


def remembered(trial: WorkerTrial, hash_: str, before: TrialMemory | None, now: float) -> TrialMemory | None:
    """What the next reconcile has to know of a trial that is waited for."""
    if trial.stage is not TrialStage.RUNNING:
        return None
    return before if before is not None and before.hash == hash_ else TrialMemory(hash_, now)


def plan_trial(trial: WorkerTrial, world: WorkersWorld) -> Plan:
    """Make what a running trial lacks, the files first; take away what nothing asks for any more."""
    there: dict[tuple[str, str], ObjectMeta] = {("Pod", pod.metadata.name): pod.metadata for pod in world.pods}
    there |= {("ConfigMap", each.name): each for each in world.files}
    wanted = {(str(each["kind"]), str(each["metadata"]["name"])): each for each in trial.objects}
    leaving: tuple[Action, ...] = tuple(
        Delete("v1", key[0], there[key], "its trial is over")
        for key in sorted(there.keys() - wanted.keys())
        if not there[key].deletion_timestamp
    )
    missing = [each for key, each in wanted.items() if key not in there] if trial.stage is TrialStage.RUNNING else []
    files, pods = (tuple(Create(each) for each in missing if each["kind"] == kind) for kind in ("ConfigMap", "Pod"))
    return Plan(tuple(stage for stage in (leaving, files, pods) if stage))
