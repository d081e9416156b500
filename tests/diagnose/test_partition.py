"""Why a partition takes no jobs."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

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

import slurm_operator
from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause, Unseen
from slurm_operator.diagnose.facts import Facts

DRAINED = said(NODES, JOBS, PARTITIONS.replace("UP", "DRAIN"))
LEAVING = {"deletionTimestamp": "2030-01-01T00:00:00Z"}


def of_nodeset(config: str = "") -> dict[str, Any]:
    return resource("NodeSet", "compute", {"replicas": 2, "partition": {"enabled": True, "config": config}})


def of_extra_conf(line: str) -> dict[str, Any]:
    return resource("Controller", "slurm", {"extraConf": line})


def leaving(made: dict[str, Any]) -> dict[str, Any]:
    return {**made, "metadata": {**made["metadata"], **LEAVING}}


def in_file() -> dict[str, Any]:
    data = {"slurm.conf": "NodeSet=compute Feature=compute\nPartitionName=compute Nodes=compute State=DRAIN\n"}
    return {"kind": "ConfigMap", "metadata": {"name": "slurm-config"}, "data": data}


CASES: dict[str, Case] = {
    "a partition of a NodeSet that is drained on purpose": (
        "partition/compute",
        cluster(of_nodeset("State=DRAIN"), slurm=DRAINED, without=("debug",)),
        "PartitionNotUp",
    ),
    "a partition that is being deleted": (
        "partition/debug",
        cluster(leaving(resource("Partition", "debug", {"partitionName": "compute"})), slurm=DRAINED),
        "PartitionLeaving",
    ),
    "a partition that no resource declares any more, and that has jobs": (
        "partition/compute",
        cluster(in_file(), slurm=DRAINED, without=("debug",)),
        "PartitionLeaving",
    ),
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


# Who has the partition, who set its state: what is advised, and whether the operator would change it back.
ADVICE = {
    "the Partition says so": (
        cluster(resource("Partition", "debug", {"partitionName": "compute", "state": "DRAIN"}), slurm=DRAINED),
        "as Partition debug says",
        "kubectl slurm -n slurm partition up compute",
    ),
    "the NodeSet says so": (
        cluster(of_nodeset("Default=YES state=drain"), slurm=DRAINED, without=("debug",)),
        "as NodeSet compute says",
        "kubectl slurm -n slurm partition up compute",
    ),
    "extraConf says so": (
        cluster(of_extra_conf("PartitionName=compute Nodes=ALL State=DRAIN"), slurm=DRAINED, without=("debug",)),
        "as extraConf of Controller slurm says",
        "kubectl -n slurm edit controller slurm",
    ),
    "by hand, of a Partition that reverts": (
        cluster(slurm=DRAINED),
        "though Partition debug asks for UP: somebody with scontrol or REST set it",
        "kubectl slurm -n slurm drift",
    ),
    "by hand, of a Partition that only reports": (
        cluster(
            resource("Partition", "debug", {"partitionName": "compute", "driftPolicy": "Report"}),
            slurm=DRAINED,
        ),
        "and its driftPolicy is Report",
        # Slurm comes to what the Partition says: nothing is left to change back.
        "kubectl slurm -n slurm shell -- scontrol update partitionname=compute state=up",
    ),
    "by hand, of a NodeSet": (
        cluster(of_nodeset(), slurm=DRAINED, without=("debug",)),
        "though NodeSet compute asks for UP: somebody with scontrol or REST set it",
        "kubectl slurm -n slurm drift",
    ),
    "by hand, of extraConf": (
        cluster(of_extra_conf("PartitionName=compute Nodes=ALL"), slurm=DRAINED, without=("debug",)),
        "though extraConf of Controller slurm asks for UP",
        "kubectl slurm -n slurm drift",
    ),
    "nobody's: the operator leaves it alone": (
        cluster(slurm=DRAINED, without=("debug",)),
        "no resource declares it",
        "kubectl slurm -n slurm shell -- scontrol update partitionname=compute state=up",
    ),
    "on its way out, drained by the operator": (
        cluster(leaving(resource("Partition", "debug", {"partitionName": "compute"})), slurm=DRAINED),
        "because Partition debug is being deleted",
        "kubectl slurm -n slurm shell -- squeue -p compute",
    ),
    "of a NodeSet on its way out": (
        cluster(leaving(of_nodeset()), slurm=DRAINED, without=("debug",)),
        "because NodeSet compute is being deleted",
        "kubectl slurm -n slurm shell -- squeue -p compute",
    ),
    "declared by nobody any more, and still in slurm.conf": (
        cluster(in_file(), slurm=DRAINED, without=("debug",)),
        "the operator removes it when its jobs have ended",
        "kubectl slurm -n slurm shell -- squeue -p compute",
    ),
}


@pytest.mark.parametrize(("facts", "words", "command"), ADVICE.values(), ids=ADVICE.keys())
def test_no_advice_is_given_that_the_operator_undoes(facts: Facts, words: str, command: str) -> None:
    """U4: of a NodeSet's partition it advised scontrol, and changed it back five seconds later."""
    answer = explained(facts, "partition/compute")
    assert isinstance(answer, Cause)
    assert words in answer.sentence
    assert answer.command == command


JOBS = "a job, which the operator never changes"
# Every place that advises a change by scontrol, and why the operator does not undo it.
PLACES = {
    "diagnose/partition.py: scontrol update": "the partition is nobody's, or comes to what its resource says",
    "diagnose/node.py: scontrol update": "nodes that somebody else drained are never drained again by the operator",
    "cli/kubectl/nodes.py: scontrol update": "the same, where somebody asks for an undrain",
    "diagnose/node.py: scontrol delete": "a record without a pod, which no NodeSet asks for",
    "diagnose/dependency.py: scontrol update": JOBS,
    "diagnose/limits.py: scontrol update": JOBS,
    "diagnose/reasons.py: scontrol update": JOBS,
    "diagnose/scale_in.py: scontrol update": JOBS,
    "diagnose/short_of_nodes.py: scontrol update": JOBS,
    "diagnose/waiting.py: scontrol update": JOBS,
    "diagnose/leftovers.py: scontrol delete": "records of a NodeSet that is gone",
    "local/stopping.py: scontrol update": "no advice: what a worker of a local cluster that is stopped runs",
    "status/partition.py: scontrol delete": "a Partition that is being deleted, and that slurmrestd cannot delete",
    "slurm/requests.py: scontrol delete": "the same",
    "plan/nodeset.py: scontrol update": JOBS,
    "build/nodeset.py: scontrol update": "no advice: what a worker runs when it ends",
}


def test_every_advice_of_scontrol_is_known_to_last() -> None:
    source = Path(slurm_operator.__file__).parent
    found = {
        f"{path.relative_to(source)}: {each}"
        for path in sorted(source.rglob("*.py"))
        for each in re.findall(r"scontrol (?:update|delete|create|reconfigure)", _code(path))
    }
    assert found == set(PLACES)


def _code(path: Path) -> str:
    """A module without its docstrings and comments."""
    tree = ast.parse(path.read_text())
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    documented = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    docstrings = {id(node.body[0].value) for node in documented if node.body and isinstance(node.body[0], ast.Expr)}
    return "\n".join(str(node.value) for node in texts if id(node) not in docstrings)


def test_a_partition_that_is_not_there_is_compared_with_those_that_are() -> None:
    answer = explained(cluster(), "partition/compte")
    assert isinstance(answer, Unseen)
    assert 'did you mean "compute"?' in answer.sentence
