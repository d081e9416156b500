"""Why a pod does not run, or is not ready: from its schedule over its volumes and images to its containers' last words.

In: facts and the name of a pod. Out: a cause, or None when the pod is well. Used by every other walk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kube_runtime.times import parse_time
from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.meta import GROUP
from slurm_operator.api.plural import counted
from slurm_operator.build import labels
from slurm_operator.diagnose import scheduling
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import (
    Facts,
    Object,
    age_seconds,
    condition_of,
    label_of,
    name_of,
    spec_of,
    status_of,
)

IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
MOUNT_REASONS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
OUT_OF_MEMORY = "OOMKilled"
# A container that is younger than this may still be starting; a pod may end this much later than it should.
START_SECONDS = 60.0
LATE_SECONDS = 60.0
# A kubelet may write that a pod is unready this much later than its container was started.
SETTLE_SECONDS = 3.0
# From this many on, it is no coincidence.
MANY_RESTARTS = 2
# SIGKILL and SIGTERM: somebody else ended it, as the kubelet does where a probe fails.
KILLED_CODES = frozenset({137, 143})
JUST_EXITED_SECONDS = 60.0
# The kind that a pod belongs to, by the daemon that runs in it.
OWNERS = {
    labels.CONTROLLER.daemon: "Controller",
    labels.ACCOUNTING.daemon: "Accounting",
    labels.RESTAPI.daemon: "RestApi",
    labels.LOGIN.daemon: "LoginSet",
    labels.WORKER.daemon: "NodeSet",
}
NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun"})
NO_ANSWER = re.compile(r"(?i)deadline exceeded|timed out|timeout")
# What Slurm puts before each line of its logs.
STAMP = re.compile(r"^(\w+: )?\[[\dT:.-]+\] ")
# Only names that an object can have: a pod may ask for any, and this one stands in a command.
MISSING = re.compile(r'\b([Ss]ecret|[Cc]onfig[Mm]ap) "(?:[^"/]*/)?([a-z0-9][a-z0-9.-]*)" not found')

# What daemons say when something else is wrong than they themselves: (pattern, code, sentence).
LOG_PATTERNS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(
            r"(?i)auth(entication)? (error|fail)|decode failed|invalid (auth )?credential|bad signature|jwt.*fail"
        ),
        "KeyMismatch",
        "its key is not the cluster's: {pod} was started with a different slurm.key than slurmctld",
    ),
    (
        re.compile(r"(?i)unable to resolve|could not resolve|name or service not known|getaddrinfo"),
        "NameNotResolved",
        "{pod} cannot resolve a host name that it needs: {line}",
    ),
    (
        re.compile(r"(?i)unable to process configuration|parse error|parsing error|invalid slurm\.conf|bad value"),
        "ConfigurationUnreadable",
        "{container} cannot read its configuration: {line}",
    ),
    (
        re.compile(
            r"(?i)unable to contact slurm controller|unable to establish.*controller|connection refused|timed out"
        ),
        "ControllerUnreachable",
        "{pod} cannot reach slurmctld: {line}",
    ),
    (
        re.compile(
            r"(?i)access denied for user|can't connect to .*mysql|unknown mysql server|mysql_real_connect failed"
        ),
        "DatabaseUnreachable",
        "slurmdbd cannot connect to its database: {line}",
    ),
    (re.compile(r"(?i)no space left on device"), "DiskFull", "a disk is full: {line}"),
)


def why(facts: Facts, name: str) -> Cause | None:
    """Why a pod is not ready."""
    pod = facts.get("Pod", name)
    if pod is None:
        return None
    for look in (_terminating, _unscheduled, _volumes, _containers, _evicted, _unready):
        cause = look(facts, pod)
        if cause is not None:
            return replace(cause, root=cause.root or _root(pod, cause))
    return None


def _root(pod: Object, cause: Cause) -> str:
    """The same for every pod of one owner that fails in the same way."""
    return f"{label_of(pod).get(labels.INSTANCE, '')}: {cause.sentence.replace(name_of(pod), '*')}"


def _kubectl(facts: Facts, rest: str) -> str:
    return f"kubectl -n {facts.namespace} {rest}"


def is_ready(pod: Object) -> bool:
    """Whether a pod says that it is ready."""
    return (condition_of(pod, "Ready") or {}).get("status") == "True"


def is_young(facts: Facts, pod: Object) -> bool:
    """Whether a pod, or a container of it, was started a moment ago."""
    metadata = pod.get("metadata") or {}
    since = [str(each.get("startedAt", "")) for each in _running(pod)] or [str(metadata.get("creationTimestamp", ""))]
    age = age_seconds(facts, max(since))
    return age is not None and age < START_SECONDS


def _running(pod: Object) -> Iterator[Mapping[str, Any]]:
    for status in _statuses(pod):
        running = (status.get("state") or {}).get("running")
        if running:
            yield running


def _terminating(facts: Facts, pod: Object) -> Cause | None:
    if not (pod.get("metadata") or {}).get("deletionTimestamp"):
        return None
    metadata = pod.get("metadata") or {}
    # The API server writes the moment at which the grace period ends.
    late = age_seconds(facts, metadata["deletionTimestamp"])
    if late is not None and late > LATE_SECONDS:
        return Cause(
            "PodStuck",
            f"pod {name_of(pod)} should have ended {late:.0f} s ago: its Kubernetes node "
            f"{spec_of(pod).get('nodeName', '')} does not answer, or a finalizer holds it",
            f"kubectl describe node {spec_of(pod).get('nodeName', '')}",
        )
    return Cause(
        "PodIsEnding",
        f"pod {name_of(pod)} is being deleted, and its containers have not ended yet",
        _kubectl(facts, f"get pod {name_of(pod)} -o wide"),
        waits=True,
    )


def _unscheduled(facts: Facts, pod: Object) -> Cause | None:
    scheduled = condition_of(pod, "PodScheduled")
    if spec_of(pod).get("nodeName") or status_of(pod).get("phase") != "Pending":
        return None
    claim = _unbound(facts, pod)
    if claim is not None:
        return claim
    message = str((scheduled or {}).get("message", ""))
    if scheduled is None or scheduled.get("status") == "True":
        return Cause(
            "NotScheduledYet",
            f"the scheduler has not handled pod {name_of(pod)} yet",
            _kubectl(facts, f"describe pod {name_of(pod)}"),
            waits=is_young(facts, pod),
        )
    code, text = scheduling.reading(facts, pod, message)
    return Cause(
        code,
        f"no node can run pod {name_of(pod)}: {text}",
        scheduling.command(code, text) or _kubectl(facts, f"describe pod {name_of(pod)}"),
        (f"the scheduler says: {message}",),
    )


def _claims(pod: Object) -> Iterator[str]:
    for volume in spec_of(pod).get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if name:
            yield str(name)


def _unbound(facts: Facts, pod: Object) -> Cause | None:
    for name in _claims(pod):
        claim = facts.get("PersistentVolumeClaim", name)
        if claim is None:
            return Cause(
                "ClaimMissing",
                f"pod {name_of(pod)} waits for the claim {name!r}, which does not exist",
                _kubectl(facts, "get pvc"),
            )
        if status_of(claim).get("phase") in ("Bound", None):
            continue
        return _unbound_claim(facts, pod, claim)
    return None


def _unbound_claim(facts: Facts, pod: Object, claim: Object) -> Cause | None:
    name, wanted = name_of(claim), spec_of(claim).get("storageClassName")
    known = {name_of(each) for each in facts.every("StorageClass")}
    events = [str(event.get("message", "")) for event in facts.events_of("PersistentVolumeClaim", name)]
    if wanted and "StorageClass" in facts.objects and wanted not in known:
        return Cause(
            "StorageClassMissing",
            f"claim {name!r} of pod {name_of(pod)} asks for the storage class {wanted!r}, which does not exist",
            _kubectl(facts, "get storageclass"),
        )
    waits = [each for each in facts.every("StorageClass") if name_of(each) == wanted]
    if any(each.get("volumeBindingMode") == "WaitForFirstConsumer" for each in waits) and not _failed(events):
        return None
    return Cause(
        "ClaimNotBound",
        f"claim {name!r} of pod {name_of(pod)} is not bound: {events[-1] if events else 'no volume fits it'}",
        _kubectl(facts, f"describe pvc {name}"),
    )


def _failed(events: list[str]) -> bool:
    return any("fail" in each.lower() or "error" in each.lower() for each in events)


def _volumes(facts: Facts, pod: Object) -> Cause | None:
    if status_of(pod).get("phase") != "Pending":
        return None
    for event in reversed(facts.events_of("Pod", name_of(pod))):
        if event.get("reason") in MOUNT_REASONS:
            return _missing(facts, pod, str(event.get("message", ""))) or Cause(
                "VolumeNotMounted",
                f"a volume of pod {name_of(pod)} cannot be mounted: {event.get('message', '')}",
                _kubectl(facts, f"describe pod {name_of(pod)}"),
            )
    return None


def _missing(facts: Facts, pod: Object, message: str) -> Cause | None:
    """An object that the kubelet did not find."""
    found = MISSING.search(message)
    if found is None:
        return None
    kind = {"secret": "Secret", "configmap": "ConfigMap"}[found[1].lower()]
    there = facts.secrets if kind == "Secret" else facts.objects.get("ConfigMap")
    if there is not None and found[2] in there:
        return Cause(
            "Starting",
            f"pod {name_of(pod)} waited for the {kind} {found[2]!r}, which is there now: the kubelet looks again "
            "within two minutes",
            _kubectl(facts, f"describe pod {name_of(pod)}"),
            waits=True,
        )
    return Cause(
        f"{kind}Missing",
        f"pod {name_of(pod)} waits for the {kind} {found[2]!r}, which does not exist",
        _kubectl(facts, f"create {'secret generic' if kind == 'Secret' else 'configmap'} {found[2]} --from-file=FILE"),
        root=f"{kind}/{found[2]}",
    )


def _statuses(pod: Object) -> Iterator[Mapping[str, Any]]:
    yield from status_of(pod).get("initContainerStatuses") or ()
    yield from status_of(pod).get("containerStatuses") or ()


def _containers(facts: Facts, pod: Object) -> Cause | None:
    for status in _statuses(pod):
        cause = _container(facts, pod, status)
        if cause is not None:
            return cause
    return None


def _container(facts: Facts, pod: Object, status: Mapping[str, Any]) -> Cause | None:
    name, state = str(status.get("name")), status.get("state") or {}
    waiting = state.get("waiting") or {}
    reason, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))
    if reason in IMAGE_REASONS:
        return Cause(
            "ImageNotPulled",
            f"the image {status.get('image')} of {_users(pod, status)} cannot be pulled: {message or reason}",
            _kubectl(facts, f"describe pod {name_of(pod)}"),
        )
    if reason in ("CreateContainerConfigError", "CreateContainerError"):
        return _missing(facts, pod, message) or Cause(
            "ContainerNotMade",
            f"container {name} cannot be created: {message or reason}",
            _kubectl(facts, f"describe pod {name_of(pod)}"),
        )
    ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated") or {}
    starved = ended.get("reason") == OUT_OF_MEMORY
    failed = ended and (int(ended.get("exitCode") or 0) != 0 or starved)
    restarts = int(status.get("restartCount") or 0)
    # One that was restarted may do better this time, but not with the same limit, and not if it exits again and again.
    exits_again = restarts >= MANY_RESTARTS and ended.get("exitCode") not in KILLED_CODES
    if failed and not status.get("ready") and (starved or not state.get("running") or exits_again):
        return _ended(facts, pod, name, ended, restarts)
    return None


def exiting(facts: Facts, pod: Object) -> Cause | None:
    """Why the daemon of a pod that runs now does not answer: its container exited a moment ago."""
    daemon = str(label_of(pod).get(labels.NAME, ""))
    for status in _statuses(pod):
        ended = (status.get("lastState") or {}).get("terminated") or {}
        age = age_seconds(facts, ended.get("finishedAt"))
        failed = int(ended.get("exitCode") or 0) not in {0, *KILLED_CODES}
        if status.get("name") == daemon and failed and age is not None and age < JUST_EXITED_SECONDS:
            return _ended(facts, pod, daemon, ended, int(status.get("restartCount") or 0))
    return None


def being_started(facts: Facts, pod: Object) -> Cause | None:
    """Why the daemon of a pod cannot be asked: its container does not run yet, or not yet again."""
    daemon = str(label_of(pod).get(labels.NAME, ""))
    status: Mapping[str, Any] = next((each for each in _statuses(pod) if each.get("name") == daemon), {})
    if "running" in (status.get("state") or {}) or (not status and is_ready(pod)):
        return None
    times = [str((pod.get("metadata") or {}).get("creationTimestamp", "")), exited_at(pod, daemon)]
    age = age_seconds(facts, max(times))
    reason = ((status.get("state") or {}).get("waiting") or {}).get("reason")
    return Cause(
        "Starting",
        f"container {daemon} of pod {name_of(pod)} is being started" + (f" ({reason})" if reason else ""),
        _kubectl(facts, f"describe pod {name_of(pod)}"),
        waits=age is None or age < START_SECONDS,
    )


def exited_at(pod: Object, container: str) -> str:
    """When a container last exited; empty when nobody knows."""
    statuses = (each for each in status_of(pod).get("containerStatuses") or () if each.get("name") == container)
    status: Mapping[str, Any] = next(statuses, {})
    found = [(status.get(key) or {}).get("terminated") or {} for key in ("state", "lastState")]
    return max(str(each.get("finishedAt") or "") for each in found)


def _users(pod: Object, status: Mapping[str, Any]) -> str:
    """The containers of an image; the one that is started first fails for all."""
    names = [str(each.get("name")) for each in _container_specs(pod) if each.get("image") == status.get("image")]
    daemon = str(label_of(pod).get(labels.NAME, ""))
    first = sorted(names or [str(status.get("name"))], key=lambda name: name != daemon)
    return f"container {first[0]}" if len(first) == 1 else f"containers {' and '.join(first)}"


def _ended(facts: Facts, pod: Object, container: str, ended: Mapping[str, Any], restarts: int) -> Cause:
    command = _kubectl(facts, f"logs {name_of(pod)} -c {container} --previous --tail=20")
    if ended.get("reason") == OUT_OF_MEMORY:
        return _out_of_memory(facts, pod, container)
    if ended.get("reason") in NEVER_STARTED:
        start_error = _start_error(str(ended.get("message", "")))
        return Cause(
            "ContainerNotMade",
            f"container {container} of pod {name_of(pod)} cannot be started: {start_error}",
            _kubectl(facts, f"describe pod {name_of(pod)}"),
        )
    lines = facts.logs.get((name_of(pod), container), ())
    known = log_cause(pod, container, lines)
    if known is not None:
        return Cause(known[0], known[1], command, (f"container {container} has exited {counted(restarts, 'time')}",))
    if ended.get("exitCode") in KILLED_CODES:
        # Its last line has nothing to do with that.
        killed = f"container {container} of pod {name_of(pod)} was killed (code {ended['exitCode']})"
        text = f"{killed} and is started again, as the kubelet does with one whose liveness probe fails"
        return Cause("NotAnswering", text, command)
    last = _last_fault(lines)
    start_error = f": {last}" if last else f" with code {ended.get('exitCode')}"
    return Cause("ContainerFails", f"container {container} of pod {name_of(pod)} keeps exiting{start_error}", command)


def _out_of_memory(facts: Facts, pod: Object, container: str) -> Cause:
    """Which limit it ran into, and where that is set."""
    mine = (each for each in _container_specs(pod) if each.get("name") == container)
    limits = ((each.get("resources") or {}).get("limits") or {} for each in mine)
    bound = next((f" of {each['memory']}" for each in limits if each.get("memory")), "")
    kind = OWNERS.get(str(label_of(pod).get(labels.NAME, "")))
    owner = str(label_of(pod).get(labels.INSTANCE, ""))
    return Cause(
        "OutOfMemory",
        f"container {container} of pod {name_of(pod)} used more memory than its limit{bound}",
        _kubectl(facts, f"edit {BY_NAME[kind].plural}.{GROUP} {owner}" if kind else f"describe pod {name_of(pod)}"),
    )


def _container_specs(pod: Object) -> Iterator[Mapping[str, Any]]:
    yield from spec_of(pod).get("initContainers") or ()
    yield from spec_of(pod).get("containers") or ()


def _start_error(message: str) -> str:
    """The runtime's last words, which are the ones about the program."""
    return message.strip().rpartition("exec: ")[2].replace("\\", "").replace('"', "") or "its command cannot be run"


def log_cause(pod: Object, container: str, lines: tuple[str, ...]) -> tuple[str, str] | None:
    """A known problem in a daemon's log: code and sentence."""
    for pattern, code, sentence in LOG_PATTERNS:
        line = next((line.strip() for line in reversed(lines) if pattern.search(line)), None)
        if line is not None:
            return code, sentence.format(pod=f"pod {name_of(pod)}", container=container, line=STAMP.sub("", line))
    return None


def _last_fault(lines: tuple[str, ...]) -> str:
    faults = [line.strip() for line in lines if re.search(r"(?i)fatal|error|denied|cannot|failed|not found", line)]
    nonempty = [line.strip() for line in lines if line.strip()]
    return STAMP.sub("", (faults or nonempty or [""])[-1])


def _evicted(facts: Facts, pod: Object) -> Cause | None:
    if status_of(pod).get("phase") != "Failed":
        return None
    reason = status_of(pod).get("message") or status_of(pod).get("reason") or "no reason is given"
    return Cause(
        "PodFailed", f"pod {name_of(pod)} has failed: {reason}", _kubectl(facts, f"describe pod {name_of(pod)}")
    )


def _unready(facts: Facts, pod: Object) -> Cause | None:
    ready = condition_of(pod, "Ready")
    if status_of(pod).get("phase") != "Running" or (ready or {}).get("status") == "True":
        return None
    slow = [str(each.get("name")) for each in _statuses(pod) if not each.get("ready")]
    container = slow[0] if slow else "?"
    known = log_cause(pod, container, facts.logs.get((name_of(pod), container), ()))
    command = _kubectl(facts, f"logs {name_of(pod)} -c {container} --tail=20")
    probes = [event for event in facts.events_of("Pod", name_of(pod)) if event.get("reason") == "Unhealthy"]
    runs = f"container {container} of pod {name_of(pod)} runs but is not ready"
    message = str(probes[-1].get("message", "")).strip().rstrip(":") if probes else ""
    again = any(int(each.get("restartCount") or 0) >= MANY_RESTARTS for each in _statuses(pod))
    was_ready = _was_ready(pod, container)
    young = is_young(facts, pod) and not again and not was_ready
    # A daemon that hangs logs nothing more, and what it logged before is not the cause.
    hangs = not young and NO_ANSWER.search(message) is not None
    if known is not None and not hangs:
        return Cause(known[0], known[1], command)
    if not probes or young:
        # Until a daemon listens its probe fails: that is no fault of a container that was started a moment ago.
        detail = f": {message}" if message else ""
        if was_ready:
            return Cause("ProbeFails", f"{runs}: it was ready before, and its probe no longer succeeds", command)
        return Cause("Starting", f"{runs}, and its probe has not succeeded yet{detail}", command, waits=young)
    if hangs:
        return Cause("NotAnswering", f"{runs}: it hangs, or has too little CPU, and its probe times out", command)
    return Cause("ProbeFails", f"{runs}: {message}", command)


def _was_ready(pod: Object, container: str) -> bool:
    """Whether a container was ready since it was started: a pod that never was has been unready for longer than it."""
    status: Mapping[str, Any] = next((each for each in _statuses(pod) if each.get("name") == container), {})
    started = parse_time(str(((status.get("state") or {}).get("running") or {}).get("startedAt") or ""))
    ready = condition_of(pod, "Ready") or {}
    changed = parse_time(str(ready.get("lastTransitionTime") or "")) if ready.get("status") == "False" else None
    if started is None or changed is None or status.get("started") is False:
        # Its startup probe has not succeeded yet, however late the kubelet wrote the rest.
        return False
    return (changed - started).total_seconds() > SETTLE_SECONDS
