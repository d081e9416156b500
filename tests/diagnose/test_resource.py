"""Why a resource is not Ready: its spec, its references, its pods, its configuration."""

from __future__ import annotations

import json
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
from slurm_operator.diagnose.cause import Cause, Fine
from slurm_operator.diagnose.cluster import examine, passing
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


def test_a_worker_is_not_blamed_for_a_slurmctld_that_has_no_pod_yet() -> None:
    waits = condition("Ready", "False", "WaitingForPods", "slurmctld has not been created")
    facts = cluster(
        resource("Controller", "slurm", {}, waits),
        resource("NodeSet", "compute", {"replicas": 2}, condition("Ready", "False", "WorkersNotReady")),
        crashed("compute-0", labels.WORKER, "compute"),
        without=("slurm-controller-0",),
        logs={("compute-0", "slurmd"): ("error: resolve_ctls: Unable to resolve slurm-controller",)},
    )
    answer = explained(facts, "nodeset/compute")
    assert isinstance(answer, Cause)
    assert answer.code == "WaitingForPods"


def test_a_worker_that_does_not_find_slurmctld_is_told_what_is_wrong_with_that() -> None:
    facts = cluster(
        crashed("compute-0", labels.WORKER, "compute"),
        crashed("slurm-controller-0", labels.CONTROLLER, "slurm"),
        logs={
            ("compute-0", "slurmd"): ("error: resolve_ctls: Unable to resolve slurm-controller",),
            ("slurm-controller-0", "slurmctld"): ("error: write: No space left on device",),
        },
    )
    answer = explained(facts, "node/compute-0")
    assert isinstance(answer, Cause)
    assert answer.code == "DiskFull"


def test_a_nodeset_of_daemonset_mode_without_machines_says_which_ones_it_wants() -> None:
    spec = {"scalingMode": "DaemonSet", "template": {"spec": {"nodeSelector": {"gpu": "h100"}}}}
    answer = explained(cluster(resource("NodeSet", "metal", spec)), "nodeset/metal")
    assert isinstance(answer, Cause)
    assert (answer.code, answer.chosen) == ("NoNodeFits", True)
    assert "each Kubernetes node that has the labels gpu=h100" in answer.sentence
    assert answer.command == "kubectl get nodes --show-labels"


def test_a_slurmctld_that_does_not_answer_is_wrong_though_its_pod_is_ready() -> None:
    facts = cluster(slurm=Silence("scontrol has waited 20 s for it"))
    answer = explained(facts, "controller/slurm")
    assert isinstance(answer, Cause)
    assert answer.code == "SlurmSilent"
    assert [cause.code for cause in examine(facts)] == ["SlurmSilent"]


def test_a_slurmctld_outside_of_kubernetes_is_not_called_silent() -> None:
    facts = cluster(resource("Controller", "slurm", {"external": True}), slurm=Silence("it runs outside"))
    assert isinstance(explained(facts, "controller/slurm"), Fine)


def test_a_missing_rest_api_is_made_by_the_command_that_comes_next() -> None:
    unreachable = condition("SlurmReachable", "False", "RestApiMissing")
    nodeset = resource("NodeSet", "compute", {"replicas": 2}, condition("Ready", "Unknown"), unreachable)
    answer = explained(cluster(nodeset), "nodeset/compute")
    assert isinstance(answer, Cause)
    assert answer.code == "RestApiMissing"
    made = json.loads(answer.command.removeprefix("kubectl -n slurm apply -f - <<<").strip("'"))
    assert (made["kind"], made["spec"]) == ("RestApi", {"controllerRef": {"name": "slurm"}})


TRYING = condition("ConfigApplied", "False", "Trying", "the controller pods have been given configuration 5f2c")


@pytest.mark.parametrize(
    ("since", "wrong"), [("2026-11-17T11:59:56Z", False), ("2026-11-17T11:50:00Z", True)], ids=["for 4 s", "for 10 min"]
)
def test_a_configuration_under_trial_is_told_as_such_and_wrong_only_when_it_stays(since: str, wrong: bool) -> None:
    trying = {**TRYING, "lastTransitionTime": since}
    facts = replace(
        cluster(resource("Controller", "slurm", {}, condition("Ready", "True"), trying)), now="2026-11-17T12:00:00Z"
    )
    answer = explained(facts, "controller/slurm")
    assert isinstance(answer, Cause)
    assert f"is under trial since {since}" in answer.sentence
    assert answer.command == "kubectl -n slurm logs slurm-controller-0 -c reconfigure --tail=20"
    assert answer.wrong == wrong
    assert len(examine(facts)) == wrong
    assert len(passing(facts)) == 1 - wrong


FATAL = {("slurm-controller-0", "slurmctld"): ("fatal: failed to initialize job_submit plugin",)}
ENDED = crashed("slurm-controller-0", labels.CONTROLLER, "slurm")


def test_a_first_configuration_that_slurm_refuses_is_told_with_its_place() -> None:
    said = "Controller slurm spec.extraConf line 3: fatal: failed to initialize job_submit plugin"
    refused = condition("ConfigValid", "False", "SlurmRefused", said)
    facts = cluster(resource("Controller", "slurm", {}, condition("Ready", "False"), refused), ENDED, logs=FATAL)
    found = explained(facts, "controller/slurm")
    assert isinstance(found, Cause)
    assert "spec.extraConf line 3" in found.sentence
    assert found.command == "kubectl -n slurm edit controllers.slinky.slurm.net slurm"


def test_what_slurmctld_said_to_the_configuration_before_is_no_cause_while_a_new_one_is_tried() -> None:
    trial = condition("ConfigValid", "Unknown", "Trying", "configuration 10c91ee9049b is being tried by slurmctld")
    facts = cluster(resource("Controller", "slurm", {}, condition("Ready", "False"), trial), ENDED, logs=FATAL)
    found = explained(facts, "controller/slurm")
    assert isinstance(found, Cause)
    assert found.code == "Trying"
    assert not found.wrong
    assert "exited with the one before" in found.sentence


def test_a_slurmctld_that_exits_while_a_configuration_is_tried_did_not_exit_with_the_one_before() -> None:
    trial = condition("ConfigValid", "Unknown", "Trying", "configuration 10c91ee9049b is being tried by slurmctld")
    trial |= {"lastTransitionTime": "2026-11-17T12:00:00Z"}
    ended = crashed("slurm-controller-0", labels.CONTROLLER, "slurm", finishedAt="2026-11-17T12:00:30Z")
    facts = cluster(resource("Controller", "slurm", {}, condition("Ready", "False"), trial), ended, logs=FATAL)
    found = explained(replace(facts, now="2026-11-17T12:00:40Z"), "controller/slurm")
    assert isinstance(found, Cause)
    assert found.code == "ContainerFails"


def test_what_does_not_exist_is_not_to_be_edited() -> None:
    said = "Partition stray: there is no NodeSet 'nosuch' in this cluster; the partition is left out"
    refused = condition("Accepted", "False", "NodeSetNotFound", said)
    found = explained(cluster(resource("Partition", "stray", {}, refused)), "partition/stray")
    assert isinstance(found, Cause)
    assert found.command == "kubectl -n slurm edit partitions.slinky.slurm.net stray"


def test_a_fault_in_a_file_is_mended_in_its_config_map() -> None:
    said = "ConfigMap slurm-files cgroup.conf line 2: there is no Bogus"
    refused = condition("ConfigValid", "False", "LinterRefused", said)
    found = explained(cluster(resource("Controller", "slurm", {}, refused)), "controller/slurm")
    assert isinstance(found, Cause)
    assert found.command == "kubectl -n slurm edit configmap slurm-files"
