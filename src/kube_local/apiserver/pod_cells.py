"""The row of a pod in `kubectl get pods`: ready count, the one word for its state, restarts. Pure; used by `tables`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
NONE = "<none>"


def pod_cells(pod: Object, age: str, since: Callable[[str], str]) -> list[Any]:
    """All cells of a pod, those of `-o wide` included."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    statuses = _restartable_init(pod) + list(status.get("containerStatuses") or ())
    ready = sum(bool(one.get("ready")) for one in statuses)
    total = len(spec.get("containers") or ()) + len(_restartable_names(pod))
    gates = spec.get("readinessGates") or ()
    passed = {one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"}
    return [
        pod["metadata"].get("name", ""),
        f"{ready}/{total}",
        status_text(pod),
        _restarts(statuses, since),
        age,
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{sum(gate.get('conditionType') in passed for gate in gates)}/{len(gates)}" if gates else NONE,
    ]


def container_list(spec: Object) -> list[str]:
    """Names and images of the containers of a template."""
    containers = spec.get("containers") or ()
    return [",".join(str(one.get(key, "")) for one in containers) for key in ("name", "image")]


def _restartable_names(pod: Object) -> set[str]:
    containers = (pod.get("spec") or {}).get("initContainers") or ()
    return {str(one.get("name")) for one in containers if one.get("restartPolicy") == "Always"}


def _restartable_init(pod: Object) -> list[Object]:
    names = _restartable_names(pod)
    return [one for one in (pod.get("status") or {}).get("initContainerStatuses") or () if one.get("name") in names]


def _restarts(statuses: list[Object], since: Callable[[str], str]) -> str:
    count = sum(int(one.get("restartCount") or 0) for one in statuses)
    ends = [((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for one in statuses]
    last = max((end for end in ends if end), default="")
    return f"{count} ({since(last)} ago)" if count and last else str(count)


def status_text(pod: Object) -> str:
    """The state in one word: what waits or failed comes before the phase."""
    status = pod.get("status") or {}
    text = status.get("reason") or status.get("phase") or ""
    gated = any(
        one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated"
        for one in status.get("conditions") or ()
    )
    if gated:
        text = "SchedulingGated"
    waiting = _init_status_text(pod)
    text = waiting or _container_status_text(status, text)
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return text


def _init_status_text(pod: Object) -> str:
    total = len((pod.get("spec") or {}).get("initContainers") or ())
    restartable = _restartable_names(pod)
    for index, one in enumerate((pod.get("status") or {}).get("initContainerStatuses") or ()):
        state = one.get("state") or {}
        if _is_past(one, state, restartable):
            continue
        if "terminated" in state:
            return f"Init:{_ended(state['terminated'])}"
        reason = (state.get("waiting") or {}).get("reason", "")
        return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{index}/{total}"
    return ""


def _is_past(one: Object, state: Object, restartable: set[str]) -> bool:
    if one.get("name") in restartable and one.get("started"):
        return True
    ended = state.get("terminated")
    return ended is not None and ended.get("exitCode") == 0


def _ended(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _container_status_text(status: Object, text: str) -> str:
    running = False
    for one in reversed(status.get("containerStatuses") or []):
        state = one.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            text = state["waiting"]["reason"]
        elif "terminated" in state:
            text = _ended(state["terminated"])
        elif one.get("ready") and "running" in state:
            running = True
    if text == "Completed" and running:
        ready = any(
            one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ()
        )
        text = "Running" if ready else "NotReady"
    return str(text)
