"""What the stand-in notes of a worker that goes."""

from __future__ import annotations

import pytest
from bench.scaling.slurm_world import Condition, Container, Hook, Lifecycle, Metadata, Pod, Spec, Status, World


def pod(*, is_leaving: bool = False) -> Pod:
    metadata = Metadata("compute-0", "ns", "uid-0", deletion_timestamp="2026-01-01T00:00:00Z" if is_leaving else None)
    return Pod(metadata, status=Status(conditions=[Condition("Ready", "True")]))


@pytest.mark.parametrize(("drained_in_time", "undrained"), [(True, 0), (False, 1)])
def test_a_drain_counts_only_if_it_came_before_the_deletion(drained_in_time: bool, undrained: int) -> None:
    world = World(is_pretty=False, job_count=0)
    world.add("ns", "ns_slurm", 1)
    world.see_pod("ADDED", pod())
    slurm = world.slurms["ns"]
    slurm.register("compute-0", "10.0.0.1", "")
    if drained_in_time:
        slurm.update_nodes({"name": ["compute-0"], "state": ["DRAIN"]})
    world.see_pod("MODIFIED", pod(is_leaving=True))
    if not drained_in_time:
        slurm.update_nodes({"name": ["compute-0"], "state": ["DRAIN"]})
    world.see_pod("DELETED", pod(is_leaving=True))
    assert world.summary("ns", 0.0)["gone_undrained"] == undrained


@pytest.mark.parametrize(("command", "states"), [("scontrol update state=down", {"DOWN"}), ("sleep 5", {"IDLE"})])
def test_a_worker_whose_kubelet_tells_its_end_is_down_before_it_is_gone(command: str, states: set[str]) -> None:
    world = World(is_pretty=False, job_count=0)
    world.add("ns", "ns_slurm", 1)
    container = Container("slurmd", lifecycle=Lifecycle(Hook({"command": ["sh", "-c", command]})))
    world.see_pod("ADDED", pod())
    world.slurms["ns"].register("compute-0", "10.0.0.1", "")
    leaving = pod(is_leaving=True)
    world.see_pod("MODIFIED", Pod(leaving.metadata, Spec(containers=[container]), leaving.status))
    assert {world.slurms["ns"].nodes["compute-0"].base} == states
