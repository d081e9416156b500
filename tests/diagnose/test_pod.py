"""Why a pod is not well: its claims, images, secrets, volumes, containers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.diagnose.broken import (
    Case,
    claimed,
    cluster,
    condition,
    crashed,
    event,
    explains,
    pod,
    started_anew,
    waiting,
)

from slurm_operator.build import labels
from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Silence

CASES: dict[str, Case] = {
    "a claim of a storage class that is not there": (
        "pod/compute-0",
        cluster(*claimed("Pending", "fast")),
        "StorageClassMissing",
    ),
    "a claim that is not there": ("pod/compute-0", cluster(claimed("Pending", "")[1]), "ClaimMissing"),
    "an image that is not there": (
        "compute-0",
        cluster(waiting("compute-0", "ImagePullBackOff", "not found")),
        "ImageNotPulled",
    ),
    "a Secret that is not there": (
        "compute-0",
        cluster(waiting("compute-0", "CreateContainerConfigError", 'secret "x" not found')),
        "SecretMissing",
    ),
    "a volume that cannot be mounted": (
        "compute-0",
        cluster(
            waiting("compute-0", "ContainerCreating"),
            event("Pod", "compute-0", "FailedMount", "server 10.0.0.9 timed out"),
        ),
        "VolumeNotMounted",
    ),
    "out of memory": (
        "compute-0",
        cluster(crashed("compute-0", labels.WORKER, "compute", reason="OOMKilled")),
        "OutOfMemory",
    ),
    "out of memory, and started anew": (
        "compute-0",
        cluster(
            started_anew(crashed("compute-0", labels.WORKER, "compute", reason="OOMKilled")),
            event("Pod", "compute-0", "Unhealthy", "Startup probe failed: connection refused"),
        ),
        "OutOfMemory",
    ),
    "a slurmd that ends again and again, and was started anew": (
        "compute-0",
        cluster(
            started_anew(crashed("compute-0", labels.WORKER, "compute")),
            event("Pod", "compute-0", "Unhealthy", "Startup probe failed: connection refused"),
        ),
        "ContainerFails",
    ),
    "a slurmd that reads no configuration": (
        "compute-0",
        cluster(
            crashed("compute-0", labels.WORKER, "compute"),
            logs={("compute-0", "slurmd"): ("fatal: Unable to process configuration file",)},
        ),
        "ConfigurationUnreadable",
    ),
    "a command that is not there": (
        "compute-0",
        cluster(crashed("compute-0", labels.WORKER, "compute", exitCode=128, reason="StartError", message="exec: /x")),
        "ContainerNotMade",
    ),
}


@pytest.mark.parametrize(("target", "facts", "code"), CASES.values(), ids=CASES.keys())
def test_the_true_cause_is_named(target: str, facts: Facts, code: str) -> None:
    explains(target, facts, code)


@pytest.mark.parametrize(
    ("now", "code"),
    [("2026-11-16T00:00:20Z", "Starting"), ("2026-11-16T00:05:00Z", "ProbeFails")],
    ids=["20 s", "5 min"],
)
def test_a_probe_that_fails_is_no_fault_of_a_container_that_was_just_started(now: str, code: str) -> None:
    status = {"name": "slurmd", "ready": False, "state": {"running": {"startedAt": "2026-11-16T00:00:00Z"}}}
    unready = [condition("PodScheduled", "True"), condition("Ready", "False")]
    started = pod("compute-0", labels.WORKER, "compute", conditions=unready, containerStatuses=[status])
    refused = event("Pod", "compute-0", "Unhealthy", "Startup probe failed: connection refused")
    answer = explained(replace(cluster(started, refused), now=now), "pod/compute-0")
    assert isinstance(answer, Cause)
    assert (answer.code, answer.waits) == (code, code == "Starting")
    assert "Startup probe failed: connection refused" in answer.sentence


@pytest.mark.parametrize(
    ("message", "unready_since", "code"),
    [
        ("Readiness probe failed: context deadline exceeded", "00:00:21", "NotAnswering"),
        ("Readiness probe failed: exit 1", "00:00:21", "ProbeFails"),
        ("", "00:00:21", "ProbeFails"),
        ("", "00:00:00", "Starting"),
        ("Startup probe failed: timeout", "00:00:01", "Starting"),
    ],
    ids=["it hangs", "it fails", "no event", "never ready", "never ready, and its probe times out"],
)
def test_a_container_that_was_ready_before_is_not_starting(message: str, unready_since: str, code: str) -> None:
    status = {"name": "slurmctld", "ready": False, "state": {"running": {"startedAt": "2026-11-16T00:00:00Z"}}}
    unready = {**condition("Ready", "False"), "lastTransitionTime": f"2026-11-16T{unready_since}Z"}
    hung = pod("slurm-controller-0", labels.CONTROLLER, "slurm", conditions=[unready], containerStatuses=[status])
    events = [event("Pod", "slurm-controller-0", "Unhealthy", message)] if message else []
    answer = explained(replace(cluster(hung, *events), now="2026-11-16T00:00:25Z"), "controller/slurm")
    assert isinstance(answer, Cause)
    assert (answer.code, answer.waits) == (code, code == "Starting")


def test_a_container_whose_startup_probe_has_not_succeeded_was_never_ready() -> None:
    running = {"running": {"startedAt": "2026-11-16T00:00:00Z"}}
    status = {"name": "slurmctld", "ready": False, "started": False, "state": running}
    unready = {**condition("Ready", "False"), "lastTransitionTime": "2026-11-16T00:00:10Z"}
    late = pod("slurm-controller-0", labels.CONTROLLER, "slurm", conditions=[unready], containerStatuses=[status])
    answer = explained(replace(cluster(late), now="2026-11-16T00:00:25Z"), "controller/slurm")
    assert isinstance(answer, Cause)
    assert (answer.code, answer.waits) == ("Starting", True)


def test_a_probe_that_fails_again_and_again_is_a_fault_also_of_a_container_that_was_just_started() -> None:
    running = {"running": {"startedAt": "2026-11-16T00:00:00Z"}}
    killed = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    status = {"name": "slurmd", "ready": False, "restartCount": 4, "state": running, "lastState": killed}
    unready = [condition("PodScheduled", "True"), condition("Ready", "False")]
    started = pod("compute-0", labels.WORKER, "compute", conditions=unready, containerStatuses=[status])
    refused = event("Pod", "compute-0", "Unhealthy", "Liveness probe failed: connection refused")
    answer = explained(replace(cluster(started, refused), now="2026-11-16T00:00:20Z"), "pod/compute-0")
    assert isinstance(answer, Cause)
    assert (answer.code, answer.waits) == ("ProbeFails", False)


@pytest.mark.parametrize(
    ("component", "limits", "sentence", "command"),
    [
        (labels.WORKER, {"memory": "64Mi"}, "its limit of 64Mi", "edit nodesets.slinky.slurm.net compute"),
        (labels.WORKER, {}, "its limit", "edit nodesets.slinky.slurm.net compute"),
        (labels.CONTROLLER, {"memory": "1Gi"}, "its limit of 1Gi", "edit controllers.slinky.slurm.net compute"),
    ],
    ids=["a worker", "a limit of the namespace", "slurmctld"],
)
def test_a_container_without_memory_is_told_with_its_limit_and_where_that_is_set(
    component: labels.Component, limits: dict[str, str], sentence: str, command: str
) -> None:
    starved = crashed("p-0", component, "compute", reason="OOMKilled")
    starved["spec"]["containers"] = [{"name": component.daemon, "resources": {"limits": limits}}]
    answer = explained(cluster(starved), "pod/p-0")
    assert isinstance(answer, Cause)
    assert answer.sentence.endswith(f"used more memory than {sentence}")
    assert answer.command == f"kubectl -n slurm {command}"


def test_a_secret_that_has_been_made_since_is_not_called_missing() -> None:
    late = waiting("compute-0", "CreateContainerConfigError", 'secret "keys" not found')
    facts = cluster(late)
    found = explained(facts, "pod/compute-0")
    assert isinstance(found, Cause)
    assert found.code == "SecretMissing"
    found = explained(replace(facts, secrets={"keys": {}}), "pod/compute-0")
    assert isinstance(found, Cause)
    assert found.waits
    assert "which is there now" in found.sentence


def test_an_image_is_told_for_the_daemon_though_its_sidecar_needs_it_first() -> None:
    status = {"name": "logfile", "image": "x:1", "ready": False, "state": {"waiting": {"reason": "ErrImagePull"}}}
    spec = {"initContainers": [{"name": "logfile", "image": "x:1"}], "containers": [{"name": "slurmd", "image": "x:1"}]}
    broken = pod("compute-0", labels.WORKER, "compute", spec, phase="Pending", initContainerStatuses=[status])
    found = explained(cluster({**broken, "status": {**broken["status"], "conditions": []}}), "pod/compute-0")
    assert isinstance(found, Cause)
    assert "the image x:1 of containers slurmd and logfile cannot be pulled" in found.sentence


def test_a_container_that_was_killed_and_started_again_does_not_keep_exiting() -> None:
    """The kubelet kills one that hangs; its last line has nothing to do with that."""
    killed = started_anew(crashed("compute-0", labels.WORKER, "compute", exitCode=137))
    killed["status"]["containerStatuses"][0]["restartCount"] = 5
    answer = explained(cluster(killed), "pod/compute-0")
    assert not (isinstance(answer, Cause) and answer.code == "ContainerFails")


def test_what_a_container_said_before_it_was_killed_is_no_cause() -> None:
    killed = crashed("slurm-controller-0", labels.CONTROLLER, "slurm", exitCode=137)
    logs = {("slurm-controller-0", "slurmctld"): ("error: Invalid partition (twins) for JobId=56",)}
    answer = explained(cluster(killed, logs=logs), "pod/slurm-controller-0")
    assert isinstance(answer, Cause)
    assert answer.code == "NotAnswering"
    assert "twins" not in answer.sentence


@pytest.mark.parametrize(("now", "code"), [("12:00:20", "ContainerFails"), ("12:05:00", "SlurmSilent")])
def test_a_slurmctld_that_runs_between_two_exits_is_why_it_does_not_answer(now: str, code: str) -> None:
    ended = crashed("slurm-controller-0", labels.CONTROLLER, "slurm", finishedAt="2026-11-17T12:00:10Z")
    status = ended["status"]["containerStatuses"][0]
    status |= {"ready": True, "restartCount": 1, "state": {"running": {}}}
    ended["status"]["conditions"] = [condition("Ready", "True")]
    facts = replace(cluster(ended, slurm=Silence("no answer")), now=f"2026-11-17T{now}Z")
    explains("node/compute-0", facts, code)


def test_what_a_container_that_hangs_said_before_is_no_cause() -> None:
    status = {"name": "slurmctld", "ready": False, "restartCount": 0, "state": {"running": {}}}
    hanging = pod(
        *("slurm-controller-0", labels.CONTROLLER, "slurm"),
        conditions=[condition("PodScheduled", "True"), condition("Ready", "False")],
        containerStatuses=[status],
    )
    late = event("Pod", "slurm-controller-0", "Unhealthy", "Readiness probe failed: context deadline exceeded")
    logs = {("slurm-controller-0", "slurmctld"): ("error: resolve_ctls: Unable to resolve slurm-accounting",)}
    explains("pod/slurm-controller-0", cluster(hanging, late, logs=logs), "NotAnswering")
