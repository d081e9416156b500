"""ReplicaSet: how many pods to make, or which to take away. Pure; carried out by `controllers/replica_set.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kube_local.controllers.decide import pods as pods_
from kube_local.controllers.decide.selector import selects
from kube_local.controllers.objects import Json, LabelSelector, Pod, ReplicaSet

# A scale from nothing to thousands is made in several passes.
MAX_PODS_PER_RECONCILE = 500
_PHASES = {"Pending": 0, "Unknown": 1}


@dataclass(frozen=True, slots=True)
class Decision:
    """Pods to make, pods to take away, and what to say."""

    create: int
    delete: tuple[Pod, ...]
    status: Json


def decide(owner: ReplicaSet, pods: Sequence[Pod]) -> Decision:
    """Come nearer to the wanted number."""
    active = [pod for pod in pods if pods_.is_active(pod)]
    missing = 0 if owner.metadata.deletion_timestamp else owner.spec.replicas - len(active)
    surplus = sorted(active, key=_worth)[: max(0, -missing)] if missing < 0 else []
    return Decision(min(MAX_PODS_PER_RECONCILE, max(0, missing)), tuple(surplus), status(owner, active, pods))


def _worth(pod: Pod) -> tuple[Any, ...]:
    """The order in which pods may go: what serves nobody first, and of equals the youngest."""
    restarts = max((one.restart_count for one in pod.status.container_statuses), default=0)
    since = str(pods_.condition(pod, "Ready").get("lastTransitionTime") or "") if pods_.is_ready(pod) else ""
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 2),
        pods_.is_ready(pod),
        _Newest(since),
        -restarts,
        _Newest(pod.metadata.creation_timestamp),
        pod.metadata.name,
    )


@dataclass(frozen=True, slots=True)
class _Newest:
    """A time that sorts backwards."""

    time: str

    def __lt__(self, other: _Newest) -> bool:
        return self.time > other.time


def pod(owner: ReplicaSet) -> Json:
    """One more pod; the server finds its name."""
    reference = pods_.owner_reference("apps/v1", "ReplicaSet", owner)
    prefix = f"{owner.metadata.name}-"
    return pods_.from_template(owner.spec.template, owner.metadata.namespace, reference, generateName=prefix)


def status(owner: ReplicaSet, active: Sequence[Pod], pods: Sequence[Pod]) -> Json:
    """The status, with every number as it is observed now."""
    described = ((owner.spec.template.get("metadata") or {}).get("labels")) or {}
    labelled = LabelSelector(match_labels=described)
    ready = sum(1 for one in active if pods_.is_ready(one))
    numbers = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(1 for one in active if selects(labelled, one.metadata.labels)),
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    terminating = sum(1 for one in pods if pods_.is_terminating(one) and one.status.phase not in pods_.FINISHED)
    return {
        **{key: value for key, value in numbers.items() if value or key == "replicas"},
        "terminatingReplicas": terminating,
        "observedGeneration": owner.metadata.generation,
        **{key: owner.status[key] for key in ("conditions",) if key in owner.status},
    }
