"""Readiness of the daemons behind a StatefulSet or Deployment.

In: the workload as it is, or None. Out: Ready, Progressing and Degraded. Used by every kind whose daemons Kubernetes
itself keeps running.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slurm_operator.api.plural import counted, share
from slurm_operator.api.problem import FieldProblem
from slurm_operator.status.conditions import (
    DEGRADED,
    POD_FEATURES_KEPT,
    PROGRESSING,
    READY,
    ConditionDraft,
    no,
    unknown,
    yes,
)


def rollout(daemon: str, workload: Mapping[str, Any] | None) -> list[ConditionDraft]:
    """What a workload's own status says."""
    if workload is None:
        return _waiting("NotCreatedYet", f"{daemon} has not been created yet")
    spec, status, pod = workload.get("spec") or {}, workload.get("status") or {}, f"{daemon} pod"
    wanted = int(spec.get("replicas", 1))
    ready = int(status.get("readyReplicas") or 0)
    updated = int(status.get("updatedReplicas") or 0)
    if int(status.get("observedGeneration") or 0) < int((workload.get("metadata") or {}).get("generation") or 0):
        return _waiting("RolloutNotSeen", f"Kubernetes has not observed the newest {daemon} yet")
    if updated < wanted:
        return _waiting("RollingOut", f"{share(updated, wanted, pod)} up to date, {counted(ready, 'is', 'are')} ready")
    if ready < wanted:
        return _waiting("WaitingForPods", f"{share(ready, wanted, pod)} ready")
    message = f"{share(ready, wanted, pod)} ready"
    return [
        yes(READY, "AllReady", message),
        no(PROGRESSING, "Settled", message),
        no(DEGRADED, "AsExpected", message),
    ]


def elsewhere(daemon: str) -> list[ConditionDraft]:
    """A daemon that runs outside Kubernetes."""
    message = f"{daemon} runs outside Kubernetes; the operator does not watch its health"
    return [
        yes(READY, "External", message),
        no(PROGRESSING, "Settled", message),
        no(DEGRADED, "AsExpected", message),
    ]


def refused(problems: Iterable[FieldProblem]) -> list[ConditionDraft]:
    """A resource that says something which cannot be done; what runs is left as it is."""
    message = "; ".join(str(problem) for problem in problems)
    return [
        no(READY, "InvalidSpec", message),
        no(PROGRESSING, "InvalidSpec", "waiting for the resource to change"),
        yes(DEGRADED, "InvalidSpec", message),
    ]


def failed(reason: str, message: str) -> list[ConditionDraft]:
    """A reconcile that did not come to its end; it is tried again."""
    return [
        unknown(READY, reason, message),
        yes(PROGRESSING, reason, "trying again"),
        yes(DEGRADED, reason, message),
    ]


def fault(fault_id: str, error: str) -> list[ConditionDraft]:
    """A reconcile that met an error which nobody foresaw."""
    message = (
        f"the operator hit an unexpected error ({error}) and tries again; nothing was reconciled. "
        f"Look for 'fault {fault_id}' in the operator's log and report what it says"
    )
    return failed("InternalError", message)


def blocked(reason: str, message: str) -> list[ConditionDraft]:
    """A resource that waits for people, since something beside it is in its way; it is reconciled again regularly."""
    return [
        no(READY, reason, message),
        no(PROGRESSING, reason, "waiting until somebody resolves this"),
        yes(DEGRADED, reason, message),
    ]


def kept_features(kept: Iterable[tuple[str, str]]) -> list[ConditionDraft]:
    """Pod features that no flag allows, and that stay because the pods had them before; (feature, field) of each."""
    places: dict[str, list[str]] = {}
    for feature, field in kept:
        places.setdefault(feature, []).append(field)
    if not places:
        return []
    named = ", ".join(f"{feature} ({', '.join(fields)})" for feature, fields in sorted(places.items()))
    message = (
        f"{named}: not allowed by the operator's flags, and kept because these pods had it before. "
        f"Set --allow-pod-features={','.join(sorted(places))} (allowPodFeatures in the chart), or change these fields"
    )
    return [yes(POD_FEATURES_KEPT, "HadBefore", message)]


def _waiting(reason: str, message: str) -> list[ConditionDraft]:
    return [no(READY, reason, message), yes(PROGRESSING, reason, message), no(DEGRADED, "AsExpected", message)]
