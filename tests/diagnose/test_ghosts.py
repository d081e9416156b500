"""A job whose processes are gone is not called running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.diagnose.broken import cluster, explains, pod

from slurm_operator.build import labels
from slurm_operator.diagnose import cluster as clusters
from slurm_operator.diagnose import ghosts
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmJob

BEFORE, BEGAN, AFTER = "2030-01-01T09:00:00Z", "2030-01-01T10:00:00Z", "2030-01-01T11:00:00Z"


def restarted(*since: str) -> Facts:
    """A cluster whose workers were started at these times, with a batch job on both, its script on the first."""
    return with_job(since, {"BatchHost": "compute-0"})


def with_job(since: tuple[str, ...], wants: Mapping[str, str], state: str = "RUNNING") -> Facts:
    job = SlurmJob("7", "j", "alice", state, nodes=("compute-0", "compute-1"), wants={"StartTime": BEGAN, **wants})
    pods = [_worker(f"compute-{number}", time) for number, time in enumerate(since)]
    return cluster(*pods, slurm=Slurm(jobs={"7": job}))


def _worker(name: str, since: str) -> dict[str, Any]:
    status = {"name": "slurmd", "ready": True, "state": {"running": {"startedAt": since}}}
    return pod(name, labels.WORKER, "compute", containerStatuses=[status])


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED"])
def test_a_job_whose_script_ran_in_a_container_that_has_ended_is_named(state: str) -> None:
    facts = with_job((AFTER, BEFORE), {"BatchHost": "compute-0"}, state)
    explains("job/7", facts, "ProcessesGone")
    (cause,) = [each for each in clusters.examine(facts) if each.code == "ProcessesGone"]
    assert cause.command.endswith("scontrol requeue 7")


def test_a_job_without_a_script_is_gone_with_the_last_of_its_workers() -> None:
    (cause,) = ghosts.examine(with_job((AFTER, AFTER), {"BatchHost": ""}))
    assert cause.command.endswith("scancel 7")
    assert list(ghosts.examine(with_job((AFTER, BEFORE), {"BatchHost": ""}))) == []


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(restarted(BEFORE, AFTER), id="another worker of it was restarted"),
        pytest.param(restarted(BEFORE, BEFORE), id="no worker was restarted"),
        pytest.param(restarted(BEGAN, BEGAN), id="in the same second"),
        pytest.param(with_job((AFTER, AFTER), {"BatchHost": "compute-0"}, "PENDING"), id="it waits"),
        pytest.param(with_job((AFTER, AFTER), {"BatchHost": "elsewhere"}), id="on a node that is no pod"),
        pytest.param(with_job((AFTER, AFTER), {"BatchHost": "compute-0", "StartTime": "Unknown"}), id="of no time"),
    ],
)
def test_a_job_that_may_run_is_not_accused(facts: Facts) -> None:
    assert list(ghosts.examine(facts)) == []
