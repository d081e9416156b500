"""Rules for Partitions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.admission.rules.resources import check, said

from slurm_operator.api.problem import Path

Changes = dict[Path, Any]


def spec(**fields: Any) -> Changes:
    """Fields of the spec."""
    return {("spec", name): value for name, value in fields.items()}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (spec(nodeSets=[]), "spec.nodeSets: name at least one NodeSet, ALL, or nodes"),
        (spec(nodeSets=["ALL", "a"]), "spec.nodeSets: ALL means every node; list nothing else beside it"),
        (spec(nodeSets=["all", "A_b"]), 'spec.nodeSets[1]: "A_b" is not the name of a NodeSet'),
        (spec(nodeSets=["All"]), 'spec.nodeSets[0]: "All" is not the name of a NodeSet; did you mean ALL?'),
        (spec(nodes="n[1-"), "spec.nodes: "),
        (spec(nodes="n[0-9999999]"), "spec.nodes: "),
        (spec(nodes="a\nb"), "spec.nodes: must be one line"),
        (spec(config="Nodes=a"), "spec.config: must not set Nodes, which the operator writes"),
        (spec(config="partitionname=a"), "spec.config: must not set partitionname"),
        (spec(config="A=b # c"), "spec.config: must not contain '#'"),
        (spec(config='A="b'), "spec.config: "),
        (spec(tresBillingWeights={"CPU": "1 0"}), "spec.tresBillingWeights.CPU: "),
        (spec(tresBillingWeights={"C U": "1"}), 'spec.tresBillingWeights["C U"]: '),
        (spec(defMemPerCPU=1, defMemPerNode=1), "spec.defMemPerNode: is set per CPU and per node"),
        (spec(maxMemPerCPU=1, maxMemPerNode=1), "spec.maxMemPerNode: is set per CPU and per node"),
        (spec(minNodes=5, maxNodes=4), "spec.minNodes: 5 is more than maxNodes, 4"),
        (spec(allowAccounts=["a"], denyAccounts=["b"]), "warning: spec.denyAccounts: is ignored by Slurm"),
        (spec(allowQos=["a"], denyQos=["b"]), "warning: spec.denyQos: is ignored by Slurm"),
    ],
    ids=lambda item: item[:70] if isinstance(item, str) else "",
)
def test_a_mistake_is_told(changes: Changes, expected: str) -> None:
    found = said(check("Partition", changes))
    assert len(found) == 1, found
    assert found[0].startswith(expected), found


@pytest.mark.parametrize(
    "changes",
    [
        spec(nodeSets=["ALL"]),
        spec(nodeSets=[], nodes="ext[1-4]"),
        spec(nodes="+ext1,-compute-0"),
        spec(minNodes=4, maxNodes=4),
        spec(minNodes=4, maxNodes="UNLIMITED"),
        spec(defMemPerCPU=1, maxMemPerNode=1),
        spec(allowAccounts=[], denyAccounts=["a"]),
        spec(config='SelectTypeParameters=CR_Core Alternate="a"'),
        spec(tresBillingWeights={"CPU": "1.0", "GRES/gpu": "2"}),
        spec(partitionName="Debug_1"),
    ],
    ids=str,
)
def test_what_is_right_passes(changes: Changes) -> None:
    assert check("Partition", changes) == []


def test_a_partition_keeps_its_name_in_slurm() -> None:
    found = said(check("Partition", spec(partitionName="b"), old=spec(partitionName="a")))
    assert found == ['spec.partitionName: must not change; it was "a"']
    assert check("Partition", spec(partitionName="one"), old={}) == []


def test_a_name_that_slurm_cannot_hold_needs_a_partition_name() -> None:
    assert check("Partition", {("metadata", "name"): "a.b-c"}) == []


@pytest.mark.parametrize("name", ["t", "No", "off", "007", "1.5"])
def test_a_name_that_slurmrestd_misreads_is_warned_of(name: str) -> None:
    found = check("Partition", spec(partitionName=name))
    assert [(each.severity, each.path) for each in found] == [("warning", ("spec", "partitionName"))]
