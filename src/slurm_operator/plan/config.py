"""The stages of a configuration: rendered, linted, tried by slurmd, handed over, tried by the sidecar, published.

In: the files that are wanted, what both ConfigMaps hold, the trial by slurmd (`plan/worker_trial.py`), and the last
verdicts of the sidecars. Out: a `ConfigDecision`: the content of both ConfigMaps, which pods to nudge, and the stage.
Nothing is remembered between reconciles: the same world always gives the same decision. Pure; called by
`plan/cluster.py`.

The last good ConfigMap is written once slurmctld runs with its content, with two exceptions: the very first one, since
there is no pod yet that could try it, and pods whose sidecar reports no verdicts and reads that ConfigMap itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256

from kube_runtime.client.objects import ObjectMeta
from kube_runtime.text import printable
from slurm_operator.build import verdicts
from slurm_operator.build.slurm_conf import FILE
from slurm_operator.plan.partition import without_live_lines
from slurm_operator.plan.worker_trial import TrialStage, WorkerTrial
from slurm_operator.slurm.conf_lint import Finding
from slurm_operator.slurm.model import MAX_EPOCH_SECONDS

Files = Mapping[str, str]

# What a sidecar prints is text of an image that anybody may have made: numbers and reasons are bounded.
MAX_STAGE_MILLISECONDS = 2**31 - 1
MAX_REASON_CHARACTERS = 1500
MAX_DIGITS = 18
_SPLIT = re.compile(r"[\W_]+")
# Words of Slurm's complaints that stand in every file, or are no words of a file at all.
_COMMON = frozenset(
    {"error", "fatal", "in", "at", "line", "file", "the", "invalid", "value", "key", "partition", "node"}
)
MIN_TERM_CHARACTERS = 3
# A line that shares only words with many others is no place.
MIN_SCORE = 0.5
# In the note beside the files: which NodeSets' slurmd did not try them, and why.
UNTRIED = "workers="
MAX_UNTRIED_CHARACTERS = 500


class Stage(Enum):
    """How far a configuration has come."""

    INVALID = "the linter refuses it"
    TRYING_ON_SLURMD = "slurmd is trying it"
    REFUSED_BY_SLURMD = "slurmd refuses it"
    FIRST = "published untried: there is no slurmctld yet"
    DIRECT = "published untried: the sidecar reports nothing"
    WAITING = "there is no sidecar to try it"
    TRYING = "handed over"
    UNREADABLE = "a sidecar's verdict is not understood"
    REFUSED = "Slurm refuses it"
    ROLLED_BACK = "slurmctld failed with it"
    APPLIED = "in force"
    HELD = "a new key is being rolled out: no daemon may read its files again"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The last verdict of a sidecar."""

    hash: str
    stage: str
    milliseconds: int = 0
    parse: int = 0
    trial: int = 0
    reconfigure: int = 0
    reason: str = ""
    # When slurmctld read its files, in seconds since 1970; 0 where it did not, or the sidecar does not tell.
    at: int = 0


@dataclass(frozen=True, slots=True)
class ControllerPod:
    """A slurmctld pod as the pipeline sees it."""

    name: str
    uid: str
    reports_verdicts: bool
    # Which candidate it was last nudged to read, and how often.
    nudged: str = ""
    times: int = 1
    verdict: Verdict | None = None
    seen: ObjectMeta = field(default_factory=ObjectMeta, repr=False)


@dataclass(frozen=True, slots=True)
class ConfigWorld:
    """What is there."""

    good: Files | None = None
    candidate: Files | None = None
    note: str = ""
    pods: Sequence[ControllerPod] = ()
    # The hash that the status reports as in force: no sidecar is asked about it again.
    applied: str = ""
    # Whether a sidecar hands it over at all; otherwise a new pod reads it.
    in_place: bool = True
    # Whether a reconfigure would take a key that others do not have yet.
    frozen: bool = False
    # How often a pod whose sidecar has reported nothing should have been nudged by now.
    nudges: int = 1
    # Whether more may follow in a moment, and nobody waits for a sidecar: all that is new is what Slurm takes live.
    nudge_may_wait: bool = False
    # Whether pods were not told of the candidate yet, since more might follow.
    nudge_is_owed: bool = False
    # The trial of the wanted files by slurmd.
    worker_trial: WorkerTrial = field(default_factory=WorkerTrial)


@dataclass(frozen=True, slots=True)
class ConfigDecision:
    """The content of both ConfigMaps, which pods to nudge, and what to report."""

    stage: Stage
    hash: str
    good: Files | None
    candidate: Files | None = None
    note: str = ""
    nudge: tuple[ControllerPod, ...] = ()
    # Whether pods are still to be nudged, in a moment.
    nudges_later: bool = False
    verdict: Verdict | None = None
    findings: tuple[Finding, ...] = ()
    good_hash: str = ""
    # Pods that run with another one, and which.
    behind: tuple[tuple[str, str], ...] = ()
    # Its place in the files, where the reason names something that stands there.
    place: str = ""
    # Its trial by slurmd, if one was needed in this reconcile.
    worker_trial: WorkerTrial = field(default_factory=WorkerTrial)

    @property
    def is_open(self) -> bool:
        """Whether the verdict of a sidecar is still to come."""
        return self.stage in (Stage.TRYING, Stage.FIRST, Stage.WAITING, Stage.UNREADABLE)

    @property
    def untried(self) -> str:
        """The NodeSets whose slurmd did not try it before the hand-over, and why; empty if no trial is missing."""
        return untried(self.note)


def content_hash(files: Files) -> str:
    """The hash of a set of files, as `sha256sum -- * | sha256sum` gives it in the sidecar, without hidden ones."""
    names = sorted(name for name in files if not name.startswith("."))
    lines = "".join(f"{sha256(files[name].encode()).hexdigest()}  {name}\n" for name in names)
    return sha256(lines.encode()).hexdigest()


def reconfigure_hash(files: Files, *, live_partitions: bool) -> str:
    """The hash of what only a reconfigure brings into force: without partition lines where Slurm takes them live."""
    if not live_partitions:
        return content_hash(files)
    return content_hash({**files, FILE: without_live_lines(files.get(FILE, ""))})


def note(files: Files, *, live_partitions: bool, check: bool) -> str:
    """The note to the sidecar, beside the files."""
    written = reconfigure_hash(files, live_partitions=live_partitions)
    return f"reconfigure={written}\ncheck={'on' if check else 'off'}\n"


def untried(note: str) -> str:
    """What a note says about NodeSets whose slurmd did not try the files."""
    return next((line.removeprefix(UNTRIED) for line in note.splitlines() if line.startswith(UNTRIED)), "")


def last_verdict(lines: Iterable[str]) -> Verdict | None:
    """The last verdict in a log: what is true now."""
    found = None
    for line in lines:
        entry = verdicts.read(line.strip())
        if entry is not None:
            found = (
                _verdict(entry.values) if not entry.problem else Verdict("", verdicts.UNREADABLE, reason=entry.problem)
            )
    return found


def _verdict(values: Mapping[str, str]) -> Verdict:
    reason = printable(values["reason"].replace('\\"', '"').replace("\\\\", "\\"), MAX_REASON_CHARACTERS)
    times = (values[name] for name in ("ms", "parse", "trial", "reconfigure"))
    ms, parse, trial, reconfigure = (min(_bounded(each), MAX_STAGE_MILLISECONDS) for each in times)
    at = _bounded(values.get("at", "0"))
    at = at if at <= MAX_EPOCH_SECONDS else 0
    return Verdict(values["hash"], values["stage"], ms, parse, trial, reconfigure, reason, at)


def _bounded(digits: str) -> int:
    """A number that is at least 0; one that is too long is a large one, never an error."""
    return max(0, int(digits[:MAX_DIGITS]))


def plan_config(wanted: Files, note: str, world: ConfigWorld, findings: Sequence[Finding] = ()) -> ConfigDecision:
    """The next step of a configuration; `note` goes with it, `findings` are the linter's errors."""
    hash_ = content_hash(wanted)
    if world.good is None and world.candidate is not None and content_hash(world.candidate) == world.applied:
        # Somebody deleted the last good ConfigMap; what is in force is known all the same.
        world = replace(world, good=world.candidate)
    before = content_hash(world.good) if world.good is not None else ""
    if findings:
        return _refused_by_linter(world, hash_, before, tuple(findings))
    if world.frozen and before and before != hash_:
        return ConfigDecision(Stage.HELD, hash_, world.good, world.candidate, world.note, good_hash=before)
    if world.good is None or not world.in_place or any(not pod.reports_verdicts for pod in world.pods):
        stage = Stage.FIRST if world.good is None else Stage.DIRECT
        return ConfigDecision(stage, hash_, wanted, wanted, note, good_hash=hash_)
    if world.worker_trial.blocks_hand_over:
        return _tried_by_slurmd(wanted, world, hash_, before)
    return _tried_by_sidecar(wanted, _with_untried(note, wanted, world), world, hash_, before)


def _refused_by_linter(world: ConfigWorld, hash_: str, before: str, findings: tuple[Finding, ...]) -> ConfigDecision:
    good, candidate, owed = world.good, world.candidate, _owed(world)
    return ConfigDecision(
        Stage.INVALID, hash_, good, candidate, world.note, nudge=owed, findings=findings, good_hash=before
    )


def _owed(world: ConfigWorld) -> tuple[ControllerPod, ...]:
    """The nudges for a candidate that stays, as nothing follows it for now."""
    if not world.nudge_is_owed or world.candidate is None:
        return ()
    hash_ = content_hash(world.candidate)
    return tuple(notified_of(hash_, pod) for pod in world.pods if pod.reports_verdicts)


def _tried_by_slurmd(wanted: Files, world: ConfigWorld, hash_: str, before: str) -> ConfigDecision:
    """Nothing changes while slurmd is trying the files, nor when it refuses them."""
    reason = world.worker_trial.reason
    is_refused = world.worker_trial.stage is TrialStage.REFUSED
    return ConfigDecision(
        Stage.REFUSED_BY_SLURMD if is_refused else Stage.TRYING_ON_SLURMD,
        hash_,
        world.good,
        world.candidate,
        world.note,
        nudge=_owed(world),
        verdict=Verdict(hash_, verdicts.REFUSED, reason=reason) if is_refused else None,
        good_hash=before,
        place=locate(wanted, reason) if reason else "",
        worker_trial=world.worker_trial,
    )


def _with_untried(note: str, wanted: Files, world: ConfigWorld) -> str:
    """The note, with the NodeSets that did not try the files: this is known as long as the candidate exists."""
    why = untried(world.note) if world.candidate == wanted else ""
    if world.worker_trial.stage is TrialStage.UNTRIED:
        text = f"{', '.join(world.worker_trial.nodesets)}: {world.worker_trial.reason}"
        why = printable(text, MAX_UNTRIED_CHARACTERS)
    return f"{note}{UNTRIED}{why}\n" if why else note


def _tried_by_sidecar(wanted: Files, note: str, world: ConfigWorld, hash_: str, before: str) -> ConfigDecision:
    stage, verdict = _progress(world, hash_, before)
    good = wanted if stage is Stage.APPLIED else world.good
    if stage is Stage.APPLIED:
        before = hash_
    nudge = tuple(notified_of(hash_, pod) for pod in world.pods if _needs_nudge(pod, world, wanted, hash_, before))
    return ConfigDecision(
        stage,
        hash_,
        good,
        wanted,
        note,
        nudge=() if world.nudge_may_wait else nudge,
        nudges_later=world.nudge_may_wait and bool(nudge),
        verdict=verdict,
        good_hash=before,
        behind=tuple(
            (pod.name, pod.verdict.hash)
            for pod in world.pods
            if pod.verdict is not None and pod.verdict.stage == _NAMES[Stage.APPLIED] and pod.verdict.hash != hash_
        ),
        place=locate(wanted, verdict.reason) if verdict is not None and verdict.reason else "",
        worker_trial=world.worker_trial,
    )


def notified_of(hash_: str, pod: ControllerPod) -> ControllerPod:
    """A pod that was nudged to read a candidate, for the first time or once more."""
    return replace(pod, nudged=hash_, times=pod.times + 1 if pod.nudged == hash_ else 1)


def _needs_nudge(pod: ControllerPod, world: ConfigWorld, wanted: Files, hash_: str, before: str) -> bool:
    if world.candidate != wanted or world.nudge_is_owed:
        # Even if it was nudged for this one before: it may have seen another one since.
        return True
    if pod.nudged != hash_:
        # One that has started with it, and was never nudged, knows it.
        return before != hash_ or bool(pod.nudged)
    # A kubelet that looked a moment too early shows the old one for another minute or more.
    silent = pod.verdict is None or pod.verdict.hash != hash_
    # A status may be a second behind: where another one has been published since, this one is not in force.
    is_known = world.applied == hash_ == before
    return silent and not is_known and pod.times < world.nudges


def _progress(world: ConfigWorld, hash_: str, before: str) -> tuple[Stage, Verdict | None]:
    known = world.applied == hash_ == before and all(pod.nudged in ("", hash_) for pod in world.pods)
    if known and world.candidate is not None and content_hash(world.candidate) == hash_:
        return Stage.APPLIED, None
    given = [pod.verdict for pod in world.pods if pod.verdict is not None and pod.verdict.hash == hash_]
    for stage in (Stage.REFUSED, Stage.ROLLED_BACK):
        against = next((verdict for verdict in given if verdict.stage == _NAMES[stage]), None)
        if against is not None:
            return stage, against
    for pod in world.pods:
        # Whatever it means, it is no success.
        if pod.verdict is not None and pod.verdict.stage == verdicts.UNREADABLE:
            return Stage.UNREADABLE, pod.verdict
    if given and len(given) == len(world.pods) and all(verdict.stage == _NAMES[Stage.APPLIED] for verdict in given):
        return Stage.APPLIED, max(given, key=lambda verdict: verdict.milliseconds)
    if not world.pods:
        return Stage.WAITING, None
    return (Stage.FIRST if before == hash_ else Stage.TRYING), None


_NAMES = {
    Stage.REFUSED: verdicts.REFUSED,
    Stage.ROLLED_BACK: verdicts.ROLLED_BACK,
    Stage.APPLIED: verdicts.APPLIED,
}


def locate(files: Files, reason: str) -> str:
    """`file:line` of what Slurm complains about: the line that shares the rarest words with the complaint."""
    terms = _terms(reason) - _COMMON
    lines = [
        (name, number, _terms(line.partition("#")[0]) & terms)
        for name in sorted(files, key=lambda name: (name != FILE, name))
        for number, line in enumerate(files[name].splitlines(), start=1)
    ]
    often = Counter(term for _, _, found in lines for term in found)
    score, place = 0.0, ""
    for name, number, found in lines:
        weight = sum(1 / often[term] for term in found)
        # Of equals the later one: additions stand at the end.
        if found and weight >= score:
            score, place = weight, f"{name}:{number}"
    return place if score >= MIN_SCORE else ""


def _terms(text: str) -> set[str]:
    return {term for term in _SPLIT.split(text.lower()) if len(term) >= MIN_TERM_CHARACTERS}
