"""The real Slurm of the benchmarks: its configuration, how slurmrestd is started, and the users of its queue."""

from __future__ import annotations

from bench.real_slurm.jobs import parse_queue, submissions
from bench.real_slurm.slurm import rest_command, slurm_conf
from bench.scaling import objects


def test_every_nodeset_has_a_node_set_and_a_partition_and_those_of_the_tests_are_gone() -> None:
    lines = slurm_conf("memory_slurm", ("busy", "wide"), 2000, ("SlurmdTimeout=0",)).splitlines()
    assert [line for line in lines if line.startswith("NodeSet=")] == [
        "NodeSet=busy Feature=busy",
        "NodeSet=wide Feature=wide",
    ]
    assert [line.split()[0] for line in lines if line.startswith("Partition")] == [
        "PartitionName=busy",
        "PartitionName=wide",
    ]
    assert {"ClusterName=memory_slurm", "MaxNodeCount=2000", "SlurmdTimeout=0"} <= set(lines)
    assert sum(line.startswith("ClusterName=") for line in lines) == 1


def test_slurmrestd_is_started_as_in_the_pod() -> None:
    command = rest_command(objects.controller("hpc"), objects.restapi("hpc", 6820))
    assert command.arguments == ("-s", "openapi/slurmctld")
    assert command.environment["SLURM_JWT"] == "daemon"


def test_a_job_on_hold_is_told_from_one_that_waits() -> None:
    found = parse_queue("7|PD|JobHeldUser\n8|PD|Priority\n9_[0-4]|R|None\nslurm_load_jobs error\n")
    assert [(each.job_id, each.is_held) for each in found] == [("7", True), ("8", False), ("9_[0-4]", False)]


def test_submissions_go_on_where_the_last_ones_ended_and_are_of_every_kind() -> None:
    first, second = submissions(0, 10, "busy"), submissions(10, 10, "busy")
    assert not {line.split(" -J ")[1].split()[0] for line in first} & {
        line.split(" -J ")[1].split()[0] for line in second
    }
    assert sum("--array" in line for line in first) == 1
    assert sum("--hold" in line for line in first) == 2
