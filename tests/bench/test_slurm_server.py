"""The stand-in answers the operator's own client as a slurmrestd does, and counts what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio
from bench.scaling.slurm_server import RestApi, log_of, serve
from bench.scaling.slurm_world import Condition, Container, Metadata, Pod, Spec, Status, World

from slurm_operator.plan.config import last_verdict
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import SlurmNotFound
from slurm_operator.slurm.model import Absent, Known, SlurmList, Unchanged
from slurm_operator.slurm.requests import NodeChange, PartitionChange
from slurm_operator.slurm.token import TokenSource

NAMESPACE, CLUSTER = "scale", "scale_slurm"


def pod(name: str, *, is_ready: bool = True) -> Pod:
    """A worker as the API server has it."""
    conditions = [Condition("Ready", "True")] if is_ready else []
    spec = Spec(name, [Container("slurmd", ["-Z", "--conf", "'Features=compute'"])])
    return Pod(Metadata(name, NAMESPACE, uid=f"uid-{name}"), spec, Status("10.0.0.1", conditions))


@pytest.fixture
def world() -> World:
    return World(is_pretty=True, job_count=3)


@pytest_asyncio.fixture
async def port(world: World) -> AsyncIterator[int]:
    async def listen(_: int) -> None:
        """All clusters are on the one port that is open."""

    runner, number = await serve(RestApi(world, listen).handle, None)
    world.add(NAMESPACE, CLUSTER, number)
    yield number
    await runner.cleanup()


@pytest_asyncio.fixture
async def client(port: int) -> AsyncIterator[SlurmClient]:
    token = TokenSource(lambda: b"k" * 32)
    async with SlurmClient(f"http://127.0.0.1:{port}", token, cluster=CLUSTER) as found:
        yield found


def settle(world: World) -> None:
    """Everything that is put off happens now."""
    world._due = [(0.0, what) for _, what in world._due]
    world.tick()


async def test_a_ready_pod_becomes_a_node_and_one_that_is_gone_a_silent_one(world: World, client: SlurmClient) -> None:
    world.see_pod("ADDED", pod("compute-0", is_ready=False))
    settle(world)
    assert isinstance(await client.node("compute-0"), Absent)
    world.see_pod("MODIFIED", pod("compute-0"))
    settle(world)
    seen = await client.node("compute-0")
    assert isinstance(seen, Known)
    assert (seen.node.address, seen.node.features) == ("10.0.0.1", ("compute",))
    world.see_pod("DELETED", pod("compute-0"))
    settle(world)
    lost = await client.node("compute-0")
    assert isinstance(lost, Known)
    assert {"DOWN", "NOT_RESPONDING"} <= lost.node.states


async def test_a_list_that_has_not_changed_is_not_sent_again(world: World, client: SlurmClient) -> None:
    whole = await client.nodes()
    assert isinstance(whole, SlurmList)
    assert whole.complete
    later = whole.last_update + 2
    answers = [await client.nodes(later), await client.jobs(later), await client.partitions(later)]
    assert answers == [Unchanged()] * 3
    assert world.requests["GET nodes unchanged"] == 1


async def test_a_drain_of_many_is_one_write(world: World, client: SlurmClient) -> None:
    for number in range(5):
        world.see_pod("ADDED", pod(f"compute-{number}"))
    settle(world)
    before = world.counters()
    await client.drain([f"compute-{number}" for number in range(5)], "scale-in")
    after = world.counters()
    assert after["writes"] - before["writes"] == 1
    assert after["changed_records"] - before["changed_records"] == 5
    assert world.summary(NAMESPACE, 0.0)["drained"] == 5


async def test_deleting_a_record_that_is_not_there_is_refused_as_slurm_refuses_it(client: SlurmClient) -> None:
    with pytest.raises(SlurmNotFound):
        await client.delete_node("compute-9")


async def test_changing_a_record_that_is_not_there_is_refused(client: SlurmClient) -> None:
    with pytest.raises(SlurmNotFound):
        await client.update_nodes(["compute-9"], NodeChange(comment="x"))


async def test_a_partition_that_was_set_live_is_listed(client: SlurmClient) -> None:
    await client.set_partition(PartitionChange(name="bench", nodes="compute", max_time=60))
    listed = await client.all_partitions()
    assert [(each.name, each.max_time, each.node_sets) for each in listed.items] == [("bench", 60, "compute")]


async def test_jobs_are_listed_and_found_by_their_id(client: SlurmClient) -> None:
    listed = await client.all_jobs()
    assert [(job.job_id, job.states) for job in listed.items] == [(n, frozenset({"PENDING"})) for n in (1, 2, 3)]
    assert isinstance(await client.job(9), Absent)


async def test_statistics_are_those_of_a_real_slurmctld(client: SlurmClient) -> None:
    assert (await client.diag()).server_threads >= 0
    assert (await client.ping())[0].responding


async def test_a_peer_is_led_to_its_cluster_by_a_proxy(world: World, port: int) -> None:
    """The proxy is on one port, the cluster of the URL on another."""
    world.ports = {6820: NAMESPACE}
    url = "http://slurm-restapi.scale:6820/slurm/v0.0.44/ping"
    async with aiohttp.ClientSession() as http, http.get(url, proxy=f"http://127.0.0.1:{port}") as answer:
        assert (await answer.json())["meta"]["slurm"]["cluster"] == CLUSTER


async def test_the_sidecar_accepts_every_configuration_and_slurm_reads_it(world: World, client: SlurmClient) -> None:
    files = {
        "slurm.conf": "ClusterName=x\nNodeSet=compute Feature=compute\nPartitionName=all Nodes=compute MaxTime=7\n"
    }
    text = world.sidecar(NAMESPACE).take("slurm-config", files)
    assert text == files["slurm.conf"]
    world.slurms[NAMESPACE].read_conf(text)
    runner, port = await serve(lambda request: log_of(world, request), None)
    async with aiohttp.ClientSession() as http:
        path = f"http://127.0.0.1:{port}/containerLogs/{NAMESPACE}/slurm-controller-0/reconfigure?tailLines=40"
        async with http.get(path) as answer:
            said = last_verdict((await answer.text()).splitlines())
    await runner.cleanup()
    assert said is not None
    assert said.hash == world.sidecar(NAMESPACE).hash
    assert [each.name for each in (await client.all_partitions()).items] == ["all"]
