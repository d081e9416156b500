"""Node lifecycle: which nodes are lost, how that is shown, and which pods must leave. Pure; `controllers/lifecycle.py`.

A node whose heartbeat is old becomes Unknown and is tainted; pods leave when they no longer tolerate it. When every
node is lost it is the heartbeats that are broken, not the nodes: nothing is evicted then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kube_local.controllers.decide.fit import UNSCHEDULABLE, tolerates_taint
from kube_local.controllers.decide.status import with_conditions
from kube_local.controllers.objects import Json, Node, Pod
from kube_runtime.times import time_text

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_SILENT = "Kubelet stopped posting node status."
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_OURS = frozenset({NOT_READY, UNREACHABLE, UNSCHEDULABLE})


def readiness(node: Node) -> str:
    """True, False or Unknown; a node that has never said is Unknown."""
    return next((str(one.get("status")) for one in node.status.conditions if one.get("type") == "Ready"), "Unknown")


def silent_conditions(node: Node, now: datetime) -> list[Json]:
    """The conditions of a node that nobody hears from."""
    have = {str(one.get("type")): one for one in node.status.conditions}
    lost = [
        {"type": kind, "status": "Unknown", "reason": "NodeStatusUnknown", "message": _SILENT}
        for kind in _REPORTED
        if kind == "Ready" or kind in have
    ]
    changed = [one for one in lost if (have.get(one["type"]) or {}).get("status") != "Unknown"]
    return with_conditions(node.status.conditions, changed, now)


def taints(node: Node, ready: str, *, evict: bool, now: datetime) -> list[Json]:
    """The taints of a node: those of others as they are, ours as its conditions ask for."""
    wanted = list(_wanted(node, ready, evict=evict))
    others = [one for one in node.spec.taints if one.get("key") not in _OURS]
    have = {(one.get("key"), one.get("effect")): one for one in node.spec.taints}
    mine = [dict(have.get(pair) or _taint(*pair, now)) for pair in wanted]
    return [dict(one) for one in others] + mine


def _wanted(node: Node, ready: str, *, evict: bool) -> Iterable[tuple[str, str]]:
    if node.spec.unschedulable:
        yield UNSCHEDULABLE, "NoSchedule"
    if ready != "True":
        key = UNREACHABLE if ready == "Unknown" else NOT_READY
        yield key, "NoSchedule"
        if evict:
            yield key, "NoExecute"


def _taint(key: str, effect: str, now: datetime) -> Json:
    return {"key": key, "effect": effect, "timeAdded": time_text(now)}


def same_taints(one: Iterable[Mapping[str, Any]], other: Iterable[Mapping[str, Any]]) -> bool:
    """Whether two lists hold the same taints, in whatever order."""
    return _identities(one) == _identities(other)


def _identities(listed: Iterable[Mapping[str, Any]]) -> set[tuple[str, str, str]]:
    return {(str(one.get("key")), str(one.get("value") or ""), str(one.get("effect"))) for one in listed}


def evicting(node: Node) -> list[Json]:
    """The taints that make pods leave."""
    return [one for one in node.spec.taints if one.get("effect") == "NoExecute"]


def stays_for(pod: Pod, listed: Sequence[Json]) -> float | None:
    """Seconds that a pod may stay on a node with these taints; None for ever, 0 not at all."""
    used = []
    for taint in listed:
        key, value, effect = (str(taint.get(name) or "") for name in ("key", "value", "effect"))
        found = [one for one in pod.spec.tolerations if tolerates_taint(one, key, value, effect)]
        if not found:
            return 0.0
        used += found
    limits = [one.toleration_seconds for one in used if one.toleration_seconds is not None]
    return float(max(0, min(limits))) if limits else None
