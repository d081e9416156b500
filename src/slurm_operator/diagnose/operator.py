"""Whether the operator has reconciled a resource's last change, and if it has not, whether it is at work at all.

In: facts, a kind and a resource. Out: a cause, or None when it has. What the operator writes bears its name and the
time, in any object of the namespace: one that wrote after the change is only busy. Used by `diagnose/resource.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Object, age_seconds, name_of, seconds_since, status_of
from slurm_operator.program import FIELD_MANAGER

# It reconciles within milliseconds: this is long for the operator, and short for a person who asks.
OPERATOR_SECONDS = 5.0
# A busy operator gets to everything within this time, and keeps writing meanwhile.
BUSY_SECONDS = 120.0
SILENT_SECONDS = 30.0
UNSEEN = frozenset({"JustChanged", "OperatorBehind", "OperatorAbsent"})


def why(facts: Facts, kind: str, resource: Object) -> Cause | None:
    """Why a resource's status is old."""
    generation = (resource.get("metadata") or {}).get("generation")
    seen = status_of(resource).get("observedGeneration")
    if seen is not None and (generation is None or int(seen) >= int(generation)):
        return None
    changed = seconds_since(facts, resource)
    wrote = min(_writes(facts), default=None)
    at_work = changed is not None and wrote is not None and wrote < min(changed, SILENT_SECONDS)
    if changed is not None and changed < (BUSY_SECONDS if at_work else OPERATOR_SECONDS):
        return _just_changed(facts, kind, resource, changed)
    step = f"{kind} {name_of(resource)} has generation {generation}, and the operator has seen {seen or 'none'}"
    look = "kubectl get pods -A -l app.kubernetes.io/name=slurm-operator"
    if at_work:
        return Cause(
            "OperatorBehind",
            f"the operator wrote something {wrote or 0:.0f} s ago, and has not reconciled the change of "
            f"{kind} {name_of(resource)} for {changed:.0f} s: it has too much to do, or fails at it",
            look,
            (step,),
            root="operator",
        )
    state = "has never reconciled it" if seen is None else "has not reconciled its last change"
    return Cause(
        "OperatorAbsent",
        f"the operator {state}: it does not run, or does not watch namespace {facts.namespace}",
        look,
        (step,),
        root="operator",
    )


def _just_changed(facts: Facts, kind: str, resource: Object, changed: float) -> Cause:
    return Cause(
        "JustChanged",
        f"{kind} {name_of(resource)} changed {max(changed, 0):.0f} s ago, and the operator has not reconciled it yet",
        f"kubectl -n {facts.namespace} describe {kind.lower()} {name_of(resource)}",
        waits=True,
    )


def _writes(facts: Facts) -> Iterator[float]:
    """How long ago the operator wrote each thing that it has written."""
    for items in facts.objects.values():
        for item in items.values():
            for entry in (item.get("metadata") or {}).get("managedFields") or ():
                age = age_seconds(facts, entry.get("time")) if entry.get("manager") == FIELD_MANAGER else None
                if age is not None:
                    yield age
