"""A NodeSet that becomes smaller, or is deleted, says which jobs it waits for, until when, what would shorten it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from tests.diagnose.broken import Object, cluster, condition, resource
from tests.diagnose.said import said

from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.cli.kubectl.wait import in_the_way
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.cluster import examine, passing
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmJob, SlurmNode
from slurm_operator.slurm.hostlist import HostList

NODES = """\
NodeName=compute-0 CPUTot=2 CPUAlloc=0 State=IDLE Partitions=compute
NodeName=compute-1 CPUTot=2 CPUAlloc=2 State=ALLOCATED+DRAIN Reason=slurm-operator: scale-in Partitions=compute
"""
JOB = "JobId=7 UserId=alice(1) JobState=RUNNING Partition=compute NodeList=compute-1 EndTime=2026-11-17T14:05:00Z"
PARTITION = "PartitionName=compute State=UP Nodes=compute-[0-1]"
MESSAGE = "1 worker waits to be removed: node compute-1 is busy"


def facts_of(jobs: str = JOB, nodes: str = NODES, **more: Any) -> Facts:
    spec = {"replicas": 1, "partition": {"enabled": True}}
    nodeset = resource("NodeSet", "compute", spec, condition("Ready", "False", "WorkersNotReady", MESSAGE))
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
        "latest). Requeuing job 7 would shorten it; the job starts again from its beginning"
    )
    assert found.command == "kubectl slurm -n slurm shell -- scontrol requeue 7"
    assert not found.wrong


def test_a_scale_in_is_listed_once_and_waited_for() -> None:
    facts = facts_of()
    assert examine(facts) == []
    assert [each.code for each in passing(facts)] == ["ScalingIn"]
    assert [each.sentence for each in in_the_way(facts, "")] == [passing(facts)[0].sentence]


def test_workers_that_an_update_takes_out_are_listed_once_for_their_nodeset() -> None:
    drain = "State=IDLE+DRAIN Reason=slurm-operator: Pod of NodeSet (compute) is pending termination for update"
    facts = facts_of("", "\n".join(f"NodeName=compute-{number} {drain}" for number in (0, 1)))
    both = resource("NodeSet", "compute", {"replicas": 2}, condition("Ready", "False", "WorkersNotReady", "2 wait"))
    (found,) = passing(replace(cluster(both, slurm=facts.slurm["slurm"]), now=facts.now))
    assert found.code == "GoingAway"
    assert found.sentence.endswith("(also seen at node compute-1)")


def test_the_worker_itself_says_the_same() -> None:
    found = answer(facts_of(), "node/compute-1")
    assert found.code == "GoingAway"
    assert "waits for job 7 of alice, until 14:05:00 UTC at the latest" in found.sentence
    assert found.command.endswith("scontrol requeue 7")


def test_a_job_that_cannot_be_requeued_can_only_be_cancelled() -> None:
    found = answer(facts_of(f"{JOB} Requeue=0"))
    assert "Only scancel 7 would shorten it, and the job would be lost" in found.sentence
    assert found.command.endswith("squeue -j 7")


@pytest.mark.parametrize(
    ("jobs", "nodes"),
    [
        pytest.param(f"{JOB} ReqNodeList=compute-1", NODES, id="it must have the node that goes"),
        pytest.param(f"{JOB} NumNodes=2", NODES, id="it needs more nodes than stay"),
        pytest.param(JOB, NODES.replace("State=IDLE", "State=DOWN"), id="the nodes that stay take no jobs"),
    ],
)
def test_no_requeue_is_advised_where_the_job_could_not_run_again(jobs: str, nodes: str) -> None:
    for target in ("nodeset/compute", "node/compute-1"):
        found = explained(facts_of(jobs, nodes), target)
        assert isinstance(found, Cause)
        assert "requeue" not in found.command


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
    assert "until 14:05:00 UTC at the latest" in found.sentence


@pytest.mark.parametrize("target", ["nodeset/compute", "node/compute-1"])
def test_no_requeue_is_advised_for_a_nodeset_that_is_being_deleted(target: str) -> None:
    """The requeued job waited in a partition without nodes, and the deletion for it, for ever."""
    found = answer(facts_of(deletionTimestamp="2026-11-17T11:59:00Z"), target)
    assert "Only scancel 7 would shorten it, and the job would be lost" in found.sentence
    assert found.command.endswith("squeue -j 7")
    assert not found.wrong


def moved(how: str) -> str:
    """Repeated: slurmctld refuses such a move at random."""
    again = f"until scontrol update jobid=33 {how}; do sleep 1; done"
    return f"timeout 20 sh -c {shlex.quote(again)}"


WAITS = "JobId=33 UserId=bob(1) JobState=PENDING Reason=PartitionDown Partition=compute"
OTHER = "PartitionName=all State=UP Nodes=compute-[0-1],local-2"


@pytest.mark.parametrize(
    ("job", "more", "command"),
    [
        pytest.param(WAITS, OTHER, moved("partition=all"), id="another partition takes it"),
        pytest.param(f"{WAITS} ReqNodeList=compute-1", OTHER, moved("partition=all reqnodelist="), id="no node"),
        pytest.param(WAITS, OTHER.replace("all", "a;b"), moved("partition='a;b'"), id="a name that a shell would read"),
        pytest.param(WAITS, "", "scancel 33", id="there is no other partition"),
        pytest.param(WAITS, OTHER.replace("UP", "DOWN"), "scancel 33", id="the other partition is down"),
    ],
)
def test_a_job_that_waits_in_a_partition_that_goes_is_wrong(job: str, more: str, command: str) -> None:
    facts = facts_of(job, deletionTimestamp="2026-11-17T11:59:00Z")
    facts = replace(facts, slurm={"slurm": said(NODES, job, f"{PARTITION}\n{more}")})
    for target in ("nodeset/compute", "job/33"):
        found = answer(facts, target)
        assert found.code == "JobsNeverRun"
        assert "never run" in found.sentence
        assert "(scancel 33)" in found.sentence
        assert found.command.endswith(command)
    assert [cause.code for cause in examine(facts)] == ["JobsNeverRun"]


@pytest.mark.parametrize(
    ("jobs", "named", "cancels"),
    [
        (2, "job 33 of bob, job 34 of bob, which", "cancel each (scancel 33 34)"),
        (12, "job 35 of bob and 9 more, which", "(scancel 33 34 35 36 37 38 39 40 41 42 and 2 more)"),
    ],
)
def test_all_jobs_that_never_run_are_cancelled_together(jobs: int, named: str, cancels: str) -> None:
    waits = "\n".join(WAITS.replace("33", str(33 + number)) for number in range(jobs))
    facts = facts_of(waits, deletionTimestamp="2026-11-17T11:59:00Z")
    facts = replace(facts, slurm={"slurm": said(NODES, waits, f"{PARTITION}\n{OTHER}")})
    found = answer(facts)
    assert named in found.sentence
    assert found.sentence.endswith(cancels)
    assert examine(facts) == [found]


@pytest.mark.parametrize("partition", ["all", "compute,all"])
def test_a_job_that_may_run_in_another_partition_is_not_stuck(partition: str) -> None:
    job = WAITS.replace("Partition=compute", f"Partition={partition}")
    facts = facts_of(job, deletionTimestamp="2026-11-17T11:59:00Z")
    facts = replace(facts, slurm={"slurm": said(NODES, job, f"{PARTITION}\n{OTHER}")})
    assert "JobsNeverRun" not in {cause.code for cause in examine(facts)}


def test_a_job_that_must_have_a_node_of_a_deleted_nodeset_is_stuck() -> None:
    facts = facts_of("", deletionTimestamp="2026-11-17T11:59:00Z", uid="uid-1")
    node = SlurmNode("compute-4", frozenset({"DOWN", "DRAIN"}), comment='{"nodeSetUID":"uid-1"}')
    job = SlurmJob("34", "j", "bob", "PENDING", partition="all", required=HostList("compute-4"))
    slurm = said(NODES, "", f"{PARTITION}\n{OTHER}")
    facts = replace(facts, slurm={"slurm": replace(slurm, nodes={**slurm.nodes, "compute-4": node}, jobs={"34": job})})
    found = answer(facts)
    assert found.code == "JobsNeverRun"
    assert found.command.endswith("scontrol update jobid=34 reqnodelist=")


def test_a_job_that_loses_its_partition_and_its_node_is_one_cause() -> None:
    """Without the node alone it would still wait in a partition that goes."""
    job = f"{WAITS} ReqNodeList=compute-4"
    facts = facts_of(job, deletionTimestamp="2026-11-17T11:59:00Z", uid="uid-1")
    left = "NodeName=compute-4 State=DOWN+DRAIN Reason=slurm-operator: Pod is terminating Partitions=compute"
    facts = replace(facts, slurm={"slurm": said(f"{NODES}{left}", job, f"{PARTITION}\n{OTHER}")})
    (found,) = examine(facts)
    assert found.command.endswith(moved("partition=all reqnodelist="))
    assert answer(facts, "node/compute-4").command == found.command


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
