"""The model beside a real Slurm follows what slurmrestd has taken, and slurmctld is right."""

from __future__ import annotations

import time

import pytest
from bench.real_slurm.relay import Exchange
from bench.real_slurm.server import MirroredSlurm, RealWorld, correct, differing, parse_states


@pytest.fixture
def world() -> RealWorld:
    made = RealWorld(is_pretty=False, job_count=0)
    slurm = made.slurms["scale"] = MirroredSlurm("scale_slurm", time.time, is_pretty=False)
    for number in range(3):
        slurm.registered(f"compute-{number}", "10.0.0.1", "Feature=compute")
    return made


def write(method: str, path: str, body: bytes = b"", status: int = 200) -> Exchange:
    return Exchange(method, f"/slurm/v0.0.45/{path}", 0.0, body, status, 0.0)


def summary(world: RealWorld) -> tuple[int, int]:
    found = world.summary("scale", 0.0)
    return found["nodes"], found["drained"]


def test_a_drain_and_a_deletion_that_slurmrestd_took_are_in_the_model(world: RealWorld) -> None:
    world.see_exchange(write("POST", "nodes/", b'{"name":["compute-[0-1]"],"state":["DRAIN"],"reason":"x"}'))
    assert summary(world) == (3, 2)
    world.see_exchange(write("DELETE", "node/compute-%5B0-1%5D"))
    assert summary(world) == (1, 0)
    assert world.changed_records == 4


def test_what_slurmrestd_refused_is_not(world: RealWorld) -> None:
    world.see_exchange(write("DELETE", "node/compute-0", status=422))
    assert summary(world) == (3, 0)


def test_a_partition_is_in_effect_when_slurmrestd_has_answered(world: RealWorld) -> None:
    body = b'{"partitions":[{"name":"bench","maximums":{"time":{"set":true,"infinite":false,"number":7}}}]}'
    world.see_exchange(write("POST", "partitions/", body))
    assert world.slurms["scale"].partition_changes[-1][1:] == ("bench", 7)


def test_a_worker_that_comes_is_no_record_before_slurmctld_has_it(world: RealWorld) -> None:
    slurm = world.slurms["scale"]
    assert isinstance(slurm, MirroredSlurm)
    slurm.register("compute-9", "10.0.0.9", "Feature=compute")
    assert "compute-9" not in slurm.nodes
    assert slurm.coming == {"compute-9": ("10.0.0.9", "Feature=compute")}
    slurm.stop("compute-9")
    assert (slurm.coming, slurm.leaving) == ({}, {"compute-9"})


def test_the_model_is_compared_with_sinfo_and_corrected(world: RealWorld) -> None:
    there = parse_states("compute-0|idle\ncompute-1|drained\ncompute-1|drained\ncompute-7|idle\n")
    slurm = world.slurms["scale"]
    assert isinstance(slurm, MirroredSlurm)
    wrong = differing(there, slurm)
    assert wrong == {"compute-1", "compute-2", "compute-7"}
    for name in wrong:
        correct(slurm, name, there.get(name))
    assert differing(there, slurm) == set()
    assert summary(world) == (3, 1)
