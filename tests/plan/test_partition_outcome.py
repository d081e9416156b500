"""What is left for a Partition to report: how full it is, what is on its way, and when nothing is left of it."""

from __future__ import annotations

import pytest

from slurm_operator.api.meta import ControllerRef, ObjectMeta
from slurm_operator.api.partition import Partition as Resource
from slurm_operator.api.partition import PartitionSpec
from slurm_operator.build.partition import Acceptance
from slurm_operator.plan.partition import PartitionWorld, declared, jobs_by_partition
from slurm_operator.plan.partition_memory import PartitionMemory
from slurm_operator.plan.partition_outcome import OutcomeWorld, counts, partition_outcomes, usage
from slurm_operator.slurm.model import Job, Node, Partition, SlurmList, Unknown

UP = Partition(name="p", states=frozenset({"UP"}), total_nodes=3)


def test_nodes_and_jobs_are_counted_by_partition() -> None:
    nodes = SlurmList((Node(name="n0", cpus=2, partitions=("p",)), Node(name="n1", cpus=4, partitions=("q",))), True)
    states = [("p", "RUNNING"), ("q,p", "PENDING"), ("q", "RUNNING"), ("p", "COMPLETED")]
    jobs = [Job(job_id=at, partition=name, states=frozenset({state})) for at, (name, state) in enumerate(states)]
    used = usage(nodes, jobs_by_partition(jobs))
    assert counts(UP, used) == {"nodes": 3, "cpus": 2, "runningJobs": 1, "pendingJobs": 1}
    assert counts(None, usage(nodes, {})) == {}


def test_a_count_that_slurm_cannot_be_asked_for_is_left_out() -> None:
    """B3: no answer was counted as nothing there."""
    unknown = Unknown("no answer")
    assert counts(UP, usage(unknown, None)) == {"nodes": 3}
    assert counts(UP, usage(unknown, {})) == {"nodes": 3, "runningJobs": 0, "pendingJobs": 0}
    assert counts(UP, usage(SlurmList((), True), None)) == {"nodes": 3, "cpus": 0}


@pytest.mark.parametrize(
    ("nodes", "unknown"),
    [
        (SlurmList((Node(name="n1"),), complete=True), ("n2",)),
        (SlurmList((Node(name="n1"), Node(name="n2")), complete=True), ()),
        (SlurmList((Node(name="n1"),), complete=False), ()),
    ],
    ids=["one is missing", "all are there", "the list has gaps"],
)
def test_hosts_that_slurm_does_not_have_are_known(nodes: SlurmList[Node], unknown: tuple[str, ...]) -> None:
    mine = declared("PartitionName=p Nodes=ALL\n")
    acceptance = Acceptance("Partition", "p", "p", "Accepted", "", "PartitionName=p Nodes=ALL", live_nodes=("n1", "n2"))
    listed = SlurmList((UP,), complete=True)
    planned = PartitionWorld(mine.lines, mine.lines, listed)
    world = OutcomeWorld([acceptance], mine, mine, planned, listed, nodes, PartitionMemory())
    resource = Resource(metadata=ObjectMeta(name="p"), spec=PartitionSpec(controller_ref=ControllerRef(name="slurm")))
    assert partition_outcomes(world, [resource])["p"].unknown_nodes == unknown
