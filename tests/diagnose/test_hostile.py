"""What users typed into Slurm, seen by the diagnosis: nothing raises, nothing begins a line, nothing is expanded."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from slurm_operator.diagnose import job, partition
from slurm_operator.diagnose.cause import Fine
from slurm_operator.diagnose.cluster import examine
from slurm_operator.diagnose.facts import Facts, Slurm, slurm_facts

NODES = "NodeName=n0 CPUAlloc={cpus} CPUTot=2 State=IDLE Partitions=p\n"
JOB = (
    "JobId=7 JobName={name} UserId=alice(1) JobState=RUNNING Reason=None Partition=p NodeList={nodes} NumNodes={many}\n"
)
PARTITION = "PartitionName=p State=UP Nodes={nodes}\n"


def slurm(name: str = "j", nodes: str = "n0", many: str = "1", cpus: str = "0") -> Slurm:
    jobs = JOB.format(name=name, nodes=nodes, many=many)
    return slurm_facts(NODES.format(cpus=cpus), jobs, PARTITION.format(nodes=nodes))


@pytest.mark.parametrize(
    "name",
    [
        "a\x1b]0;owned\x07",
        "\u202egnp",
        "x\x0bJobId=8 JobState=FAILED",
        "x\u2028JobId=8",
        "x\x1eJobId=8",
        "\udcff",
        "�" * 1000,
    ],
    ids=["escape sequence", "bidi", "vertical tab", "line separator", "record separator", "surrogate", "mended"],
)
def test_a_job_name_neither_acts_nor_begins_a_line(name: str) -> None:
    found = slurm(name)
    assert list(found.jobs) == ["7"]
    assert found.jobs["7"].name.isprintable()
    assert found.jobs["7"].state == "RUNNING"


@pytest.mark.parametrize("number", ["9" * 5000, "²", "-1", "1e9", "", "٣"])
def test_a_number_that_cannot_be_read_is_none(number: str) -> None:
    found = slurm(many=number, cpus=number)
    facts = Facts("ns", slurm={"c": found})
    assert found.nodes["n0"].cpus_used == 0
    assert isinstance(job.why(facts, "7"), Fine)
    examine(facts)


@pytest.mark.parametrize("nodes", ["n[0-99999]", "n[0", "n[0-999999999]", "(null)", "", "[" * 1000])
def test_a_host_list_is_neither_expanded_nor_trusted(nodes: str) -> None:
    """T11: a sentence about it is as short as Slurm's own text."""
    tracemalloc.start()
    began = time.process_time()
    facts = Facts("ns", slurm={"c": slurm(nodes=nodes)})
    said = job.why(facts, "7")
    partition.why(facts, "p")
    examine(facts)
    seconds = time.process_time() - began
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(said.sentence) < 1100
    assert most_bytes < 2_000_000
    assert seconds < 1.0
