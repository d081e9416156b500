"""Partitions and configuration of a real Slurm: live on 26.05, refused by name on 24.11."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.real.slurm.cluster import Cluster, eventually
from tests.real.slurm.partition_storm import Size, storm

from slurm_operator.plan.actions import DeletePartition, SetPartition
from slurm_operator.plan.partition import PartitionWorld, lines, plan_partitions
from slurm_operator.plan.partition_fields import Line, change, changed_options, creation, differences, unreturnable
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import SlurmBusy, SlurmNotFound, SlurmRejected, SlurmUnsupported
from slurm_operator.slurm.model import UNLIMITED, KnownJob, Partition
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


# --- what the planner says of a real Slurm -----------------------------------------------------------------------

EVERY_OPTION = (
    "",
    "MaxTime=90:30 DefaultTime=10",
    "MaxTime=1-00:00:00 MaxNodes=2 MinNodes=1 GraceTime=60",
    "DefaultTime=INFINITE",
    "OverSubscribe=FORCE",
    "OverSubscribe=FORCE:3",
    "OverSubscribe=YES:2",
    "OverSubscribe=EXCLUSIVE",
    "ExclusiveUser=YES",
    "PreemptMode=OFF",
    "PreemptMode=REQUEUE",
    "DefMemPerCPU=100 MaxMemPerCPU=200",
    "DefMemPerNode=100 MaxMemPerNode=0",
    "AllowGroups=root AllowAccounts=ALL",
    "DenyAccounts=b,a",
    "AllocNodes=n0,n1",
    "Priority=5",
    "PriorityTier=7 PriorityJobFactor=3",
    "DefCpuPerGPU=2",
    "TRESBillingWeights=CPU=1.0,Mem=0.25G",
    "LLN=YES Hidden=YES RootOnly=YES ReqResv=YES DisableRootJobs=YES",
    "MaxCPUsPerNode=3 MaxCPUsPerSocket=2 OverTimeLimit=5",
    "State=DRAIN",
    "Alternate=compute",
    "PowerDownOnIdle=YES",
)
SETS = "NodeSet=compute Feature=compute\n"


def lines_of(options: str, nodes: str = "compute") -> dict[str, Line]:
    return lines(f"{SETS}PartitionName=every Nodes={nodes} {options}\n")


async def test_no_option_of_a_file_is_taken_for_drift(client: SlurmClient, slurm: Cluster) -> None:
    wanted = {f"every{at}": options for at, options in enumerate(EVERY_OPTION)}
    rows = "\n".join(f"PartitionName={name} Nodes=compute {options}" for name, options in wanted.items())
    slurm.shell("cp /etc/slurm/slurm.conf /tmp/good")
    slurm.shell(f"printf '%s\\n' '{rows}' >> /etc/slurm/slurm.conf")
    try:
        await client.reconfigure()
        await eventually(lambda: has_partition(client, f"every{len(EVERY_OPTION) - 1}"))
        found = await partitions(client)
        declared = lines(f"{SETS}{rows}\n")
        assert {name: differences(line, found[name]) for name, line in declared.items()} == dict.fromkeys(declared, ())
    finally:
        slurm.shell("cat /tmp/good > /etc/slurm/slurm.conf")
        await client.reconfigure()
        await eventually(lambda: lacks_partition(client, "every0"))


async def test_every_option_is_made_changed_and_taken_back_live(client: SlurmClient, slurm: Cluster) -> None:
    if slurm.version == "24.11":
        pytest.skip("24.11 has no live partitions")
    bare = lines_of("")["every"]
    for options in EVERY_OPTION:
        line = lines_of(options)["every"]
        assert (await client.set_partition(creation(line))).warnings == ()
        assert differences(line, (await partitions(client))["every"]) == (), options
        await client.set_partition(change(bare, changed_options(bare, line) - unreturnable(bare)))
        left = {each.field for each in differences(bare, (await partitions(client))["every"])}
        assert left == set(), options
        await client.delete_partition("every")


async def test_hosts_beside_and_instead_of_a_nodeset(client: SlurmClient, slurm: Cluster) -> None:
    if slurm.version == "24.11":
        pytest.skip("24.11 has no live partitions")
    for nodes in ("compute", "compute,n1", "n[0-1]", "ALL"):
        line = lines_of("", nodes)["every"]
        await client.set_partition(creation(line))
        assert differences(line, (await partitions(client))["every"]) == (), nodes
    slurm.run("scontrol", "update", "partitionname=every", "nodes=-n1")
    everything = lines_of("", "ALL")["every"]
    assert [each.field for each in differences(everything, (await partitions(client))["every"])] == ["Nodes"]
    await client.delete_partition("every")


async def test_a_new_node_joins_a_live_partition_by_itself(client: SlurmClient, slurm: Cluster) -> None:
    if slurm.version == "24.11":
        pytest.skip("24.11 has no live partitions")
    await client.set_partition(creation(lines_of("")["every"]))
    slurm.start_node("n9", 17009)
    slurm.wait_idle("n9")
    assert (await partitions(client))["every"].nodes == "n[0-2,9]"
    slurm.kill_node("n9")
    await eventually(lambda: _deleted_node(client, "n9"))
    await client.delete_partition("every")


async def _deleted_node(client: SlurmClient, name: str) -> bool:
    try:
        await client.delete_node(name)
    except SlurmNotFound:
        return True
    return False


@pytest.mark.parametrize("name", ["t", "No", "off", "null", "007", "1.5", "1e3", "0x10", "infinity"])
async def test_a_name_that_slurmrestd_takes_for_something_else_is_not_sent(client: SlurmClient, name: str) -> None:
    with pytest.raises(SlurmRejected, match="scontrol delete partitionname"):
        await client.delete_partition(name)


# --- going --------------------------------------------------------------------------------------------------------


async def remove(client: SlurmClient, slurm: Cluster, name: str, options: str) -> tuple[int, ...]:
    """One turn of the removal of a partition, as the operator does it: gives the jobs that are waited for."""
    live_way = await client.offers(Feature.PARTITIONS)
    in_force = {
        name: Line(name, {"Nodes": "compute", **dict(word.split("=") for word in options.split())}, ("compute",))
    }
    jobs = (await client.all_jobs()).items
    plan = plan_partitions(PartitionWorld({}, in_force, await client.all_partitions(), jobs, live_way, {}))
    for action in plan.actions:
        if isinstance(action, SetPartition):
            await client.set_partition(action.change)
        elif isinstance(action, DeletePartition):
            await client.delete_partition(action.name)
    kept = (
        ""
        if name not in plan.partitions.kept_lines or any(isinstance(each, DeletePartition) for each in plan.actions)
        else (plan.partitions.kept_lines[name].text)
    )
    slurm.shell(f"sed -i '/^PartitionName={name} /d' /etc/slurm/slurm.conf; echo '{kept}' >> /etc/slurm/slurm.conf")
    await client.reconfigure()
    await eventually(lambda: answers(client))
    slurm.run("scontrol", "update", "partitionname=compute", "state=up")
    return plan.partitions.waits.get(name, ())


async def answers(client: SlurmClient) -> bool:
    return (await client.all_partitions()).complete


async def test_a_partition_goes_after_its_running_and_waiting_jobs(client: SlurmClient, slurm: Cluster) -> None:
    slurm.shell("echo 'PartitionName=going Nodes=compute' >> /etc/slurm/slurm.conf")
    await client.reconfigure()
    await eventually(lambda: has_partition(client, "going"))
    script = "#!/bin/bash\nsleep 3\n"
    whole = {"tasks": 6}
    running = await client.submit(JobSubmission(script=script, partition="going", more=whole))
    slurm.wait_job(running)
    waiting = await client.submit(JobSubmission(script=script, partition="going", more=whole))
    assert await remove(client, slurm, "going", "") == (running, waiting)
    assert (await partitions(client))["going"].states == {"DRAIN"}
    slurm.wait_job(waiting)
    slurm.wait_job(running, "COMPLETED")
    slurm.wait_job(waiting, "COMPLETED")
    if slurm.version == "24.11":
        # Their records still name it; nothing goes before they do.
        assert await remove(client, slurm, "going", "") == (running, waiting)
        assert "going" in await partitions(client)
        return
    assert await remove(client, slurm, "going", "") == ()
    assert "going" not in await partitions(client)
    for number in (running, waiting):
        job = await client.job(number)
        assert isinstance(job, KnownJob)
        assert "COMPLETED" in job.job.states


SLOW_EPILOG = "printf '#!/bin/bash\\nsleep 8\\n' > /etc/slurm/slow.sh; chmod 755 /etc/slurm/slow.sh"


@pytest.fixture
async def slow_end(slurm: Cluster, client: SlurmClient) -> AsyncIterator[None]:
    """An Epilog that takes its time: a job that has ended stays COMPLETING for seconds."""
    slurm.shell(f"{SLOW_EPILOG}; echo 'Epilog=/etc/slurm/slow.sh' >> /etc/slurm/slurm.conf")
    await client.reconfigure()
    await eventually(lambda: answers(client))
    yield
    slurm.shell("sed -i '/^Epilog=/d' /etc/slurm/slurm.conf")
    await client.reconfigure()
    await eventually(lambda: answers(client))


async def with_set138(client: SlurmClient, slurm: Cluster) -> str:
    """A NodeSet with a partition of its own; gives slurmctld's process."""
    slurm.shell(
        "sed -i '/^PartitionName=set138 /d;/^NodeSet=set138 /d' /etc/slurm/slurm.conf;"
        " printf 'NodeSet=set138 Feature=compute\\nPartitionName=set138 Nodes=set138\\n' >> /etc/slurm/slurm.conf"
    )
    await client.reconfigure()
    await eventually(lambda: has_partition(client, "set138"))
    return slurm.run("cat", "/run/slurmctld/slurmctld.pid")


async def expect_unharmed(client: SlurmClient, slurm: Cluster, number: int, waits: tuple[int, ...], pid: str) -> None:
    """slurmctld is up, and has not left a core; the job is as it would have been."""
    assert slurm.controller_is_up(), slurm.controller_log()
    assert "core" not in slurm.shell("ls /var/log/slurm /var/spool/slurmctld; true").split(), pid
    job = await client.job(number)
    assert isinstance(job, KnownJob)
    assert not job.job.states & {"NODE_FAIL", "FAILED"}
    if waits:
        assert number in waits
        assert "set138" in await partitions(client)


@pytest.mark.parametrize("job_is", ["running", "finished"])
async def test_issue_138_slurmctld_survives_the_end_of_a_nodeset_with_jobs(
    client: SlurmClient, slurm: Cluster, job_is: str
) -> None:
    """The Go operator takes the NodeSet's partition out of slurm.conf at once, and slurmctld crash-loops."""
    pid = await with_set138(client, slurm)
    seconds = 2 if job_is == "finished" else 300
    number = await client.submit(JobSubmission(script=f"#!/bin/bash\nsleep {seconds}\n", partition="set138"))
    slurm.wait_job(number)
    if job_is == "finished":
        slurm.wait_job(number, "COMPLETED")
    waits = await remove(client, slurm, "set138", "")
    await expect_unharmed(client, slurm, number, waits, pid)


@pytest.mark.usefixtures("slow_end")
@pytest.mark.parametrize("ends", ["by itself", "cancelled"])
async def test_issue_138_slurmctld_survives_the_end_of_a_nodeset_while_a_job_is_completing(
    client: SlurmClient, slurm: Cluster, ends: str
) -> None:
    pid = await with_set138(client, slurm)
    seconds = 1 if ends == "by itself" else 300
    number = await client.submit(JobSubmission(script=f"#!/bin/bash\nsleep {seconds}\n", partition="set138"))
    slurm.wait_job(number)
    if ends == "cancelled":
        await client.cancel(number)
    slurm.wait_job(number, "COMPLETING")
    waits = await remove(client, slurm, "set138", "")
    assert number in waits
    still = await client.job(number)
    assert isinstance(still, KnownJob)
    assert "COMPLETING" in still.job.states, "the Epilog was too fast: nothing was tried"
    await expect_unharmed(client, slurm, number, waits, pid)
    slurm.wait_job(number, "COMPLETED" if ends == "by itself" else "CANCELLED")
    waits = await remove(client, slurm, "set138", "")
    await expect_unharmed(client, slurm, number, waits, pid)
    assert bool(waits) == (slurm.version == "24.11")


async def test_a_storm_of_changes_loses_nothing_and_delays_nobody(client: SlurmClient, slurm: Cluster) -> None:
    slurm.shell("cp /etc/slurm/slurm.conf /tmp/before-storm")
    try:
        outcome = await storm(slurm, client, Size(running=3, pending=4, changes=60))
    finally:
        slurm.shell("cat /tmp/before-storm > /etc/slurm/slurm.conf")
        await client.reconfigure()
        await eventually(lambda: answers(client))
    assert (outcome.lost_jobs, outcome.lost_nodes) == ((), ())
    assert outcome.longest_wait <= 5
    assert outcome.memory_after_kb < outcome.memory_before_kb * 1.5
