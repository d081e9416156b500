"""Why a Slurm node takes no jobs: drained, lost, refused, silent, or without a slurmctld to ask."""

from __future__ import annotations

import pytest
from tests.diagnose.broken import (
    ANNOTATED,
    BAD_KEY,
    CORDONED,
    LOST,
    OURS,
    Case,
    cluster,
    condition,
    crashed,
    explains,
    pod,
    with_node,
)

from slurm_operator.build import labels
from slurm_operator.diagnose.facts import Facts, Silence

UNRESOLVED = {("compute-0", "slurmd"): ("error: resolve_ctls: Unable to resolve slurm-controller",)}
BEFORE_SLURMCTLD = cluster(
    crashed("compute-0", labels.WORKER, "compute"),
    slurm=Silence("it has no pod"),
    logs=UNRESOLVED,
    without=("slurm-controller-0",),
)
CASES: dict[str, Case] = {
    "a wrong key": (
        "node/compute-0",
        cluster(crashed("compute-0", labels.WORKER, "compute"), logs=BAD_KEY),
        "KeyMismatch",
    ),
    "a wrong key, pod ready": ("node/compute-0", cluster(slurm=LOST, logs=BAD_KEY), "KeyMismatch"),
    "not registered": ("node/compute-0", cluster(slurm=LOST), "NotRegistered"),
    "slurmctld that dies, seen from a node": (
        "node/compute-0",
        cluster(crashed("slurm-controller-0", labels.CONTROLLER, "slurm"), slurm=Silence("no answer")),
        "ContainerFails",
    ),
    "a worker that was started before its slurmctld has a pod": (
        "node/compute-0",
        BEFORE_SLURMCTLD,
        "Starting",
    ),
    "a NodeSet whose worker was started before its slurmctld has a pod": (
        "nodeset/compute",
        BEFORE_SLURMCTLD,
        "Starting",
    ),
    "a NodeSet whose worker finds no slurmctld between two starts of it": (
        "nodeset/compute",
        cluster(
            crashed("compute-0", labels.WORKER, "compute"),
            pod(
                "slurm-controller-0",
                labels.CONTROLLER,
                "slurm",
                conditions=[condition("PodScheduled", "True"), condition("Ready", "False")],
                containerStatuses=[{"name": "slurmctld", "ready": False, "state": {"running": {}}}],
            ),
            slurm=Silence("no answer"),
            logs=UNRESOLVED,
        ),
        "Starting",
    ),
    "a worker that finds no name, while slurmctld is well": (
        "node/compute-0",
        cluster(crashed("compute-0", labels.WORKER, "compute"), logs=UNRESOLVED),
        "NameNotResolved",
    ),
    "a drain by hand": ("node/compute-0", cluster(slurm=with_node("IDLE+DRAIN", "bad disk")), "DrainedBySomebody"),
    "a cordoned machine": (
        "node/compute-0",
        cluster(CORDONED, slurm=with_node("IDLE+DRAIN", OURS)),
        "KubernetesNodeCordoned",
    ),
    "a cordoned pod": ("node/compute-0", cluster(ANNOTATED, slurm=with_node("IDLE+DRAIN", OURS)), "PodCordoned"),
    "a scale-in": ("node/compute-0", cluster(slurm=with_node("MIXED+DRAIN", "slurm-operator: scale-in")), "GoingAway"),
    "a refused registration": (
        "node/compute-0",
        cluster(slurm=with_node("IDLE+INVALID_REG", "Low RealMemory")),
        "RegistrationRefused",
    ),
    "a refused registration, drained by slurmctld": (
        "node/compute-0",
        cluster(slurm=with_node("IDLE+DRAIN+INVALID_REG", "gres/gpu count reported lower than configured (0 < 2)")),
        "RegistrationRefused",
    ),
    "a slurmd that is silent": (
        "node/compute-0",
        cluster(slurm=with_node("DOWN+NOT_RESPONDING", "Not responding")),
        "NotResponding",
    ),
    "a node that somebody set down": (
        "node/compute-0",
        cluster(slurm=with_node("DOWN", "replacing psu")),
        "SetDown",
    ),
    "a node that came back by itself": (
        "node/compute-0",
        cluster(slurm=with_node("DOWN", "Node unexpectedly rebooted")),
        "Restarted",
    ),
    "a drain by Slurm": ("node/compute-0", cluster(slurm=with_node("IDLE+DRAIN", "Prolog error")), "DrainedBySlurm"),
    "a drain after a job that cannot be killed": (
        "node/compute-0",
        cluster(slurm=with_node("IDLE+DRAIN", "Kill task failed")),
        "DrainedBySlurm",
    ),
    "a node in a reservation": ("node/compute-0", cluster(slurm=with_node("IDLE+RESERVED")), "Reserved"),
    "a node that is restarted": ("node/compute-0", cluster(slurm=with_node("IDLE+REBOOT_REQUESTED")), "PowerState"),
    "a record without a pod": (
        "node/compute-0",
        cluster(slurm=with_node("DOWN+NOT_RESPONDING"), without=("compute-0",)),
        "PodGone",
    ),
}


@pytest.mark.parametrize(("target", "facts", "code"), CASES.values(), ids=CASES.keys())
def test_the_true_cause_is_named(target: str, facts: Facts, code: str) -> None:
    explains(target, facts, code)
