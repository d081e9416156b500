"""Nodes of a real Slurm: seen, drained, put back, changed in bulk, deleted, missed."""

from __future__ import annotations

import asyncio

import pytest
from tests.real.slurm.cluster import NODES, Cluster, eventually, wait_for

from slurm_operator.slurm import policy
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import SlurmBusy, SlurmForbidden, SlurmNotFound, SlurmUnsupported
from slurm_operator.slurm.model import Absent, Job, Known, Node, SlurmList, Unchanged
from slurm_operator.slurm.requests import JobSubmission, NodeChange
from slurm_operator.slurm.token import TokenSource

pytestmark = pytest.mark.real_slurm

SLEEP = "#!/bin/bash\nsleep 300\n"


async def known(client: SlurmClient, name: str) -> Node:
    view = await client.node(name)
    assert isinstance(view, Known)
    return view.node


async def jobs(client: SlurmClient) -> tuple[Job, ...]:
    return (await client.all_jobs()).items


async def test_the_newest_common_version_is_spoken(client: SlurmClient, slurm: Cluster) -> None:
    assert await client.version() == {"24.11": "v0.0.42", "26.05": "v0.0.45"}[slurm.version]
    assert (await client.release()).startswith(slurm.version)


async def test_all_nodes_come_in_one_complete_answer(client: SlurmClient) -> None:
    answer = await client.nodes()
    assert isinstance(answer, SlurmList)
    assert answer.complete
    assert {node.name for node in answer.items} == set(NODES)
    node = answer.items[0]
    assert {"IDLE", "DYNAMIC_NORM"} <= node.states
    assert node.features == ("compute",)
    assert node.partitions == ("compute",)
    assert node.cpus > 0
    assert node.real_memory > 0
    assert node.address == "127.0.0.1"


async def test_a_node_that_slurm_never_had_is_absent(client: SlurmClient) -> None:
    assert await client.node("nosuch") == Absent()
    assert isinstance(await client.node("n0"), Known)


async def test_an_idle_node_is_drained_and_undrained(client: SlurmClient, slurm: Cluster) -> None:
    await client.drain(["n0"], "scale in")
    node = await known(client, "n0")
    assert policy.is_drained(node)
    assert node.reason == "slurm-operator: scale in"
    assert policy.may_remove(Known(node), await jobs(client)) == policy.Yes()
    await client.undrain(["n0"])
    slurm.wait_idle("n0")
    assert not policy.is_draining(await known(client, "n0"))


FAILING_EPILOG = """
printf '#!/bin/sh\\nexit 1\\n' > /usr/local/sbin/epilog && chmod 755 /usr/local/sbin/epilog
cp /etc/slurm/slurm.conf /tmp/slurm.conf
echo Epilog=/usr/local/sbin/epilog >> /etc/slurm/slurm.conf
scontrol reconfigure
"""
WITHOUT_EPILOG = "cat /tmp/slurm.conf > /etc/slurm/slurm.conf; scontrol reconfigure"


async def test_a_drain_that_slurm_sets_after_our_undrain_is_not_ours(client: SlurmClient, slurm: Cluster) -> None:
    """slurmctld may keep the reason of a drain that was lifted, also for its own next drain."""
    slurm.shell(FAILING_EPILOG)
    try:
        for name in ("n0", "n1", "n2"):
            slurm.wait_idle(name)
        job_id = await client.submit(JobSubmission(script=SLEEP, required_nodes=("n0",)))
        slurm.wait_job(job_id)
        await client.drain(["n0"], "cordoned")
        await client.undrain(["n0"])
        node = await known(client, "n0")
        assert not policy.is_draining(node)
        assert not policy.drain_is_ours(node.reason)
        await client.cancel(job_id)
        await eventually(lambda: is_draining(client, "n0"))
        node = await known(client, "n0")
        assert not policy.drain_is_ours(node.reason)
        assert "epilog" in node.reason.lower()
    finally:
        slurm.shell(WITHOUT_EPILOG)


async def is_draining(client: SlurmClient, name: str) -> bool:
    """Whether Slurm gives it no new jobs."""
    return policy.is_draining(await known(client, name))


async def test_a_drained_node_with_a_job_is_not_free_until_the_job_ends(client: SlurmClient, slurm: Cluster) -> None:
    job_id = await client.submit(JobSubmission(script=SLEEP, required_nodes=("n0",)))
    slurm.wait_job(job_id)
    await client.drain(["n0"], "scale in")
    view = await client.node("n0")
    assert isinstance(policy.may_remove(view, await jobs(client)), policy.No)
    with pytest.raises(SlurmBusy):
        await client.delete_node("n0")
    await client.cancel(job_id)
    wait_for(lambda: not slurm.run("squeue", "-h").strip(), 20, "the end of the job")
    assert policy.may_remove(await client.node("n0"), await jobs(client)) == policy.Yes()


async def test_a_node_with_a_suspended_job_looks_idle_but_is_not_free(client: SlurmClient, slurm: Cluster) -> None:
    job_id = await client.submit(JobSubmission(script=SLEEP, required_nodes=("n1",)))
    slurm.wait_job(job_id)
    slurm.run("scontrol", "suspend", str(job_id))
    slurm.wait_job(job_id, "SUSPENDED")
    await client.drain(["n1"], "scale in")
    view = await client.node("n1")
    assert isinstance(view, Known)
    assert policy.is_drained(view.node)
    answer = policy.may_remove(view, await jobs(client))
    assert answer == policy.No(f"node n1 has jobs: {job_id}")
    slurm.run("scontrol", "resume", str(job_id))


async def test_many_nodes_are_changed_in_one_call(client: SlurmClient) -> None:
    more = ("compute", "k8s/a")
    await client.update_nodes(NODES, NodeChange(comment='{"pod":"a"}', extra="e1", features=more, active_features=more))
    for node in (await client.all_nodes()).items:
        assert (node.comment, node.extra, node.features, node.active_features) == ('{"pod":"a"}', "e1", more, more)
    fewer = ("compute",)
    await client.update_nodes(NODES, NodeChange(comment="", extra="", features=fewer, active_features=fewer))


async def test_a_bulk_change_with_a_missing_name_fails_and_changes_the_others(client: SlurmClient) -> None:
    with pytest.raises(SlurmNotFound) as caught:
        await client.drain(["n0", "nosuch", "n2"], "x")
    assert caught.value.number == 2018
    views = {name: await client.node(name) for name in ("n0", "n1", "n2")}
    drained = {name for name, seen in views.items() if isinstance(seen, Known) and policy.is_draining(seen.node)}
    assert drained == {"n0", "n2"}


async def test_a_deleted_node_is_absent_and_comes_back_with_its_slurmd(client: SlurmClient, slurm: Cluster) -> None:
    slurm.start_node("extra", 17050)
    slurm.wait_idle("extra")
    slurm.kill_node("extra")
    await client.delete_node("extra")
    assert await client.node("extra") == Absent()
    with pytest.raises(SlurmNotFound):
        await client.delete_node("extra")
    slurm.start_node("extra", 17050)
    slurm.wait_idle("extra")
    assert isinstance(await client.node("extra"), Known)
    slurm.kill_node("extra")
    await client.delete_node("extra")


async def test_a_range_of_records_goes_in_one_call_but_for_those_that_cannot(
    client: SlurmClient, slurm: Cluster
) -> None:
    names = ["x0", "x1", "x2"]
    for index, name in enumerate(names):
        slurm.start_node(name, 17060 + index)
        slurm.wait_idle(name)
    job_id = await client.submit(JobSubmission(script=SLEEP, required_nodes=("x1",)))
    slurm.wait_job(job_id)
    for name in ("x0", "x2"):
        slurm.kill_node(name)
    with pytest.raises(SlurmBusy):
        await client.delete_nodes(names)
    assert {name: isinstance(await client.node(name), Known) for name in names} == {
        "x0": False,
        "x1": True,
        "x2": False,
    }
    await client.cancel(job_id)
    wait_for(lambda: not slurm.run("squeue", "-h").strip(), 20, "the end of the job")
    slurm.kill_node("x1")
    # Those that are gone do not keep it.
    await client.delete_nodes(names)
    assert await client.node("x1") == Absent()


async def test_a_slurmd_that_is_asked_again_tells_which_jobs_it_has(client: SlurmClient, slurm: Cluster) -> None:
    gone = await client.submit(JobSubmission(script=SLEEP, required_nodes=("n0",)))
    lives = await client.submit(JobSubmission(script=SLEEP, required_nodes=("n1",)))
    for job_id in (gone, lives):
        slurm.wait_job(job_id)
    slurm.shell(f"pkill -9 -f 'slurmstepd: .{gone}[.]'")
    deadline = asyncio.get_running_loop().time() + 60
    while "RUNNING" in slurm.run("squeue", "-h", "-j", str(gone), "-o", "%T"):
        assert asyncio.get_running_loop().time() < deadline, "the job still counts as running"
        # An undrain of nodes that are not drained does nothing else.
        await client.undrain(["n0", "n1"])
        await asyncio.sleep(3)
    assert slurm.run("squeue", "-h", "-j", str(gone), "-o", "%T").strip() == "PENDING"
    assert slurm.run("squeue", "-h", "-j", str(lives), "-o", "%T").strip() == "RUNNING"
    for job_id in (gone, lives):
        await client.cancel(job_id)


async def test_topology_is_set_where_the_version_has_it(client: SlurmClient, slurm: Cluster) -> None:
    change = NodeChange(topology="default:s1")
    if slurm.version == "24.11":
        with pytest.raises(SlurmUnsupported, match="topology"):
            await client.update_nodes(["n0"], change)
        return
    await client.update_nodes(["n0"], change)


async def test_a_user_without_rights_is_refused(slurm: Cluster, client: SlurmClient) -> None:
    token = TokenSource(lambda: slurm.jwt_key, user="alice")
    async with SlurmClient(f"unix://{slurm.socket}", token) as alice:
        with pytest.raises(SlurmForbidden):
            await alice.drain(["n0"], "x")


async def test_an_unchanged_list_costs_no_list(client: SlurmClient, slurm: Cluster) -> None:
    first = await client.all_nodes()
    answers: list[SlurmList[Node] | Unchanged] = []

    async def unchanged() -> bool:
        latest = answers[-1] if answers else first
        since = latest.last_update if isinstance(latest, SlurmList) else first.last_update
        answers.append(await client.nodes(since))
        return isinstance(answers[-1], Unchanged)

    await eventually(unchanged)
    await client.update_nodes(["n2"], NodeChange(comment="changed"))
    after = await client.nodes(first.last_update)
    assert isinstance(after, SlurmList)
    assert after.complete
    assert {n.name: n.comment for n in after.items}["n2"] == "changed"
    await client.update_nodes(["n2"], NodeChange(comment=""))


async def test_a_record_that_a_reservation_has_cannot_be_deleted_until_that_is_over(
    client: SlurmClient, slurm: Cluster
) -> None:
    slurm.start_node("kept", 17070)
    slurm.wait_idle("kept")
    slurm.run(
        "scontrol", "create", "reservation", "ReservationName=window", "StartTime=now", "Duration=60",
        "Users=root", "Nodes=kept", "Flags=maint",
    )  # fmt: skip
    wait_for(
        lambda: "MAINT" in slurm.run("scontrol", "show", "node", "kept"), 90, "the reservation's state on its node"
    )
    slurm.kill_node("kept")
    assert not policy.may_be_forgotten(await known(client, "kept"))
    with pytest.raises(SlurmBusy):
        await client.delete_nodes(["kept"])
    slurm.run("scontrol", "delete", "reservation=window")
    await client.delete_nodes(["kept"])
    assert await client.node("kept") == Absent()
