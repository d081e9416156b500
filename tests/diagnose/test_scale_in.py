"""A NodeSet that becomes smaller, or is deleted, says which jobs it waits for, until when, what would shorten it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.diagnose.broken import Object, cluster, condition, resource
from tests.diagnose.said import said

from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.cluster import examine, passing
from slurm_operator.diagnose.facts import Facts, Slurm

NODES = """\
NodeName=compute-0 CPUTot=2 CPUAlloc=0 State=IDLE Partitions=compute
NodeName=compute-1 CPUTot=2 CPUAlloc=2 State=ALLOCATED+DRAIN Reason=slurm-operator: scale-in Partitions=compute
"""
JOB = "JobId=7 UserId=alice(1) JobState=RUNNING Partition=compute NodeList=compute-1 EndTime=2026-11-17T14:05:00Z"
PARTITION = "PartitionName=compute State=UP Nodes=compute-[0-1]"
MESSAGE = "1 worker waits to be removed: node compute-1 is busy"


def facts_of(jobs: str = JOB, nodes: str = NODES, **more: Any) -> Facts:
    nodeset = resource("NodeSet", "compute", {"replicas": 1}, condition("Ready", "False", "WorkersNotReady", MESSAGE))
    nodeset["metadata"].update(more)
    found: Slurm = said(nodes, jobs, PARTITION)
    return replace(cluster(nodeset, slurm=found), now="2026-11-17T12:00:00Z")


def answer(facts: Facts, target: str = "nodeset/compute") -> Cause:
    found = explained(facts, target)
    assert isinstance(found, Cause), found
    return found


def test_a_scale_in_names_the_job_its_end_and_what_would_shorten_it() -> None:
    found = answer(facts_of())
    assert found.code == "ScalingIn"
    assert found.sentence == (
        "NodeSet compute goes from 2 workers to 1: compute-1 waits for job 7 of alice (until 14:05:00 UTC at the "
        "latest). To requeue job 7 would shorten it"
    )
    assert found.command == "kubectl slurm -n slurm shell -- scontrol requeue 7"
    assert not found.wrong


def test_the_worker_itself_says_the_same() -> None:
    found = answer(facts_of(), "node/compute-1")
    assert found.code == "GoingAway"
    assert "waits for job 7 of alice, until 14:05:00 UTC at the latest" in found.sentence
    assert found.command.endswith("scontrol requeue 7")


def test_a_job_that_cannot_be_requeued_can_only_be_cancelled() -> None:
    found = answer(facts_of(f"{JOB} Requeue=0"))
    assert "To cancel job 7" in found.sentence
    assert found.command.endswith("scancel 7")


def test_of_several_jobs_the_one_that_ends_last_would_shorten_it() -> None:
    later = JOB.replace("JobId=7", "JobId=8").replace("14:05", "18:05")
    assert answer(facts_of(f"{JOB}\n{later}")).command.endswith("requeue 8")


def test_a_worker_without_jobs_goes_next() -> None:
    found = answer(facts_of("", NODES.replace("ALLOCATED", "IDLE").replace("CPUAlloc=2", "CPUAlloc=0")))
    assert "compute-1 runs no job, and goes next" in found.sentence
    assert found.command == "kubectl -n slurm describe nodeset compute"


def test_a_deleted_nodeset_says_which_jobs_hold_it() -> None:
    found = answer(facts_of(deletionTimestamp="2026-11-17T11:59:00Z"))
    assert found.code == "Deleting"
    assert "NodeSet compute is being deleted: compute-1 waits for job 7" in found.sentence


def test_doctor_tells_of_it_once_and_finds_nothing_wrong() -> None:
    facts = facts_of()
    assert examine(facts) == []
    assert [cause.code for cause in passing(facts)] == ["ScalingIn"]


def test_a_broken_worker_comes_before_one_that_leaves() -> None:
    broken = NODES.replace("State=IDLE", "State=IDLE+DRAIN Reason=bad dimm")
    assert answer(facts_of(nodes=broken)).code == "DrainedBySomebody"


def test_what_a_pod_was_is_not_what_it_is_now() -> None:
    """The reason of a record outlives its pod: nothing is terminating that is gone."""
    left = "NodeName=old-0 State=DOWN+DRAIN Reason=slurm-operator: Pod is terminating Partitions=compute"
    found: Object | Cause = answer(replace(cluster(slurm=said(f"{NODES}{left}", "", PARTITION))), "node/old-0")
    assert isinstance(found, Cause)
    assert found.code == "PodGone"
    assert "terminating" not in found.sentence
