"""What of a cluster is ready, what is not, and what a person can do about it. Pure.

In: objects as the API server returns them. Out: one `State` for each object that can be waited for, with leftovers of
an earlier run marked, which are not waited for; and sentences about failing pods. Used by `local up` and
`local status`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from slurm_operator.api.kinds import BY_NAME

Json = Mapping[str, Any]
# Kind, namespace and name.
Key = tuple[str, str, str]
WORKLOADS = ("StatefulSet", "Deployment")
# Waiting reasons that do not go away by waiting.
PROBLEM_REASONS = frozenset(
    {
        "CrashLoopBackOff",
        "ErrImagePull",
        "ImagePullBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "InvalidImageName",
    }
)

# How a container ended whose program could not be run at all.
NEVER_STARTED = "StartError"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """One object and whether it is ready."""

    kind: str
    namespace: str
    name: str
    ready: bool
    message: str = ""
    # When its condition Ready last changed, as Kubernetes writes times; empty where it has none.
    since: str = ""
    # Why it is not waited for; empty if it is.
    left_out: str = ""

    @property
    def key(self) -> Key:
        """Which object it is."""
        return (self.kind, self.namespace, self.name)

    @property
    def title(self) -> str:
        """How people call it."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def states(objects: Iterable[Json]) -> list[State]:
    """The state of every object that has one."""
    return [found for item in objects if (found := state(item)) is not None]


def states_with_leftovers(objects: Sequence[Json], applied: Collection[Key] | None) -> list[State]:
    """The same, with leftovers marked: only what was `applied`, and what that owns, is waited for.

    If `applied` is None, everything is waited for that is not being deleted.
    """
    reasons = _left_out(objects, applied)
    found = [(state(item), reasons.get(_key(item), "")) for item in objects]
    return [msgspec.structs.replace(each, left_out=why) for each, why in found if each is not None]


def _left_out(objects: Sequence[Json], applied: Collection[Key] | None) -> dict[Key, str]:
    deleting = _with_owned(objects, {_key(item) for item in objects if _is_being_deleted(item)})
    wanted = {_key(item) for item in objects} if applied is None else _with_owned(objects, set(applied))
    pods = [item for item in objects if item.get("kind") == "Pod" and _key(item) in wanted - deleting]
    used = {claim for pod in pods for claim in _claims(pod)}
    reasons: dict[Key, str] = {}
    for item in objects:
        key = _key(item)
        if key in deleting:
            reasons[key] = "it is being deleted"
        elif key[0] == "PersistentVolumeClaim" and key not in used:
            reasons[key] = "no pod that is waited for uses it"
        elif key[0] != "Node" and key not in wanted and key not in used:
            reasons[key] = "it is not in the files that were given"
        elif key[0] == "NodeSet" and _has_surplus_only(item):
            reasons[key] = "only workers that are being removed wait, for their jobs"
    return reasons


def _key(item: Json) -> Key:
    metadata = item.get("metadata") or {}
    return (str(item.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def _is_being_deleted(item: Json) -> bool:
    return bool((item.get("metadata") or {}).get("deletionTimestamp"))


def _with_owned(objects: Sequence[Json], keys: set[Key]) -> set[Key]:
    """These objects and everything that they own; a Deployment's pods are recognized by their names."""
    found, before = set(keys), -1
    while len(found) != before:
        before = len(found)
        found |= {_key(item) for item in objects if _owners(item) & found}
    return found


def _owners(item: Json) -> set[Key]:
    """Its owners, by kind and name; for a ReplicaSet its Deployment, whose name the ReplicaSet's begins with."""
    namespace = _key(item)[1]
    found: set[Key] = set()
    for owner in (item.get("metadata") or {}).get("ownerReferences") or ():
        kind, name = str(owner.get("kind")), str(owner.get("name"))
        if kind == "ReplicaSet":
            kind, name = "Deployment", name.rpartition("-")[0]
        found.add((kind, namespace, name))
    return found


def _claims(pod: Json) -> Iterator[Key]:
    namespace = _key(pod)[1]
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim:
            yield ("PersistentVolumeClaim", namespace, str(claim))


def _has_surplus_only(nodeset: Json) -> bool:
    """Whether it has all the workers that it should have, and the surplus ones wait for jobs."""
    status, wanted = nodeset.get("status") or {}, int((nodeset.get("spec") or {}).get("replicas") or 0)
    generation = int((nodeset.get("metadata") or {}).get("generation") or 0)
    seen = int(status.get("observedGeneration") or 0) >= generation
    ready, there = int(status.get("readyReplicas") or 0), int(status.get("replicas") or 0)
    return seen and ready >= wanted and there > wanted


def state(item: Json) -> State | None:
    """The state of one object; None for kinds that are never waited for."""
    kind = str(item.get("kind"))
    if kind in WORKLOADS:
        ready, message = _workload(item)
    elif kind == "Pod":
        ready, message = _pod(item)
    elif kind == "Node" or kind in BY_NAME:
        ready, message = _conditions(item)
    elif kind == "PersistentVolumeClaim":
        phase = str((item.get("status") or {}).get("phase") or "Pending")
        ready, message = phase == "Bound", "" if phase == "Bound" else f"it is {phase}"
    else:
        return None
    metadata = item.get("metadata") or {}
    return State(
        kind=kind,
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        ready=ready,
        message=message,
        since=str((_ready_condition(item) or {}).get("lastTransitionTime") or ""),
    )


def _ready_condition(item: Json) -> Json | None:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == "Ready"), None)


def _conditions(item: Json) -> tuple[bool, str]:
    metadata, found = item.get("metadata") or {}, _ready_condition(item)
    if found is None:
        return False, "nothing is known of it yet"
    if int(found.get("observedGeneration") or metadata.get("generation") or 0) < int(metadata.get("generation") or 0):
        return False, "its newest change has not been seen yet"
    ready = found.get("status") == "True"
    return ready, str(found.get("message") or found.get("reason") or "")


def _workload(item: Json) -> tuple[bool, str]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    raw = spec.get("replicas")
    wanted, ready = 1 if raw is None else int(raw), int(status.get("readyReplicas") or 0)
    generation = int((item.get("metadata") or {}).get("generation") or 0)
    seen = int(status.get("observedGeneration") or 0) >= generation
    current = int(status.get("updatedReplicas") or 0) >= wanted
    return seen and current and ready >= wanted, f"{ready} of {wanted} pods are ready"


def _pod(item: Json) -> tuple[bool, str]:
    status = item.get("status") or {}
    if (item.get("metadata") or {}).get("deletionTimestamp"):
        return False, "it is ending"
    if status.get("phase") == "Succeeded":
        return True, "it has completed"
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    if conditions.get("Ready", {}).get("status") == "True":
        return True, "it runs"
    waiting = next(_waiting(status), "")
    scheduled = conditions.get("PodScheduled", {})
    unplaced = str(scheduled.get("message") or "") if scheduled.get("status") == "False" else ""
    return False, waiting or unplaced or f"it is {status.get('phase') or 'Pending'}"


def _waiting(status: Json) -> Iterator[str]:
    for one in _containers(status):
        waiting = (one.get("state") or {}).get("waiting")
        if waiting:
            message = str(waiting.get("message") or "")
            yield f"container {one.get('name')}: {waiting.get('reason')}" + (f" ({message})" if message else "")


def _containers(status: Json) -> list[Json]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def problems(objects: Iterable[Json], left_out: Collection[Key] = ()) -> list[str]:
    """A sentence for each container that waiting alone will not help, except for pods that are left out."""
    pods = (item for item in objects if item.get("kind") == "Pod" and _key(item) not in left_out)
    return [sentence for pod in pods for sentence in _pod_problems(pod)]


def _pod_problems(pod: Json) -> Iterator[str]:
    metadata = pod.get("metadata") or {}
    where = f"-n {metadata.get('namespace')} {metadata.get('name')}"
    for one in _containers(pod.get("status") or {}):
        waiting = (one.get("state") or {}).get("waiting") or {}
        reason, name = waiting.get("reason"), one.get("name")
        if reason not in PROBLEM_REASONS:
            continue
        last = (one.get("lastState") or {}).get("terminated") or {}
        if reason == "CrashLoopBackOff" and last.get("reason") == NEVER_STARTED:
            ended = f"cannot start ({last.get('message') or 'no reason given'})"
            hint = "its image lacks that program: change its command, or what its image stands for in images.yaml"
        elif reason == "CrashLoopBackOff":
            ended = f"keeps exiting (exit code {last.get('exitCode')}, {one.get('restartCount')} restarts)"
            hint = f"see why: slurm-operator local kubectl logs {where} -c {name} --previous"
        else:
            ended = f"cannot start ({reason}: {waiting.get('message') or 'no reason given'})"
            hint = f"see more: slurm-operator local kubectl describe pod {where}"
        yield f"container {name} of pod {metadata.get('namespace')}/{metadata.get('name')} {ended}; {hint}"
