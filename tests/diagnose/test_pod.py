"""Why a pod is not well: its claims, images, secrets, volumes, containers."""

from __future__ import annotations

import pytest
from tests.diagnose.broken import (
    Case,
    claimed,
    cluster,
    crashed,
    event,
    explains,
    started_anew,
    waiting,
)

from slurm_operator.build import labels
from slurm_operator.diagnose.facts import Facts

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
