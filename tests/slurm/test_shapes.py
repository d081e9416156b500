"""Numbers and jobs as slurmrestd writes them: whatever stands there, what is made of it can be used."""

from __future__ import annotations

import pytest
from tests.slurm.recorded_replies import recorded, reply

from slurm_operator.slurm import wire
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import MAX_EPOCH_SECONDS, UNLIMITED
from slurm_operator.slurm.shapes import Number


@pytest.mark.parametrize(
    ("number", "seconds", "limit"),
    [
        (Number(set=True, number=float("inf")), MAX_EPOCH_SECONDS, 2**63 - 1),
        (Number(set=True, number=float("nan")), MAX_EPOCH_SECONDS, 2**63 - 1),
        (Number(set=True, number=10**300), MAX_EPOCH_SECONDS, 2**63 - 1),
        (Number(set=True, number=-7), 0, 0),
        (Number(set=True, number=2.9), 2, 2),
        (Number(set=True, infinite=True, number=5), 0, UNLIMITED),
        (Number(number=5), 0, None),
    ],
    ids=lambda value: str(getattr(value, "number", value))[:12],
)
def test_no_number_of_slurm_can_break_arithmetic(number: Number, seconds: int, limit: object) -> None:
    """T2: arithmetic on foreign numbers."""
    assert (number.seconds(), number.limit()) == (seconds, limit)


@pytest.mark.parametrize(("over", "complete"), [(["COMPLETED"], True), (["RUNNING"], False), ([], False)])
def test_where_a_job_was_matters_only_while_it_is_not_over(over: list[str], complete: bool) -> None:
    document = recorded("26.05", "jobs")
    document["jobs"][0] |= {"job_state": over, "nodes": "n[0"}
    answer = wire.jobs(reply(document), "jobs")
    assert answer.complete is complete
    assert [job.nodes for job in answer.items] == ([HostList()] if complete else [])
