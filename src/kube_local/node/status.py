"""The status of a pod as a kubelet writes it. Pure.

In: the pod, its record and its containers' records. Out: the `status` object. `pod` writes it when it changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kube_local.node.records import ContainerRecord, Ended, PodRecord
from kube_local.node.sources import Object


class Kind(Enum):
    """The part that a container plays."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


@dataclass(frozen=True, slots=True)
class View:
    """One container as it is now; `over` when it will not be started again."""

    kind: Kind
    record: ContainerRecord
    ready: bool = False
    over: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that a status is made of."""

    pod: Object
    record: PodRecord
    containers: Sequence[View]
    host_ip: str
    now: str
    sandbox: bool = False


def status(facts: Facts, before: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The whole status; `before` are the conditions as they were, for their transition times."""
    current = phase(facts)
    result: dict[str, Any] = {
        "phase": current,
        "conditions": _conditions(facts, current, {one["type"]: one for one in before}),
        "hostIP": facts.host_ip,
        "hostIPs": [{"ip": facts.host_ip}],
        "startTime": facts.record.started_at,
    }
    address = facts.host_ip if (facts.pod.get("spec") or {}).get("hostNetwork") else facts.record.ip
    if address:
        result |= {"podIP": address, "podIPs": [{"ip": address}]}
    if facts.record.reason:
        result |= {"reason": facts.record.reason, "message": facts.record.message}
    inits = [view for view in facts.containers if view.kind is not Kind.MAIN]
    waits = "PodInitializing" if inits else "ContainerCreating"
    if inits:
        result["initContainerStatuses"] = [_container(view, waits) for view in inits]
    result["containerStatuses"] = [_container(view, waits) for view in facts.containers if view.kind is Kind.MAIN]
    return result


def phase(facts: Facts) -> str:
    """Pending, Running, Succeeded or Failed."""
    if facts.record.reason:
        return "Failed"
    mains = [view for view in facts.containers if view.kind is Kind.MAIN]
    if any(view.kind is Kind.INIT and view.over and view.record.ended and _failed(view) for view in facts.containers):
        return "Failed"
    if mains and all(view.over for view in mains):
        return "Failed" if any(_failed(view) for view in mains) else "Succeeded"
    was_up = any(view.record.state in {"running", "ended"} or view.record.restarts for view in mains)
    return "Running" if was_up else "Pending"


def _failed(view: View) -> bool:
    return view.record.ended is None or view.record.ended.exit_code != 0


def _initialized(view: View) -> bool:
    if view.kind is Kind.SIDECAR:
        return view.record.started or view.record.restarts > 0
    return view.record.state == "ended" and not _failed(view)


def _conditions(facts: Facts, current: str, before: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    done = current == "Succeeded"
    reason_over = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(current, "")
    uninitialized = [
        view.record.name for view in facts.containers if view.kind is not Kind.MAIN and not _initialized(view)
    ]
    unready = [view.record.name for view in facts.containers if view.kind is not Kind.INIT and not view.ready]
    up = facts.sandbox and current in {"Pending", "Running"}
    why = (reason_over, "") if reason_over else _why("ContainersNotReady", "containers with unready status", unready)
    found = [
        ("PodReadyToStartContainers", up, ("", "")),
        (
            "Initialized",
            done or not uninitialized,
            _why("ContainersNotInitialized", "containers with incomplete status", uninitialized),
        ),
        ("Ready", not unready and not reason_over, why),
        ("ContainersReady", not unready and not reason_over, why),
        ("PodScheduled", True, ("", "")),
    ]
    return [_condition(name, good, reason, facts.now, before.get(name)) for name, good, reason in found]


def _why(reason: str, text: str, names: list[str]) -> tuple[str, str]:
    return (reason, f"{text}: [{' '.join(names)}]")


def _condition(
    name: str, good: bool, why: tuple[str, str], now: str, before: Mapping[str, Any] | None
) -> dict[str, Any]:
    value = "True" if good else "False"
    same = before is not None and before.get("status") == value
    since = before["lastTransitionTime"] if before is not None and same and before.get("lastTransitionTime") else now
    result = {"type": name, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
    if not good and why[0]:
        result["reason"] = why[0]
        if why[1]:
            result["message"] = why[1]
    return result


def _container(view: View, waits: str) -> dict[str, Any]:
    record = view.record
    result: dict[str, Any] = {
        "name": record.name,
        "image": record.image,
        "imageID": record.image_id,
        "ready": _init_ready(view) if view.kind is Kind.INIT else view.ready,
        "started": record.state == "running" and record.started,
        "restartCount": record.restarts,
        "state": _state(view, waits),
        "lastState": {"terminated": _terminated(record.last)} if record.last else {},
    }
    if record.container_id:
        result["containerID"] = f"runc://{record.container_id}"
    return result


def _init_ready(view: View) -> bool:
    return view.record.state == "ended" and not _failed(view)


def _state(view: View, waits: str) -> dict[str, Any]:
    record = view.record
    if record.state == "running":
        return {"running": {"startedAt": record.started_at}}
    if record.state == "ended" and record.ended and (view.over or not record.reason):
        return {"terminated": _terminated(record.ended)}
    waiting = {"reason": record.reason or waits}
    return {"waiting": {**waiting, "message": record.message} if record.message else waiting}


def _terminated(ended: Ended) -> dict[str, Any]:
    result: dict[str, Any] = {"exitCode": ended.exit_code, "reason": ended.reason}
    pairs = (
        ("message", ended.message),
        ("startedAt", ended.started_at),
        ("finishedAt", ended.finished_at),
        ("containerID", f"runc://{ended.container_id}" if ended.container_id else ""),
    )
    return result | {key: value for key, value in pairs if value}
