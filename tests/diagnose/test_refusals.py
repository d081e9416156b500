"""What Slurm refuses of a partition: a cause wherever somebody asks, and never somebody's change by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.diagnose.broken import JOBS, NODES, cluster, condition, resource
from tests.diagnose.said import said

from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause, Fine
from slurm_operator.diagnose.cluster import examine
from slurm_operator.diagnose.drift import REFUSED, current
from slurm_operator.diagnose.facts import Facts, Slurm
from slurm_operator.diagnose.refusals import by_partition

SAID = "Slurm answered: Invalid qos specification"
READY = condition("Ready", "True", "AllReady")
CONFIG = {"kind": "ConfigMap", "metadata": {"name": "slurm-config"}}


def degraded(reason: str, message: str) -> dict[str, object]:
    return resource("Controller", "slurm", {}, READY, condition("Degraded", "True", reason, message))


def of_nodeset(reason: str = "RefusedBySlurm") -> Facts:
    """The partition of NodeSet gpu, whose QOS Slurm does not know."""
    nodeset = resource("NodeSet", "gpu", {"replicas": 0, "partition": {"enabled": True, "config": "QOS=nosuch"}})
    lines = {**CONFIG, "data": {"slurm.conf": "PartitionName=gpu Nodes=gpu QOS=nosuch\n"}}
    return cluster(degraded(reason, f"partition gpu: {SAID}"), nodeset, lines, slurm=with_partition("gpu"))


def of_partition(kind: str, reason: str) -> Facts:
    mine = resource("Partition", "q", {"qos": "nosuch"}, condition(kind, "False", reason, SAID))
    return cluster(mine, degraded(reason, f"partition q: {SAID}") if reason == "RefusedBySlurm" else READY_CONTROLLER)


READY_CONTROLLER = resource("Controller", "slurm", {}, READY)


def with_partition(name: str) -> Slurm:
    lines = f"PartitionName=compute State=UP Nodes=compute-[0-1]\nPartitionName={name} State=UP Nodes=compute-0\n"
    return said(NODES, JOBS, lines)


@pytest.mark.parametrize("target", ["partition/gpu", "controller/slurm"])
@pytest.mark.parametrize("reason", ["RefusedBySlurm", "ConfigNotValid"])
def test_a_refused_line_of_a_nodeset_is_a_cause_though_its_partition_runs_on(target: str, reason: str) -> None:
    found = explained(of_nodeset(reason), target)
    assert isinstance(found, Cause)
    assert found.code == {"RefusedBySlurm": "RefusedBySlurm", "ConfigNotValid": "LinterRefused"}[reason]
    assert f"refuses partition gpu as NodeSet gpu has it: {SAID}" in found.sentence
    assert found.command == "kubectl -n slurm edit nodesets.slinky.slurm.net gpu"
    assert found.wrong


def test_a_nodeset_whose_line_is_refused_says_so_itself() -> None:
    facts = cluster(
        degraded("RefusedBySlurm", f"partition compute: {SAID}"),
        resource("NodeSet", "compute", {"replicas": 2, "partition": {"enabled": True, "config": "QOS=nosuch"}}),
        without=("debug",),
    )
    found = explained(facts, "nodeset/compute")
    assert isinstance(found, Cause)
    assert found.code == "RefusedBySlurm"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("Ready", "RefusedBySlurm"),
        ("Applied", "RefusedBySlurm"),
        ("Applied", "LinterRefused"),
        ("Applied", "NeedsNewPartition"),
        ("Accepted", "NodesNotAdded"),
        ("Accepted", "NoNodes"),
    ],
)
def test_the_reason_in_a_partitions_condition_is_the_cause(kind: str, reason: str) -> None:
    found = explained(of_partition(kind, reason), "partition/q")
    assert isinstance(found, Cause)
    assert found.code == reason
    assert SAID in found.sentence
    assert "edit partitions.slinky.slurm.net q" in found.command


@pytest.mark.parametrize("facts", [of_nodeset(), of_partition("Ready", "RefusedBySlurm")])
def test_doctor_names_each_refusal_once(facts: Facts) -> None:
    assert [each.code for each in examine(facts)] == ["RefusedBySlurm"]


def test_drift_blames_nobody_for_what_slurm_refuses() -> None:
    (row,) = (each for each in current(of_nodeset()) if each.field == "QOS")
    assert (row.field, row.wanted, row.state, row.is_by_hand) == ("QOS", "nosuch", REFUSED, False)
    assert SAID in row.refusal


def test_a_job_waits_for_its_nodes_and_not_for_what_was_refused_of_its_partition() -> None:
    pending = "JobId=9 JobState=PENDING Reason=Priority Partition=gpu UserId=bob(1) NumNodes=1\n"
    slurm = said(NODES, pending, "PartitionName=gpu State=UP Nodes=compute-0\n")
    found = explained(replace(of_nodeset(), slurm={"slurm": slurm}), "job/9")
    assert isinstance(found, Cause)
    assert found.code == "Priority"


def test_a_controller_that_refuses_nothing_is_fine() -> None:
    facts = cluster(resource("Controller", "slurm", {}, READY, condition("Degraded", "False", "AsExpected")))
    assert isinstance(explained(facts, "controller/slurm"), Fine)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("partition a: no; wait; partitions b, c-1: never", {"a": "no; wait", "b": "never", "c-1": "never"}),
        ("slurm.conf:3: partition a: no", {}),
        ("", {}),
    ],
)
def test_what_a_controller_says_of_partitions_is_read_partition_by_partition(
    message: str, found: dict[str, str]
) -> None:
    assert by_partition(degraded("RefusedBySlurm", message)) == found


def test_a_partition_refused_for_its_letters_is_put_right_where_it_is_written() -> None:
    message = "partition größe: 'größe' is not a partition name: letters, digits, '_', '.' and '-' only"
    owner = degraded("RefusedBySlurm", message)
    owner["spec"] = {"extraConf": "PartitionName=größe Nodes=ALL"}
    (cause,) = (each for each in examine(cluster(owner)) if each.code == "RefusedBySlurm")
    assert cause.command == "kubectl -n slurm edit controllers.slinky.slurm.net slurm"
    assert "extraConf of Controller slurm" in cause.sentence
