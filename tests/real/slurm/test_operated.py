"""The whole operator on a real Slurm: what a slurmctld forgets when it is killed, and how soon a change is seen.

A killed slurmctld forgets what it had not written down: so that this is no matter of luck, the tests put back what was
on its disk some seconds before.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from statistics import median

import pytest
from tests.real.slurm import rootfs
from tests.real.slurm.cluster import Cluster, require_namespaces
from tests.real.slurm.operated import FIRST_PORT, REF, Operated

pytestmark = [pytest.mark.real_slurm, pytest.mark.timeout(400)]

STATE = "/var/spool/slurmctld"
# Slurm is asked every 5 s, every second while somebody waits, and a status is written once a second.
QUIET_SECONDS, DRAIN_SECONDS = 6.0, 1.5
# What a machine that has other things to do may add.
SLACK = 1.0
ROUNDS = 4
GHOST_ROUNDS = int(os.environ.get("ROUNDS", "2"))


@pytest.fixture(params=sorted(rootfs.SUITES))
def bare(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of the test's own, without accounting: what it forgets, no other test may miss."""
    try:
        root = rootfs.provide(request.param)
        require_namespaces()
    except rootfs.CannotProvision as missing:
        pytest.skip(f"no real Slurm {request.param}: {missing}")
    cluster = Cluster(request.param, root)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
async def operated(bare: Cluster) -> AsyncIterator[Operated]:
    """An operator with one NodeSet of one worker, at rest."""
    async with Operated(bare) as made:
        await made.create("NodeSet", "compute", {**REF, "replicas": 1, "slurmd": {"image": "example.org/slurmd:1"}})
        await made.until("the first worker is there", lambda: made.is_reserved("compute", 1))
        bare.wait_saved("nodeSetName")
        yield made


def nodes(slurm: Cluster) -> set[str]:
    return set(slurm.run("sinfo", "-h", "-N", "-o", "%N", check=False).split())


def submit(slurm: Cluster, node: str, seconds: int) -> int:
    """A job that runs there."""
    wrapped = ("--wrap", f"sleep {seconds}")
    job = int(slurm.run("sbatch", "--parsable", "-w", node, "-J", f"on-{node}", "-o", "/dev/null", *wrapped))
    slurm.wait_job(job)
    return job


def job_is(slurm: Cluster, job: int, state: str) -> bool:
    return f"JobState={state} " in slurm.run("scontrol", "-o", "show", "job", str(job), check=False)


def keep_state(slurm: Cluster) -> None:
    """What is on slurmctld's disk now."""
    slurm.shell(f"rm -rf /tmp/kept; cp -a {STATE} /tmp/kept")


def kill_and_forget(slurm: Cluster, file: str) -> None:
    """kill -9 of a slurmctld that had not yet written what happened since `keep_state`."""
    slurm.kill_controller()
    slurm.shell(f"for f in {file} {file}.old; do [ ! -e /tmp/kept/$f ] || cp -a /tmp/kept/$f {STATE}/$f; done")
    slurm.start_controller()


async def test_workers_that_a_killed_slurmctld_forgot_are_registered_again_and_no_job_elsewhere_is_lost(
    operated: Operated,
) -> None:
    slurm, everyone = operated.slurm, {"compute-0", "compute-1", "compute-2"}
    first, job = operated.pod("compute-0")["metadata"]["uid"], submit(slurm, "compute-0", 45)
    slurm.wait_saved("on-compute-0", "job_state")
    keep_state(slurm)
    await operated.scale("compute", 3)
    await operated.until("all three are registered", lambda: operated.is_reserved("compute", 3))
    await asyncio.to_thread(kill_and_forget, slurm, "node_state")
    assert nodes(slurm) & everyone == {"compute-0"}
    await operated.until("it is noticed", lambda: operated.condition("compute", "Ready")[0] == "False")
    took = await operated.until("they are registered again", lambda: operated.is_reserved("compute", 3))
    assert nodes(slurm) >= everyone
    await operated.until("the job comes to its own end", lambda: job_is(slurm, job, "COMPLETED"))
    assert "Restarts=0 " in slurm.run("scontrol", "-o", "show", "job", str(job))
    assert operated.pod("compute-0")["metadata"]["uid"] == first
    print(f"Slurm {slurm.version}: forgotten workers are registered again after {took:.1f} s")


async def test_a_worker_that_was_forgotten_with_its_job_is_made_anew_after_its_grace(operated: Operated) -> None:
    """Slurm gives up such a job by itself: see docs/internals/failure-modes.md."""
    slurm = operated.slurm
    keep_state(slurm)
    await operated.scale("compute", 2)
    await operated.until("both are registered", lambda: operated.is_reserved("compute", 2))
    before, job = operated.pod("compute-1")["metadata"]["uid"], submit(slurm, "compute-1", 300)
    slurm.wait_saved("on-compute-1", "job_state")
    await asyncio.to_thread(kill_and_forget, slurm, "node_state")
    assert job_is(slurm, job, "NODE_FAIL") or job_is(slurm, job, "PENDING")
    await operated.until("it is noticed", lambda: operated.condition("compute", "Ready")[0] == "False")
    await operated.until("it is registered again", lambda: operated.is_reserved("compute", 2))
    assert operated.pod("compute-1")["metadata"]["uid"] != before
    slurm.run("scancel", str(job), check=False)
    await operated.until("it takes jobs", lambda: submit(slurm, "compute-1", 1))


async def test_a_job_that_lost_its_processes_is_requeued_and_one_that_lives_is_not(operated: Operated) -> None:
    slurm = operated.slurm
    await operated.scale("compute", 2)
    await operated.until("both are registered", lambda: operated.is_reserved("compute", 2))
    for number in range(GHOST_ROUNDS):
        gone, lives = submit(slurm, "compute-0", 300), submit(slurm, "compute-1", 300)
        # All of it at once, as when a machine is restarted: slurmctld is too young to miss a job when slurmd is back.
        await asyncio.to_thread(restart_everything, slurm, gone)
        for pod in ("compute-0", "compute-1"):
            # The clock of the second one's node is ahead of slurmctld's.
            await operated.tell_start(pod)
        assert job_is(slurm, gone, "RUNNING")
        took = await operated.until("it is requeued", lambda gone=gone: job_is(slurm, gone, "PENDING"))  # type: ignore[misc]
        assert job_is(slurm, lives, "RUNNING")
        print(f"Slurm {slurm.version}: round {number}: a job without processes is requeued after {took:.1f} s")
        slurm.run("scancel", str(gone), str(lives))
        await operated.until("both are free", lambda: not slurm.run("squeue", "-h").strip())


def restart_everything(slurm: Cluster, job: int) -> None:
    """slurmctld, and the worker of a job with everything that runs on it."""
    slurm.kill_node("compute-0")
    slurm.shell(f"pkill -9 -f 'slurmstepd: .{job}[.]'")
    slurm.stop_controller()
    slurm.start_controller()
    slurm.start_node("compute-0", FIRST_PORT)


async def test_records_go_with_a_scale_in_and_with_their_nodeset(operated: Operated) -> None:
    slurm = operated.slurm
    await operated.scale("compute", 6)
    await operated.until("all are registered", lambda: operated.is_reserved("compute", 6))
    await operated.scale("compute", 2)
    took = await operated.until("their records are gone", lambda: _compute(slurm) == {"compute-0", "compute-1"})
    print(f"Slurm {slurm.version}: four workers and their records are gone after {took:.1f} s")
    job = submit(slurm, "compute-0", 1)
    await operated.until("the job is over", lambda: job_is(slurm, job, "COMPLETED"))
    await operated.delete("NodeSet", "compute")
    took = await operated.until("the NodeSet is gone", lambda: operated.nodeset("compute") == {})
    print(f"Slurm {slurm.version}: the NodeSet is gone after {took:.1f} s, though job {job} is remembered")
    assert job_is(slurm, job, "COMPLETED")
    assert _compute(slurm) == set()


def _compute(slurm: Cluster) -> set[str]:
    return {name for name in nodes(slurm) if name.startswith("compute-")}


async def test_a_job_that_slurmctld_forgot_costs_no_worker(operated: Operated) -> None:
    slurm = operated.slurm
    first = operated.pod("compute-0")["metadata"]["uid"]
    keep_state(slurm)
    job = submit(slurm, "compute-0", 300)
    await asyncio.to_thread(kill_and_forget, slurm, "job_state")
    assert not slurm.run("scontrol", "-o", "show", "job", str(job), check=False)
    await operated.until("its process is ended", lambda: not slurm.run("pgrep", "-f", "sleep 300", check=False))
    await operated.until("the worker is free", lambda: operated.states("compute-0") >= {"Idle", "SlurmNodeRegistered"})
    # All jobs of the cluster are lost at once: that is believed after a minute.
    await operated.until("the loss is believed", lambda: operated.is_reserved("compute", 1))
    assert operated.pod("compute-0")["metadata"]["uid"] == first


async def test_a_job_whose_start_was_forgotten_is_started_again_by_slurm_on_the_same_worker(operated: Operated) -> None:
    slurm = operated.slurm
    first = operated.pod("compute-0")["metadata"]["uid"]
    later = ("-w", "compute-0", "-J", "later", "--begin=now+8", "-o", "/dev/null", "--wrap", "sleep 300")
    job = int(slurm.run("sbatch", "--parsable", *later))
    slurm.wait_saved("later", "job_state")
    keep_state(slurm)
    slurm.wait_job(job)
    await asyncio.to_thread(kill_and_forget, slurm, "job_state")

    # Whether it finds its own job there first, and drains the node for that, is a matter of milliseconds.
    def decided() -> bool:
        ended = not slurm.run("pgrep", "-f", "sleep 300", check=False)
        return ended or "Drain" in operated.states("compute-0") or job_is(slurm, job, "RUNNING")

    await operated.until("Slurm has made up its mind", decided)
    drained = "Drain" in operated.states("compute-0")
    assert not drained or "Duplicate jobid" in slurm.run("scontrol", "-o", "show", "node", "compute-0")
    assert job_is(slurm, job, "PENDING") or job_is(slurm, job, "RUNNING")
    assert operated.pod("compute-0")["metadata"]["uid"] == first
    slurm.run("scancel", str(job))


async def test_a_change_in_slurm_is_in_the_pod_and_in_the_nodeset_within_six_seconds(operated: Operated) -> None:
    def shows(drained: int) -> Callable[[], bool]:
        return lambda: (
            ("Drain" in operated.states("compute-0")) == bool(drained)
            and operated.nodeset("compute")["slurmDrain"] == drained
        )

    took: list[float] = []
    for number in range(ROUNDS):
        # Not in step with whoever looks.
        await asyncio.sleep(1.0 + number * 1.3)
        for drained, change in ((1, ("state=drain", "reason=disk")), (0, ("state=resume",))):
            await asyncio.to_thread(operated.slurm.run, "scontrol", "update", "nodename=compute-0", *change)
            took.append(await operated.until(f"drained: {drained}", shows(drained)))
    told(operated, "nobody waits", took, QUIET_SECONDS)


async def test_a_change_during_a_drain_is_seen_within_a_second_and_a_half(operated: Operated) -> None:
    slurm, job = operated.slurm, submit(operated.slurm, "compute-0", 300)
    await operated.scale("compute", 0)
    await operated.until("it is drained", lambda: operated.states("compute-0") >= {"Drain", "Mixed"})

    def shows(busy: int) -> Callable[[], bool]:
        return lambda: (
            ("Mixed" in operated.states("compute-0")) == bool(busy)
            and operated.nodeset("compute")["slurmAllocated"] == busy
        )

    took: list[float] = []
    for number in range(ROUNDS):
        await asyncio.sleep(2.0 + number * 0.3)
        for busy, command in ((0, "suspend"), (1, "resume")):
            await asyncio.to_thread(slurm.run, "scontrol", command, str(job))
            took.append(await operated.until(f"busy: {busy}", shows(busy)))
    told(operated, "a drain is waited for", took, DRAIN_SECONDS)
    await asyncio.to_thread(slurm.run, "scancel", str(job))
    await operated.until("the worker goes", lambda: operated.pod("compute-0") is None)


def told(operated: Operated, when: str, took: list[float], bar: float) -> None:
    shown = f"median {median(took):.2f} s, {max(took):.2f} s at most (goal {bar:g})"
    print(f"Slurm {operated.slurm.version}: a change seen in pod and NodeSet while {when}: {shown}")
    assert max(took) <= bar + SLACK
    assert median(took) <= bar
