"""slurmctld or slurmrestd dies in the middle: everything is Unknown, nothing is Absent, nobody waits ten seconds."""

from __future__ import annotations

import time

import pytest
from tests.real.slurm.cluster import NODES, Cluster, eventually

from slurm_operator.reconcile.clusters import Cluster as SlurmCluster
from slurm_operator.reconcile.clusters import SlurmTarget
from slurm_operator.slurm import policy
from slurm_operator.slurm.client import Observation, SlurmClient
from slurm_operator.slurm.decision import EVERYTHING
from slurm_operator.slurm.errors import SlurmUnreachable
from slurm_operator.slurm.model import Absent, Known, Node, SlurmList, Unknown
from slurm_operator.slurm.requests import JobSubmission, NodeChange
from slurm_operator.slurm.token import TokenSource

pytestmark = pytest.mark.real_slurm

SLEEP = "#!/bin/bash\nsleep 300\n"


async def answers(client: SlurmClient) -> bool:
    return isinstance(await client.node("n0"), Known)


async def test_a_dead_controller_makes_every_node_unknown(client: SlurmClient, slurm: Cluster) -> None:
    await client.nodes()
    slurm.kill_controller()
    try:
        views = {name: await client.node(name) for name in (*NODES, "nosuch")}
        assert {type(view) for view in views.values()} == {Unknown}
        assert isinstance(policy.may_remove(views["n0"], ()), policy.No)
        with pytest.raises(SlurmUnreachable):
            await client.all_jobs()
        with pytest.raises(SlurmUnreachable):
            await client.drain(["n0"], "x")
        with pytest.raises(SlurmUnreachable):
            await client.partitions()
        assert not any(ping.responding for ping in await client.ping())
    finally:
        slurm.start_controller()
    await eventually(lambda: answers(client))
    assert await client.node("nosuch") == Absent()


async def test_calls_to_a_dead_controller_fail_at_once(slurm: Cluster) -> None:
    seen: list[Observation] = []
    token = TokenSource(lambda: slurm.jwt_key)
    slurm.kill_controller()
    try:
        async with SlurmClient(f"unix://{slurm.socket}", token, observe=seen.append) as client:
            for _ in range(20):
                assert isinstance(await client.node("n0"), Unknown)
    finally:
        slurm.start_controller()
    assert "GET node" not in {observation.call for observation in seen}
    assert len(seen) < 20


async def test_a_drain_and_a_job_outlive_the_controller(client: SlurmClient, slurm: Cluster) -> None:
    job_id = await client.submit(JobSubmission(script=SLEEP, name="outliving", required_nodes=("n1",)))
    slurm.wait_job(job_id)
    await client.drain(["n1"], "before the crash")
    slurm.wait_saved("before the crash")
    slurm.wait_saved("outliving", "job_state")
    slurm.kill_controller()
    slurm.start_controller()
    await eventually(lambda: answers(client))
    view = await client.node("n1")
    assert isinstance(view, Known)
    assert view.node.reason == "slurm-operator: before the crash"
    assert isinstance(policy.may_remove(view, (await client.all_jobs()).items), policy.No)


async def test_a_restarted_slurmrestd_is_found_again(client: SlurmClient, slurm: Cluster) -> None:
    await client.nodes()
    slurm.kill_rest()
    assert isinstance(await client.node("n0"), Unknown)
    slurm.start_rest()
    await eventually(lambda: answers(client))


async def test_looks_see_changes_and_the_outage_and_the_return(client: SlurmClient, slurm: Cluster) -> None:
    woken: list[frozenset[str] | None] = []
    word = SlurmCluster(client, SlurmTarget(""), b"", time.monotonic, lambda names, _: woken.append(names))

    async def nodes() -> SlurmList[Node] | Unknown:
        return (await word.node_snapshot(EVERYTHING)).nodes

    async def is_known() -> bool:
        return isinstance(await nodes(), SlurmList)

    async def is_unknown() -> bool:
        return not await is_known()

    await nodes()
    await client.update_nodes(["n0"], NodeChange(comment="seen"))
    found = await nodes()
    assert isinstance(found, SlurmList)
    assert {node.name: node.comment for node in found.items}["n0"] == "seen"
    assert "n0" in (woken[-1] or ())
    slurm.kill_controller()
    try:
        await eventually(is_unknown)
    finally:
        slurm.start_controller()
    await eventually(is_known)
    assert woken[-2:] == [None, None]
    found = await nodes()
    assert isinstance(found, SlurmList)
    assert {node.name for node in found.items} >= set(NODES)
    await client.update_nodes(["n0"], NodeChange(comment=""))
