"""How many broken clusters there are, real and recorded, and that each has a situation, a cause and a next command.

The tables stand beside the tests that break or build them; every row of them is asserted there: a wrong cause fails.
"""

from __future__ import annotations

from collections.abc import Sized

from tests.diagnose.test_database import CASES as DATABASES
from tests.diagnose.test_job import CASES as JOBS
from tests.diagnose.test_node import CASES as NODES
from tests.diagnose.test_partition import CASES as PARTITIONS
from tests.diagnose.test_pod import CASES as PODS
from tests.diagnose.test_references import MISSING
from tests.diagnose.test_resource import CASES as RESOURCES
from tests.diagnose.test_waiting import ROWS
from tests.real.local.test_why import WAVES

LEAST_REAL, LEAST_RECORDED = 90, 90
REAL: dict[str, Sized] = {name: wave.rows for name, wave in WAVES.items()}
RECORDED: dict[str, Sized] = {
    "jobs that wait": ROWS,
    "jobs": JOBS,
    "nodes": NODES,
    "partitions": PARTITIONS,
    "pods": PODS,
    "resources": RESOURCES,
    "references": MISSING,
    "databases": DATABASES,
}


def test_there_are_at_least_ninety_broken_clusters_on_real_slurm_and_as_many_recorded() -> None:
    real, recorded = sum(map(len, REAL.values())), sum(map(len, RECORDED.values()))
    print(f"{real} broken on real Slurm, {recorded} recorded: {real + recorded}")
    assert real >= LEAST_REAL
    assert recorded >= LEAST_RECORDED


def test_each_row_of_the_real_tables_names_a_cause_and_the_next_command() -> None:
    rows = [(name, row) for wave in WAVES.values() for name, row in wave.rows.items()]
    assert [name for name, row in rows if not (row.code and row.words and row.command)] == []
    assert len({name for name, _ in rows}) == len(rows)
