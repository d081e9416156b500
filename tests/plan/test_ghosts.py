"""Which slurmds are asked to register again: those of workers whose container is younger than a job on them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.plan.small_cluster import Cluster

from kube_runtime.client import objects
from kube_runtime.times import time_text
from slurm_operator.plan.actions import Action, RequestRegistration
from slurm_operator.plan.ghosts import (
    ASK_SECONDS,
    ASKED_OFTEN,
    MAX_ASKED_NODES,
    MAX_PAUSE_SECONDS,
    Asked,
    questions,
    remembered,
)
from slurm_operator.plan.workers import workers
from slurm_operator.slurm.model import Node, Unknown


def started(pod: objects.Pod, at: datetime | None) -> objects.Pod:
    """A worker whose slurmd has run since then; None: it does not run."""
    running = {"running": {"startedAt": time_text(at)}} if at is not None else {"waiting": {"reason": "x"}}
    status = msgspec.convert({"name": "slurmd", "ready": True, "state": running}, objects.ContainerStatus)
    others = msgspec.structs.replace(pod.status, container_statuses=(status,))
    return msgspec.structs.replace(pod, status=others)


def asked_for(
    cluster: Cluster, *, node: Node | None = None, job_age: float = 60.0, asked: Asked | None = None, **job: Any
) -> list[Action]:
    """What is asked when the container is thirty seconds old."""
    since, began = cluster.now - timedelta(seconds=30), cluster.now - timedelta(seconds=job_age)
    fields = {"batch_host": "w-0", "start_time": int(began.timestamp()), **job}
    slurm = cluster.slurm(node or cluster.node("w-0", "ALLOCATED"), jobs=[cluster.job(1, "w-0", "w-1", **fields)])
    some = workers(cluster.nodeset(), [started(cluster.pod("w-0"), since)], slurm, cluster.now)
    return list(questions(some, slurm, {"w-0": asked} if asked else {}, cluster.now.timestamp()))


def test_a_worker_that_was_restarted_under_a_job_is_asked(cluster: Cluster) -> None:
    (action,) = asked_for(cluster)
    assert isinstance(action, RequestRegistration)
    assert action.nodes == ("w-0",)
    assert "1" in action.why


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"job_age": 20.0}, id="a job that began after the container"),
        pytest.param({"batch_host": "w-1"}, id="a script on another node"),
        pytest.param({"batch_host": ""}, id="a job of salloc or srun"),
        pytest.param({"state": "PENDING"}, id="a job that waits"),
        pytest.param({"state": "COMPLETED"}, id="a job that is over"),
        pytest.param({"start_time": 0}, id="a job of no time"),
    ],
)
def test_other_jobs_are_not_asked_about(cluster: Cluster, job: dict[str, Any]) -> None:
    assert asked_for(cluster, **job) == []


@pytest.mark.parametrize(
    "states",
    [
        ("ALLOCATED", "DRAIN"),
        ("DOWN",),
        ("ALLOCATED", "NOT_RESPONDING"),
        ("IDLE", "INVALID_REG"),
        ("IDLE", "FAIL", "COMPLETING"),
        ("ALLOCATED", "POWERING_UP"),
        ("ALLOCATED", "REBOOT_REQUESTED"),
    ],
    ids=[
        *("drained by somebody", "down", "silent", "refused by slurmctld", "failing, as somebody set it"),
        *("being powered up", "to be rebooted"),
    ],
)
def test_a_node_that_is_not_in_service_is_left_alone(cluster: Cluster, states: tuple[str, ...]) -> None:
    assert asked_for(cluster, node=cluster.node("w-0", *states)) == []


def test_a_node_of_our_own_drain_is_asked_too(cluster: Cluster) -> None:
    """Its ghost would keep a worker that leaves for half an hour."""
    assert asked_for(cluster, node=cluster.node("w-0", "ALLOCATED", "DRAIN", reason="slurm-operator: scale-in"))


def test_a_large_nodeset_is_asked_in_parts(cluster: Cluster) -> None:
    names = [f"w-{number}" for number in range(2 * MAX_ASKED_NODES)]
    jobs = [cluster.job(1, name, batch_host=name, start_time=1) for name in names]
    slurm = cluster.slurm(*(cluster.node(name, "ALLOCATED") for name in names), jobs=jobs)
    pods = [started(cluster.pod(name), cluster.now) for name in names]
    some, now = workers(cluster.nodeset(), pods, slurm, cluster.now), cluster.now.timestamp()
    (first,) = questions(some, slurm, {}, now)
    (second,) = questions(some, slurm, remembered({}, [first], names, now), now)
    assert isinstance(first, RequestRegistration)
    assert isinstance(second, RequestRegistration)
    assert {*first.nodes, *second.nodes} == set(names)


@pytest.mark.parametrize(
    ("times", "seconds_ago", "again"),
    [
        pytest.param(1, ASK_SECONDS - 1, False, id="a moment ago"),
        pytest.param(1, ASK_SECONDS, True, id="a while ago"),
        pytest.param(ASKED_OFTEN + 3, 7 * ASK_SECONDS, False, id="often before: not yet"),
        pytest.param(ASKED_OFTEN + 3, 8 * ASK_SECONDS, True, id="often before: now"),
        pytest.param(10_000, MAX_PAUSE_SECONDS, True, id="for ever, but rarely"),
    ],
)
def test_nobody_is_asked_at_every_look(cluster: Cluster, times: int, seconds_ago: float, again: bool) -> None:
    asked = Asked(times, cluster.now.timestamp() - seconds_ago)
    assert bool(asked_for(cluster, asked=asked)) is again


def test_a_container_that_does_not_run_tells_nothing(cluster: Cluster) -> None:
    slurm = cluster.slurm(cluster.node("w-0"), jobs=[cluster.job(1, "w-0", batch_host="w-0", start_time=1)])
    for pod in (cluster.pod("w-0"), started(cluster.pod("w-0"), None)):
        some = workers(cluster.nodeset(), [pod], slurm, cluster.now)
        assert list(questions(some, slurm, {}, 0.0)) == []


def test_nothing_is_asked_while_the_jobs_are_unknown(cluster: Cluster) -> None:
    slurm = cluster.blind()
    some = workers(cluster.nodeset(), [started(cluster.pod("w-0"), cluster.now)], slurm, cluster.now)
    assert isinstance(slurm.jobs, Unknown)
    assert list(questions(some, slurm, {}, 0.0)) == []


def test_what_was_asked_is_remembered_while_there_is_a_reason() -> None:
    before = {"a": Asked(2, 1.0), "b": Asked(1, 1.0)}
    action = RequestRegistration(("a", "c"), "why")
    assert remembered(before, [action], ["a", "c"], 5.0) == {"a": Asked(3, 5.0), "c": Asked(1, 5.0)}
    assert remembered(before, [], ["b"], 5.0) == {"b": Asked(1, 1.0)}
