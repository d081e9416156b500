"""Partitions and configuration of a real Slurm: live on 26.05, refused by name on 24.11."""

from __future__ import annotations

import pytest
from tests.real.slurm.cluster import Cluster, eventually

from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import SlurmBusy, SlurmNotFound, SlurmUnsupported
from slurm_operator.slurm.model import UNLIMITED, Partition
from slurm_operator.slurm.requests import Feature, JobSubmission, PartitionChange

pytestmark = pytest.mark.real_slurm


async def partitions(client: SlurmClient) -> dict[str, Partition]:
    answer = await client.all_partitions()
    assert answer.complete
    return {partition.name: partition for partition in answer.items}


async def test_partitions_are_read(client: SlurmClient) -> None:
    compute = (await partitions(client))["compute"]
    assert (compute.node_sets, compute.nodes, compute.total_nodes) == ("compute", "n[0-2]", 3)
    assert compute.states == {"UP"}
    assert compute.max_time == 60
    assert compute.max_nodes == UNLIMITED
    assert compute.default_time is None


async def test_a_partition_lives_from_creation_to_deletion(client: SlurmClient, slurm: Cluster) -> None:
    if slurm.version == "24.11":
        assert not await client.offers(Feature.PARTITIONS)
        with pytest.raises(SlurmUnsupported, match="changing partitions live"):
            await client.set_partition(PartitionChange(name="live", nodes="compute"))
        with pytest.raises(SlurmUnsupported):
            await client.delete_partition("live")
        return
    change = PartitionChange(
        name="live", nodes="compute", max_time=33, default_time=5, priority_tier=9, flags={"HIDDEN": True}
    )
    assert (await client.set_partition(change)).warnings == ()
    live = (await partitions(client))["live"]
    assert (live.node_sets, live.total_nodes) == ("compute", 3)
    assert (live.max_time, live.default_time, live.priority_tier, live.flags) == (33, 5, 9, frozenset({"HIDDEN"}))
    await client.set_partition(
        PartitionChange(name="live", max_time=UNLIMITED, state="DRAIN", flags={"HIDDEN": False}, max_nodes=2)
    )
    live = (await partitions(client))["live"]
    assert (live.max_time, live.states, live.flags, live.max_nodes) == (UNLIMITED, frozenset({"DRAIN"}), frozenset(), 2)
    assert live.priority_tier == 9
    await client.delete_partition("live")
    assert "live" not in await partitions(client)


async def test_every_field_of_a_partition_change_arrives(client: SlurmClient, slurm: Cluster) -> None:
    if slurm.version == "24.11":
        pytest.skip("24.11 has no live partitions")
    change = PartitionChange(
        name="full",
        nodes="n0,n1",
        state="UP",
        flags={"NO_ROOT": True, "LLN": True, "REQ_RESV": True, "ROOT_ONLY": True},
        max_time=30,
        default_time=10,
        grace_time=30,
        max_nodes=2,
        min_nodes=1,
        max_cpus_per_node=1,
        over_time_limit=5,
        priority_tier=3,
        priority_job_factor=4,
        preempt_mode=("REQUEUE",),
        oversubscribe="FORCE",
        oversubscribe_jobs=4,
        exclusive="USER",
        allowed_accounts="root",
        allowed_groups="alice",
        allowed_qos="normal",
        qos="normal",
        alternate="compute",
        allowed_alloc_nodes="n0",
        memory_per_cpu=100,
        max_memory_per_cpu=200,
        billing_weights="CPU=2.0",
    )
    assert (await client.set_partition(change)).warnings == ()
    shown = slurm.run("scontrol", "-o", "show", "partition", "full")
    await client.delete_partition("full")
    expected = (
        "AllowGroups=alice AllowAccounts=root AllowQos=normal AllocNodes=n0 Alternate=compute QoS=normal "
        "DefaultTime=00:10:00 DisableRootJobs=YES Exclusive=USER GraceTime=30 MaxNodes=2 MaxTime=00:30:00 MinNodes=1 "
        "LLN=YES MaxCPUsPerNode=1 Nodes=n[0-1] PriorityJobFactor=4 PriorityTier=3 RootOnly=YES ReqResv=YES "
        "OverSubscribe=FORCE:4 OverTimeLimit=5 PreemptMode=REQUEUE State=UP DefMemPerCPU=100 MaxMemPerCPU=200 "
        "TRESBillingWeights=CPU=2.0"
    )
    assert set(expected.split()) <= set(shown.split())


async def test_a_partition_in_use_is_not_deleted(client: SlurmClient, slurm: Cluster) -> None:
    if slurm.version == "24.11":
        pytest.skip("24.11 has no live partitions")
    await client.set_partition(PartitionChange(name="used", nodes="compute"))
    job_id = await client.submit(JobSubmission(script="#!/bin/bash\nsleep 300\n", partition="used"))
    slurm.wait_job(job_id)
    with pytest.raises(SlurmBusy) as caught:
        await client.delete_partition("used")
    assert caught.value.number == 2075
    await client.cancel(job_id)

    async def deleted() -> bool:
        try:
            await client.delete_partition("used")
        except SlurmBusy:
            return False
        return True

    await eventually(deleted)


async def test_a_partition_of_unknown_nodes_is_refused(client: SlurmClient, slurm: Cluster) -> None:
    if slurm.version == "24.11":
        pytest.skip("24.11 has no live partitions")
    with pytest.raises(SlurmNotFound) as caught:
        await client.set_partition(PartitionChange(name="bad", nodes="nosuch"))
    assert caught.value.number == 2018
    assert "bad" not in await partitions(client)


async def test_a_changed_file_is_in_force_after_reconfigure(client: SlurmClient, slurm: Cluster) -> None:
    slurm.shell("cp /etc/slurm/slurm.conf /tmp/good; echo 'PartitionName=more Nodes=compute' >> /etc/slurm/slurm.conf")
    try:
        await client.reconfigure()
        await eventually(lambda: has_partition(client, "more"))
    finally:
        slurm.shell("cat /tmp/good > /etc/slurm/slurm.conf")
        await client.reconfigure()
    await eventually(lambda: lacks_partition(client, "more"))


async def has_partition(client: SlurmClient, name: str) -> bool:
    return name in await partitions(client)


async def lacks_partition(client: SlurmClient, name: str) -> bool:
    return name not in await partitions(client)


async def test_the_scheduler_is_woken_by_a_change_of_nothing(client: SlurmClient, slurm: Cluster) -> None:
    compute = (await partitions(client))["compute"]
    if slurm.version == "24.11":
        with pytest.raises(SlurmUnsupported):
            await client.wake_scheduler(compute)
        return
    await client.wake_scheduler(compute)
    assert (await partitions(client))["compute"] == compute


async def test_the_running_configuration_is_read(client: SlurmClient, slurm: Cluster) -> None:
    if slurm.version == "24.11":
        with pytest.raises(SlurmUnsupported, match="running configuration"):
            await client.conf()
        return
    conf = await client.conf()
    assert conf["ClusterName"] == "test"
    assert conf["MaxNodeCount"] == 64
