"""A rotation of the auth/slurm key: all are told what it waits for, until when, and what would shorten it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
import pytest
from tests.diagnose.broken import PARTITIONS, cluster, condition, pod, resource
from tests.diagnose.said import said

from slurm_operator.build import labels
from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.cli.kubectl.view import overview
from slurm_operator.cli.kubectl.wait import in_the_way
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.cluster import examine, passing
from slurm_operator.diagnose.facts import Facts, Silence, Slurm

BUSY = (
    "the key in Secret 'slurm-auth' has changed; workers are drained before slurmctld gets it: 1 of 2 workers is free, "
    "compute-0 is not; to go on now and lose their jobs, annotate Controller slurm with "
    "slinky.slurm.net/force-key-rotation=abc"
)
REASON = "slurm-operator: Pod of NodeSet (compute) is pending termination for key rotation"
JOB = (
    "JobId=57 JobName=train UserId=alice(1000) JobState=RUNNING Partition=compute NodeList=compute-0 NumNodes=1 "
    "Requeue=1 EndTime=2026-11-17T12:30:00"
)
RESTARTS = {"name": "slurmctld", "ready": False, "state": {"waiting": {"reason": "PodInitializing"}}}


def drained(job: str = JOB) -> Slurm:
    nodes = "\n".join(f"NodeName=compute-{number} State=IDLE+DRAIN Reason={REASON}" for number in (0, 1))
    return said(nodes, job, PARTITIONS)


def rotating(*changed: dict[str, Any], slurm: Slurm | Silence | None = None) -> Facts:
    ready = condition("Ready", "True", "AllReady")
    controller = resource("Controller", "slurm", {}, ready, condition("Progressing", "True", "KeyRotation", BUSY))
    waits = condition("Ready", "False", "WorkersNotReady", "2 workers wait to be removed")
    compute = resource("NodeSet", "compute", {"replicas": 2}, waits)
    login = resource("LoginSet", "login", {"replicas": 0}, ready, condition("Progressing", "True", "KeyRotation", BUSY))
    made = cluster(controller, compute, login, *changed, slurm=slurm or drained())
    return replace(made, now="2026-11-17T12:00:00Z")


def test_a_rotation_is_told_once_and_is_not_wrong() -> None:
    facts = rotating()
    assert examine(facts) == []
    (cause,) = passing(facts)
    assert cause.code == "KeyRotation"
    assert (
        "1 of 2 workers is free, compute-0 is not; it waits for job 57 of alice on compute-0, until " in cause.sentence
    )
    assert "more like it" not in cause.sentence
    assert "Requeuing job 57 would shorten it" in cause.sentence
    assert cause.sentence.endswith("force-key-rotation=abc")
    assert cause.command == "kubectl slurm -n slurm shell -- scontrol requeue 57"


def test_status_lists_it_and_wait_waits_for_it() -> None:
    facts = rotating()
    shown = click.unstyle(overview(facts, examine(facts), passing(facts)))
    assert "nothing is wrong\n1 in progress\n  .. Controller slurm gets a new auth/slurm key: " in shown
    assert [each.sentence for each in in_the_way(facts, "")] == [each.sentence for each in passing(facts)]


@pytest.mark.parametrize(
    ("host", "does"), [("compute-0", "runs job 57 of alice"), ("compute-1", "runs no job")], ids=["busy", "free"]
)
def test_each_worker_names_the_rotation_and_what_holds_it_up(host: str, does: str) -> None:
    answer = explained(rotating(), host)
    assert isinstance(answer, Cause)
    assert answer.waits
    assert answer.trail[-1] == f"node {host} is drained by the operator for key rotation, and {does}"
    assert "it waits for job 57 of alice on compute-0" in answer.sentence
    assert "goes next" not in answer.sentence
    assert answer.command == "kubectl slurm -n slurm shell -- scontrol requeue 57"


def test_a_job_that_cannot_be_requeued_is_only_looked_at() -> None:
    (cause,) = passing(rotating(slurm=drained(JOB.replace("Requeue=1", "Requeue=0"))))
    assert "Only scancel 57 would shorten it, and the job would be lost" in cause.sentence
    assert cause.command == "kubectl slurm -n slurm shell -- squeue -j 57"


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        ("compute-1", "kubectl slurm -n slurm why pod/compute-0"),
        ("compute-0", "kubectl slurm -n slurm shell -- scontrol show node compute-0"),
    ],
    ids=["another worker", "the one that is not free"],
)
def test_without_a_job_the_command_leads_on_and_never_to_itself(asked: str, command: str) -> None:
    answer = explained(rotating(slurm=drained("")), asked)
    assert isinstance(answer, Cause)
    assert answer.command == command


def with_keys(*conditions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Past the drain: slurmctld's StatefulSet has the new key, the workers the old one."""
    key = {"annotations": {labels.SLURM_KEY_HASH: "new"}}
    stateful = {
        "kind": "StatefulSet",
        "metadata": {"name": "slurm-controller", "labels": labels.of(labels.CONTROLLER, "slurm")},
        "spec": {"template": {"metadata": key}},
    }
    workers = [pod(f"compute-{number}", labels.WORKER, "compute") for number in (0, 1)]
    for worker in workers:
        worker["metadata"]["annotations"] = {labels.SLURM_KEY_HASH: "old"}
    return stateful, *workers, resource("Controller", "slurm", {}, *conditions)


def test_the_rest_of_a_rotation_is_told_too() -> None:
    facts = rotating(*with_keys(), slurm=drained(""))
    (cause,) = passing(facts)
    assert cause.sentence.endswith("slurmctld was given it, and 0 of 2 workers are recreated with it")
    answer = explained(facts, "compute-1")
    assert isinstance(answer, Cause)
    assert answer.sentence == cause.sentence


def test_a_slurmctld_that_is_restarted_for_it_is_being_started() -> None:
    unready = condition("Ready", "False", "ContainersNotReady")
    restarted = pod("slurm-controller-0", labels.CONTROLLER, "slurm")
    restarted["status"] = {"phase": "Pending", "conditions": [unready], "containerStatuses": [RESTARTS]}
    restarted["metadata"]["creationTimestamp"] = "2026-11-17T11:59:50Z"
    facts = rotating(*with_keys(), restarted, slurm=Silence("exec pods/exec: 400 instead of a websocket"))
    assert examine(facts) == []
    (cause,) = passing(facts)
    begins = "container slurmctld of pod slurm-controller-0 is being started (PodInitializing); Controller slurm gets a"
    assert cause.sentence.startswith(begins)
    assert "websocket" not in cause.sentence
    assert len(examine(replace(facts, now="2026-11-17T12:10:00Z"))) == 1


def test_a_slurmctld_that_hangs_meanwhile_is_not_hidden() -> None:
    held = condition("ConfigValid", "Unknown", "KeyRotation", "it waits")
    progressing = condition("Progressing", "True", "KeyRotation", BUSY)
    ready = condition("Ready", "True", "AllReady")
    controller = resource("Controller", "slurm", {}, ready, held, progressing)
    found = examine(rotating(controller, slurm=Silence("scontrol did not answer within 20 s")))
    assert [each.code for each in found] == ["SlurmSilent"]
