"""Why a partition takes no jobs."""

from __future__ import annotations

import pytest
from tests.diagnose.broken import (
    JOBS,
    NODES,
    PARTITIONS,
    Case,
    cluster,
    condition,
    explains,
    resource,
)
from tests.diagnose.said import said

from slurm_operator.diagnose.facts import Facts

CASES: dict[str, Case] = {
    "a partition that is drained on purpose": (
        "partition/debug",
        cluster(
            resource("Partition", "debug", {"partitionName": "compute", "state": "DRAIN"}),
            slurm=said(NODES, JOBS, PARTITIONS.replace("UP", "DRAIN")),
        ),
        "PartitionNotUp",
    ),
    "a name that another partition has": (
        "partition/debug",
        cluster(resource("Partition", "debug", {}, condition("Ready", "False", "NameTaken", "compute is taken"))),
        "NameTaken",
    ),
    "a partition whose nodes are all drained": (
        "partition/compute",
        cluster(slurm=said("NodeName=compute-0 State=IDLE+DRAIN Reason=x", "", PARTITIONS.replace("-[0-1]", "-0"))),
        "DrainedBySomebody",
    ),
    "an empty partition": (
        "partition/compute",
        cluster(slurm=said(NODES, "", "PartitionName=compute State=UP Nodes=(null)")),
        "PartitionEmpty",
    ),
}


@pytest.mark.parametrize(("target", "facts", "code"), CASES.values(), ids=CASES.keys())
def test_the_true_cause_is_named(target: str, facts: Facts, code: str) -> None:
    explains(target, facts, code)
