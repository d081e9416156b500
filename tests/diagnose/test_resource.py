"""Why a resource is not Ready: its spec, its references, its pods, its configuration."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.diagnose.broken import (
    LOST,
    Case,
    cluster,
    condition,
    crashed,
    event,
    explains,
    resource,
    sub_path,
)

from slurm_operator.build import labels
from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.cluster import examine, on_trial
from slurm_operator.diagnose.facts import Facts, Silence

CASES: dict[str, Case] = {
    "a name that does not resolve": (
        "nodeset/compute",
        cluster(
            slurm=LOST, logs={("compute-0", "slurmd"): ("error: resolve_ctls: Unable to resolve slurm-controller",)}
        ),
        "NameNotResolved",
    ),
    "a full disk": (
        "controller/slurm",
        cluster(
            crashed("slurm-controller-0", labels.CONTROLLER, "slurm"),
            logs={("slurm-controller-0", "slurmctld"): ("error: write: No space left on device",)},
        ),
        "DiskFull",
    ),
    "slurmctld that dies, seen from a node set": (
        "nodeset/compute",
        cluster(
            crashed("slurm-controller-0", labels.CONTROLLER, "slurm"),
            resource("NodeSet", "compute", {"replicas": 2}, condition("Ready", "Unknown", "SlurmUnreachable")),
            slurm=Silence("connection refused"),
            logs={("slurm-controller-0", "slurmctld"): ("fatal: Incompatible state files",)},
        ),
        "ContainerFails",
    ),
    "a bad spec": (
        "nodeset/compute",
        cluster(resource("NodeSet", "compute", {}, condition("Ready", "False", "InvalidSpec", "spec.replicas: no"))),
        "InvalidSpec",
    ),
    "a Controller that is not there": ("nodeset/compute", cluster(without=("slurm",)), "ReferenceNotFound"),
    "no operator": ("nodeset/compute", cluster({**resource("NodeSet", "compute"), "status": {}}), "OperatorAbsent"),
    "scaled to zero": (
        "nodeset/compute",
        cluster(resource("NodeSet", "compute", {"replicas": 0}), without=("compute-0", "compute-1")),
        "ScaledToZero",
    ),
    "pods that Kubernetes refuses": (
        "nodeset/compute",
        cluster(event("NodeSet", "compute", "FailedCreate", "exceeded quota"), without=("compute-0", "compute-1")),
        "PodRefused",
    ),
    "a configuration that Slurm refuses": (
        "controller/slurm",
        cluster(
            resource(
                "Controller",
                "slurm",
                {},
                condition("Ready", "True"),
                condition("ConfigValid", "False", "SlurmRefused", "line 3"),
            )
        ),
        "SlurmRefused",
    ),
    "a subPath mount": ("controller/slurm", cluster(sub_path()), "SubPathMount"),
    "a NodeSet without a RestApi": (
        "nodeset/compute",
        cluster(
            resource(
                "NodeSet",
                "compute",
                {"replicas": 2},
                condition("Ready", "Unknown", "SlurmUnreachable"),
                condition("SlurmReachable", "Unknown", "SlurmUnreachable"),
            )
        ),
        "RestApiMissing",
    ),
}


@pytest.mark.parametrize(("target", "facts", "code"), CASES.values(), ids=CASES.keys())
def test_the_true_cause_is_named(target: str, facts: Facts, code: str) -> None:
    explains(target, facts, code)


@pytest.mark.parametrize(
    ("now", "code"),
    [("2026-11-16T00:00:02+00:00", "JustChanged"), ("2026-11-16T00:01:00+00:00", "OperatorAbsent")],
    ids=["a moment ago", "a minute ago"],
)
def test_an_operator_has_a_moment_to_look(now: str, code: str) -> None:
    changed = {**resource("NodeSet", "compute"), "status": {}}
    changed["metadata"]["managedFields"] = [{"time": "2026-11-16T00:00:00Z"}]
    answer = explained(replace(cluster(changed), now=now), "nodeset/compute")
    assert isinstance(answer, Cause)
    assert answer.code == code


TRIED = {
    **condition("ConfigApplied", "False", "Trying", "the controller pods have been given configuration 4f1c"),
    "lastTransitionTime": "2026-11-16T00:00:00Z",
}


@pytest.mark.parametrize(
    ("now", "code", "wrong"),
    [("2026-11-16T00:00:07+00:00", "ConfigOnTrial", 0), ("2026-11-16T00:02:00+00:00", "Trying", 1)],
    ids=["for seconds", "for minutes"],
)
def test_a_configuration_under_trial_is_nothing_wrong_before_a_minute(now: str, code: str, wrong: int) -> None:
    facts = replace(cluster(resource("Controller", "slurm", {}, condition("Ready", "True"), TRIED)), now=now)
    answer = explained(facts, "controller/slurm")
    assert isinstance(answer, Cause)
    assert (answer.code, len(examine(facts))) == (code, wrong)
    assert on_trial(facts) == ([answer.sentence] if code == "ConfigOnTrial" else [])
    if code == "ConfigOnTrial":
        assert "is being tried since 7 s" in answer.sentence
