"""What is left for a Partition to report: how full it is, what is on its way, and when nothing is left of it."""

from __future__ import annotations

from slurm_operator.plan.partition import jobs_by_partition
from slurm_operator.plan.partition_outcome import counts, usage
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
