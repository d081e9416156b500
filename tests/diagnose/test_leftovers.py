"""Node records that nobody will use again are found, all at once, with the command that removes them."""

from __future__ import annotations

import json

import pytest
from tests.diagnose.broken import cluster, explains

from slurm_operator.diagnose import cluster as clusters
from slurm_operator.diagnose import node as nodes
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmJob, SlurmNode
from slurm_operator.slurm.hostlist import HostList

GONE = ("DOWN", "DRAIN", "NOT_RESPONDING", "DYNAMIC_NORM")
OURS = {"namespace": "slurm", "podName": "old-0", "nodeSetName": "old", "nodeSetUID": "NodeSet-old"}


def left(*names: str, states: tuple[str, ...] = GONE, job: str = "", requires: str = "", **comment: str) -> Facts:
    """A cluster whose Slurm has these records beside."""
    said = json.dumps({**OURS, **comment})
    nodes = {name: SlurmNode(name, frozenset(states), "slurm-operator: Pod is terminating", said) for name in names}
    jobs = {"7": SlurmJob("7", "j", "alice", "RUNNING", nodes=(job,))} if job else {}
    if requires:
        jobs = {"7": SlurmJob("7", "j", "alice", "PENDING", required=HostList(requires))}
    return cluster(slurm=Slurm(nodes, jobs))


def test_all_records_of_nodesets_that_are_gone_are_one_cause() -> None:
    facts = left(*(f"old-{number}" for number in range(850)))
    (cause,) = [each for each in clusters.examine(facts) if "old-" in each.sentence]
    assert cause.code == "RecordsLeftOver"
    assert cause.command.endswith("scontrol delete nodename='old-[0-849]'")


def test_whoever_asks_for_one_of_them_learns_the_same() -> None:
    explains("node/old-0", left("old-0"), "RecordsLeftOver")


def test_a_record_that_a_reservation_holds_is_not_to_be_deleted_first() -> None:
    """Slurm would refuse that."""
    facts = left("old-0", states=(*GONE, "RESERVED"))
    explains("node/old-0", facts, "RecordsLeftOver")
    (cause,) = [each for each in clusters.examine(facts) if "old-" in each.sentence]
    assert cause.command.endswith("scontrol show reservation")


def test_a_record_that_the_operator_is_about_to_delete_is_not_left_to_a_person() -> None:
    """Its slurmd ended without telling slurmctld, which gives it up after SlurmdTimeout."""
    facts = left("compute-9", states=("IDLE", "DRAIN", "NOT_RESPONDING", "DYNAMIC_NORM"), nodeSetName="compute")
    answer = nodes.why(facts, "compute-9")
    assert isinstance(answer, Cause)
    assert (answer.code, answer.waits) == ("PodGone", True)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(left("old-0", nodeSetUID="NodeSet-compute"), id="its NodeSet is there"),
        pytest.param(left("old-0", namespace="other"), id="of another namespace"),
        pytest.param(left("old-0", states=("IDLE", "DYNAMIC_NORM")), id="its slurmd lives"),
        pytest.param(left("old-0", states=("DOWN", "NOT_RESPONDING")), id="somebody wrote it into slurm.conf"),
        pytest.param(left("old-0", job="old-0"), id="a job holds it"),
        pytest.param(left("old-0", requires="old-[0-3]"), id="a job that waits can run nowhere else"),
        pytest.param(left("compute-0"), id="it has a pod"),
    ],
)
def test_no_other_record_is_called_left_over(facts: Facts) -> None:
    assert "RecordsLeftOver" not in {cause.code for cause in clusters.examine(facts)}


@pytest.mark.parametrize("owner", ["NodeSet-old", "NodeSet-compute"], ids=["it is gone", "it is there, and smaller"])
def test_nobody_is_told_to_delete_a_record_whose_job_would_fail_without_it(owner: str) -> None:
    facts = left("old-0", "old-1", requires="old-0", nodeSetUID=owner)
    cause = nodes.why(facts, "old-0")
    assert isinstance(cause, Cause)
    assert "job 7 of alice can run on no other node" in cause.sentence
    assert cause.command.endswith("scontrol update jobid=7 reqnodelist=")
    commands = [each.command for each in clusters.examine(facts)]
    assert not any("delete nodename" in each and "old-0" in each for each in commands)
