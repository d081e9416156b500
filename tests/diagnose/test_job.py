"""Why a job does not run."""

from __future__ import annotations

import pytest
from tests.diagnose.broken import (
    PARTITIONS,
    Case,
    cluster,
    explains,
    with_job,
)
from tests.diagnose.said import said

from slurm_operator.diagnose.facts import Facts, Slurm

CASES: dict[str, Case] = {
    "a job that is held": ("job/9", cluster(slurm=with_job("JobHeldUser")), "JobHeldUser"),
    "a job over a limit": ("9", cluster(slurm=with_job("QOSMaxJobsPerUserLimit")), "QOSMaxJobsPerUserLimit"),
    "a job that waits for busy nodes": ("job/9", cluster(slurm=with_job("Resources")), "Resources"),
    "a job that wants too many nodes": (
        "job/9",
        cluster(slurm=with_job("Resources", NumNodes="5")),
        "PartitionTooSmall",
    ),
    "a job in a partition that is down": (
        "job/9",
        cluster(
            slurm=Slurm(
                with_job("x").nodes,
                with_job("PartitionDown").jobs,
                said("", "", PARTITIONS.replace("UP", "DOWN")).partitions,
            )
        ),
        "PartitionNotUp",
    ),
    "a job that failed": ("job/9", cluster(slurm=with_job("NonZeroExitCode", JobState="FAILED")), "FAILED"),
}


@pytest.mark.parametrize(("target", "facts", "code"), CASES.values(), ids=CASES.keys())
def test_the_true_cause_is_named(target: str, facts: Facts, code: str) -> None:
    explains(target, facts, code)
