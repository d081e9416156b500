"""During and after a scale-in, a job that can never run says so, and how many replicas would let it run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.diagnose.broken import Object, cluster, pod, resource
from tests.diagnose.said import said

from slurm_operator.build import labels
from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmNode

LEAVES = "Reason=slurm-operator: Pod of NodeSet (slurm/compute) is pending termination for scale-in Partitions=compute"
FIRST = "NodeName=compute-0 CPUTot=2 CPUAlloc=2 State=ALLOCATED Partitions=compute\n"
SECOND = f"NodeName=compute-1 CPUTot=2 CPUAlloc=2 State=ALLOCATED+DRAIN {LEAVES}\n"
THIRD = f"NodeName=compute-2 CPUTot=2 State=IDLE+DRAIN {LEAVES}\n"
RECORD = "NodeName=compute-2 CPUTot=2 State=DOWN+DRAIN Reason=slurm-operator: Pod is terminating Partitions=compute\n"
RUNS = """\
JobId=7 UserId=alice(1) JobState=RUNNING Partition=compute NodeList=compute-0 EndTime=2026-11-17T14:05:00Z
JobId=8 UserId=alice(1) JobState=RUNNING Partition=compute NodeList=compute-1 EndTime=2026-11-17T14:05:00Z
"""
KEPT_FOR = "JobId=12 UserId=bob(2) JobState=PENDING Reason=ReqNodeNotAvail Partition=compute ReqNodeList=compute-2\n"
WAITS = "JobId=14 UserId=bob(2) JobState=PENDING Partition=compute StartTime=2027-11-17T12:00:00Z"
THREE = f"{WAITS} NumNodes=3 NumCPUs=3"
PARTITION = "PartitionName=compute State=UP Nodes=compute-[0-2]"


def worker(name: str, condemned: str = "", nodeset: str = "compute") -> Object:
    made = pod(name, labels.WORKER, nodeset)
    made["metadata"]["annotations"] = {labels.CONDEMNED: condemned} if condemned else {}
    return made


def facts_of(
    job: str, nodes: str = FIRST + SECOND + THIRD, replicas: int = 1, pods: int = 3, partition: str = PARTITION
) -> Facts:
    owner = resource("Partition", "compute", {"nodeSets": ["compute"]})
    workers = [worker(f"compute-{number}") for number in range(pods)]
    nodeset = resource("NodeSet", "compute", {"replicas": replicas})
    gone = ("debug", *(f"compute-{number}" for number in range(pods, 2)))
    found = cluster(nodeset, owner, *workers, slurm=said(nodes, RUNS + job, partition), without=gone)
    return replace(found, now="2026-11-17T12:00:00Z")


def slurm_of(facts: Facts) -> Slurm:
    found = facts.slurm["slurm"]
    assert isinstance(found, Slurm)
    return found


def answer(facts: Facts, target: str = "job/14") -> Cause:
    found = explained(facts, target)
    assert isinstance(found, Cause), found
    return found


@pytest.mark.parametrize("reason", ["Resources", "Priority", "PartitionConfig", "PartitionNodeLimit"])
def test_more_nodes_than_the_replicas_is_wrong_though_slurm_still_has_so_many(reason: str) -> None:
    found = answer(facts_of(f"{THREE} Reason={reason}"))
    assert found.code == "PartitionTooSmall"
    assert found.wrong
    assert found.sentence == (
        "job 14 asks for 3 nodes, and partition compute will have 1: NodeSet compute has replicas 1, and compute-1, "
        "compute-2 go"
    )
    assert found.command == """kubectl -n slurm patch nodeset compute --type=merge -p '{"spec":{"replicas":3}}'"""


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(FIRST + THIRD.replace("compute-2", "compute-1"), id="one of two leaves"),
        pytest.param(FIRST, id="one has gone"),
        pytest.param(FIRST + RECORD, id="a record is kept for a job"),
        pytest.param(FIRST + SECOND + RECORD, id="one leaves, and a record is kept"),
    ],
)
def test_neither_a_worker_that_leaves_nor_a_record_counts(nodes: str) -> None:
    pods = 2 if "compute-1" in nodes else 1
    found = answer(facts_of(f"{KEPT_FOR}{THREE} Reason=Resources", nodes, pods=pods))
    assert found.code == "PartitionTooSmall"
    assert '"replicas":3' in found.command


def test_a_worker_that_is_chosen_but_not_drained_yet_does_not_count_either() -> None:
    free = FIRST + SECOND.partition("+DRAIN")[0] + "\nNodeName=compute-2 CPUTot=2 State=IDLE\n"
    facts = facts_of(f"{WAITS} Reason=Resources ReqNodeList=compute-2", free)
    facts.objects["Pod"]["compute-2"] = worker("compute-2", "scale-in")  # type: ignore[index]
    assert answer(facts).code == "JobsNeverRun"


@pytest.mark.parametrize("reason", ["Resources", "Priority", "ReqNodeNotAvail"])
def test_a_job_that_requires_a_worker_that_leaves_can_never_run(reason: str) -> None:
    found = answer(facts_of(f"{WAITS} Reason={reason} ReqNodeList=compute-2"))
    assert found.code == "JobsNeverRun"
    assert found.wrong
    assert found.sentence == (
        "job 14 must run on compute-2 (sbatch -w), which leaves because NodeSet compute becomes smaller (replicas 1): "
        "it can never run. Let the job run on other nodes, scale the NodeSet out again, or cancel it (scancel 14)"
    )
    assert found.command == "kubectl slurm -n slurm shell -- scontrol update jobid=14 reqnodelist="


@pytest.mark.parametrize(
    ("why", "code"), [("update", "GoingAway"), ("key rotation", "KeyRotation"), ("placement", "GoingAway")]
)
def test_a_worker_that_is_replaced_comes_back(why: str, code: str) -> None:
    nodes = (FIRST + SECOND + THIRD).replace("scale-in", why)
    assert answer(facts_of(f"{WAITS} Reason=Resources ReqNodeList=compute-2", nodes, replicas=3)).code == code
    assert answer(facts_of(f"{THREE} Reason=Resources", nodes, replicas=3)).code == code


def test_a_record_that_is_kept_for_another_job_has_a_command_for_this_one() -> None:
    job = f"{KEPT_FOR}{WAITS} Reason=ReqNodeNotAvail ReqNodeList=compute-2"
    found = answer(facts_of(job, FIRST + SECOND + RECORD, pods=2))
    assert found.code == "PodGone"
    assert "job 14 can run on no other node" in found.sentence
    assert found.command.endswith("jobid=14 reqnodelist=")
    assert answer(facts_of(job, FIRST + SECOND + RECORD, pods=2), "job/12").command.endswith("jobid=12 reqnodelist=")


def test_of_nodes_that_take_no_jobs_one_that_stays_is_named() -> None:
    """The record is listed first, and kept for a job whose end gives this one nothing."""
    drained = "NodeName=compute-0 CPUTot=2 State=IDLE+DRAIN Reason=bad dimm Partitions=compute\n"
    nodes = f"{RECORD}{drained}NodeName=compute-1 CPUTot=2 State=IDLE Partitions=compute\n"
    found = answer(facts_of(f"{KEPT_FOR}{WAITS} NumNodes=2 NumCPUs=2 Reason=Resources", nodes, replicas=2, pods=2))
    assert found.code == "DrainedBySomebody"
    assert "1 takes jobs, and 1 fits but takes none" in "\n".join(found.trail)


def test_workers_that_have_not_registered_yet_are_waited_for_and_not_asked_for_again() -> None:
    found = answer(facts_of(f"{THREE} Reason=PartitionConfig", FIRST, replicas=3, pods=1))
    assert not found.wrong
    assert "it needs 3 nodes, and only 1 of the desired workers has registered" in found.sentence
    assert found.command.endswith("why nodeset/compute")
    busy = FIRST + FIRST.replace("compute-0", "compute-1")
    found = answer(facts_of(f"{WAITS} NumNodes=2 NumCPUs=4 Reason=Resources", busy, replicas=3))
    assert "1 worker has not registered yet" in found.sentence
    assert '"replicas":4' in found.command


def test_a_node_that_the_job_excludes_is_one_of_the_replicas_all_the_same() -> None:
    nodes = FIRST + FIRST.replace("compute-0", "compute-1") + FIRST.replace("compute-0", "compute-2")
    facts = facts_of(f"{THREE} Reason=Resources", nodes, replicas=3)
    slurm = slurm_of(facts)
    jobs = {**slurm.jobs, "14": replace(slurm.jobs["14"], excluded=("compute-2",))}
    found = answer(replace(facts, slurm={"slurm": replace(slurm, jobs=jobs)}))
    assert '"replicas":4' in found.command


def test_a_nodeset_of_which_a_partition_has_a_part_is_not_made_larger_for_it() -> None:
    """One more worker of it would not be in the partition."""
    free = FIRST + FIRST.replace("compute-0", "compute-1")
    facts = facts_of(THREE.replace("=compute", "=few") + " Reason=PartitionConfig", free, 2, 2)
    few = said(
        free,
        RUNS + THREE.replace("=compute", "=few") + " Reason=PartitionConfig",
        "PartitionName=few State=UP Nodes=compute-0",
    )
    found = answer(replace(facts, slurm={"slurm": few}))
    assert found.code == "PartitionTooSmall"
    assert found.command.endswith("numnodes=1")


def test_a_node_of_another_namespace_counts() -> None:
    other = '{"namespace":"other","nodeSetName":"compute"}'
    facts = facts_of(f"{WAITS} NumNodes=2 NumCPUs=2 Reason=Resources")
    slurm = slurm_of(facts)
    theirs = SlurmNode("compute-3", frozenset({"IDLE"}), comment=other, cpus=2)
    nodes = {**slurm.nodes, "compute-3": theirs}
    wider = said("", "", PARTITION.replace("0-2", "0-3")).partitions
    found = answer(replace(facts, slurm={"slurm": replace(slurm, nodes=nodes, partitions=wider)}))
    assert not found.wrong
    assert "1 is free, 1 more needed" in found.sentence
