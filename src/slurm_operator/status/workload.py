"""Readiness of the daemons behind a StatefulSet or Deployment.

In: the workload as it is, or None, and the Secrets of its namespace. Out: Ready, Progressing and Degraded. Used by
every kind whose daemons Kubernetes itself keeps running.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from slurm_operator.api.plural import counted, share
from slurm_operator.api.problem import FieldProblem
from slurm_operator.status.conditions import (
    DEGRADED,
    POD_FEATURES_KEPT,
    PROGRESSING,
    READY,
    ConditionDraft,
    Truth,
    no,
    unknown,
    yes,
)

# By name: the keys of each Secret of the namespace.
Secrets = Mapping[str, Collection[str]]


def rollout(daemon: str, workload: Mapping[str, Any] | None, secrets: Secrets) -> list[ConditionDraft]:
    """The state of a workload by its own status; if a Secret that its pods need is missing, that is the cause."""
    found, missing = _rollout(daemon, workload), missing_secret(workload or {}, secrets)
    if not missing:
        return found
    if found[0].truth is not Truth.TRUE:
        return blocked("ReferenceNotFound", f"{missing}, and {daemon} pods cannot start without it: create it")
    message = f"{missing}: running {daemon} pods still have it, but none can start again without it"
    return [*found[:2], yes(DEGRADED, "ReferenceNotFound", message)]


def missing_secret(workload: Mapping[str, Any], secrets: Secrets) -> str:
    """The first Secret, or key of a Secret, that the pods of a workload need and that is missing; empty if none is."""
    spec = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    for name, key in _needed(spec):
        if name not in secrets:
            return f"Secret {name!r} does not exist"
        if key and key not in secrets[name]:
            return f"Secret {name!r} has no key {key!r}"
    return ""


def _needed(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The Secrets that a pod needs to start, each with a key; the key is empty if any content will do."""
    for volume in spec.get("volumes") or ():
        sources = [each.get("secret") for each in (volume.get("projected") or {}).get("sources") or ()]
        for source in filter(None, [volume.get("secret"), *sources]):
            name = str(source.get("secretName") or source.get("name") or "")
            items = [str(item.get("key")) for item in source.get("items") or ()] or [""]
            yield from ((name, key) for key in items if name and not source.get("optional"))
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        named = [((each.get("valueFrom") or {}).get("secretKeyRef")) for each in container.get("env") or ()]
        for ref in filter(None, [*named, *(each.get("secretRef") for each in container.get("envFrom") or ())]):
            if ref.get("name") and not ref.get("optional"):
                yield str(ref["name"]), str(ref.get("key") or "")


def _rollout(daemon: str, workload: Mapping[str, Any] | None) -> list[ConditionDraft]:
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
    """The condition for pod features that no flag allows, but that the pods had before; (feature, field) of each."""
    places: dict[str, list[str]] = {}
    for feature, field in kept:
        places.setdefault(feature, []).append(field)
    if not places:
        return []
    named = ", ".join(f"{feature} ({', '.join(fields)})" for feature, fields in sorted(places.items()))
    message = (
        f"{named}: not allowed by the operator's flags, but kept because these pods had it before. "
        f"Set --allow-pod-features={','.join(sorted(places))} (allowPodFeatures in the chart), or change these fields"
    )
    return [yes(POD_FEATURES_KEPT, "HadBefore", message)]


def _waiting(reason: str, message: str) -> list[ConditionDraft]:
    return [no(READY, reason, message), yes(PROGRESSING, reason, message), no(DEGRADED, "AsExpected", message)]
