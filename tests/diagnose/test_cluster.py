"""A whole namespace: nothing is wrong with a good one, and each cause is named once."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest
from tests.diagnose.broken import (
    CORDONED,
    NODES,
    OURS,
    PARTITIONS,
    cluster,
    condition,
    resource,
    with_node,
)
from tests.diagnose.said import said

from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.cli.kubectl.view import overview, partition_rows
from slurm_operator.diagnose.cause import Cause, Fine, Unseen
from slurm_operator.diagnose.cluster import examine, merged, passing
from slurm_operator.diagnose.facts import Silence


@pytest.mark.parametrize(
    "target", ["node/compute-0", "pod/compute-1", "nodeset/compute", "partition/debug", "job/7", "controller/slurm"]
)
def test_nothing_is_wrong_with_a_good_cluster(target: str) -> None:
    assert isinstance(explained(cluster(), target), Fine)


def test_what_somebody_chose_is_explained_but_not_wrong() -> None:
    none = resource("NodeSet", "none", {"replicas": 0})
    facts = cluster(none)
    assert isinstance(explained(facts, "nodeset/none"), Cause)
    assert examine(facts) == []


def test_of_two_partitions_of_one_name_the_one_that_has_it_is_shown() -> None:
    taken = resource("Partition", "a-twin", {"partitionName": "compute"}, condition("Accepted", "False", "NameTaken"))
    owner = resource("Partition", "debug", {"partitionName": "compute"}, condition("Accepted", "True"))
    later = resource("Partition", "z-twin", {"partitionName": "compute"}, condition("Accepted", "False", "NameTaken"))
    assert [row["object"] for row in partition_rows(cluster(taken, owner, later))] == ["partition/debug"]


def test_what_a_silent_slurm_has_is_unknown_and_not_nothing() -> None:
    lost = resource("NodeSet", "compute", {"replicas": 2}, condition("SlurmReachable", "False", "SlurmUnreachable"))
    facts = cluster(lost, slurm=Silence("connection refused"))
    (row,) = partition_rows(facts)
    assert [row[key] for key in ("state", "nodes", "running", "pending")] == [None] * 4
    shown = [click.unstyle(line).split() for line in overview(facts, []).splitlines()]
    assert ["slurm", "yes", "silent", "?", "?"] in shown
    assert ["compute", "?", "?", "?", "?", "partition/debug"] in shown
    assert shown[4][-4:] == ["?"] * 4


def test_doctor_finds_nothing_in_a_good_cluster() -> None:
    assert examine(cluster()) == []


def test_doctor_names_a_partition_that_works_without_one_of_its_nodesets() -> None:
    accepted = condition(
        "Accepted", "True", "NodeSetNotFound", "there is no NodeSet 'gone'; the partition is without it"
    )
    ready = condition("Ready", "True", "Up")
    facts = cluster(resource("Partition", "debug", {"partitionName": "compute"}, accepted, ready))
    (cause,) = examine(facts)
    assert cause.code == "NodeSetNotFound"
    assert explained(facts, "partition/debug") == cause
    assert cause.command == "kubectl -n slurm edit partitions.slinky.slurm.net debug"


def test_doctor_names_one_cause_once() -> None:
    facts = cluster(CORDONED, slurm=with_node("IDLE+DRAIN", OURS))
    assert [cause.code for cause in examine(facts)] == ["KubernetesNodeCordoned"]


def test_doctor_names_a_cordoned_machine_once_however_many_workers_it_has() -> None:
    nodes = "\n".join(f"NodeName=compute-{n} State=IDLE+DRAIN Reason={OURS}" for n in (0, 1))
    (found,) = examine(cluster(CORDONED, slurm=said(nodes, "", PARTITIONS)))
    assert found.command == "kubectl uncordon machine-a"
    assert found.sentence == (
        "compute-0 is drained because its Kubernetes node machine-a is cordoned (also seen at node compute-1)"
    )


@pytest.mark.parametrize(
    ("places", "end"),
    [
        pytest.param(["node compute-0"], "", id="the same place"),
        pytest.param(["NodeSet compute-0"], "", id="a place that the sentence names"),
        pytest.param(["node compute-00"], " (also seen at node compute-00)", id="a name that begins like another"),
        pytest.param(["job 3", "job 4"], " (also seen at job 4)", id="a job that the sentence names"),
        pytest.param(["node a", "node a"], " (also seen at node a)", id="one place with two sentences"),
        pytest.param(
            [f"node c-{n}" for n in range(5)], " (also seen at node c-0, node c-1, node c-2 and 2 more)", id="many"
        ),
    ],
)
def test_doctor_says_where_else_it_saw_a_cause(places: list[str], end: str) -> None:
    first = Cause("A", "compute-0 keeps job 3", "ls", root="r", seen_at="node compute-0")
    others = [replace(first, sentence=f"sentence {n}", seen_at=place) for n, place in enumerate(places)]
    assert merged([first, *others]).sentence == f"{first.sentence}{end}"


def test_doctor_names_a_silent_slurmctld_once_whoever_needs_it() -> None:
    lost = condition("Ready", "Unknown", "SlurmUnreachable", "nobody answers")
    nodesets = [resource("NodeSet", name, {"replicas": 2}, lost) for name in ("compute", "gpu")]
    (found,) = examine(cluster(*nodesets, slurm=Silence("connection refused")))
    assert found.code == "SlurmSilent"


def test_doctor_tells_once_of_jobs_that_never_start() -> None:
    never = "JobState=PENDING Reason=PartitionTimeLimit TimeLimit=90 Partition=compute UserId=bob(1)"
    waits = "JobId=5 JobState=PENDING Reason=JobHeldUser Partition=compute UserId=bob(1)"
    jobs = "\n".join([*(f"JobId={number} {never}" for number in (8, 9)), waits])
    (found,) = examine(cluster(slurm=said(NODES, jobs, PARTITIONS.replace("State", "MaxTime=60 State"))))
    assert found.code == "PartitionTimeLimit"
    assert found.sentence.endswith("allows at most 01:00:00 (MaxTime) (also seen at job 9)")
    assert not found.root.startswith("job 8")


def test_doctor_tells_of_a_failed_prolog_once() -> None:
    held = "JobId=9 JobState=PENDING Reason=JobHeldAdmin Description=launch failed requeued held Partition=compute"
    nodes = "NodeName=compute-0 State=IDLE+DRAIN Reason=Prolog error\nNodeName=compute-1 State=IDLE"
    assert [each.code for each in examine(cluster(slurm=said(nodes, held, PARTITIONS)))] == ["DrainedBySlurm"]


def test_pods_that_leave_are_told_apart() -> None:
    leaving = resource("NodeSet", "compute", {"replicas": 2})
    status = {**leaving["status"], "replicas": 3, "readyReplicas": 3}
    assert "2/2 (+1 leaving)" in overview(cluster({**leaving, "status": status}), [])


@pytest.mark.parametrize(
    ("state", "column"),
    [("IDLE+DRAIN", 2), ("DOWN+DRAIN", 3), ("MIXED+DRAIN", 2), ("IDLE+NOT_RESPONDING", 3), ("MIXED", 1), ("IDLE", 0)],
)
def test_each_node_is_in_one_column(state: str, column: int) -> None:
    counts = {"slurmIdle": 2, "slurmDrain": 1, "slurmDown": 1}
    compute = resource("NodeSet", "compute", {"replicas": 2})
    facts = cluster({**compute, "status": {**compute["status"], **counts}}, slurm=with_node(state))
    (row,) = [line.split() for line in click.unstyle(overview(facts, [])).splitlines() if line.startswith("compute ")][
        :1
    ]
    # The other node is allocated.
    assert [int(cell) for cell in row[-4:]] == [int(each == column) + int(each == 1) for each in range(4)]


def test_doctor_names_an_absent_operator_once() -> None:
    changed = {**resource("NodeSet", "compute"), "status": {"observedGeneration": 0}}
    never = {**resource("NodeSet", "gpu"), "status": {}}
    assert [cause.code for cause in examine(cluster(changed, never))] == ["OperatorAbsent"]


def test_doctor_names_a_drain_of_many_nodes_once() -> None:
    nodes = "\n".join(f"NodeName=compute-{n} State=IDLE+DRAIN Reason=new switch" for n in (0, 1))
    (found,) = examine(cluster(slurm=said(nodes, "", PARTITIONS)))
    assert found.sentence == "somebody drained compute-0: new switch (also seen at node compute-1)"


@pytest.mark.parametrize("target", ["node/nobody", "pod/nobody", "job/99", "partition/none", "nodeset/none"])
def test_what_is_not_there_is_said_to_be_missing(target: str) -> None:
    assert isinstance(explained(cluster(), target), Unseen)


@pytest.mark.parametrize(
    ("now", "wrong"), [("2026-11-17T12:00:20Z", 0), ("2026-11-17T12:05:00Z", 1)], ids=["for 20 s", "for 5 min"]
)
def test_what_is_not_ready_for_a_moment_is_told_and_wrong_only_when_it_stays(now: str, wrong: int) -> None:
    waits = {**condition("Ready", "False", "RollingOut", "0 of 1"), "lastTransitionTime": "2026-11-17T12:00:00Z"}
    facts = replace(cluster(resource("Accounting", "slurm", {}, waits)), now=now)
    assert (len(examine(facts)), len(passing(facts))) == (wrong, 1 - wrong)
