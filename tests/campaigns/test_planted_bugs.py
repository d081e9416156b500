"""The judge sees what it is there for: bugs planted in the operator are found by the campaign that should find them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.campaigns import campaign
from tests.campaigns.rig import World
from tests.campaigns.scenarios import small

from slurm_operator.plan import config, drains, partition, workers
from slurm_operator.plan import nodeset as plan
from slurm_operator.reconcile import clusters
from slurm_operator.slurm import job_records, policy
from slurm_operator.slurm.decision import Decision


def violations(scenario: str, release: str = "26.05") -> list[str]:
    return asyncio.run(campaign.live(scenario, World(release=release))).violations


def test_unknown_taken_for_drained_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_may_remove", lambda *_: policy.Yes())
    found = violations("S-in")
    assert any(each.startswith("I1: pod") and "with jobs" in each for each in found)
    assert any(each.startswith("I1: jobs") for each in found)


def test_workers_that_go_undrained_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def idle_is_enough(worker: workers.Worker, slurm: Any, _: Any) -> policy.Yes | policy.No:
        busy = worker.node is None or policy.is_busy(worker.node)
        return (
            policy.No("busy") if busy or any(policy.occupies(j, worker.hostname) for j in slurm.jobs) else policy.Yes()
        )

    monkeypatch.setattr(workers, "_may_remove", idle_is_enough)
    monkeypatch.setattr(plan, "drains", lambda *_: ())
    assert any("undrained" in each for each in violations("S-in"))


def test_half_a_list_taken_for_the_whole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "absence_in_doubt", lambda *_: None)
    monkeypatch.setattr(workers.Worker, "unregistered_since", lambda *_: None)
    # Later lists come when their workers have gone already.
    first = {f"{number:03}-empty-list" for number in range(30)}
    result = campaign.run("R6", "S-in", lambda point: point.rpartition("/")[2] in first)
    assert any("I1" in each for each in result.violations)


def test_a_foreign_drain_that_is_lifted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drains, "is_drained_by_us", policy.is_draining)
    monkeypatch.setattr(clusters, "is_drained_by_us", policy.is_draining)
    wanted = campaign.sampled(6)
    result = campaign.run("R6", "S-out", lambda point: point.endswith("admin-drains") and wanted(point))
    assert any("I4" in each for each in result.violations)


def test_a_nudge_that_dies_with_its_operator_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever nudges only in the turn that writes the candidate."""
    monkeypatch.setattr(config, "_needs_nudge", lambda _, world, wanted, *__: world.candidate != wanted)
    result = campaign.run("R2", "S-conf")
    # Where the operator is killed between the candidate and the nudge, it waits for a verdict that does not come.
    assert any("no slurmctld pod was told" in each or "still at work" in each for each in result.violations)


def test_a_partition_that_goes_before_its_jobs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "kept_by_slurm", lambda _: None)
    # The Controller's turn holds the line too, and from 26.05 on Slurm itself does: all must be blind.
    monkeypatch.setattr(partition, "blocking_jobs", lambda *_, **__: ())
    assert any("left slurm.conf" in each for each in violations("S-del", "24.11"))


async def under_a_suspended_job(*, moves: bool = False) -> list[str]:
    """All workers are to go, and one of them has a job that leaves its node idle."""
    world = World()
    await world.open()
    await small(world, 2)
    job = world.slurm.submit(1000.0)
    await world.run_for(10.0)
    world.slurm.suspend(job)
    await world.run_for(10.0)
    if moves:
        # As if it had been requeued, started elsewhere and suspended again between two polls.
        world.slurm.jobs[job].nodes = ("compute-1",)
        world.slurm.touch("jobs")
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 0}})
    await world.run_for(60.0)
    await world.close()
    return world.judge.violations


def test_without_a_bug_nothing_is_found() -> None:
    assert asyncio.run(under_a_suspended_job(moves=True)) == []


def test_jobs_that_are_listed_and_never_read_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_records.JobRecords, "_needed", lambda *_: ())
    assert any("goes with jobs" in each for each in asyncio.run(under_a_suspended_job()))


def test_a_decision_by_an_old_record_of_a_job_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Decision, "depends_on", lambda *_: False)
    assert any("goes with jobs" in each for each in asyncio.run(under_a_suspended_job(moves=True)))
