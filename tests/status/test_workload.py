"""Readiness of daemons that Kubernetes keeps running: Ready only when the newest ones are."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_operator.api.problem import FieldProblem
from slurm_operator.status import workload
from slurm_operator.status.conditions import ConditionDraft


def said(found: list[ConditionDraft]) -> dict[str, tuple[str, str]]:
    return {each.type: (each.truth.value, each.reason) for each in found}


def deployment(**status: int) -> dict[str, Any]:
    return {"metadata": {"generation": 3}, "spec": {"replicas": 2}, "status": {"observedGeneration": 3, **status}}


@pytest.mark.parametrize(
    ("live", "ready", "progressing"),
    [
        (None, ("False", "NotCreatedYet"), "True"),
        (deployment(observedGeneration=2, updatedReplicas=2, readyReplicas=2), ("False", "RolloutNotSeen"), "True"),
        (deployment(updatedReplicas=1, readyReplicas=2), ("False", "RollingOut"), "True"),
        (deployment(updatedReplicas=2, readyReplicas=1), ("False", "WaitingForPods"), "True"),
        (deployment(updatedReplicas=2, readyReplicas=2), ("True", "AllReady"), "False"),
    ],
    ids=["not made yet", "not seen yet", "old pods", "not ready", "ready"],
)
def test_ready_is_said_when_the_newest_pods_are(
    live: dict[str, Any] | None, ready: tuple[str, str], progressing: str
) -> None:
    found = said(workload.rollout("slurmctld", live, {}))
    assert found["Ready"] == ready
    assert found["Progressing"][0] == progressing
    assert found["Degraded"] == ("False", "AsExpected")


@pytest.mark.parametrize(
    ("found", "ready"),
    [
        (workload.elsewhere("slurmctld"), "True"),
        (workload.refused([FieldProblem(("spec", "a"), "no")]), "False"),
        (workload.blocked("NameTaken", "somebody has it"), "False"),
        (workload.failed("SlurmUnreachable", "no answer"), "Unknown"),
        (workload.fault("f00", "KeyError"), "Unknown"),
    ],
    ids=["outside Kubernetes", "refused", "blocked", "failed", "fault"],
)
def test_what_could_not_be_done_is_never_called_ready(found: list[ConditionDraft], ready: str) -> None:
    conditions = said(found)
    assert conditions["Ready"][0] == ready
    assert conditions["Degraded"][0] == ("False" if ready == "True" else "True")


def test_a_fault_names_where_to_look() -> None:
    assert all("fault f00" in each.message for each in workload.fault("f00", "KeyError") if each.type != "Progressing")


def needing(**spec: Any) -> dict[str, Any]:
    made = deployment(updatedReplicas=2, readyReplicas=1)
    return {**made, "spec": {**made["spec"], "template": {"spec": spec}}}


def projected(name: str, *keys: str, **more: object) -> dict[str, Any]:
    source = {"name": name, "items": [{"key": key, "path": key} for key in keys], **more}
    return {"volumes": [{"name": "etc", "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": source}]}}]}


def env(**ref: object) -> dict[str, Any]:
    return {"containers": [{"name": "c", "env": [{"name": "P", "valueFrom": {"secretKeyRef": ref}}]}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(projected("keys", "slurm.key"), "", id="there"),
        pytest.param(projected("none", "slurm.key"), "Secret 'none' does not exist", id="a projected Secret"),
        pytest.param(projected("keys", "jwt.key"), "Secret 'keys' has no key 'jwt.key'", id="a key of it"),
        pytest.param(projected("none", "slurm.key", optional=True), "", id="one that it can do without"),
        pytest.param({"volumes": [{"secret": {"secretName": "none"}}]}, "Secret 'none' does not exist", id="a volume"),
        pytest.param(env(name="none", key="p"), "Secret 'none' does not exist", id="a variable"),
        pytest.param({"initContainers": [{"envFrom": [{"secretRef": {"name": "none"}}]}]}, "Secret 'none'", id="all"),
    ],
)
def test_the_secret_that_keeps_pods_from_starting_is_named(spec: dict[str, Any], expected: str) -> None:
    found = workload.missing_secret(needing(**spec), {"keys": {"slurm.key": b"x"}})
    assert found.startswith(expected) if expected else found == ""


def test_a_missing_secret_is_the_cause_and_not_the_waiting() -> None:
    found = workload.rollout("slurmctld", needing(**projected("none", "slurm.key")), {})
    assert said(found)["Ready"] == ("False", "ReferenceNotFound")
    assert said(found)["Degraded"] == ("True", "ReferenceNotFound")
    assert found[0].message == "Secret 'none' does not exist, and slurmctld pods cannot start without it: create it"


def test_pods_that_still_run_without_it_are_ready_and_in_danger() -> None:
    ready = {
        **needing(**projected("none", "slurm.key")),
        "status": deployment(updatedReplicas=2, readyReplicas=2)["status"],
    }
    found = said(workload.rollout("slurmctld", ready, {}))
    assert found["Ready"] == ("True", "AllReady")
    assert found["Degraded"] == ("True", "ReferenceNotFound")
