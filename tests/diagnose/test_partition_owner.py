"""Whose a partition is."""

from __future__ import annotations

import pytest
from tests.diagnose.broken import cluster, condition, resource

from slurm_operator.diagnose.facts import Facts
from slurm_operator.diagnose.partition_owner import declared_sets, owner_of, set_name, unknown_partition, worker_hosts

WITH_PARTITION = resource("NodeSet", "compute", {"partition": {"enabled": True}})
RENAMED = resource("NodeSet", "compute", {"partition": {"enabled": True}, "template": {"spec": {"hostname": "node-"}}})
EXTRA = resource("Controller", "slurm", {"extraConf": "NodeSet=racks Feature=r\nPartitionName=legacy Nodes=ALL\n"})
REFUSED = resource("Partition", "debug", {"partitionName": "compute"}, condition("Accepted", "False", "NameTaken"))


@pytest.mark.parametrize(
    ("facts", "name", "expected"),
    [
        pytest.param(cluster(), "debug", "Partition debug", id="a Partition by its own name"),
        pytest.param(cluster(), "compute", "Partition debug", id="a Partition by its name in Slurm"),
        pytest.param(cluster(WITH_PARTITION, without=("debug",)), "compute", "NodeSet compute", id="a NodeSet"),
        pytest.param(cluster(RENAMED, without=("debug",)), "node", "NodeSet compute", id="a NodeSet by its host names"),
        pytest.param(cluster(RENAMED, without=("debug",)), "compute", "NodeSet compute", id="and by its own name"),
        pytest.param(cluster(WITH_PARTITION, REFUSED), "compute", "NodeSet compute", id="whoever was not refused"),
        pytest.param(cluster(REFUSED), "debug", "Partition debug", id="one that was refused, by its own name"),
        pytest.param(cluster(EXTRA), "legacy", "extraConf of Controller slurm", id="a line of extraConf"),
        pytest.param(cluster(), "nosuch", None, id="nobody's"),
        pytest.param(cluster(without=("debug",)), "compute", None, id="a NodeSet that makes no partition"),
    ],
)
def test_a_partition_is_found_by_any_of_its_names(facts: Facts, name: str, expected: str | None) -> None:
    found = owner_of(facts, name)
    assert (found.place if found is not None else None) == expected


def test_what_is_not_there_is_compared_with_what_is() -> None:
    assert unknown_partition(cluster(), "compte") == (
        "there is no partition 'compte' in namespace slurm; did you mean \"compute\"?"
    )


def test_hosts_that_a_list_may_name() -> None:
    assert worker_hosts(cluster()) == {"compute-0", "compute-1"}
    assert declared_sets(cluster(EXTRA), "slurm") == {"racks"}
    assert set_name(RENAMED) == "node"
