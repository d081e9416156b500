"""PodDisruptionBudget: how many pods may go. Pure; carried out by `controllers/disruption.py`.

The eviction subresource spends `disruptionsAllowed` and notes the pod in `disruptedPods`; here the budget is counted
anew, and a noted pod that was not deleted within two minutes counts as staying.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from kube_local.controllers.decide import pods as pods_
from kube_local.controllers.decide.status import condition, share, with_conditions
from kube_local.controllers.objects import Budget, Json, Pod
from kube_runtime.times import parse_time

FORGET_SECONDS = 120.0


def needs_scale(budget: Budget) -> bool:
    """Whether the count is one of what there should be, not of what there is."""
    spec = budget.spec
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def counts(budget: Budget, pods: Sequence[Pod], scale: int) -> tuple[int, int]:
    """(pods that should be there, healthy pods that must be there)."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        return scale, max(0, scale - share(spec.max_unavailable, scale, up=True))
    if isinstance(spec.min_available, str):
        return scale, share(spec.min_available, scale, up=True)
    return len(pods), spec.min_available or 0


def status(budget: Budget, pods: Sequence[Pod], scale: int, now: datetime) -> Json:
    """The status of a budget over these pods; `scale` is how many their owners want."""
    expected, desired = counts(budget, pods, scale)
    noted = still_noted(budget.status.get("disruptedPods") or {}, pods, now)
    healthy = sum(
        1 for pod in pods if pods_.is_ready(pod) and not pods_.is_terminating(pod) and pod.metadata.name not in noted
    )
    allowed = max(0, healthy - desired) if expected > 0 else 0
    desired_status: Json = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": budget.metadata.generation,
    }
    return (
        desired_status | ({"disruptedPods": noted} if noted else {}) | {"conditions": _conditions(budget, allowed, now)}
    )


def failed(budget: Budget, why: str, now: datetime) -> Json:
    """The status of a budget that cannot be counted: nothing may go."""
    sync_failed = condition("DisruptionAllowed", "False", "SyncFailed", why)
    conditions = with_conditions(budget.status.get("conditions") or (), [_observed(budget, sync_failed)], now)
    return {
        **budget.status,
        "disruptionsAllowed": 0,
        "observedGeneration": budget.metadata.generation,
        "conditions": conditions,
    }


def _conditions(budget: Budget, allowed: int, now: datetime) -> list[Json]:
    enough = allowed > 0
    reason = "SufficientPods" if enough else "InsufficientPods"
    allowed_condition = condition("DisruptionAllowed", "True" if enough else "False", reason, "")
    return with_conditions(budget.status.get("conditions") or (), [_observed(budget, allowed_condition)], now)


def _observed(budget: Budget, draft: Json) -> Json:
    return draft | {"observedGeneration": budget.metadata.generation}


def still_noted(noted: Mapping[str, str], pods: Sequence[Pod], now: datetime) -> dict[str, str]:
    """Evicted pods whose deletion is not seen yet, and not overdue."""
    here = {pod.metadata.name for pod in pods if not pods_.is_terminating(pod)}
    return {name: at for name, at in noted.items() if name in here and not _is_overdue(at, now)}


def _is_overdue(at: str, now: datetime) -> bool:
    since = parse_time(at)
    return since is None or now - since >= timedelta(seconds=FORGET_SECONDS)


def look_again(observed: Json, now: datetime) -> float | None:
    """When the first noted pod is overdue."""
    times = (parse_time(at) for at in (observed.get("disruptedPods") or {}).values())
    left = ((at + timedelta(seconds=FORGET_SECONDS) - now).total_seconds() for at in times if at is not None)
    return min((max(0.1, seconds) for seconds in left), default=None)
